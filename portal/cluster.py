"""The cluster as a viewer may see it: every node and device, and the jobs on them as far as they are visible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.models import Job, Placement, Seat
from jobs.states import JobState
from nodes.models import Device, Node
from nodes.states import Admission, NodeState
from portal.accounts.models import User

CELL_HEIGHT = 20  # of a device's cell in the grid, in the picture's own units


@dataclass(frozen=True)
class Holder:
    """Who uses a device. A stranger's job shows its owner's name only: no link, no job name."""

    owner: str
    is_mine: bool
    job_id: int | None
    job_name: str


@dataclass
class DeviceCell:
    device: Device
    holder: Holder | None

    @property
    def utilisation(self) -> float | None:
        value = self.device.usage.get("utilisation") if isinstance(self.device.usage, dict) else None
        return float(value) if isinstance(value, (int, float)) else None

    @property
    def fill(self) -> int:
        """Height of the cell's filling."""
        return round(min(1.0, max(0.0, self.utilisation or 0.0)) * CELL_HEIGHT)

    @property
    def top(self) -> int:
        return CELL_HEIGHT - self.fill

    @property
    def use(self) -> str:
        if not self.device.is_present:
            return "gone"
        if not self.device.is_healthy:
            return "trouble"
        if self.holder is None:
            return "free"
        return "mine" if self.holder.is_mine else "other"

    @property
    def memory_used_bytes(self) -> int | None:
        return self.device.usage.get("memory_used_bytes")

    @property
    def temperature_celsius(self) -> float | None:
        return self.device.usage.get("temperature_celsius")


@dataclass
class NodeCard:
    node: Node
    cells: list[DeviceCell] = field(default_factory=list)

    @property
    def cpu(self) -> float | None:
        return self._usage("cpu")

    @property
    def memory_used_bytes(self) -> float | None:
        return self._usage("memory_used_bytes")

    @property
    def memory_bytes(self) -> int | None:
        return self.node.facts.get("memory_bytes")

    @property
    def agent_memory_bytes(self) -> float | None:
        return self._usage("agent_memory_bytes")

    @property
    def used(self) -> int:
        return sum(cell.holder is not None for cell in self.cells)

    @property
    def is_fresh(self) -> bool:
        """Whether the numbers are of now: those of a silent node are shown as old ones."""
        return self.node.state == NodeState.ONLINE

    @property
    def kinds(self) -> str:
        return ", ".join(sorted({cell.device.kind for cell in self.cells}))

    def _usage(self, name: str) -> float | None:
        value = self.node.usage.get(name)
        return float(value) if isinstance(value, (int, float)) else None


def overview(user: User) -> dict[str, Any]:
    found = cards(Node.objects.prefetch_related("devices"), user)
    cells = [cell for card in found for cell in card.cells if cell.device.is_present]
    return {
        "cards": found,
        "device_count": len(cells),
        "used_count": sum(cell.holder is not None for cell in cells),
        "free_count": sum(
            cell.use == "free" and card.is_fresh and card.node.admission == Admission.OPEN
            for card in found
            for cell in card.cells
        ),
        "trouble_count": sum(not card.is_fresh for card in found) + sum(cell.use == "trouble" for cell in cells),
        "is_big": len(cells) > 64 or len(found) > 12,
    }


def cards(nodes: Iterable[Node], user: User) -> list[NodeCard]:
    nodes = list(nodes)
    holders = _holders(user)
    return [
        NodeCard(
            node,
            [DeviceCell(device, holders.get(device.pk)) for device in node.devices.all() if device.is_present],
        )
        for node in nodes
    ]


def _holders(user: User) -> dict[int, Holder]:
    live = Seat.objects.filter(released_at__isnull=True).values_list(
        "device_id",
        "placement__attempt__job_id",
        "placement__attempt__job__name",
        "placement__attempt__job__owner_id",
        "placement__attempt__job__owner__username",
    )
    visible = set(Job.objects.visible_to(user).open().values_list("pk", flat=True))
    return {
        device: Holder(
            owner=owner,
            is_mine=owner_id == user.pk,
            job_id=job if job in visible else None,
            job_name=name if job in visible else "",
        )
        for device, job, name, owner_id, owner in live
    }


def queue(user: User, rows: int) -> dict[str, Any]:
    """The whole queue in its order; what strangers wait for is shown without a name."""
    waiting = Job.objects.of_people().filter(state=JobState.QUEUED)
    visible = set(waiting.visible_to(user).values_list("pk", flat=True))
    shown = waiting.for_list().order_by("position", "-priority", "queued_at", "pk")[:rows]
    return {
        "queue": [{"job": job, "is_visible": job.pk in visible} for job in shown],
        "queue_count": waiting.count(),
        "oldest_wait": _age(waiting.order_by("queued_at").values_list("queued_at", flat=True).first()),
    }


def _age(when: datetime | None) -> float | None:
    return None if when is None else (timezone.now() - when).total_seconds()


def placements_on(node: Node, user: User) -> list[dict[str, Any]]:
    """The newest placements of jobs the viewer may see, with their devices."""
    rows = (
        Placement.objects.filter(node=node, attempt__job__in=Job.objects.visible_to(user))
        .select_related("attempt__job__owner")
        .prefetch_related("seats__device")
        .order_by("-pk")[:20]
    )
    by_pk: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        by_pk[row.pk] = [f"{seat.device.kind} {seat.device.index}" for seat in row.seats.all()]
    return [{"placement": row, "devices": by_pk[row.pk]} for row in rows]
