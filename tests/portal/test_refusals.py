"""A database that does not answer is told as such, over REST and on pages, and stands in the log."""

from __future__ import annotations

import json

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import RequestFactory

from jobs.api import JobViewSet
from portal.refusals import RefusalMiddleware

pytestmark = pytest.mark.django_db


def test_rest_answers_503_and_logs(client, make_user, monkeypatch, caplog):
    def locked(_view):
        raise OperationalError("database is locked")

    monkeypatch.setattr(JobViewSet, "get_queryset", locked)
    client.force_login(make_user())
    client.raise_request_exception = False
    answer = client.get("/api/v1/jobs/")
    assert answer.status_code == 503
    assert answer.json()["errors"][0]["code"] == "database"
    assert "locked" not in answer.content.decode()
    assert "locked" in caplog.text


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_pages_answer_503_and_log(accept, caplog):
    request = RequestFactory().get("/jobs/", headers={"Accept": accept})
    middleware = RefusalMiddleware(lambda _request: HttpResponse())
    answer = middleware.process_exception(request, OperationalError("database is locked"))
    assert answer is not None
    assert answer.status_code == 503
    assert "locked" in caplog.text
    if accept == "application/json":
        assert json.loads(answer.content)["code"] == "database"
