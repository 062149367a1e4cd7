"""Why a job waits: the dominant reason with its numbers. The sentence itself is written where languages are known."""

from __future__ import annotations

from dataclasses import replace

from jobs.scheduler.room import Room
from jobs.scheduler.use import Obstacle
from jobs.scheduler.values import Closed, Explanation, Need, NodeSeats, NodeView, WaitingJob, Why

_ALIVE_SOON = (Closed.NEW,)  # has never exchanged: its devices are not known


class Cluster:
    """The cluster beside the room of the moment: as if empty, and as if all nodes were open."""

    def __init__(self, nodes: tuple[NodeView, ...]) -> None:
        self._nodes = nodes
        self._open = [node for node in nodes if node.closed is None]
        self._empty = Room(self._open, is_empty=True)
        self._empty_all = Room((node for node in nodes if node.closed not in _ALIVE_SOON), is_empty=True)
        self._now_all = Room(node for node in nodes if node.closed not in _ALIVE_SOON)

    def note_start(self, need: Need, seats: tuple[NodeSeats, ...]) -> None:
        self._now_all.take(need, seats)

    def can_ever_hold(self, need: Need) -> bool:
        """With the nodes that are open, once they are empty."""
        return self._empty.fit(need) is not None

    def home_of(self, need: Need) -> tuple[str, frozenset[str]]:
        """The kind, and the ids of open nodes, on which the need could be met one day."""
        for kind in self._empty.kinds(need):
            able = self._empty.able(need, kind)
            if len(able) >= need.nodes:
                return kind, frozenset(able)
        return "", frozenset()

    def explain_quota(self, job: WaitingJob, position: int | None, obstacle: Obstacle) -> Explanation:
        base = self._base(job, obstacle.why, position)
        return replace(base, account=obstacle.account, limit=obstacle.limit, used=obstacle.used)

    def explain_room(
        self, job: WaitingJob, position: int | None, *, room: Room, unheld: Room, holder: int | None
    ) -> Explanation:
        """`unheld` is the room as it would be without anything held for `holder`."""
        why = self._why(job.need, room, unheld)
        base = self._base(job, why, position)
        need = job.need
        kind = need.kind
        names, closed = self._closed_that_help(need) if why is Why.NODES_CLOSED else ((), None)
        return replace(
            base,
            free=unheld.free_devices(kind),
            total=self._empty.free_devices(kind),
            nodes_fitting=len(unheld.able(need)),
            largest=self._largest(why, need, unheld),
            held_for=holder if why is Why.HELD else None,
            names=self._kinds_present() if why is Why.NO_SUCH_KIND else names,
            closed=closed,
        )

    def _why(self, need: Need, room: Room, unheld: Room) -> Why:
        return self._why_never(need) or self._why_not_now(need, room, unheld)

    def _why_never(self, need: Need) -> Why | None:
        if not self._open and not any(node.closed not in _ALIVE_SOON for node in self._nodes):
            return Why.NO_NODES
        if need.kind is not None and need.devices_per_node and need.kind not in self._kinds_present():
            return Why.NO_SUCH_KIND
        if self._empty_all.fit(need) is None:
            return Why.NEVER_FITS
        return None

    def _why_not_now(self, need: Need, room: Room, unheld: Room) -> Why:
        if self._empty.fit(need) is None or self._closed_would_do(need, unheld):
            return Why.NODES_CLOSED
        if unheld.fit(need) is not None and room.fit(need) is None:
            return Why.HELD
        if unheld.fit(_devices_only(need)) is not None:
            return Why.CPU_OR_MEMORY
        free = max((unheld.free_devices(kind) for kind in self._empty.kinds(need)), default=0)
        return Why.FRAGMENTED if free >= need.device_count else Why.FULL

    def _closed_would_do(self, need: Need, unheld: Room) -> bool:
        """Opening a closed node would start it now, and nothing else is in its way."""
        return unheld.fit(need) is None and self._now_all.fit(need) is not None

    def _closed_that_help(self, need: Need) -> tuple[tuple[str, ...], Closed | None]:
        able = set(self._empty_all.able(need))
        nodes = [node for node in self._nodes if node.closed is not None and node.id in able]
        nodes.sort(key=lambda node: node.name)
        return tuple(node.name for node in nodes), nodes[0].closed if nodes else None

    def _kinds_present(self) -> tuple[str, ...]:
        return tuple(sorted({device.kind for node in self._nodes for device in node.devices}))

    def _largest(self, why: Why, need: Need, unheld: Room) -> int:
        return self._empty_all.largest(need.kind) if why is Why.NEVER_FITS else unheld.largest(need.kind)

    @staticmethod
    def _base(job: WaitingJob, why: Why, position: int | None) -> Explanation:
        need = job.need
        return Explanation(
            job=job.id,
            why=why,
            position=position,
            nodes_wanted=need.nodes,
            devices_wanted=need.devices_per_node,
            kind=need.kind or "",
        )


def _devices_only(need: Need) -> Need:
    return replace(need, cpus=0, memory_bytes=0)
