"""The policy: which waiting jobs start now and where, and why each of the others waits. Pure.

Order: the portal's own work, then higher priority, then longer waiting (`queued_at`), then lower id. Each job is looked
at once, in this order, and starts when its owner and team have room under their ceilings and the whole gang fits.
A job that does not fit does not block those behind it, with one exception: **the first job in line that is blocked by
room alone** (not by a ceiling) and has waited `hold_after_seconds` or more has its devices held. On the nodes that are
nearest to having what it needs, the free devices it would use are out of reach for everybody behind it; so each device
that becomes free there brings it closer, and later jobs use only what it would not need. There is one hold at a time.

Same snapshot, same plan, whatever the order of its tuples.
"""

from __future__ import annotations

from jobs.scheduler.explain import Cluster
from jobs.scheduler.room import Room
from jobs.scheduler.use import Use
from jobs.scheduler.values import Explanation, NodeSeats, Plan, Snapshot, Start, WaitingJob


def plan(snapshot: Snapshot) -> Plan:
    pass_ = _Pass(snapshot)
    for job in order_of(snapshot):
        pass_.consider(job)
    return Plan(tuple(pass_.starts), tuple(pass_.explanations))


def order_of(snapshot: Snapshot) -> list[WaitingJob]:
    return sorted(snapshot.waiting, key=lambda job: (job.is_counted, -job.priority, job.queued_at, job.id))


class _Pass:
    def __init__(self, snapshot: Snapshot) -> None:
        self.starts: list[Start] = []
        self.explanations: list[Explanation] = []
        self._snapshot = snapshot
        self._cluster = Cluster(snapshot.nodes)
        self._room = Room(node for node in snapshot.nodes if node.closed is None)
        self._use = Use(snapshot)
        self._position = 0
        self._held_for: int | None = None
        self._unheld: Room | None = None  # how the room would look without the hold, to explain it
        self._has_first = False

    def consider(self, job: WaitingJob) -> None:
        obstacle = self._use.obstacle(job)
        seats = None if obstacle else self._room.fit(job.need, job.avoid)
        if seats is not None:
            self._start(job, seats)
            return
        position = self._next_position(job)
        if obstacle is not None:
            self.explanations.append(self._cluster.explain_quota(job, position, obstacle))
            return
        unheld = self._unheld or self._room
        explanation = self._cluster.explain_room(job, position, room=self._room, unheld=unheld, holder=self._held_for)
        self.explanations.append(explanation)
        if not self._has_first and self._cluster.can_ever_hold(job.need):
            self._has_first = True
            if self._snapshot.now - job.queued_at >= self._snapshot.hold_after_seconds:
                self._hold(job)

    def _start(self, job: WaitingJob, seats: tuple[NodeSeats, ...]) -> None:
        start = Start(job.id, seats)
        self.starts.append(start)
        self._use.add(job)
        self._cluster.note_start(job.need, start.seats)
        self._room.take(job.need, start.seats)
        if self._unheld is not None:
            self._unheld.take(job.need, start.seats)

    def _hold(self, job: WaitingJob) -> None:
        kind, able = self._cluster.home_of(job.need)
        self._unheld = self._room.copy()
        self._room.hold(job.need, self._room.nearest(job.need, able, kind), kind)
        self._held_for = job.id

    def _next_position(self, job: WaitingJob) -> int | None:
        if not job.is_counted:
            return None
        self._position += 1
        return self._position
