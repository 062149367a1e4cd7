"""The free room of one pass: which seats a gang would get, taking and holding them. Mutable, local to `plan`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jobs.scheduler.values import WHOLE, DeviceView, Need, NodeSeats, NodeView


@dataclass
class _Node:
    view: NodeView
    free: dict[str, list[DeviceView]]  # by kind, whole free devices by index
    cpus: int
    memory_bytes: int
    launches: int


class Room:
    """Nodes that are open, with what is free on them."""

    def __init__(self, nodes: Iterable[NodeView], *, is_empty: bool = False) -> None:
        """`is_empty` looks at the cluster as if nothing ran on it."""
        self._nodes = {view.id: _open(view, is_empty=is_empty) for view in sorted(nodes, key=lambda view: view.id)}

    def fit(self, need: Need, avoid: frozenset[str] = frozenset()) -> tuple[NodeSeats, ...] | None:
        """Seats for the whole gang by node rank, or None. Avoided nodes only help out when the others do not do.

        Ranks follow the nodes' addresses as text: torchrun's rendezvous numbers its members that way.
        """
        for kind in self.kinds(need):
            able = [node for node in self._nodes.values() if self._holds(node, need, kind)]
            able.sort(key=lambda node: self._preference(node, need, kind, avoid))
            if len(able) >= need.nodes:
                chosen = sorted(able[: need.nodes], key=lambda node: (node.view.address, node.view.id))
                return tuple(NodeSeats(node.view.id, _first(node, need, kind)) for node in chosen)
        return None

    def take(self, need: Need, seats: Iterable[NodeSeats]) -> None:
        for seat in seats:
            node = self._nodes[seat.node]
            for kind, devices in node.free.items():
                node.free[kind] = [device for device in devices if device.id not in seat.devices]
            node.cpus -= need.cpus
            node.memory_bytes -= need.memory_bytes
            node.launches += 1

    def hold(self, need: Need, nodes: Iterable[str], kind: str) -> None:
        """Set aside what is free of the need on these nodes, so that nobody behind takes it."""
        for name in nodes:
            node = self._nodes[name]
            node.free[kind] = node.free.get(kind, [])[need.devices_per_node :]
            node.cpus -= min(need.cpus, max(0, node.cpus))
            node.memory_bytes -= min(need.memory_bytes, max(0, node.memory_bytes))

    def nearest(self, need: Need, able: frozenset[str], kind: str) -> list[str]:
        """The `need.nodes` of the able nodes that have most of the need free already; lowest id on ties."""
        ranked = sorted(able & self._nodes.keys(), key=lambda name: (-len(self._nodes[name].free.get(kind, [])), name))
        return ranked[: need.nodes]

    def copy(self) -> Room:
        twin = Room(())
        twin._nodes = {
            name: replace(node, free={kind: list(devices) for kind, devices in node.free.items()})
            for name, node in self._nodes.items()
        }
        return twin

    def able(self, need: Need, kind: str | None = None) -> list[str]:
        """Ids of nodes that could hold one node's part."""
        kinds = [kind] if kind is not None else self.kinds(need)
        return [name for name, node in self._nodes.items() if any(self._holds(node, need, k) for k in kinds)]

    def free_devices(self, kind: str | None) -> int:
        return sum(len(d) for node in self._nodes.values() for k, d in node.free.items() if kind in (None, k))

    def largest(self, kind: str | None) -> int:
        counts = (len(d) for node in self._nodes.values() for k, d in node.free.items() if kind in (None, k))
        return max(counts, default=0)

    def kinds(self, need: Need) -> list[str]:
        """Accelerators before CPU slots, then by name; a need without devices has one nameless kind."""
        if need.devices_per_node == 0:
            return [""]
        present = {kind for node in self._nodes.values() for kind in node.free}
        if need.kind is not None:
            return [need.kind] if need.kind in present else []
        return sorted(present, key=lambda kind: (kind == "cpu", kind))

    @staticmethod
    def _holds(node: _Node, need: Need, kind: str) -> bool:
        has_devices = len(node.free.get(kind, [])) >= need.devices_per_node
        has_cpus = need.cpus == 0 or node.view.cpus == 0 or node.cpus >= need.cpus
        has_memory = need.memory_bytes == 0 or node.view.memory_bytes == 0 or node.memory_bytes >= need.memory_bytes
        return has_devices and has_cpus and has_memory

    @staticmethod
    def _preference(node: _Node, need: Need, kind: str, avoid: frozenset[str]) -> tuple[bool, int, str]:
        """Best fit (fewest devices left over); without devices the least loaded node."""
        name = node.view.id
        if need.devices_per_node == 0:
            return name in avoid, node.launches, name
        return name in avoid, len(node.free[kind]), name


def _open(view: NodeView, *, is_empty: bool) -> _Node:
    free: dict[str, list[DeviceView]] = {}
    for device in sorted(view.devices, key=lambda device: (device.index, device.id)):
        group = free.setdefault(device.kind, [])
        if is_empty or device.free >= WHOLE:
            group.append(device)
    return _Node(
        view=view,
        free=free,
        cpus=view.cpus if is_empty else view.cpus_free,
        memory_bytes=view.memory_bytes if is_empty else view.memory_free_bytes,
        launches=0 if is_empty else view.launches,
    )


def _first(node: _Node, need: Need, kind: str) -> tuple[int, ...]:
    return tuple(device.id for device in node.free.get(kind, [])[: need.devices_per_node])
