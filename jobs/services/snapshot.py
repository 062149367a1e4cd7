"""The database as the policy sees it: one consistent read, no locks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils import timezone

from jobs.models import Job, Placement, Seat
from jobs.scheduler.values import (
    WHOLE,
    Account,
    Ceiling,
    Closed,
    DeviceView,
    Need,
    NodeView,
    RunningJob,
    Snapshot,
    WaitingJob,
)
from jobs.states import ACTIVE, JobState
from nodes.models import Device, Node
from nodes.states import Admission, NodeState
from portal.accounts.limits import Limits, limits_of_teams, limits_of_users
from portal.db import read_snapshot

_FIELDS = ("pk", "owner_id", "team_id", "purpose", "spec", "queued_at", "priority", "avoid_nodes")


def load_snapshot(*extra: WaitingJob, only: Collection[int] | None = None) -> Snapshot:
    """`extra` are wishes that are not rows: what would happen to them? `only`: of the waiting jobs just these."""
    queued = Job.objects.filter(state=JobState.QUEUED)
    with read_snapshot():
        waiting = [_waiting(row) for row in (queued if only is None else queued.filter(pk__in=only)).values(*_FIELDS)]
        waiting += extra
        return Snapshot(
            now=timezone.now().timestamp(),
            nodes=tuple(load_nodes()),
            waiting=tuple(waiting),
            running=tuple(_running()),
            ceilings=_ceilings(waiting),
        )


def load_nodes() -> list[NodeView]:
    devices: dict[Any, list[DeviceView]] = defaultdict(list)
    used = dict(Seat.objects.holding().values_list("device").annotate(total=Sum("thousandths")).order_by())
    for device in Device.objects.filter(is_healthy=True, is_present=True).order_by("index", "pk"):
        free = max(0, WHOLE - used.get(device.pk, 0))
        devices[device.node_id].append(DeviceView(device.pk, device.index, device.kind, free))
    load = {row["node"]: row for row in _loads()}
    return [_node(node, tuple(devices[node.pk]), load.get(node.pk, {})) for node in Node.objects.order_by("pk")]


def need_of(spec: Mapping[str, Any], purpose: str = Job.Purpose.TRAIN) -> Need:
    """Stored specs were checked when they came in; the portal's own work needs no device."""
    if purpose != Job.Purpose.TRAIN:
        return Need(nodes=1, devices_per_node=0)
    role = spec["roles"][0]
    return Need(
        nodes=role["nodes"],
        devices_per_node=role["devices_per_node"],
        kind=role.get("device_kind") or None,
        cpus=role.get("cpus_per_node", 0),
        memory_bytes=role.get("memory_bytes_per_node", 0),
    )


def closed_of(node: Node) -> Closed | None:
    """Why the node takes nothing new, or None."""
    if node.state != NodeState.ONLINE:
        return Closed(node.state)
    return {Admission.CORDONED: Closed.CORDONED, Admission.DRAINING: Closed.DRAINING}.get(Admission(node.admission))


def _live_seats() -> Any:
    return Seat.objects.filter(released_at__isnull=True)


def _loads() -> Any:
    rows = Placement.objects.filter(released_at__isnull=True).values("node").order_by()
    return rows.annotate(launches=Count("pk"), cpus_used=Sum("cpus"), memory_used=Sum("memory_bytes"))


def _node(node: Node, devices: tuple[DeviceView, ...], load: Mapping[str, Any]) -> NodeView:
    return NodeView(
        id=str(node.pk),
        name=node.name,
        devices=devices,
        cpus=int(node.facts.get("cpu_count", 0)),
        cpus_used=load.get("cpus_used", 0),
        memory_bytes=int(node.facts.get("memory_bytes", 0)),
        memory_used_bytes=load.get("memory_used", 0),
        launches=load.get("launches", 0),
        address=node.address,
        closed=closed_of(node),
    )


def _waiting(row: Mapping[str, Any]) -> WaitingJob:
    return WaitingJob(
        id=row["pk"],
        owner=row["owner_id"],
        team=row["team_id"],
        need=need_of(row["spec"], row["purpose"]),
        queued_at=row["queued_at"].timestamp(),
        priority=row["priority"],
        avoid=frozenset(row["avoid_nodes"]),
        is_counted=row["purpose"] == Job.Purpose.TRAIN,
    )


def _running() -> list[RunningJob]:
    """Active jobs, and jobs that are over but whose processes still hold devices."""
    by_job = _live_seats().values_list("placement__attempt__job")
    held = dict(by_job.annotate(total=Sum("thousandths")).order_by())
    rows = Job.objects.filter(Q(state__in=ACTIVE) | Q(pk__in=held)).exclude(state=JobState.QUEUED)
    return [
        RunningJob(pk, owner, team, -(-held.get(pk, 0) // WHOLE), purpose == Job.Purpose.TRAIN)
        for pk, owner, team, purpose in rows.values_list("pk", "owner_id", "team_id", "purpose")
    ]


def _ceilings(waiting: Iterable[WaitingJob]) -> dict[Account, Ceiling]:
    jobs = [job for job in waiting if job.is_counted]
    persons = limits_of_users(job.owner for job in jobs)
    teams = limits_of_teams(job.team for job in jobs if job.team is not None)
    found: dict[Account, Ceiling] = {("person", pk): _ceiling(limits) for pk, limits in persons.items()}
    return found | {("team", pk): _ceiling(limits) for pk, limits in teams.items()}


def _ceiling(limits: Limits) -> Ceiling:
    return Ceiling(devices=limits.devices, jobs=limits.running_jobs)
