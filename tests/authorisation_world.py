"""One of everything that an address can name, and the people who may or may not reach it.

ada owns a job, a dataset with a version, an upload and a token in the team 'vision'; mia is a member of it, max its
manager, eve is in no team. chief is staff without any right in the admin, root is a superuser.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from datasets.models import Dataset, Version
from datasets.services.objects import store_stream
from datasets.services.uploads import create_upload
from datasets.states import VersionState
from datasets.tickets import sign_get
from jobs.models import Attempt, Checkpoint, CheckpointObject, Job, Placement, Stream
from jobs.states import JobState
from nodes.models import Device, Node
from nodes.services.tokens import make_token
from nodes.states import NodeState
from portal.accounts import services
from portal.accounts.models import ApiToken, Team, User

PEOPLE = {"owner": "ada", "member": "mia", "manager": "max", "stranger": "eve", "staff": "chief", "superuser": "root"}


@dataclass
class World:
    people: dict[str, User]
    tokens: dict[str, str]  # by role, with 'reader' (a read token of the owner's) and 'node'
    names: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the first words of a route: its arguments
    clients: dict[tuple[str, bool], Any] = field(default_factory=dict)  # made once: each loads all middleware anew

    def address(self, route: str) -> str:
        """The route with its arguments filled in."""
        known = next(names for start, names in self.names.items() if route.startswith(start))
        for name, value in known.items():
            route = route.replace(f"<{name}>", str(value))
        assert "<" not in route, f"nothing to fill into {route}"
        return f"/{route}"


def build() -> World:
    people = {role: _person(role, name) for role, name in PEOPLE.items()}
    owner, team = people["owner"], services.create_team(None, name="vision")
    services.set_membership(None, people["member"], team)
    services.set_membership(None, people["manager"], team, role="manager")
    services.set_membership(None, owner, team)
    tokens = {role: services.create_token(user, name="tests")[1] for role, user in people.items()}
    tokens["reader"] = services.create_token(owner, name="reads", scope=ApiToken.Scope.READ)[1]
    spare, _ = services.create_token(owner, name="spare")
    node, tokens["node"] = _node()
    dataset, version = _dataset(owner, team)
    job, checkpoint = _job(owner, team, node)
    world = World(people, tokens)
    nodes, datasets = {"pk": node.pk}, {"pk": dataset.pk, "number": version.number}
    world.names = {
        "api/v1/tokens/": {"key": spare.token_key},
        "api/v1/datasets/": {"pk": dataset.pk},
        "api/v1/versions/": {"pk": version.pk},
        "api/v1/nodes/": nodes,
        "api/v1/jobs/": {"pk": job.pk, "rank": 0, "checkpoint": checkpoint.pk},
        "cluster/nodes/": nodes,
        "account/tokens/": {"key": spare.token_key},
        "datasets/": datasets,
        "jobs/columns/": {"pk": version.pk},
        "jobs/": {"pk": job.pk},
        "ws/jobs/": {"pk": job.pk},
        "objects/": {"ticket": sign_get(version.stored).removeprefix("/objects/")},
        "api/<rest>": {"rest": "v1/nothing"},
        "": {},
    }
    renew_upload(world)
    return world


def renew_upload(world: World) -> None:
    """A fresh upload of the owner's behind every address that names one."""
    upload, _ = create_upload(world.people["owner"], file_name="a.csv", size_bytes=10)
    names = {start: {"pk": upload.pk} for start in ("api/v1/uploads/", "datasets/uploads/", "uploads/")}
    world.names = {**names, **{start: found for start, found in world.names.items() if start not in names}}


def _person(role: str, name: str) -> User:
    user = User(username=name, is_staff=role in ("staff", "superuser"), is_superuser=role == "superuser")
    user.set_unusable_password()
    user.save()
    return user


def _node() -> tuple[Node, str]:
    text, digest = make_token()
    facts = {"cpu_count": 8, "memory_bytes": 2**34}
    node = Node.objects.create(name="n0", token_hash=digest, state=NodeState.ONLINE, facts=facts)
    Device.objects.create(node=node, index=0, uuid="d0", kind="cpu")
    return node, text


def _dataset(owner: User, team: Team) -> tuple[Dataset, Version]:
    dataset = Dataset.objects.create(owner=owner, team=team, name="digits")
    facts = {"columns": [{"name": "label", "type": "integer", "classes": {"0": 1, "1": 1}}], "rows": 2, "preview": []}
    version = Version.objects.create(
        dataset=dataset,
        number=1,
        stored=store_stream([b"label\n0\n1\n"]),
        file_name="digits.csv",
        kind="table",
        state=VersionState.READY,
        facts=facts,
        created_by=owner,
    )
    return dataset, version


def _job(owner: User, team: Team, node: Node) -> tuple[Job, Checkpoint]:
    spec = {"name": "first", "code": {"kind": "script", "script": "pass"}}
    job = Job.objects.create(
        owner=owner, team=team, name="first", spec=spec, queued_at=timezone.now(), state=JobState.RUNNING
    )
    attempt = Attempt.objects.create(job=job, number=1, epoch=1)
    placement = Placement.objects.create(attempt=attempt, node=node, node_rank=0, ranks=[0])
    for kind in ("log", "metrics"):
        Stream.objects.create(placement=placement, rank=0, kind=kind)
    stored = store_stream([b"weights"])
    files = [{"path": "model.pt", "sha256": stored.sha256, "size_bytes": 7}]
    checkpoint = Checkpoint.objects.create(job=job, attempt=attempt, step=1, files=files, size_bytes=7)
    CheckpointObject.objects.create(checkpoint=checkpoint, stored=stored)
    return job, checkpoint
