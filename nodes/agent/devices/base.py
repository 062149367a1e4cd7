"""What a kind of device must be able to say. One file per maker; a driver that finds nothing answers with none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodes.messages import DeviceReport, DeviceSeat


class Driver(Protocol):
    def report(self) -> list[DeviceReport]:
        """Every device with its figures now; figures it cannot tell are None, a sick device is told as unhealthy."""

    def environment(self, seats: Sequence[DeviceSeat]) -> dict[str, str]:
        """Variables that show a launch these devices and no others of this maker."""


class Devices:
    """All drivers of a node behind one face; indexes are given here, by the order of the drivers' answers."""

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self._drivers = drivers

    def report(self) -> list[DeviceReport]:
        found = [device for driver in self._drivers for device in driver.report()]
        return [device.model_copy(update={"index": index}) for index, device in enumerate(found)]

    def environment(self, seats: Sequence[DeviceSeat]) -> dict[str, str]:
        return {name: value for driver in self._drivers for name, value in driver.environment(seats).items()}
