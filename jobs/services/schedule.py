"""One pass of the scheduler: read a snapshot, decide purely, apply in small transactions under the leader's epoch."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from django.db import IntegrityError, transaction
from django.db.models import Max, Sum
from django.utils.translation import gettext as _

from jobs.launches import ranks_of
from jobs.models import Attempt, Checkpoint, Job, Placement, Seat
from jobs.scheduler.plan import plan
from jobs.scheduler.use import Use
from jobs.scheduler.values import Plan, Snapshot, Start
from jobs.services.leader import hold_leadership
from jobs.services.snapshot import closed_of, load_snapshot, need_of
from jobs.services.transition import add_event, move
from jobs.services.waiting import write_explanations
from jobs.spec import JobSpec
from jobs.states import JobState
from nodes.models import Device, Node
from portal.accounts.limits import lock_accounts
from portal.after_commit import hint, wake
from portal.errors import Conflict

BATCH = 50


def run_pass(epoch: int) -> int:
    """How many jobs were started. Raises NotLeading when another master has taken over."""
    if not Job.objects.filter(state=JobState.QUEUED).exists():
        return 0
    snapshot = load_snapshot()
    decided = plan(snapshot)
    begun = apply_plan(decided, epoch)
    write_explanations(decided.explanations, epoch)
    return begun


def apply_plan(decided: Plan, epoch: int) -> int:
    batches = [decided.starts[at : at + BATCH] for at in range(0, len(decided.starts), BATCH)]
    return sum(_apply_batch(batch, epoch) for batch in batches)


def _apply_batch(starts: Sequence[Start], epoch: int) -> int:
    """Each job whole or not at all; one that no longer fits what is true now is left for the next pass."""
    with transaction.atomic():
        hold_leadership(epoch)
        ids = [start.job for start in starts]
        owners = Job.objects.filter(pk__in=ids).values_list("owner_id", "team_id")
        lock_accounts((team for _owner, team in owners if team is not None), (owner for owner, _team in owners))
        now_true = load_snapshot(only=ids)  # with the locks held: not the whole queue
        use = Use(now_true)
        return sum(_start_if_allowed(start, use, now_true, epoch) for start in starts)


def _start_if_allowed(start: Start, use: Use, now_true: Snapshot, epoch: int) -> bool:
    wish = next((job for job in now_true.waiting if job.id == start.job), None)
    if wish is None or use.obstacle(wish) is not None:
        return False
    try:
        with transaction.atomic():
            _start(start, epoch)
    except (Conflict, IntegrityError):
        return False
    use.add(wish)
    return True


def _start(start: Start, epoch: int) -> None:
    nodes = {str(node.pk): node for node in Node.objects.filter(pk__in=[seat.node for seat in start.seats])}
    if any(seat.node not in nodes or closed_of(nodes[seat.node]) for seat in start.seats):
        raise Conflict("node_closed", "A node has closed meanwhile.")
    _lock_devices([device for seat in start.seats for device in seat.devices])
    job = Job.objects.select_for_update(no_key=True).get(pk=start.job)
    move(job, JobState.STARTING, text=_where(start, nodes))
    attempt = _new_attempt(job, epoch)
    need = need_of(job.spec, job.purpose)
    for rank, seat in enumerate(start.seats):
        placement = Placement.objects.create(
            attempt=attempt,
            node=nodes[seat.node],
            token=uuid4(),
            node_rank=rank,
            ranks=_ranks(job, rank),
            cpus=need.cpus,
            memory_bytes=need.memory_bytes,
        )
        Seat.objects.bulk_create([Seat(placement=placement, device_id=device) for device in seat.devices])
        wake(seat.node)
        hint(f"node.{seat.node}")
    hint("nodes")


def _lock_devices(ids: list[int]) -> None:
    """Whole devices only, so any seat that is still held is one too many."""
    list(Device.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk"))
    taken = Seat.objects.holding().filter(device__in=ids).aggregate(total=Sum("thousandths"))["total"]
    present = Device.objects.filter(pk__in=ids, is_healthy=True, is_present=True).count()
    if taken or present != len(ids):
        raise Conflict("device_taken", "A device was taken or has failed meanwhile.")


def _new_attempt(job: Job, epoch: int) -> Attempt:
    """Resumes from the newest checkpoint in storage, else from the one the person chose."""
    newest = job.checkpoints.filter(is_removed=False).order_by("-step", "-pk").first()
    checkpoint: Checkpoint | None = newest or job.resume_from
    last = job.attempts.aggregate(last=Max("number"))["last"] or 0
    attempt = Attempt.objects.create(
        job=job,
        number=last + 1,
        epoch=epoch,
        checkpoint=checkpoint,
        resume_step=checkpoint.step if checkpoint else None,
    )
    if checkpoint is not None:
        told = {"number": attempt.number, "step": checkpoint.step}
        add_event(job, "resume", _("Attempt %(number)d continues from step %(step)d.") % told, data=told)
    return attempt


def _ranks(job: Job, node_rank: int) -> list[int]:
    if job.purpose != Job.Purpose.TRAIN:
        return [0]
    return ranks_of(JobSpec.model_validate(job.spec), node_rank)


def _where(start: Start, nodes: dict[str, Node]) -> str:
    return _("Starts on %(nodes)s.") % {"nodes": ", ".join(nodes[seat.node].name for seat in start.seats)}
