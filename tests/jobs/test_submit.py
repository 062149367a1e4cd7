"""A wish becomes a job: every refusal beside its field, once per key, counted under locks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections

from datasets.models import Dataset, StoredObject, Version
from datasets.states import VersionState
from jobs.models import Checkpoint, CodeBundle, Job, JobSecret
from jobs.secrets import unseal
from jobs.services.submit import check_wish, submit_job
from jobs.spec import JobSpec
from jobs.states import JobState
from portal.accounts.models import Membership, Quota, Team
from portal.errors import Conflict, InvalidFields, OverLimit
from tests.builders import make_job, make_node, make_person, schedule, spec_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada():
    return make_person("ada")


@pytest.fixture
def cluster():
    """The three nodes of eight of tests/data/config."""
    return [make_node(devices=8, kind="A100") for _ in range(3)]


def wish(**fields) -> JobSpec:
    return JobSpec.model_validate(spec_of(**fields))


def recipe(version: Version, label: str | None = "label", **fields) -> JobSpec:
    data = {"version_id": version.pk, "label": label}
    base = {"name": "digits", "code": {"kind": "recipe"}, "data": data, "stop": {"epochs": 1}}
    return JobSpec.model_validate({**base, **fields})


def make_version(owner, **fields) -> Version:
    dataset = Dataset.objects.create(owner=owner, name="digits")
    stored = StoredObject.objects.create(sha256=f"{dataset.pk:064d}", key=f"k{dataset.pk}", size_bytes=10)
    columns = [{"name": "label", "classes": {"0": 5, "1": 5}}, {"name": "flat", "classes": {"0": 10}}]
    defaults = {"state": VersionState.READY, "kind": "table", "facts": {"columns": columns}}
    return Version.objects.create(
        dataset=dataset, number=1, stored=stored, file_name="d.csv", created_by=owner, **{**defaults, **fields}
    )


def refusals(user, spec, **more) -> dict[str, str]:
    with pytest.raises(InvalidFields) as caught:
        submit_job(user, spec, **more)
    assert Job.objects.count() == 0
    return {error.field: error.message for error in caught.value.errors}


def test_a_wish_becomes_a_job_in_the_queue(ada, cluster):
    version = make_version(ada)
    job = submit_job(ada, recipe(version), secrets={"TOKEN": "hush"})
    assert (job.state, job.version, job.device_count) == (JobState.QUEUED, version, 1)
    assert job.events.get().kind == "submitted"
    assert "hush" not in str(job.spec)
    sealed = JobSecret.objects.get()
    assert b"hush" not in bytes(sealed.value)
    assert unseal(sealed.value) == "hush"


@pytest.mark.parametrize(
    ("gang", "field", "named"),
    [
        ({"nodes": 1, "devices": 9}, "roles.0.devices_per_node", ("9", "8")),
        ({"nodes": 5, "devices": 8}, "roles.0.nodes", ("5", "3")),
        ({"nodes": 5, "devices": 0}, "roles.0.nodes", ("5 nodes", "has 3")),
    ],
)
def test_impossible_gangs_name_what_is_asked_and_what_there_is(ada, cluster, gang, field, named):
    found = refusals(ada, wish(**gang))
    assert all(number in found[field] for number in named)


def test_over_quota_names_the_quota(ada, cluster):
    Quota.objects.create(user=ada, max_devices=8)
    found = refusals(ada, wish(nodes=2, devices=8))["roles.0.devices_per_node"]
    assert "quota" in found
    assert "8" in found


def test_all_wrong_fields_come_at_once(ada, cluster):
    Quota.objects.create(user=ada, max_job_seconds=600)
    spec = wish(nodes=4, data={"version_id": 99}, stop={"minutes": 60})
    spec = spec.model_copy(update={"roles": [spec.worker.model_copy(update={"device_kind": "H100"})]})
    found = refusals(ada, spec, team=Team.objects.create(name="strangers"), secrets={"RANK": "1"})
    assert set(found) == {
        "roles.0.nodes", "roles.0.device_kind", "data.version_id", "stop.minutes", "team", "secrets"
    }  # fmt: skip
    assert "A100" in found["roles.0.device_kind"]
    assert "10 minutes" in found["stop.minutes"]


def test_cpus_and_memory_of_the_largest_node(ada, cluster):
    role = {"nodes": 1, "devices_per_node": 1, "cpus_per_node": 9, "memory_bytes_per_node": 17 * 2**30}
    found = refusals(ada, wish(roles=[role]))
    assert "8" in found["roles.0.cpus_per_node"]
    assert "16.0 GiB" in found["roles.0.memory_bytes_per_node"]


def test_nobody_has_joined_yet(ada):
    assert "join code" in refusals(ada, wish())["roles.0.nodes"]


@pytest.mark.parametrize("state", [state for state in VersionState if state is not VersionState.READY])
def test_only_ready_versions_are_trained_on(ada, cluster, state):
    assert "data.version_id" in refusals(ada, recipe(make_version(ada, state=state)))


def test_foreign_data_looks_like_no_data(ada, cluster):
    foreign = refusals(ada, recipe(make_version(make_person("eve"))))
    missing = refusals(ada, recipe(make_version(ada)).model_copy(update={"data": foreign_ref(10**6)}))
    assert foreign == missing


def foreign_ref(pk: int):
    return recipe(Version(pk=pk)).data


def test_label_must_exist_and_have_two_classes(ada, cluster):
    version = make_version(ada)
    assert "Choose" in refusals(ada, recipe(version, label=None))["data.label"]
    assert "label, flat" in refusals(ada, recipe(version, label="taget"))["data.label"]
    assert "one class" in refusals(ada, recipe(version, label="flat"))["data.label"]
    version.options = {"label": "label"}
    version.save()
    assert submit_job(ada, recipe(version, label=None)).pk


def test_own_code_needs_a_bundle_one_may_use(ada, cluster):
    sha = "a" * 64
    spec = wish(code={"kind": "script", "bundle_sha256": sha})
    stored = StoredObject.objects.create(sha256=sha, key="b", size_bytes=1)
    CodeBundle.objects.create(owner=make_person("eve"), stored=stored, file_name="c.zip")
    assert "code.bundle_sha256" in refusals(ada, spec)
    CodeBundle.objects.create(owner=ada, stored=stored, file_name="c.zip")
    assert submit_job(ada, spec).pk


def test_continuing_needs_a_visible_checkpoint(ada, cluster):
    other = make_job(make_person("eve"))
    attempt = other.attempts.create(number=1, epoch=1)
    foreign = Checkpoint.objects.create(job=other, attempt=attempt, step=1, files=[], size_bytes=1)
    with pytest.raises(InvalidFields) as caught:
        submit_job(ada, wish(), resume_from=foreign)
    assert caught.value.errors[0].field == "resume_from"


def test_one_key_makes_one_job(ada, cluster):
    first = submit_job(ada, wish(), idempotency_key="k1", secrets={"A": "1"})
    assert submit_job(ada, wish(), idempotency_key="k1", secrets={"A": "1"}) == first
    with pytest.raises(Conflict):
        submit_job(ada, wish(), idempotency_key="k1", secrets={"A": "2"})
    with pytest.raises(Conflict):
        submit_job(ada, wish(priority=1), idempotency_key="k1", secrets={"A": "1"})
    assert submit_job(make_person("bob"), wish(), idempotency_key="k1") != first
    assert Job.objects.count() == 2


def test_a_full_queue_says_limit_and_use(ada, cluster):
    team = Team.objects.create(name="vision")
    Membership.objects.create(user=ada, team=team)
    Quota.objects.create(team=team, max_queued_jobs=1)
    submit_job(ada, wish(), team=team)
    with pytest.raises(OverLimit) as caught:
        submit_job(ada, wish(), team=team)
    assert caught.value.facts == {"limit": 1, "used": 1, "asked": 1}
    assert submit_job(ada, wish()).pk, "without the team there is room"


def test_check_wish_says_what_would_happen(ada, cluster):
    report = check_wish(ada, wish(nodes=2, devices=8), None)
    assert (report.problems, report.starts_now) == ([], True)
    assert cluster[0].name in report.why
    assert len(report.previews) == 2
    make_job(nodes=3, devices=8)
    schedule()
    report = check_wish(ada, wish(), None)
    assert not report.starts_now
    assert "full" in report.why
    report = check_wish(ada, wish(devices=9), None)
    assert report.problems[0].message == report.why
    assert report.previews
    assert Job.objects.count() == 1


# --- many at once ---------------------------------------------------------------------------------------------------


def _in_threads(count: int, work) -> list:
    """Each on a thread and a connection of its own, all at the same moment."""
    gate = threading.Barrier(10)

    def one(i: int):
        try:
            if i < 10:
                gate.wait(timeout=30)
            return work(i)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(10) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_fifty_at_the_limit_let_ten_in():
    team = Team.objects.create(name="vision")
    people = [make_person(f"p{i}") for i in range(5)]
    for person in people:
        Membership.objects.create(user=person, team=team)
    Quota.objects.create(team=team, max_queued_jobs=10)
    make_node(devices=8)
    results = _in_threads(50, lambda i: submit_job(people[i % 5], wish(), team=team))
    made = [result for result in results if isinstance(result, Job)]
    refused = [result for result in results if isinstance(result, OverLimit)]
    assert (len(made), len(refused)) == (10, 40), [r for r in results if r not in made and r not in refused]
    assert Job.objects.count() == 10


@pytest.mark.django_db(transaction=True)
def test_a_double_click_makes_one_job():
    ada = make_person("ada")
    make_node()
    results = _in_threads(10, lambda _: submit_job(ada, wish(), idempotency_key="click"))
    assert {result.pk for result in results} == {Job.objects.get().pk}


@pytest.mark.django_db(transaction=True)
def test_two_masters_at_once_start_each_job_once():
    from jobs.models import Placement, Seat
    from jobs.services.leader import NotLeading
    from jobs.services.schedule import run_pass
    from tests.builders import lead

    for _ in range(3):
        make_node(devices=4)
    for _ in range(20):
        make_job()
    epoch = lead()
    results = _in_threads(10, lambda _: run_pass(epoch))
    assert all(isinstance(result, int | NotLeading) for result in results), results
    assert Job.objects.filter(state=JobState.STARTING).count() == 12
    assert Placement.objects.count() == Seat.objects.count() == 12
    assert len(set(Seat.objects.values_list("device", flat=True))) == 12


def test_the_database_is_the_one_asked_for():
    assert connection.vendor in ("sqlite", "postgresql")


@pytest.mark.parametrize("name", ["A=B", "A\n", "PATH\n", ""])
def test_secret_needs_a_name_that_a_process_can_be_given(ada, name):
    assert "secrets" in refusals(ada, wish(), secrets={name: "1"})
