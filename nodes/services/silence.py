"""Which nodes are late or lost: counted by the leader's own monotonic clock from how their exchanges move.

The clock of silence runs only while the leader's probe of the portal succeeds: when nobody can reach the portal, the
nodes' silence says nothing about the nodes. A new leader begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from nodes.models import Node
from nodes.services.events import add_node_event
from nodes.states import LATE_SECONDS, NodeState
from portal.after_commit import hint

# Those who have never exchanged are expected by nobody; those lost are lost already.
_WATCHED = (NodeState.ONLINE, NodeState.LATE, NodeState.CONFLICT)


@dataclass
class _Silence:
    exchanges: int
    seconds: float = 0.0


@dataclass
class Watch:
    """`late_seconds` is shortened where nodes are declared lost sooner than they would be late."""

    lost_seconds: float
    late_seconds: float = LATE_SECONDS
    _nodes: dict[UUID, _Silence] = field(default_factory=dict)
    _looked_at: float | None = None

    def look(self, exchanges: Mapping[UUID, int], *, now: float, probe_ok: bool) -> tuple[set[UUID], set[UUID]]:
        """(late, lost) among the nodes given, which are those expected to speak. `now` is monotonic seconds."""
        passed = 0.0 if self._looked_at is None or not probe_ok else max(0.0, now - self._looked_at)
        self._looked_at = now
        self._nodes = {
            pk: self._nodes[pk]
            if pk in self._nodes and self._nodes[pk].exchanges == count
            else _Silence(count, -passed)
            for pk, count in exchanges.items()
        }
        for silence in self._nodes.values():
            silence.seconds += passed
        lost = {pk for pk, silence in self._nodes.items() if silence.seconds >= self.lost_seconds}
        late_after = min(self.late_seconds, self.lost_seconds / 2)
        late = {pk for pk, silence in self._nodes.items() if silence.seconds >= late_after} - lost
        return late, lost

    @property
    def longest_silence(self) -> float:
        return max((silence.seconds for silence in self._nodes.values()), default=0.0)


def exchanges_of_expected() -> dict[UUID, int]:
    return dict(Node.objects.filter(state__in=_WATCHED).values_list("pk", "exchanges"))


def mark_late(node_id: UUID, exchanges: int) -> bool:
    """Unless it has spoken meanwhile."""
    quiet = Node.objects.filter(pk=node_id, exchanges=exchanges, state=NodeState.ONLINE)
    with transaction.atomic():
        if not quiet.update(state=NodeState.LATE):
            return False
        add_node_event(node_id, "state", _("Is late: no exchange for a while."))
        hint("master")
    return True


def mark_lost(node_id: UUID, exchanges: int) -> bool:
    """In the caller's transaction, unless it has spoken meanwhile."""
    if not Node.objects.filter(pk=node_id, exchanges=exchanges, state__in=_WATCHED).update(state=NodeState.LOST):
        return False
    add_node_event(node_id, "state", _("Is lost: its jobs are moved."))
    hint("master")
    return True
