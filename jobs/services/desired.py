"""The node's whole desired state, drawn from rows at each exchange. Absence means nothing: a stop is said."""

from __future__ import annotations

import logging
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.models import Attempt, Placement
from jobs.services.orders import launch_of
from jobs.services.placements import ask_to_stop
from jobs.services.transition import lock_job
from jobs.states import AttemptState, JobState, PlacementState, StopReason
from nodes.messages import Go, Launch, LaunchFacts, Reply, StopOrder
from nodes.models import Node
from portal.errors import DomainError

logger = logging.getLogger(__name__)

SOON_SECONDS = 0.2  # a phase changes, or somebody watches
TRAINING_SECONDS = 1.0
SHIP_SOON_SECONDS, SHIP_SECONDS = 0.1, 1.0  # a request costs the portal more than the few points that gather meanwhile
IDLE_SECONDS = 5.0
WATCHED_SECONDS = 10.0
DEFAULT_GRACE_SECONDS = 30.0
_ON_THE_WAY = (PlacementState.ORDERED, PlacementState.ACCEPTED, PlacementState.READY)
_GROWING = (JobState.STARTING, JobState.RUNNING)


def desired_state(node: Node, *, closed: list[UUID], quarantined: list[UUID], is_conflict: bool) -> Reply:
    """`closed` and `quarantined` were found while the node's reports were taken."""
    rows = Placement.objects.filter(node=node, is_closed=False).select_related("attempt__job").order_by("pk")
    placements = list(rows)
    stops = [_stop(placement) for placement in placements if must_stop(placement)]
    growing = [] if is_conflict else [placement for placement in placements if not must_stop(placement)]
    launches = [launch for placement in growing for launch in _launch(placement)]
    return Reply(
        next_after_seconds=_next_after(placements),
        ship_every_seconds=SHIP_SOON_SECONDS if _is_urgent(placements) else SHIP_SECONDS,
        launches=launches,
        gos=_gos(growing),
        stops=stops,
        closed=closed,
        quarantined=quarantined,
        conflict=node.conflict or None,
    )


def must_stop(placement: Placement) -> bool:
    """Its node may not know it yet: then the stop leaves a tombstone, and a late order starts nothing."""
    if placement.state == PlacementState.ENDED:
        return False
    job = placement.attempt.job
    return placement.attempt.state != AttemptState.OPEN or job.state not in _GROWING


def _stop(placement: Placement) -> StopOrder:
    job, attempt = placement.attempt.job, placement.attempt
    reason = job.stop_reason or attempt.reason or StopReason.NODE_LOST
    grace = float(job.spec.get("grace_seconds", DEFAULT_GRACE_SECONDS))
    return StopOrder(token=placement.token, reason=reason, grace_seconds=grace)


def _launch(placement: Placement) -> list[Launch]:
    if placement.state != PlacementState.ORDERED or placement.attempt.job.state != JobState.STARTING:
        return []
    try:
        return [launch_of(placement)]
    except (DomainError, LookupError) as error:
        logger.warning("Job %s cannot be launched: %s", placement.attempt.job_id, error)
        _give_up(placement.attempt.job_id, str(error))
        return []


def _give_up(job_id: int, text: str) -> None:
    """What it needs is gone from the portal itself; another node would not help."""
    with transaction.atomic():
        job = lock_job(job_id)
        if job.state == JobState.STARTING:
            ask_to_stop(job, StopReason.IMPOSSIBLE, _("It cannot be started: %(text)s") % {"text": text})


def _gos(growing: list[Placement]) -> list[Go]:
    """Once the whole gang is ready, everybody learns everybody's facts; repeated until it runs."""
    ready = [placement for placement in growing if placement.state == PlacementState.READY]
    gangs = _gangs({placement.attempt_id for placement in ready})
    return [
        Go(token=placement.token, peers=gangs[placement.attempt_id])
        for placement in ready
        if placement.attempt_id in gangs
    ]


def _gangs(attempts: set[int]) -> dict[int, list[LaunchFacts]]:
    """Facts by node rank of those gangs that are complete."""
    members: dict[int, list[Placement]] = {}
    for placement in Placement.objects.filter(attempt__in=attempts).order_by("attempt", "node_rank"):
        members.setdefault(placement.attempt_id, []).append(placement)
    return {
        attempt: [LaunchFacts.model_validate(placement.facts) for placement in gang]
        for attempt, gang in members.items()
        if all(_is_ready(placement) for placement in gang)
    }


def _is_ready(placement: Placement) -> bool:
    return placement.facts is not None and placement.state in (PlacementState.READY, PlacementState.RUNNING)


def _next_after(placements: list[Placement]) -> float:
    if not placements:
        return _before_late(IDLE_SECONDS)
    return SOON_SECONDS if _is_urgent(placements) else _before_late(TRAINING_SECONDS)


def _is_urgent(placements: list[Placement]) -> bool:
    """A phase changes, or somebody watches."""
    is_changing = any(must_stop(placement) or placement.state in _ON_THE_WAY for placement in placements)
    return is_changing or any(_is_watched(placement.attempt) for placement in placements)


def _before_late(seconds: float) -> float:
    """Often enough that a node is not late between two exchanges, however soon nodes are declared lost here."""
    return float(min(seconds, settings.NODE_LOST_SECONDS / 6))


def _is_watched(attempt: Attempt) -> bool:
    watched_at = attempt.job.watched_at
    return watched_at is not None and timezone.now() - watched_at < timedelta(seconds=WATCHED_SECONDS)
