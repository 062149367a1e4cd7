"""What happens because time passes: the master looks each tick. Every look is safe to repeat."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.models import Attempt, Job, Placement
from jobs.services.limit import limit_seconds, used_seconds
from jobs.services.placements import OVER, ask_to_stop, avoid_nodes, conclude_if_over
from jobs.services.transition import lock_job
from jobs.states import AttemptState, JobState, PlacementState, StopReason
from nodes.states import Admission

LIMIT_SLACK_SECONDS = 15.0  # the node's own supervisor ends it first, and knows more
# What an inspection has: its spec says neither.
DEFAULT_JOIN_SECONDS = 120
DEFAULT_GRACE_SECONDS = 30
_PENDING = (PlacementState.ORDERED, PlacementState.ACCEPTED)


def stop_late_joiners(*, now: datetime | None = None) -> int:
    """A gang whose start somebody holds up beyond the join limit is stopped, and the late node is named."""
    moment = now or timezone.now()
    return sum(_stop_if_late(attempt, moment) for attempt in _open_attempts(JobState.STARTING))


def stop_overdue(*, now: datetime | None = None) -> int:
    """Jobs past their limit whose nodes have not ended them by themselves."""
    moment = now or timezone.now()
    return sum(_stop_if_overdue(attempt, moment) for attempt in _open_attempts(JobState.RUNNING))


def stop_stragglers(*, now: datetime | None = None) -> int:
    """When part of a gang has ended well, the rest gets a grace time; then it is stopped and named."""
    moment = now or timezone.now()
    return sum(_stop_if_straggling(attempt, moment) for attempt in _open_attempts(JobState.RUNNING))


def conclude_without_tails() -> int:
    """Attempts that are over but whose nodes still owe the tails of logs and series are not waited for without end."""
    going = Placement.objects.exclude(state__in=OVER).values("attempt")
    rows = Attempt.objects.filter(state=AttemptState.OPEN, placements__ended_at__isnull=False).exclude(pk__in=going)
    return sum(_conclude(attempt) for attempt in rows.distinct())


def move_from_draining_nodes() -> int:
    """Jobs on nodes that are being emptied are asked for a checkpoint and go back to the queue."""
    busy = Placement.objects.filter(node__admission=Admission.DRAINING).exclude(state__in=OVER)
    jobs = Job.objects.filter(pk__in=busy.values("attempt__job"), state__in=(JobState.STARTING, JobState.RUNNING))
    return sum(_drain(pk) for pk in jobs.values_list("pk", flat=True))


def _open_attempts(state: JobState) -> Iterable[Attempt]:
    rows = Attempt.objects.filter(state=AttemptState.OPEN, job__state=state).select_related("job")
    return rows.prefetch_related("placements__node").order_by("pk")


def _stop_if_late(attempt: Attempt, now: datetime) -> bool:
    limit = timedelta(seconds=attempt.job.spec.get("join_timeout_seconds", DEFAULT_JOIN_SECONDS))
    placements = list(attempt.placements.all())
    behind = [p for p in placements if p.state in _PENDING] or [
        p for p in placements if p.state == PlacementState.READY
    ]
    late = [placement for placement in behind if now - placement.moved_at > limit]
    if not late:
        return False
    names = ", ".join(placement.node.name for placement in late)
    told = {"names": names, "seconds": int(limit.total_seconds()), "doing": late[0].note or _state_text(late[0])}
    text = _("%(names)s made no progress within the join limit of %(seconds)d s (%(doing)s).") % told
    with transaction.atomic():
        job = lock_job(attempt.job_id)
        if job.state != JobState.STARTING or not _is_open(attempt):
            return False
        avoid_nodes(job, [str(placement.node_id) for placement in late])
        ask_to_stop(job, StopReason.JOIN_TIMEOUT, text)
    return True


def _state_text(placement: Placement) -> str:
    return {
        PlacementState.ORDERED: _("has not taken the order"),
        PlacementState.ACCEPTED: _("was getting ready"),
    }.get(PlacementState(placement.state), _("was ready but did not start"))


def _stop_if_overdue(attempt: Attempt, now: datetime) -> bool:
    limit = limit_seconds(attempt.job)
    if limit is None or used_seconds(attempt.job, now=now) < limit + LIMIT_SLACK_SECONDS:
        return False
    text = _("It ran for its limit of %(minutes)g minutes.") % {"minutes": round(limit / 60, 2)}
    return _stop(attempt.job_id, StopReason.TIME_LIMIT, text, attempt)


def _stop_if_straggling(attempt: Attempt, now: datetime) -> bool:
    placements = list(attempt.placements.all())
    ended = [placement.ended_at for placement in placements if placement.state in OVER and placement.ended_at]
    going = [placement.node.name for placement in placements if placement.state not in OVER]
    grace = timedelta(seconds=attempt.job.spec.get("grace_seconds", DEFAULT_GRACE_SECONDS))
    if not ended or not going or now - max(ended) <= grace:
        return False
    told = {"names": ", ".join(going), "seconds": int(grace.total_seconds())}
    text = _("%(names)s had not ended %(seconds)d s after the others and was stopped.") % told
    return _stop(attempt.job_id, StopReason.SCRIPT_ERROR, text, attempt)


def _drain(job_id: int) -> bool:
    return _stop(job_id, StopReason.NODE_DRAINED, _("A node of it is being drained; it moves elsewhere."))


def _conclude(attempt: Attempt) -> bool:
    with transaction.atomic():
        job = lock_job(attempt.job_id)
        if not _is_open(attempt):
            return False
        conclude_if_over(job, attempt)
    return not _is_open(attempt)


def _is_open(attempt: Attempt) -> bool:
    """Under the job's lock: what was seen before it may have been an attempt that has ended since."""
    return Attempt.objects.filter(pk=attempt.pk, state=AttemptState.OPEN).exists()


def _stop(job_id: int, reason: StopReason, text: str, attempt: Attempt | None = None) -> bool:
    with transaction.atomic():
        job = lock_job(job_id)
        if job.state not in (JobState.STARTING, JobState.RUNNING) or not (attempt is None or _is_open(attempt)):
            return False
        ask_to_stop(job, reason, text)
    return True
