"""Slots without an accelerator: a node lends itself in N equal parts, for CPU training, tests and a first look."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from nodes.messages import DeviceReport, DeviceSeat


class CpuSlots:
    def __init__(self, node_id: UUID, count: int) -> None:
        self._ids = [f"CPU-{node_id}-{index}" for index in range(count)]

    def report(self) -> list[DeviceReport]:
        return [DeviceReport(index=index, uuid=uuid, kind="cpu") for index, uuid in enumerate(self._ids)]

    def environment(self, seats: Sequence[DeviceSeat]) -> dict[str, str]:
        return {}
