"""A job's life as a table: states, allowed moves, and the reasons that decide where a stop ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = frozenset({JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.STOPPING})
ACTIVE = OPEN - {JobState.QUEUED}
FINAL = frozenset(JobState) - OPEN

MOVES: dict[JobState, frozenset[JobState]] = {
    # straight to SUCCEEDED: a lost node came back with the result before a successor began
    JobState.QUEUED: frozenset({JobState.STARTING, *FINAL}),
    JobState.STARTING: frozenset({JobState.RUNNING, JobState.STOPPING, JobState.QUEUED, *FINAL}),
    JobState.RUNNING: frozenset({JobState.STOPPING, JobState.QUEUED, *FINAL}),
    JobState.STOPPING: frozenset({JobState.QUEUED, *FINAL}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


class AttemptState(StrEnum):
    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"


class PlacementState(StrEnum):
    """How far a node has got; it only moves to the right."""

    ORDERED = "ordered"
    ACCEPTED = "accepted"
    READY = "ready"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class StopReason(StrEnum):
    """Why a job left STARTING, RUNNING or QUEUED. The API documents this closed list."""

    COMPLETED = "completed"  # every rank exited 0
    SCRIPT_ERROR = "script_error"  # a rank exited non-zero or was killed by a signal from inside
    OUT_OF_MEMORY = "out_of_memory"
    DISK_QUOTA = "disk_quota"
    TIME_LIMIT = "time_limit"
    JOIN_TIMEOUT = "join_timeout"  # a node of the gang never became ready
    INPUT_UNAVAILABLE = "input_unavailable"  # inputs could not be fetched or failed their hash
    LAUNCH_FAILED = "launch_failed"  # the launcher itself could not start
    SUPERVISOR_GONE = "supervisor_gone"  # the launch ended and nobody saw how
    LEASE_EXPIRED = "lease_expired"  # the node heard nothing from the portal for a whole lease
    PREEMPTED = "preempted"
    NODE_DRAINED = "node_drained"
    NODE_LOST = "node_lost"
    CANCELLED = "cancelled"
    IMPOSSIBLE = "impossible"  # the cluster or the data changed so that it can never run
    TOO_MANY_ATTEMPTS = "too_many_attempts"


@dataclass(frozen=True)
class Outcome:
    """Where a reason leads: the final state, and whether the job goes back to the queue instead."""

    final: JobState
    again: bool
    severity: int  # while stopping, a reason only rises


_FAIL, _CANCEL, _OK = JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED

OUTCOMES: dict[StopReason, Outcome] = {
    StopReason.PREEMPTED: Outcome(_FAIL, again=True, severity=10),
    StopReason.NODE_DRAINED: Outcome(_FAIL, again=True, severity=12),
    StopReason.JOIN_TIMEOUT: Outcome(_FAIL, again=True, severity=20),
    StopReason.LAUNCH_FAILED: Outcome(_FAIL, again=True, severity=20),
    StopReason.INPUT_UNAVAILABLE: Outcome(_FAIL, again=True, severity=20),
    StopReason.SUPERVISOR_GONE: Outcome(_FAIL, again=True, severity=25),
    StopReason.LEASE_EXPIRED: Outcome(_FAIL, again=True, severity=25),
    StopReason.NODE_LOST: Outcome(_FAIL, again=True, severity=30),
    StopReason.SCRIPT_ERROR: Outcome(_FAIL, again=False, severity=40),
    StopReason.OUT_OF_MEMORY: Outcome(_FAIL, again=False, severity=41),
    StopReason.DISK_QUOTA: Outcome(_FAIL, again=False, severity=42),
    StopReason.TIME_LIMIT: Outcome(_FAIL, again=False, severity=43),
    StopReason.IMPOSSIBLE: Outcome(_FAIL, again=False, severity=44),
    StopReason.TOO_MANY_ATTEMPTS: Outcome(_FAIL, again=False, severity=45),
    StopReason.CANCELLED: Outcome(_CANCEL, again=False, severity=50),
    StopReason.COMPLETED: Outcome(_OK, again=False, severity=60),
}


def can_move(old: JobState, new: JobState) -> bool:
    return new in MOVES[old]


def stronger(old: StopReason | None, new: StopReason) -> StopReason:
    """The reason that stands while stopping: it only rises (preempted < node lost < script error < cancelled)."""
    if old is None or OUTCOMES[new].severity > OUTCOMES[old].severity:
        return new
    return old


def can_advance(old: PlacementState, new: PlacementState) -> bool:
    """A placement's reports may repeat or arrive late; only a step to the right counts."""
    order = list(PlacementState)
    return old not in (PlacementState.ENDED, PlacementState.LOST) and order.index(new) > order.index(old)
