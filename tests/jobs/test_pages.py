"""The pages of jobs: every state renders, everything a person wrote is shown as text, the form says what is wrong."""

from __future__ import annotations

import json
import shlex

import pytest
from django.utils import timezone

from jobs.forms import JobForm, field_of, initial_of
from jobs.models import Job
from jobs.spec import JobSpec
from jobs.states import JobState
from portal.accounts.services import set_quota
from tests.builders import make_node
from tests.conftest import DATA

PAYLOAD = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
SCRIPT = {
    "name": "mine",
    "code_kind": "script",
    "script": "print(1)",
    "strategy": "single",
    "nodes": "1",
    "devices": "1",
}
RECIPE = {**SCRIPT, "code_kind": "recipe", "version": "1", "epochs": "1"}
# The cases' short names and the form's fields.
FIELDS = {"lr": "learning_rate", "gpus_per_node": "devices", "script": "entry"}
SETTINGS = json.loads((DATA / "config" / "job_settings.json").read_text())
# A form has no YAML and no unknown keys; REST takes those two cases.
CASES = [case for case in SETTINGS["cases"] if case["id"] not in ("lr_yaml", "unknown_key")]


@pytest.fixture
def ada(make_user, client):
    user = make_user("ada")
    client.force_login(user)
    return user


def make_job(owner, **fields) -> Job:
    spec = JobSpec.model_validate({"name": "train", "code": {"kind": "script", "script": "print(1)"}})
    values = {"name": "train", "spec": spec.model_dump(mode="json"), "queued_at": timezone.now(), **fields}
    return Job.objects.create(owner=owner, **values)


@pytest.mark.parametrize("state", list(JobState))
def test_a_job_of_every_state_has_a_page_that_shows_text_as_text(ada, client, state):
    job = make_job(ada, name=PAYLOAD, state=state, reason_text=PAYLOAD, waiting_text=PAYLOAD, stop_reason="cancelled")
    for tab in ("curves", "logs", "events", "nonsense"):
        page = client.get(f"/jobs/{job.pk}/", {"tab": tab})
        assert page.status_code == 200
        assert b"<script>alert" not in page.content
        assert b"<img src=x" not in page.content
    assert client.get(f"/jobs/{job.pk}/moving/").status_code == 200
    assert b"<script>alert" not in client.get("/jobs/").content


def test_a_strangers_job_is_not_there(ada, make_user, client):
    job = make_job(make_user("bo"), name="bo-secret")
    assert client.get(f"/jobs/{job.pk}/").status_code == 404
    assert client.post(f"/jobs/{job.pk}/cancel/").status_code == 404
    for path in ("/", "/jobs/", "/cluster/", f"/jobs/new/?from={job.pk}"):
        assert b"bo-secret" not in client.get(path).content


def test_pages_go_by_id_in_both_directions(ada, client):
    jobs = [make_job(ada) for _ in range(120)]
    first = client.get("/jobs/").context
    assert [job.pk for job in first["jobs"]] == [job.pk for job in jobs[:-51:-1]]
    second = client.get("/jobs/", {"before": first["older"]}).context
    assert second["jobs"][0].pk == first["jobs"][-1].pk - 1
    back = client.get("/jobs/", {"after": second["newer"]}).context
    assert [job.pk for job in back["jobs"]] == [job.pk for job in first["jobs"]]
    assert client.get("/jobs/", {"before": "9" * 40, "state": "\x00", "q": "\x00"}).status_code == 200


def test_filters_by_state_owner_and_text(ada, client):
    make_job(ada, name="alpha", state=JobState.FAILED)
    make_job(ada, name="beta")
    shown = client.get("/jobs/", {"state": "failed", "owner": "me", "q": "alp"}).context["jobs"]
    assert [job.name for job in shown] == ["alpha"]
    assert len(client.get("/jobs/", {"state": "open"}).context["jobs"]) == 1


def test_checking_writes_nothing_and_answers_by_field(ada, client):
    make_node(devices=2)
    answer = client.post("/jobs/check/", {**SCRIPT, "strategy": "ddp", "nodes": "30"}).json()
    assert "nodes" in answer["errors"]
    assert Job.objects.count() == 0
    fine = client.post("/jobs/check/", SCRIPT).json()
    assert fine["errors"] == {}
    assert "rank_exec.py" in fine["plan"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_settings_of_the_cases_are_read_as_they_say(ada, client, case):
    for _ in range(SETTINGS["cluster"]["nodes"]):
        make_node(devices=SETTINGS["cluster"]["gpus_per_node"])
    set_quota(None, ada, max_devices=SETTINGS["cluster"]["user_gpu_quota"])
    given = {FIELDS.get(name, name): as_typed(value) for name, value in case["settings"].items()}
    base = RECIPE if {"learning_rate", "batch_size", "seed", "epochs"} & set(given) else SCRIPT
    is_gang = {"nodes", "devices"} & set(given)
    answer = client.post("/jobs/check/", {**base, **({"strategy": "ddp"} if is_gang else {}), **given})
    errors = answer.json()["errors"]
    if case["decision"] == "accept":
        assert not set(given) & set(errors)
        return
    assert set(given) & set(errors), errors
    told = json.dumps(errors, ensure_ascii=False)
    for name in case["error_names"]:
        assert FIELDS.get(name, name) in told


def as_typed(value) -> str:
    """What a person types into the field."""
    if isinstance(value, list):
        return shlex.join(value)
    if isinstance(value, dict):
        return "\n".join(f"{name}={text}" for name, text in value.items())
    return str(value)


def test_submitting_twice_makes_one_job(ada, client):
    make_node(devices=2)
    body = {
        **SCRIPT,
        "idempotency_key": "k1",
        "secrets": "TOKEN=hidden-value",
        "env": "A=1\n# no\n\nB=x=y",
        "args": "--a 'b c' $(id)",
    }
    first, second = client.post("/jobs/new/", body), client.post("/jobs/new/", body)
    assert first.status_code == second.status_code == 302
    job = Job.objects.get()
    assert job.spec["env"] == {"A": "1", "B": "x=y"}
    assert job.spec["code"]["args"] == ["--a", "b c", "$(id)"]
    assert "hidden-value" not in json.dumps(job.spec)
    assert b"hidden-value" not in client.get(first.url, {"tab": "configuration"}).content
    again = client.get("/jobs/new/", {"from": job.pk})
    assert again.context["form"]["env"].value() == "A=1\nB=x=y"
    assert b"hidden-value" not in again.content


def test_a_refused_form_keeps_what_was_typed(ada, client):
    page = client.post("/jobs/new/", {**SCRIPT, "nodes": "none", "script": "print('kept')", "secrets": "no sign"})
    assert page.status_code == 400
    assert "kept" in page.content.decode()
    assert page.context["form"].errors.keys() >= {"nodes", "secrets"}


def test_an_old_spec_fills_the_form_so_that_the_form_gives_it_again():
    spec = JobSpec.model_validate(
        {
            "name": "again",
            "strategy": "ddp",
            "roles": [{"nodes": 2, "devices_per_node": 3, "device_kind": "A100"}],
            "code": {"kind": "recipe"},
            "data": {"version_id": 7, "label": "y"},
            "parameters": {"learning_rate": 1e-4, "hidden": [8], "batch_size": 60},
            "stop": {
                "epochs": 2,
                "target": {"metric": "acc", "value": 0.9},
                "no_improvement": {"metric": "l", "epochs": 3},
            },
            "env": {"A": "b"},
            "priority": 5,
        }
    ).model_dump(mode="json")
    form = JobForm({name: str(value) for name, value in initial_of(spec).items()})
    assert form.is_valid()
    wish, problems = form.wish()
    assert problems == []
    assert JobSpec.model_validate(wish).model_dump(mode="json") == spec


def test_findings_lead_back_to_their_fields():
    assert field_of("roles.0.devices_per_node") == "devices"
    assert field_of("code.args.3") == "args"
    assert field_of("parameters.hidden.0") == "hidden"
    assert field_of("data.label") == "label"
    assert field_of("") == ""
