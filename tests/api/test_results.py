"""What a job leaves behind, over REST: series, logs, checkpoints, usage, seats."""

from __future__ import annotations

import csv
import io
import math
import zipfile

import pytest
from django.utils import timezone

from datasets.services.objects import store_stream
from jobs.models import Checkpoint, CheckpointObject, Seat
from jobs.series.page import from_bytes
from jobs.services.checkpoints import remove
from nodes.messages import UsageSample
from nodes.models import Device
from nodes.services.usage import keep_usage
from tests.job_rows import make_job, make_writer  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db


@pytest.fixture
def job_with_points(make_writer):  # noqa: F811
    writer = make_writer()
    writer.send([0.5, math.nan, math.inf, -math.inf, 0.1, 2.0], ["loss", "loss", "loss", "loss", "=SUM(A1)", "-x"])
    return writer.placement.attempt.job


def test_series_come_as_json_and_packed_alike(api, job_with_points):
    client, url = api("ada"), f"/api/v1/jobs/{job_with_points.pk}/series/"
    page = client.get(f"{url}?name=loss").json()
    (piece,) = page["pieces"]
    assert piece["value"] == [0.5, "NaN", "Infinity", "-Infinity"]
    assert piece["step"] == [0, 1, 2, 3]
    packed = client.get(f"{url}?name=loss", headers={"accept": "application/octet-stream"})
    assert packed["Content-Type"] == "application/octet-stream"
    head, columns = from_bytes(packed.content)
    assert head["rev"] == page["rev"]
    assert [str(v) for v in columns[0]["value"]] == ["0.5", "nan", "inf", "-inf"]
    assert client.get(f"{url}?since={page['rev']}&since_attempt={page['attempt']}").json()["pieces"] == []


def test_a_refusal_is_json_also_where_floats_were_asked_for(api, job_with_points):
    client = api("ada")
    url = f"/api/v1/jobs/{job_with_points.pk}/series/?points=1"
    answer = client.get(url, headers={"accept": "application/octet-stream"})
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/json"
    assert answer.json()["errors"][0]["attr"] == "points"


def test_the_csv_holds_every_value_exactly_and_no_formula(api, job_with_points):
    answer = api("ada").get(f"/api/v1/jobs/{job_with_points.pk}/series.csv")
    assert answer["Content-Disposition"].startswith("attachment")
    rows = list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert rows[0] == ["name", "rank", "attempt", "step", "time", "value"]
    values = {(row[0], row[3]): row[5] for row in rows[1:]}
    assert values == {
        ("loss", "0"): "0.5",
        ("loss", "1"): "nan",
        ("loss", "2"): "inf",
        ("loss", "3"): "-inf",
        ("'=SUM(A1)", "4"): "0.1",
        ("'-x", "5"): "2",
    }


def test_logs_are_read_by_place_searched_and_downloaded(api, make_writer):  # noqa: F811
    writer = make_writer()
    raw = b"".join(b"line %d\n" % number for number in range(100)) + b"<script>alert(1)</script>"
    writer.log(raw)
    client, url = api("ada"), f"/api/v1/jobs/{writer.placement.attempt.job_id}/logs/"
    (told,) = client.get(url).json()
    assert (told["rank"], told["attempt"], told["size"]) == (0, 1, len(raw))
    texts = [line["text"] for line in client.get(f"{url}0/?tail=2").json()["lines"]]
    assert texts == ["line 99", "<script>alert(1)</script>"]
    page = client.get(f"{url}0/?line=10&limit=2").json()
    assert [line["text"] for line in page["lines"]] == ["line 10", "line 11"]
    page = client.get(f"{url}0/?offset={page['end']}&limit=1").json()
    assert [line["text"] for line in page["lines"]] == ["line 12"]
    found = client.get(f"{url}0/search/?text=LINE%2099").json()
    assert [line["text"] for line in found["lines"]] == ["line 99"]
    whole = client.get(f"{url}0/download/")
    assert b"".join(whole.streaming_content) == raw
    assert whole["Content-Type"].startswith("text/plain")
    assert whole["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"{url}7/").status_code == 404
    assert client.get(f"{url}0/?tail=1&line=1").json()["errors"][0]["attr"] == "tail"


@pytest.fixture
def checkpoint(make_writer, tmp_path, settings):  # noqa: F811
    attempt = make_writer().placement.attempt
    contents = {"model.pt": b"w" * 3_000_000, "state/rank0.pt": b"r" * 10}
    stored = {path: store_stream([data]) for path, data in contents.items()}
    files = [{"path": p, "sha256": row.sha256, "size_bytes": row.size_bytes} for p, row in stored.items()]
    row = Checkpoint.objects.create(job=attempt.job, attempt=attempt, step=7, files=files, size_bytes=3_000_010)
    CheckpointObject.objects.bulk_create(CheckpointObject(checkpoint=row, stored=one) for one in stored.values())
    return row, contents


def test_a_checkpoint_is_listed_linked_and_downloaded_as_a_zip(api, checkpoint):
    row, contents = checkpoint
    client, url = api("ada"), f"/api/v1/jobs/{row.job_id}/checkpoints/"
    (told,) = client.get(url).json()["results"]
    assert (told["step"], told["attempt"], [file["path"] for file in told["files"]]) == (7, 1, list(contents))
    links = client.get(f"{url}{row.pk}/links/").json()["files"]
    assert all(link["url"].startswith("http://testserver/objects/") for link in links)
    archive = client.get(f"{url}{row.pk}/download/")
    with zipfile.ZipFile(io.BytesIO(b"".join(archive.streaming_content))) as found:
        assert found.testzip() is None
        assert {path: found.read(path) for path in found.namelist()} == contents
    assert api("eve").get(f"{url}{row.pk}/download/").status_code == 404
    assert client.get(f"{url}999/links/").status_code == 404


def test_a_checkpoint_whose_files_were_given_back_says_so(api, checkpoint):
    row, _ = checkpoint
    remove(row)
    for part in ("links", "download"):
        answer = api("ada").get(f"/api/v1/jobs/{row.job_id}/checkpoints/{row.pk}/{part}/")
        assert answer.status_code == 404
        assert answer.json()["errors"][0]["detail"]


def test_usage_of_its_nodes_covers_its_time_only(api, make_writer):  # noqa: F811
    writer = make_writer()
    now = timezone.now()
    samples = [UsageSample(age_seconds=age, cpu=0.5, memory_used_bytes=1, devices=[0.9, None]) for age in (3600, 0)]
    keep_usage(writer.node, samples, now)
    (told,) = api("ada").get(f"/api/v1/jobs/{writer.placement.attempt.job_id}/usage/").json()
    assert (told["cpu"], told["device_utilisation"], told["attempt"]) == ([0.5], [[0.9], [None]], 1)
    assert told["name"] == writer.node.name


def test_seats_name_the_job_only_to_those_who_may_see_it(api, make_writer):  # noqa: F811
    writer = make_writer()
    device = Device.objects.create(node=writer.node, index=0, uuid="d0", kind="cpu")
    Seat.objects.create(placement=writer.placement, device=device)
    job = writer.placement.attempt.job_id
    told = {who: api(who).get("/api/v1/seats/").json()["results"] for who in ("ada", "bob")}
    assert [row["job"] for row in told["ada"]] == [job]
    assert [row["job"] for row in told["bob"]] == [None]
    assert told["bob"][0]["node_name"] == writer.node.name


def test_attempts_show_nodes_and_devices(api, make_writer):  # noqa: F811
    writer = make_writer()
    device = Device.objects.create(node=writer.node, index=3, uuid="d3", kind="cpu")
    Seat.objects.create(placement=writer.placement, device=device)
    (attempt,) = api("ada").get(f"/api/v1/jobs/{writer.placement.attempt.job_id}/attempts/").json()
    (placement,) = attempt["placements"]
    assert (placement["node_name"], placement["seats"][0]["device"]) == (writer.node.name, 3)
    assert "token" not in placement
