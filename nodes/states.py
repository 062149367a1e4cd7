"""A node's life. Derived from what is recorded, never stored twice. Pure."""

from __future__ import annotations

from enum import StrEnum


class NodeState(StrEnum):
    NEW = "new"  # joined, has not yet exchanged
    ONLINE = "online"
    LATE = "late"  # no exchange for LATE_SECONDS
    LOST = "lost"  # declared by the leader
    CONFLICT = "conflict"  # two sessions claim the same id: nothing starts


class Admission(StrEnum):
    """What an admin lets the node do; apart from whether it is alive."""

    OPEN = "open"
    CORDONED = "cordoned"  # takes nothing new, running work goes on
    DRAINING = "draining"  # takes nothing new, running work is checkpointed and moved


LATE_SECONDS = 15.0
