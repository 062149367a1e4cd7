"""Reading jobs over REST: pages, filters, who sees what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs.models import Job
from jobs.services.transition import add_event
from jobs.states import JobState
from portal.accounts import services
from portal.accounts.models import Team

pytestmark = pytest.mark.django_db


def make_jobs(owner, count, **fields):
    now = timezone.now()
    made = Job.objects.bulk_create(
        Job(owner=owner, name=f"job {n}", spec={"strategy": "ddp", "framework": "pytorch"}, queued_at=now, **fields)
        for n in range(count)
    )
    Job.objects.filter(pk__in=[job.pk for job in made]).update(created_at=now)
    return made


def ids(answer):
    assert answer.status_code == 200, answer.json()
    return [row["id"] for row in answer.json()["results"]]


def test_a_walk_over_all_pages_meets_every_old_job_once_while_others_come(api):
    client = api()
    old = {job.pk for job in make_jobs(client.user, 1000)}
    seen, url, pages = [], "/api/v1/jobs/?limit=37", 0
    while url:
        answer = client.get(url).json()
        seen += [row["id"] for row in answer["results"]]
        url, pages = answer["next"], pages + 1
        if pages <= 10:
            make_jobs(client.user, 5)
    assert len(seen) == len(set(seen))
    assert old <= set(seen)


def test_each_filter_narrows_the_list(api, make_user):
    root = api(make_user("root", superuser=True))
    ada, bob = make_user("ada"), make_user("bob")
    team = Team.objects.create(name="vision")
    (first,) = make_jobs(ada, 1, team=team, state=JobState.RUNNING)
    (second,) = make_jobs(bob, 1, state=JobState.FAILED)
    (inspection,) = make_jobs(bob, 1, purpose=Job.Purpose.INSPECT)
    Job.objects.filter(pk=second.pk).update(name="Digits 第一", created_at=timezone.now() - timedelta(days=2))
    cut = (timezone.now() - timedelta(days=1)).isoformat().replace("+", "%2B")
    expected = {
        "": [second.pk, first.pk],
        "?state=running": [first.pk],
        "?state=running&state=failed": [second.pk, first.pk],
        "?owner=bob": [second.pk],
        f"?team={team.pk}": [first.pk],
        "?name=dig": [second.pk],
        "?name=第一": [second.pk],
        f"?created_from={cut}": [first.pk],
        f"?created_before={cut}": [second.pk],
        "?purpose=inspect": [inspection.pk],
        "?owner=nobody": [],
    }
    for query, found in expected.items():
        assert ids(root.get(f"/api/v1/jobs/{query}")) == found, query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sate=running", "sate"),
        ("state=lost", "state"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("cursor=xx", "cursor"),
        ("created_from=yesterday", "created_from"),
        ("created_before=0001-01-01T00:00:00%2B14:00", "created_before"),
        ("created_from=9999-12-31T23:59:59-12:00", "created_from"),
        ("team=vision", "team"),
        ("team=99999999999999999999", "team"),
        ("name=%00", "name"),
    ],
)
def test_a_query_that_means_nothing_is_refused_by_name(api, query, field):
    answer = api().get(f"/api/v1/jobs/?{query}")
    assert answer.status_code == 400
    assert [error["attr"] for error in answer.json()["errors"]] == [field]


def test_team_members_see_and_managers_cancel(api, make_user):
    owner, team = make_user("ada"), Team.objects.create(name="vision")
    (job,) = make_jobs(owner, 1, team=team)
    services.set_membership(None, make_user("mia"), team)
    services.set_membership(None, make_user("max"), team, role="manager")
    url = f"/api/v1/jobs/{job.pk}/"
    assert {who: api(who).get(url).status_code for who in ("ada", "mia", "max", "eve")} == {
        "ada": 200,
        "mia": 200,
        "max": 200,
        "eve": 404,
    }
    assert {who: api(who).post(f"{url}cancel/").status_code for who in ("eve", "mia", "max", "ada")} == {
        "eve": 404,
        "mia": 403,
        "max": 200,
        "ada": 200,
    }
    told = api("ada").get(url).json()
    assert (told["state"], told["reason"], told["ended_by"]) == ("cancelled", "cancelled", "max")


def test_a_job_that_is_over_cannot_be_cancelled(api):
    client = api()
    (job,) = make_jobs(client.user, 1, state=JobState.FAILED)
    answer = client.post(f"/api/v1/jobs/{job.pk}/cancel/")
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["code"] == "job_over"


@pytest.mark.parametrize("pk", ["0", "999999999999999999"])
def test_a_missing_job_is_a_404_on_every_address(api, pk):
    client = api()
    for part in ("", "events/", "attempts/", "rerun/", "series/", "series.csv", "logs/", "logs/0/", "usage/"):
        answer = client.get(f"/api/v1/jobs/{pk}/{part}")
        assert answer.status_code == 404, part
        assert answer.json()["errors"][0]["code"] == "not_found"


def test_a_read_token_reads_and_changes_nothing(api):
    writer = api()
    (job,) = make_jobs(writer.user, 1)
    reader = api(writer.user, scope="read")
    assert reader.get(f"/api/v1/jobs/{job.pk}/").status_code == 200
    for answer in (reader.post(f"/api/v1/jobs/{job.pk}/cancel/"), reader.post("/api/v1/jobs/", {}, format="json")):
        assert answer.status_code == 403
        assert answer.json()["errors"][0]["code"] == "read_only_token"
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_events_come_in_order_and_from_a_revision_on(api):
    client = api()
    (job,) = make_jobs(client.user, 1)
    for number in range(5):
        add_event(job, "note", f"event {number}", actor=client.user)
    url = f"/api/v1/jobs/{job.pk}/events/"
    page = client.get(f"{url}?limit=3").json()
    rest = client.get(page["next"]).json()
    assert [row["text"] for row in page["results"] + rest["results"]] == [f"event {n}" for n in range(5)]
    newer = client.get(f"{url}?since={page['results'][-1]['rev']}").json()["results"]
    assert [row["text"] for row in newer] == ["event 3", "event 4"]
    assert newer[0]["actor"] == "ada"


def test_times_are_iso_8601_with_an_offset_in_any_zone(api, settings):
    client = api()
    (job,) = make_jobs(client.user, 1)
    for zone in ("UTC", "Asia/Shanghai", "America/St_Johns"):
        settings.TIME_ZONE = zone
        told = client.get(f"/api/v1/jobs/{job.pk}/").json()["queued_at"]
        assert parse_datetime(told) == job.queued_at
        assert parse_datetime(told).utcoffset() is not None
    settings.TIME_ZONE = "UTC"


def test_the_queue_shows_places_of_all_and_names_of_ones_own(api, make_user):
    client, bob = api(), make_user("bob")
    make_jobs(bob, 1, position=1, waiting_text="secret plan", device_count=3)
    make_jobs(client.user, 1, position=2, waiting_text="All devices are in use.")
    rows = client.get("/api/v1/queue/").json()["results"]
    assert [row["position"] for row in rows] == [1, 2]
    assert (rows[0]["id"], rows[0]["name"], rows[0]["waiting_text"], rows[0]["device_count"]) == (None, None, None, 3)
    assert (rows[1]["owner"], rows[1]["waiting_text"]) == ("ada", "All devices are in use.")
