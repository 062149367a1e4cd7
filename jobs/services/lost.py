"""What a lost node means for its jobs: their placements there are over, and they move at once with a new token."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from jobs.models import Attempt, Job, Placement
from jobs.services.leader import hold_leadership
from jobs.services.placements import OVER, ask_to_stop, conclude_if_over, lose_placement
from jobs.services.transition import add_event, lock_job
from jobs.states import AttemptState, JobState, StopReason
from nodes.models import Node
from nodes.services.silence import mark_lost
from nodes.states import NodeState


def declare_lost(node_id: UUID, exchanges: int, epoch: int) -> bool:
    """False when it has spoken meanwhile. Raises NotLeading."""
    with transaction.atomic():
        hold_leadership(epoch)
        if not mark_lost(node_id, exchanges):
            return False
    move_from_lost_nodes(epoch)
    return True


def move_from_lost_nodes(epoch: int) -> int:
    """Every placement that is not over on a node that is lost; also those left behind by a master that died midway."""
    left = Placement.objects.filter(node__state=NodeState.LOST).exclude(state__in=OVER)
    pairs = list(left.order_by("pk").values_list("pk", "attempt__job"))
    return sum(_lose(placement_id, job_id, epoch) for placement_id, job_id in pairs)


def _lose(placement_id: int, job_id: int, epoch: int) -> bool:
    with transaction.atomic():
        hold_leadership(epoch)
        job = lock_job(job_id)
        placement = Placement.objects.select_related("attempt", "node").get(pk=placement_id)
        node = Node.objects.get(pk=placement.node_id)
        if placement.state in OVER or node.state != NodeState.LOST:
            return False
        lose_placement(placement)
        text = _("The node %(node)s was lost.") % {"node": node.name}
        add_event(job, "node_lost", text, data={"node": node.name})
        if placement.attempt.state == AttemptState.OPEN:
            _break_gang(job, placement.attempt, text)
    return True


def _break_gang(job: Job, attempt: Attempt, text: str) -> None:
    """The rest of the gang is stopped; with nobody left the job is back in the queue in this very transaction."""
    if attempt.placements.exclude(state__in=OVER).exists():
        if job.state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING):
            ask_to_stop(job, StopReason.NODE_LOST, text)
        return
    conclude_if_over(job, attempt)
