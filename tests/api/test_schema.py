"""The OpenAPI document: complete, valid, true (bounded fuzzing of what reads), and its page under the strict policy."""

from __future__ import annotations

import re
import time

import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS

from tests.authorisation_world import build

pytestmark = pytest.mark.django_db
SECONDS = 40  # for all operations together


def test_the_schema_is_valid_without_a_warning(tmp_path):
    call_command("spectacular", "--fail-on-warn", "--validate", "--file", str(tmp_path / "schema.yml"))
    text = (tmp_path / "schema.yml").read_text()
    assert "openapi: 3.1" in text
    assert "Idempotency-Key" in text
    assert "`node_lost`" in text  # the closed list of reasons with where each leads


def test_every_field_of_a_spec_stands_in_the_schema(client):
    components = client.get("/api/schema/?format=json").json()["components"]["schemas"]
    assert set(components["JobSpec"]["required"]) == {"name"}
    assert "learning_rate" in components["Parameters"]["properties"]
    assert components["Wish"]["required"] == ["spec"]


def test_the_page_of_the_schema_needs_nothing_inline_and_nothing_foreign(client):
    answer = client.get("/api/docs/")
    assert answer.status_code == 200
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    page = answer.content.decode()
    assert not re.search(r"<script(?![^>]*src=)", page)
    assert not re.search(r"<style|style=|onload=|https?://", page)
    for address in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert address.startswith(("/static/", "/api/", "data:,")), address
    script = client.get("/api/docs/?script=")
    assert script["Content-Type"].startswith("application/javascript")


@pytest.fixture
def one_connection():
    """What a request does to the connection at its ends would end the test's own transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_reading_answers_as_the_schema_says(one_connection):
    """Every GET with generated parameters, in turns until the time is up; at least one of each."""
    world = build()
    schema = schemathesis.openapi.from_wsgi("/api/schema/?format=json", get_wsgi_application())
    headers = {"Authorization": f"Token {world.tokens['owner']}"}
    operations = [found.ok() for found in schema.get_all_operations() if found.ok().method == "get"]
    assert len(operations) > 20
    began = time.monotonic()
    for operation in operations:
        probe(operation, world, headers, seconds=SECONDS / len(operations))
    assert time.monotonic() - began < 60


def probe(operation, world, headers, seconds: float) -> None:
    until = time.monotonic() + seconds
    known = world.names["api/v1/jobs/"]

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case):
        if time.monotonic() > until:
            return
        if operation.path.startswith("/api/v1/jobs/{id}/"):  # else nearly every one is a 404
            case.path_parameters = {**case.path_parameters, "id": known["pk"]}
        checks = [
            CHECKS.get_one(name)
            for name in (
                "not_a_server_error",
                "status_code_conformance",
                "content_type_conformance",
                "response_schema_conformance",
            )
        ]
        case.call_and_validate(headers=headers, checks=checks)

    run()
