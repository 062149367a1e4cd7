"""Submitting and checking jobs over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from jobs.models import Job, JobSecret
from jobs.services import submit
from portal.accounts import services
from portal.accounts.limits import lock_accounts
from portal.accounts.models import Team
from tests.conftest import DATA

pytestmark = pytest.mark.django_db
SETTINGS = json.loads((DATA / "config" / "job_settings.json").read_text())
SCRIPT = {"kind": "script", "script": "print('hello')"}


def body(**spec: Any) -> dict[str, Any]:
    return {"spec": {"name": "first", "code": SCRIPT, **spec}}


def post(client, wish, **headers):
    return client.post("/api/v1/jobs/", wish, format="json", headers=headers)


# --- the twenty cases of job_settings.json ------------------------------------------------------------------------


def place(name: str) -> tuple[str, ...]:
    """Where a setting of the cases stands in our body."""
    places = {
        "lr": ("parameters", "learning_rate"),
        "batch_size": ("parameters", "batch_size"),
        "batch_is": ("parameters", "batch_is"),
        "seed": ("parameters", "seed"),
        "epochs": ("stop", "epochs"),
        "nodes": ("roles", "nodes"),
        "gpus_per_node": ("roles", "devices_per_node"),
        "args": ("code", "args"),
        "script": ("code", "entry"),
    }
    return places.get(name, (name,))


def spec_of(settings: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": "case", "code": dict(SCRIPT), "roles": {}, "parameters": {}, "stop": {}}
    for name, value in settings.items():
        part = spec
        *path, last = place(name)
        for step in path:
            part = part[step]
        part[last] = value
    roles = spec["roles"]
    if roles.get("nodes", 1) * roles.get("devices_per_node", 1) > 1:
        spec["strategy"] = "ddp"
    if "batch_size" in settings:  # only recipes know a batch
        spec |= {"code": {"kind": "recipe"}, "data": {"version_id": 1}, "stop": {"epochs": 1}}
    return {**spec, "roles": [roles]}


@pytest.fixture
def case_client(api, make_cluster):
    make_cluster(SETTINGS["cluster"]["nodes"], SETTINGS["cluster"]["gpus_per_node"])
    client = api()
    services.set_quota(None, client.user, max_devices=SETTINGS["cluster"]["user_gpu_quota"])
    return client


def send(client, case):
    """YAML cases go as YAML text: the settings stay as they were written there."""
    if not isinstance(case["settings"], str):
        return post(client, {"spec": spec_of(case["settings"])})
    lines = dict(line.split(": ") for line in case["settings"].splitlines())
    marked = {name: f"@{name}@" for name in lines}
    text = yaml.safe_dump({"spec": spec_of(marked)})
    for name, value in lines.items():
        text = text.replace(f"'@{name}@'", value)
    return client.post("/api/v1/jobs/", text, content_type="application/yaml")


@pytest.mark.parametrize("case", SETTINGS["cases"], ids=lambda case: case["id"])
def test_every_case_of_job_settings(case, case_client):
    answer = send(case_client, case)
    if case["decision"] == "accept":
        assert answer.status_code == 201, answer.json()
        job = Job.objects.get(pk=answer.json()["id"])
        if case["id"].startswith("lr_"):
            assert job.spec["parameters"]["learning_rate"] == 1e-4
        if case["id"] == "shell_args":
            assert job.spec["code"]["args"] == case["settings"]["args"]
        if case["id"].startswith(("shell_name", "name_")):
            assert (answer.json()["name"], job.name) == (case["settings"]["name"],) * 2
        return
    assert answer.status_code == 400, answer.json()
    told = json.dumps(answer.json()["errors"], ensure_ascii=False)
    for name in case["error_names"]:
        assert place(name)[-1] in told, (name, told)
    assert not Job.objects.exists()


# --- everything wrong at once, beside its field -------------------------------------------------------------------


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_made(api, make_cluster):
    make_cluster()
    wish = body(parameters={"learning_rate": 0}, stop={"epochs": -1}, leraning_rate=1) | {"tema": 3}
    answer = post(api(), wish)
    assert answer.status_code == 400
    fields = {error["attr"] for error in answer.json()["errors"]}
    assert fields == {"spec.parameters.learning_rate", "spec.stop.epochs", "spec.leraning_rate", "tema"}
    assert "did you mean 'learning_rate'" in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("wish", [[], "x", 1, None, {}, {"name": "first"}, {"spec": None}, {"spec": []}, {"spec": "x"}])
def test_a_body_of_another_shape_is_told_what_it_should_be(api, wish):
    answer = api().post("/api/v1/jobs/", json.dumps(wish), content_type="application/json")
    assert answer.status_code == 400
    assert any("spec" in (error["attr"] or "") for error in answer.json()["errors"])


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("{", "application/json", 400),
        ('{"spec": {}, "spec": {}}', "application/json", 400),
        ('{"spec": {"parameters": {"learning_rate": NaN}}}', "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ("[" * 3_000, "application/yaml", 400),
        ("a: &a [*a]", "application/yaml", 400),
        (b"\xff\xfe", "application/json", 400),
        (" " * (4 * 2**20 + 1), "application/json", 413),
        ("x", "text/plain", 415),
    ],
)
def test_what_is_no_json_or_yaml_is_refused_in_words(api, text, kind, status):
    answer = api().post("/api/v1/jobs/", text, content_type=kind)
    assert answer.status_code == status
    assert answer.json()["errors"][0]["detail"]


# --- once, with a key ---------------------------------------------------------------------------------------------


def test_a_key_makes_one_job_however_often_it_is_sent(api, make_cluster):
    make_cluster()
    client = api()
    first = post(client, body(), **{"Idempotency-Key": "k1"})
    again = post(client, body(), **{"Idempotency-Key": "k1"})
    other = post(client, body(name="second"), **{"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert first.json()["id"] == again.json()["id"]
    assert first["Location"].endswith(f"/api/v1/jobs/{first.json()['id']}/")
    assert post(api("bob"), body(), **{"Idempotency-Key": "k1"}).status_code == 201
    assert Job.objects.count() == 2
    assert post(client, body(), **{"Idempotency-Key": "k" * 201}).status_code == 400


def test_the_one_that_came_second_at_the_same_time_is_told_so(api, make_cluster, monkeypatch):
    """The other request's job appears between the first look for the key and the locks."""
    make_cluster()
    client = api()
    made = []

    def overtaken(*locks):
        if not made:
            made.append(None)
            made.append(post(client, body(), **{"Idempotency-Key": "k1"}))
        lock_accounts(*locks)

    monkeypatch.setattr(submit, "lock_accounts", overtaken)
    second = post(client, body(), **{"Idempotency-Key": "k1"})
    assert (made[1].status_code, second.status_code) == (201, 200)
    assert second.json()["id"] == made[1].json()["id"]


# --- secrets ------------------------------------------------------------------------------------------------------


def test_a_secret_never_comes_back(api, make_cluster):
    make_cluster()
    client = api()
    made = post(client, body() | {"secrets": {"API_KEY": "hunter2hunter2"}})
    assert made.status_code == 201
    job = made.json()["id"]
    assert JobSecret.objects.filter(job=job, name="API_KEY").exists()
    check = client.post("/api/v1/jobs/check/", body() | {"secrets": {"API_KEY": "hunter2hunter2"}}, format="json")
    answers = [made, check] + [
        client.get(f"/api/v1/jobs/{job}/{part}") for part in ("", "events/", "attempts/", "rerun/", "rerun/?form=yaml")
    ]
    for answer in answers:
        assert answer.status_code in (200, 201)
        assert "hunter2" not in answer.content.decode()
    assert b"hunter2" not in bytes(JobSecret.objects.get().value)


def test_a_secret_may_not_take_a_name_of_the_portals(api, make_cluster):
    make_cluster()
    answer = post(api(), body() | {"secrets": {"MASTER_ADDR": "x"}})
    assert answer.json()["errors"][0]["attr"] == "secrets"


# --- around the spec ----------------------------------------------------------------------------------------------


def test_team_origin_and_checkpoint_of_others_look_missing(api, make_cluster, make_user):
    make_cluster()
    team = Team.objects.create(name="vision")
    foreign = post(api("bob"), body()).json()["id"]
    client = api()
    for around in ({"team": team.pk}, {"origin": foreign}, {"resume_from": 77}, {"team": 2**63}, {"team": "x"}):
        answer = post(client, body() | around)
        assert answer.status_code == 400, around
        assert answer.json()["errors"][0]["attr"] == next(iter(around))
    services.set_membership(None, client.user, team)
    made = post(client, body() | {"team": team.pk})
    assert made.status_code == 201
    assert (made.json()["team"], made.json()["team_name"]) == (team.pk, "vision")


def test_a_job_is_run_again_by_what_rerun_answers(api, make_cluster):
    make_cluster()
    client = api()
    first = post(client, body(parameters={"learning_rate": "1e-4"}, env={"A": "1e4", "B": "no"})).json()
    again = client.get(f"/api/v1/jobs/{first['id']}/rerun/").json()
    second = post(client, again)
    assert second.status_code == 201
    text = client.get(f"/api/v1/jobs/{first['id']}/rerun/?form=yaml")
    third = client.post("/api/v1/jobs/", text.content, content_type="application/yaml")
    assert third.status_code == 201, third.json()
    for made in (second, third):
        assert (made.json()["spec"], made.json()["origin"]) == (first["spec"], first["id"])


def test_check_says_what_submit_would_and_writes_nothing(api, make_cluster):
    make_cluster(2, 4)
    client = api()
    gang = body(strategy="ddp", roles=[{"nodes": 2, "devices_per_node": 2}])
    told = client.post("/api/v1/jobs/check/", gang, format="json").json()
    assert (told["problems"], told["starts_now"]) == ([], True)
    assert "n0" in told["why"]
    assert [launch["node_rank"] for launch in told["previews"]] == [0, 1]
    assert "token" not in told["previews"][0]
    impossible = body(strategy="ddp", roles=[{"nodes": 3, "devices_per_node": 2}])
    told = client.post("/api/v1/jobs/check/", impossible, format="json").json()
    assert told["problems"][0]["field"] == "spec.roles.0.nodes"
    assert "Asks for 3 nodes, this cluster has 2" in told["problems"][0]["message"]
    told = client.post("/api/v1/jobs/check/", {"spec": {"name": ""}}, format="json").json()
    assert {problem["field"] for problem in told["problems"]} >= {"spec.name"}
    assert not Job.objects.exists()
