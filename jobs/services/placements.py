"""A placement's life on its node, and what its end means for the job. Callers hold the job's row (`lock_job`).

Seats are released in the same transaction that ends the placement, so nothing can leak between the two.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.endings import Ending, Verdict, is_success, reason_of, sentence_of, verdict_of
from jobs.models import Attempt, Job, Placement, Seat
from jobs.services.inspect import conclude_inspection
from jobs.services.transition import add_event, move
from jobs.states import OUTCOMES, AttemptState, JobState, PlacementState, StopReason, stronger
from nodes.messages import ExitReport
from portal.accounts.models import User
from portal.after_commit import hint, wake

TAIL_SECONDS = 30.0
OVER = (PlacementState.ENDED, PlacementState.LOST)
# Ends that are nobody's failure do not use up the job's attempts.
_UNCOUNTED = (StopReason.PREEMPTED, StopReason.NODE_DRAINED)
INSPECTION_ATTEMPTS = 3
_ATTEMPT_STATES = {
    StopReason.COMPLETED: AttemptState.SUCCEEDED,
    StopReason.NODE_LOST: AttemptState.LOST,
    StopReason.CANCELLED: AttemptState.STOPPED,
    StopReason.PREEMPTED: AttemptState.STOPPED,
    StopReason.NODE_DRAINED: AttemptState.STOPPED,
}


def live_placements(job: Job) -> QuerySet[Placement]:
    """Of every attempt: those whose launch may still have processes."""
    return Placement.objects.filter(attempt__job=job).exclude(state__in=OVER)


def open_attempt(job: Job) -> Attempt | None:
    return job.attempts.filter(state=AttemptState.OPEN).first()


def ask_to_stop(job: Job, reason: StopReason, text: str, *, actor: User | None = None) -> None:
    """Stop an active job for `reason`; while it stops already the reason only rises. Wakes its nodes."""
    if job.state == JobState.STOPPING:
        _raise_reason(job, reason, text, actor)
    else:
        extra: dict[str, Any] = {"ended_by": actor} if actor is not None else {}
        move(job, JobState.STOPPING, reason=reason, text=text, actor=actor, **extra)
    wake_nodes(job)
    attempt = open_attempt(job)
    if attempt is not None:
        conclude_if_over(job, attempt)


def end_placement(job: Job, placement: Placement, exit_: ExitReport) -> None:
    """The node says that it is over. A failure stops the rest of the gang."""
    now = timezone.now()
    _change(placement, state=PlacementState.ENDED, exit=exit_.model_dump(mode="json"), ended_at=now, moved_at=now)
    if exit_.processes_gone:
        release_seats(placement)
    else:
        text = _("Processes on %(node)s could not be ended: its devices stay taken until they are gone.")
        add_event(job, "warning", text % {"node": placement.node.name})
    attempt = placement.attempt
    ending = Ending(placement.node.name, exit_)
    if not is_success(exit_) and not (job.stop_reason and exit_.cause == "stopped"):
        add_event(job, "ended", sentence_of(ending), data={"node": placement.node.name, "cause": exit_.cause})
    if attempt.state != AttemptState.OPEN:
        return
    is_breaking = not is_success(exit_) and job.state in (JobState.STARTING, JobState.RUNNING)
    if is_breaking and attempt.placements.exclude(state__in=OVER).exists():
        ask_to_stop(job, reason_of(exit_), sentence_of(ending))
        return
    conclude_if_over(job, attempt)


def lose_placement(placement: Placement) -> None:
    """Its node is lost: its token may append and report, never start or become the result."""
    now = timezone.now()
    _change(placement, state=PlacementState.LOST, ended_at=now, moved_at=now)
    release_seats(placement)


def conclude_if_over(job: Job, attempt: Attempt) -> None:
    """When the last placement of the open attempt is over, the attempt ends and the job ends or waits again.

    The end is told only after the tails of logs and series are stored, so whoever sees it sees all of them; a node
    that is too slow with them is waited for no longer than `TAIL_SECONDS`. Devices are free before.
    """
    placements = list(attempt.placements.select_related("node").order_by("node_rank"))
    if any(placement.state not in OVER or _is_tail_expected(placement) for placement in placements):
        return
    asked = StopReason(job.stop_reason) if job.stop_reason else None
    endings = [_ending(placement) for placement in placements]
    verdict = verdict_of(endings, asked, job.reason_text if asked else "")
    _close_attempt(attempt, verdict)
    _avoid_the_guilty(job, placements, verdict.reason)
    _move_on(job, attempt, verdict)
    if job.purpose == Job.Purpose.INSPECT:
        conclude_inspection(job, verdict, placements[0].exit if placements else None)


def are_streams_complete(placement: Placement, exit_: ExitReport) -> bool:
    """`exit.streams` holds the final length of each, by 'rank/kind'."""
    acked = {f"{rank}/{kind}": n for rank, kind, n in placement.streams.values_list("rank", "kind", "acked")}
    return all(acked.get(name, 0) >= length for name, length in exit_.streams.items())


def _is_tail_expected(placement: Placement) -> bool:
    if placement.state != PlacementState.ENDED or placement.exit is None or placement.ended_at is None:
        return False
    if timezone.now() - placement.ended_at > timedelta(seconds=TAIL_SECONDS):
        return False
    return not are_streams_complete(placement, ExitReport.model_validate(placement.exit))


def accept_late_success(job: Job, attempt: Attempt) -> bool:
    """A superseded attempt that ended well counts as long as its successor has not begun to run."""
    placements = list(attempt.placements.select_related("node"))
    endings = [_ending(placement, is_late=True) for placement in placements]
    if not all(ending.exit is not None and is_success(ending.exit) for ending in endings):
        return False
    successor = open_attempt(job)
    if job.state not in (JobState.QUEUED, JobState.STARTING) or (successor and successor.running_at):
        return False
    if successor is not None:
        _close_attempt(successor, Verdict(StopReason.CANCELLED, _("The attempt before it ended well after all.")))
    Attempt.objects.filter(pk=attempt.pk).update(state=AttemptState.SUCCEEDED)
    text = _("Attempt %(number)d ended well on a node that had been lost.") % {"number": attempt.number}
    move(job, JobState.SUCCEEDED, reason=StopReason.COMPLETED, text=text)
    if job.purpose == Job.Purpose.INSPECT:
        conclude_inspection(job, Verdict(StopReason.COMPLETED, text), placements[0].exit)
    forget_secrets(job)
    wake_nodes(job)
    return True


def release_seats(placement: Placement) -> None:
    now = timezone.now()
    Seat.objects.filter(placement=placement, released_at__isnull=True).update(released_at=now)
    _change(placement, released_at=now)
    hint("master")
    hint(f"node.{placement.node_id}")
    hint("nodes")


def wake_nodes(job: Job) -> None:
    for node_id in live_placements(job).values_list("node_id", flat=True).distinct().order_by():
        wake(node_id)


def forget_secrets(job: Job) -> None:
    job.secrets.all().delete()


def _raise_reason(job: Job, reason: StopReason, text: str, actor: User | None) -> None:
    old = StopReason(job.stop_reason) if job.stop_reason else None
    if stronger(old, reason) is not reason or reason is old:
        return
    job.stop_reason, job.reason_text = reason, text
    if actor is not None:
        job.ended_by = actor
    job.save(update_fields=["stop_reason", "reason_text", "ended_by"])
    add_event(job, "stop", text, actor=actor, data={"reason": reason})


def _ending(placement: Placement, *, is_late: bool = False) -> Ending:
    is_known = placement.exit is not None and (is_late or placement.state == PlacementState.ENDED)
    return Ending(placement.node.name, ExitReport.model_validate(placement.exit) if is_known else None)


def _close_attempt(attempt: Attempt, verdict: Verdict) -> None:
    attempt.state = _ATTEMPT_STATES.get(verdict.reason, AttemptState.FAILED)
    attempt.reason, attempt.reason_text, attempt.ended_at = verdict.reason, verdict.text, timezone.now()
    attempt.save(update_fields=["state", "reason", "reason_text", "ended_at"])


def _avoid_the_guilty(job: Job, placements: list[Placement], reason: StopReason) -> None:
    """Nodes on which the launch itself went wrong are avoided next time; the master names late ones before."""
    if reason not in (StopReason.LAUNCH_FAILED, StopReason.INPUT_UNAVAILABLE, StopReason.SUPERVISOR_GONE):
        return
    guilty = [
        str(placement.node_id)
        for placement in placements
        if placement.exit and reason_of(ExitReport.model_validate(placement.exit)) is reason
    ]
    avoid_nodes(job, guilty)


def avoid_nodes(job: Job, node_ids: list[str]) -> None:
    job.avoid_nodes = sorted({*job.avoid_nodes, *node_ids})
    Job.objects.filter(pk=job.pk).update(avoid_nodes=job.avoid_nodes)


def _move_on(job: Job, attempt: Attempt, verdict: Verdict) -> None:
    outcome = OUTCOMES[verdict.reason]
    actor = job.ended_by if verdict.reason is StopReason.CANCELLED else None
    if outcome.again and not _is_exhausted(job):
        text = _("%(text)s It waits for another attempt and keeps its place.") % {"text": verdict.text}
        move(job, JobState.QUEUED, reason=verdict.reason, text=text, data={"attempt": attempt.number})
        return
    reason, text = verdict.reason, verdict.text
    if outcome.again:
        told = {"count": attempt.number, "text": verdict.text}
        reason, text = (
            StopReason.TOO_MANY_ATTEMPTS,
            _("Gave up after %(count)d attempts. The last one: %(text)s") % told,
        )
    if verdict.reason is not StopReason.CANCELLED and job.ended_by_id is not None:
        Job.objects.filter(pk=job.pk).update(ended_by=None)
    move(job, OUTCOMES[reason].final, reason=reason, text=text, actor=actor, data={"attempt": attempt.number})
    forget_secrets(job)


def _is_exhausted(job: Job) -> bool:
    most = INSPECTION_ATTEMPTS if job.purpose == Job.Purpose.INSPECT else int(job.spec.get("max_attempts", 5))
    return job.attempts.exclude(reason__in=_UNCOUNTED).count() >= most


def _change(placement: Placement, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(placement, name, value)
    placement.save(update_fields=list(fields))
