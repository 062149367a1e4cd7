"""Rows and messages for tests: nodes that exchange, jobs in every state, an agent of a few lines."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from jobs.models import Job, Leader, Seat
from jobs.services.exchange import exchange
from jobs.services.leader import Candidate
from jobs.services.schedule import run_pass
from nodes.messages import (
    DeviceReport,
    EndCause,
    Exchange,
    ExitReport,
    LaunchFacts,
    NodeFacts,
    Phase,
    PlacementReport,
    Reply,
)
from nodes.models import Device, Node
from nodes.services.tokens import make_token
from nodes.states import NodeState
from portal.accounts.models import User

_numbers = itertools.count(1)

SCRIPT_SPEC: dict[str, Any] = {"name": "train", "code": {"kind": "script", "script": "print(1)"}}


def make_person(name: str = "ada", **fields: Any) -> User:
    user = User.objects.filter(username=name).first() or User(username=name)
    for field_name, value in fields.items():
        setattr(user, field_name, value)
    user.set_unusable_password()
    user.save()
    return user


def make_node(
    name: str = "",
    *,
    devices: int = 2,
    kind: str = "cpu",
    state: str = NodeState.ONLINE,
    address: str = "",
    **fields: Any,
) -> Node:
    """An online node with healthy devices. `node.token` is its token in the clear."""
    number = next(_numbers)
    token, digest = make_token()
    fields = {"facts": {"cpu_count": 8, "memory_bytes": 16 * 2**30}, **fields}
    node = Node.objects.create(
        pk=fields.pop("pk", UUID(int=number)),  # lowest id on ties: the node made first
        name=name or f"node-{number}",
        token_hash=digest,
        state=state,
        address=address or f"127.0.0.{number % 250 + 1}",
        **fields,
    )
    for index in range(devices):
        Device.objects.create(node=node, index=index, uuid=f"{node.pk.hex[:8]}-{index}", kind=kind)
    node.token = token
    return node


def spec_of(*, nodes: int = 1, devices: int = 1, **fields: Any) -> dict[str, Any]:
    """A wish for own code; 'ddp' where it has more than one process."""
    strategy = "single" if nodes * max(1, devices) == 1 else "ddp"
    role = {"nodes": nodes, "devices_per_node": devices}
    return {**SCRIPT_SPEC, "strategy": strategy, "roles": [role], **fields}


def make_job(
    owner: User | None = None, *, nodes: int = 1, devices: int = 1, spec: dict[str, Any] | None = None, **fields: Any
) -> Job:
    """A job in the queue. `spec` holds settings besides the gang's size."""
    from jobs.spec import JobSpec

    full = JobSpec.model_validate(spec_of(nodes=nodes, devices=devices, **(spec or {})))
    return Job.objects.create(
        **{
            "owner": owner or make_person(),
            "name": full.name,
            "spec": full.model_dump(mode="json"),
            "queued_at": timezone.now(),
            "device_count": full.worker.device_count,
            "node_count": full.worker.nodes,
            **fields,
        }
    )


def lead() -> int:
    """The epoch of a leader; made when there is none."""
    Leader.objects.get_or_create(pk=1)
    candidate = Candidate("test:0", take_over_seconds=0)
    assert candidate.lead()
    assert candidate.epoch is not None
    return candidate.epoch


def schedule() -> int:
    return run_pass(lead())


@dataclass
class FakeAgent:
    """Speaks the exchange for a node as the real agent does; what a launch does is said by the test."""

    node: Node
    address: str = ""
    session: UUID = field(default_factory=uuid4)
    boot_id: str = "boot-1"
    counter: int = 0
    reports: dict[UUID, PlacementReport] = field(default_factory=dict)
    last: Reply | None = None

    def exchange(self, **fields: Any) -> Reply:
        self.counter += 1
        message = Exchange(
            **{
                "node_id": self.node.pk,
                "boot_id": self.boot_id,
                "session": self.session,
                "counter": self.counter,
                "sent_at": timezone.now().timestamp(),
                "hostname": "gpu-1",
                "address": self.address or self.node.address,
                "facts": NodeFacts(cpu_count=8, memory_bytes=16 * 2**30),
                "devices": self.device_reports(),
                "placements": list(self.reports.values()),
                **fields,
            }
        )
        self.last = exchange(Node.objects.get(pk=self.node.pk), message)
        for launch in self.last.launches:
            self.reports.setdefault(launch.token, PlacementReport(token=launch.token, phase=Phase.ACCEPTED))
        for token in self.last.closed:
            self.reports.pop(token, None)
        return self.last

    def device_reports(self) -> list[DeviceReport]:
        return [DeviceReport(index=d.index, uuid=d.uuid, kind=d.kind) for d in self.node.devices.order_by("index")]

    def say(self, phase: Phase, token: UUID | None = None, **fields: Any) -> Reply:
        """Report this phase for one launch (the only one when no token is given), then exchange."""
        token = token or self.token
        facts = LaunchFacts(address=self.node.address, ports=[20001]) if phase is Phase.READY else None
        self.reports[token] = PlacementReport(token=token, phase=phase, facts=facts, **fields)
        return self.exchange()

    def end(self, token: UUID | None = None, *, cause: EndCause = EndCause.EXITED, **fields: Any) -> Reply:
        if cause is EndCause.EXITED:
            fields.setdefault("exit_code", 0)
        return self.say(Phase.ENDED, token, exit=ExitReport(cause=cause, **fields))

    @property
    def token(self) -> UUID:
        assert len(self.reports) == 1, self.reports
        return next(iter(self.reports))


def bring_up(*agents: FakeAgent) -> None:
    """From ordered to running on all nodes of a gang."""
    for agent in agents:
        agent.exchange()
    for agent in agents:
        agent.say(Phase.READY)
    for agent in agents:
        assert agent.exchange().gos, "no GO although all are ready"
    for agent in agents:
        agent.say(Phase.RUNNING)


def fresh(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def live_seats() -> int:
    return Seat.objects.filter(released_at__isnull=True).count()
