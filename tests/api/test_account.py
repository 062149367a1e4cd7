"""Me, my tokens, my quota, and nodes over REST."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from auditlog.models import LogEntry
from django.utils import timezone
from rest_framework.test import APIClient

from jobs.models import Job
from nodes.messages import UsageSample
from nodes.models import NodeEvent
from nodes.services.usage import keep_usage
from portal.accounts import services
from portal.accounts.models import ApiToken, Team

pytestmark = pytest.mark.django_db


def with_token(text):
    return APIClient().get("/api/v1/me/", headers={"authorization": f"Token {text}"})


def test_me_names_the_caller_and_their_teams(api):
    client, team = api(), Team.objects.create(name="vision")
    services.set_membership(None, client.user, team, role="manager")
    told = client.get("/api/v1/me/").json()
    assert told["username"] == "ada"
    assert told["teams"] == [{"team": team.pk, "name": "vision", "role": "manager"}]
    assert "password" not in told


def test_a_token_is_made_shown_once_used_and_revoked(api):
    client = api()
    made = client.post("/api/v1/tokens/", {"name": "cron", "scope": "read"}, format="json")
    assert made.status_code == 201
    assert "no-store" in made["Cache-Control"]
    text, key = made.json()["token"], made.json()["key"]
    assert with_token(text).status_code == 200
    listed = client.get("/api/v1/tokens/").json()["results"]
    assert {row["name"] for row in listed} == {"cron", "tests"}
    assert all("token" not in row for row in listed)
    assert next(row for row in listed if row["name"] == "cron")["last_used_at"]
    assert api("bob").delete(f"/api/v1/tokens/{key}/").status_code == 404
    assert client.delete(f"/api/v1/tokens/{key}/").status_code == 204
    assert with_token(text).status_code == 401
    assert LogEntry.objects.filter(action=LogEntry.Action.DELETE).get().actor == client.user


def test_wrong_expired_and_inactive_tokens_are_told_apart_from_nobody(api, make_user):
    client = api()
    expired = services.create_token(client.user, name="old", expires_at=timezone.now() + timedelta(minutes=1))[1]
    ApiToken.objects.filter(name="old").update(expiry=timezone.now() - timedelta(minutes=1))
    gone = make_user("gone")
    inactive = services.create_token(gone, name="x")[1]
    gone.is_active = False
    gone.save()
    for text in (expired, inactive, "0" * 64, "é", "a b"):
        answer = with_token(text)
        assert answer.status_code == 401, text
        assert answer.json()["errors"][0]["detail"]
    client.credentials()
    assert client.get("/api/v1/me/").status_code == 401


def test_a_token_that_cannot_work_is_refused_beside_its_fields(api):
    wish = {"name": "", "scope": "all", "expires_at": "2020-01-01T00:00:00Z", "colour": "red"}
    answer = api().post("/api/v1/tokens/", wish, format="json")
    assert answer.status_code == 400
    assert "colour" in {error["attr"] for error in answer.json()["errors"]}


def test_quota_shows_use_beside_limits_of_me_and_my_teams(api):
    client, team = api(), Team.objects.create(name="vision")
    services.set_membership(None, client.user, team)
    services.set_quota(None, client.user, max_queued_jobs=5, max_job_seconds=3600)
    services.set_quota(None, team, max_devices=8)
    Job.objects.create(owner=client.user, team=team, name="j", spec={}, queued_at=timezone.now())
    told = client.get("/api/v1/quota/").json()
    mine = {row["name"]: (row["used"], row["limit"]) for row in told["user"]["limits"]}
    assert mine == {"devices": (0, None), "running_jobs": (0, None), "queued_jobs": (1, 5), "storage_bytes": (0, None)}
    assert told["user"]["max_job_seconds"] == 3600
    (theirs,) = told["teams"]
    assert {row["name"]: (row["used"], row["limit"]) for row in theirs["limits"]}["devices"] == (0, 8)


def test_nodes_are_seen_by_all_and_closed_by_staff_only(api, make_user, make_cluster):
    node, _ = make_cluster(2, 4)
    staff = make_user("chief", staff=True)
    client, url = api(), f"/api/v1/nodes/{node.pk}/"
    listed = client.get("/api/v1/nodes/").json()["results"]
    assert [(row["name"], len(row["devices"])) for row in listed] == [("n0", 4), ("n1", 4)]
    assert not {"token_hash", "broker_secret"} & set(client.get(url).json())
    assert client.post(f"{url}cordon/").status_code == 403
    for action, admission in (("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "open")):
        assert api(staff).post(f"{url}{action}/").json()["admission"] == admission
    events = client.get(f"{url}events/").json()["results"]
    assert [row["actor"] for row in events] == ["chief"] * 3
    assert NodeEvent.objects.count() == 3
    assert [entry.actor for entry in LogEntry.objects.get_for_object(node).filter(action=1)] == [staff] * 3
    assert client.get(f"/api/v1/nodes/{uuid4()}/").status_code == 404


def test_a_nodes_usage_is_columns_with_null_for_nothing(api, make_cluster):
    (node,) = make_cluster(1, 1)
    keep_usage(node, [UsageSample(age_seconds=1, cpu=0.25, memory_used_bytes=9, devices=[None])], timezone.now())
    told = api().get(f"/api/v1/nodes/{node.pk}/usage/?minutes=1").json()
    assert (told["cpu"], told["memory_used_bytes"], told["device_utilisation"]) == ([0.25], [9], [[None]])
    assert len(told["time"]) == 1
    assert api("bob").get(f"/api/v1/nodes/{node.pk}/usage/?minutes=nan").status_code == 400


@pytest.mark.parametrize("address", ["/api/v1/tokens/", "/api/v1/datasets/"])
@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 100_000, '{"name": "a", "name": "b"}', '{"name": NaN}'])
def test_json_that_is_too_deep_or_ambiguous_is_refused_everywhere(api, address, body):
    answer = api().post(address, body, content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "parse_error")
