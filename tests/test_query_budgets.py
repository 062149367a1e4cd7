"""Lists cost a fixed number of queries, whether there are ten rows or ten thousand."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from datasets.models import Dataset, StoredObject, Version
from datasets.states import VersionState
from jobs.models import CodeBundle, Job, JobEvent
from jobs.states import JobState
from nodes.models import Device, Node
from portal.accounts.models import Team, User

pytestmark = pytest.mark.django_db

# Queries that a page or an answer may need, with its session or token, its audit context and its user.
BUDGETS = {
    "/": 11,
    "/jobs/": 6,
    "/datasets/": 8,
    "/cluster/": 13,
    "/usage/": 13,
    "/api/v1/jobs/": 4,
    "/api/v1/jobs/?state=queued&name=job": 4,
    "/api/v1/jobs/{job}/": 4,
    "/api/v1/jobs/{job}/events/": 5,
    "/api/v1/jobs/{job}/attempts/": 5,
    "/api/v1/queue/": 4,
    "/api/v1/seats/": 4,
    "/api/v1/bundles/": 4,
    "/api/v1/datasets/": 5,
    "/api/v1/versions/": 4,
    "/api/v1/uploads/": 4,
    "/api/v1/nodes/": 5,
    "/api/v1/tokens/": 4,
    "/api/v1/quota/": 11,
    "/admin/jobs/job/": 6,
    "/admin/nodes/node/": 6,
    "/admin/accounts/user/": 13,
    "/admin/accounts/team/": 12,
    "/admin/auditlog/logentry/": 9,
    "/admin/datasets/dataset/": 7,
}


@pytest.fixture
def root(make_user, client):
    user = make_user("root", superuser=True)
    client.force_login(user)
    return user


def fill(owner: User, rows: int) -> Job:
    """`rows` of everything that a list shows; nodes grow to 200 only, a cluster has no ten thousand."""
    now = timezone.now()
    team = Team.objects.create(name="vision")
    stored = StoredObject.objects.create(sha256="0" * 64, key="k", size_bytes=1)
    Job.objects.bulk_create(
        Job(owner=owner, team=team, name=f"job {n}", spec={"strategy": "ddp"}, queued_at=now, position=n + 1)
        for n in range(rows)
    )
    job = Job.objects.order_by("pk").first()
    Job.objects.filter(pk__lt=job.pk + rows // 2).update(state=JobState.SUCCEEDED, ended_at=now, position=None)
    JobEvent.objects.bulk_create(JobEvent(job=job, kind="note", text="x", actor=owner) for _ in range(rows))
    CodeBundle.objects.bulk_create(CodeBundle(owner=owner, stored=stored, file_name="a.zip") for _ in range(rows))
    Dataset.objects.bulk_create(Dataset(owner=owner, team=team, name=f"set {n}") for n in range(rows))
    Version.objects.bulk_create(
        Version(dataset=dataset, number=1, stored=stored, file_name="a", state=VersionState.READY, created_by=owner)
        for dataset in Dataset.objects.all()
    )
    User.objects.bulk_create(User(username=f"user {n}", password="!") for n in range(rows))
    Team.objects.bulk_create(Team(name=f"team {n}") for n in range(rows))
    Node.objects.bulk_create(Node(id=UUID(int=n), name=f"n{n}", token_hash=str(n)) for n in range(min(rows, 200)))
    Device.objects.bulk_create(
        Device(node=node, index=0, uuid=node.name, kind="cpu") for node in Node.objects.order_by("name")
    )
    return job


def measured(client, job: Job) -> dict[str, int]:
    found = {}
    for address in BUDGETS:
        url = address.format(job=job.pk)
        client.get(url)  # content types and the like are remembered by the process
        with CaptureQueriesContext(
            connection,
        ) as queries:
            answer = client.get(url)
        assert answer.status_code == 200, (url, answer.content[:300])
        found[address] = len(queries)
    return found


@pytest.mark.parametrize("rows", [10, 10_000])
def test_lists_keep_their_budgets(root, client, rows):
    found = measured(client, fill(root, rows))
    assert {address: count for address, count in found.items() if count > BUDGETS[address]} == {}, found
