"""The exchange with a node: its reports become moves, its desired state goes down. Safe to repeat in any order.

Each report is taken in a transaction of its own that holds its job's row; nothing is held over planning or network.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.models import Job, Placement
from jobs.services.desired import desired_state
from jobs.services.placements import (
    OVER,
    accept_late_success,
    are_streams_complete,
    conclude_if_over,
    end_placement,
    open_attempt,
    release_seats,
    wake_nodes,
)
from jobs.services.transition import add_event, lock_job, move
from jobs.states import AttemptState, JobState, PlacementState, can_advance
from nodes.messages import EndCause, Exchange, ExitReport, Phase, PlacementReport, Reply
from nodes.models import Node
from nodes.services.broker_login import login_for
from nodes.services.heartbeat import Heard, hear
from nodes.states import LATE_SECONDS, NodeState
from portal.after_commit import hint
from portal.errors import Forbidden

_PHASES = {
    Phase.ACCEPTED: PlacementState.ACCEPTED,
    Phase.READY: PlacementState.READY,
    Phase.RUNNING: PlacementState.RUNNING,
}
# From its acceptance on, a node names a placement in each exchange until it is closed.
_NAMED_UNTIL_CLOSED = (*_PHASES.values(), PlacementState.ENDED)
MAX_NOTE = 300


def exchange(node: Node, message: Exchange) -> Reply:
    """Raises Forbidden when the message speaks for another node than its token does."""
    if message.node_id != node.pk:
        raise Forbidden("node_id", _("This token belongs to another node: let the agent join again."))
    heard = hear(node.pk, message)
    is_conflict = heard.node.state == NodeState.CONFLICT
    if not heard.is_current and not is_conflict:
        return Reply()
    own = _own_placements(node, message.placements)
    quarantined = [report.token for report in message.placements if report.token not in own]
    closed = [
        report.token for report in message.placements if report.token in own and take_report(own[report.token], report)
    ]
    if not heard.is_current:  # nothing starts, but what runs there goes on, can be stopped and may end
        return desired_state(heard.node, closed=closed, quarantined=quarantined, is_conflict=True)
    if heard.is_in_order and not is_conflict:
        _miss_the_silent(heard, set(own))
    if heard.is_rebooted:
        _release_after_reboot(heard.node)
    reply = desired_state(heard.node, closed=closed, quarantined=quarantined, is_conflict=is_conflict)
    login = login_for(heard.node, message.session)
    needs_facts = message.facts is None and (heard.is_new_session or not heard.node.facts)
    return reply.model_copy(update={"broker": login, "resend_facts": needs_facts})


def take_report(placement: Placement, report: PlacementReport) -> bool:
    """True when the node may forget the placement: its end is acknowledged and its streams are complete."""
    if report.phase is Phase.ENDED:
        return _take_end(placement, report)
    new = _PHASES[report.phase]
    note = report.note[:MAX_NOTE]
    has_news = can_advance(PlacementState(placement.state), new) or note != placement.note
    if has_news or placement.missing_since or report.dropped_bytes != placement.dropped_bytes:
        with transaction.atomic():
            job = lock_job(placement.attempt.job_id)
            _advance(job, _reread(placement), report, new)
    return False


def _own_placements(node: Node, reports: Iterable[PlacementReport]) -> dict[UUID, Placement]:
    """Tokens of other nodes count as unknown."""
    tokens = [report.token for report in reports]
    rows = Placement.objects.filter(node=node, token__in=tokens).select_related("attempt__job", "node")
    return {placement.token: placement for placement in rows}


def _reread(placement: Placement) -> Placement:
    """Under the job's lock."""
    return Placement.objects.select_related("attempt", "node").get(pk=placement.pk)


# --- growing ----------------------------------------------------------------------------------------------------


def _advance(job: Job, placement: Placement, report: PlacementReport, new: PlacementState) -> None:
    changed: dict[str, Any] = {"missing_since": None, "dropped_bytes": report.dropped_bytes}
    note = report.note[:MAX_NOTE]
    advances = can_advance(PlacementState(placement.state), new)
    if advances or note != placement.note:
        changed |= {"note": note, "moved_at": timezone.now()}
    if advances:
        changed["state"] = new
    if report.facts is not None:
        changed["facts"] = report.facts.model_dump(mode="json")
    Placement.objects.filter(pk=placement.pk).update(**changed)
    if note != placement.note or advances:
        hint(f"job.{job.pk}")
    if advances and placement.attempt.state == AttemptState.OPEN:
        _grow(job, placement, new)


def _grow(job: Job, placement: Placement, new: PlacementState) -> None:
    """The gang as a whole: everybody ready means GO, everybody running means that the job runs."""
    if job.state != JobState.STARTING:
        return
    states = set(placement.attempt.placements.values_list("state", flat=True))
    if new is PlacementState.READY and states <= {PlacementState.READY, PlacementState.RUNNING}:
        wake_nodes(job)
    if states <= {PlacementState.RUNNING, PlacementState.ENDED}:
        _begin(job, placement)


def _begin(job: Job, placement: Placement) -> None:
    now = timezone.now()
    placement.attempt.running_at = now
    placement.attempt.save(update_fields=["running_at"])
    move(job, JobState.RUNNING, started_at=job.started_at or now)


# --- ending -----------------------------------------------------------------------------------------------------


def _take_end(placement: Placement, report: PlacementReport) -> bool:
    exit_ = report.exit or ExitReport(cause=EndCause.SUPERVISOR_GONE)
    if placement.is_closed:
        return True
    with transaction.atomic():
        job = lock_job(placement.attempt.job_id)
        row = _reread(placement)
        if row.state not in OVER:
            end_placement(job, row, exit_)
        elif row.exit is None:
            _note_late_end(job, row, exit_)
        elif exit_.processes_gone and row.released_at is None:
            release_seats(row)
        is_complete = are_streams_complete(row, exit_)
        is_closed = exit_.processes_gone and is_complete
        Placement.objects.filter(pk=row.pk).update(is_closed=is_closed, dropped_bytes=report.dropped_bytes)
        attempt = open_attempt(job)
        if is_complete and attempt is not None and attempt.pk == row.attempt_id:
            conclude_if_over(job, attempt)
    return is_closed


def _note_late_end(job: Job, placement: Placement, exit_: ExitReport) -> None:
    """A lost node has come back: how its launch ended is kept, and counts if it was well and still of use."""
    placement.exit = exit_.model_dump(mode="json")
    placement.save(update_fields=["exit"])
    accept_late_success(job, placement.attempt)


def _miss_the_silent(heard: Heard, named: set[UUID]) -> None:
    """What the node accepted and no longer names has lost its folder: after a while it counts as ended and closed."""
    now = timezone.now()
    known = Placement.objects.filter(node=heard.node, is_closed=False, state__in=_NAMED_UNTIL_CLOSED)
    for placement in known.exclude(token__in=named).select_related("attempt", "node"):
        if placement.missing_since is None:
            Placement.objects.filter(pk=placement.pk).update(missing_since=now)
        elif _is_missed_long(placement, now):
            _end_missing(placement)


def _is_missed_long(placement: Placement, now: datetime) -> bool:
    since = placement.missing_since
    return since is not None and now - since > timedelta(seconds=LATE_SECONDS)


def _end_missing(placement: Placement) -> None:
    text = _("The node no longer knows this launch; its folder is gone.")
    with transaction.atomic():
        job = lock_job(placement.attempt.job_id)
        row = _reread(placement)
        if row.state not in OVER:
            end_placement(job, row, ExitReport(cause=EndCause.SUPERVISOR_GONE, message=text))
        Placement.objects.filter(pk=row.pk).update(is_closed=True)


def _release_after_reboot(node: Node) -> None:
    """Processes that could not be ended did not survive the machine's new start."""
    held = Placement.objects.filter(node=node, state__in=OVER, released_at__isnull=True)
    for placement in held.select_related("attempt", "node"):
        with transaction.atomic():
            job = lock_job(placement.attempt.job_id)
            release_seats(placement)
            add_event(job, "warning", _("%(node)s was started anew; its devices are free.") % {"node": node.name})
