"""Checkpoints: offered by a node, its missing files put by ticket, registered, thinned to the newest few.

A placement registers as long as no later attempt has begun to run: what it saved is then still the newest state of the
job. A checkpoint stands in the database only when every file is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from datasets.models import StoredObject
from datasets.services.storage_use import Who, check_room
from datasets.tickets import sign_get, sign_put
from jobs.models import Attempt, Checkpoint, CheckpointObject, Job, Placement
from jobs.services.transition import add_event, lock_job
from jobs.states import OPEN
from nodes.messages import CheckpointAnswer, CheckpointFile, CheckpointOffer
from nodes.models import Node
from portal.errors import Invalid, NotFound, StorageFull

PUT_SECONDS = 3600.0
DEFAULT_KEEP = 3


def offer(node: Node, message: CheckpointOffer) -> CheckpointAnswer:
    """Register it, or say which files are missing, or why it is refused. Safe to repeat."""
    placement = Placement.objects.filter(node=node, token=message.token).select_related("attempt__job__owner").first()
    if placement is None:
        return _refused("unknown token")
    attempt = placement.attempt
    if attempt.checkpoints.filter(step=message.step).exists():
        return CheckpointAnswer(is_registered=True)
    problem = _problem(attempt, message)
    if problem:
        return _refused(problem)
    missing = _missing(message.files)
    try:
        if missing:
            with transaction.atomic():
                check_room(attempt.job.owner, attempt.job.team, _size(message.files))
            return CheckpointAnswer(is_registered=False, missing=missing)
        return _register(attempt, message)
    except StorageFull as error:
        _tell_full(attempt.job, message.step, error)
        return _refused(error.message)


def newest_good(job: Job) -> Checkpoint | None:
    """Where the next attempt begins: the newest checkpoint in storage, else the one that the person chose."""
    return job.checkpoints.filter(is_removed=False).order_by("-step", "-id").first() or job.resume_from


@dataclass(frozen=True)
class CheckpointLink:
    """A file of a checkpoint and the address to fetch it from, good for a few minutes."""

    path: str
    size_bytes: int
    sha256: str
    url: str


def links(checkpoint: Checkpoint) -> list[CheckpointLink]:
    """Raises NotFound when its objects were given back."""
    stored = _stored(checkpoint)
    return [
        CheckpointLink(
            file["path"],
            file["size_bytes"],
            file["sha256"],
            sign_get(stored[file["sha256"]], file_name=file["path"].rsplit("/", 1)[-1]),
        )
        for file in checkpoint.files
    ]


def members(checkpoint: Checkpoint) -> Iterator[tuple[str, StoredObject]]:
    """(path, object) of every file, for a zip of the whole. Raises NotFound when its objects were given back."""
    stored = _stored(checkpoint)
    return ((file["path"], stored[file["sha256"]]) for file in checkpoint.files)


def remove(checkpoint: Checkpoint) -> None:
    """Give its objects back; the row stays as history. In a transaction."""
    CheckpointObject.objects.filter(checkpoint=checkpoint).delete()
    Checkpoint.objects.filter(pk=checkpoint.pk).update(is_removed=True)


def stored_bytes(who: Who, ids: list[int]) -> dict[int, int]:
    """What people's or teams' checkpoints take, for the storage quota."""
    rows = Checkpoint.objects.filter(is_removed=False, **{f"job__{who}__in": ids}).values_list(f"job__{who}")
    return dict(rows.annotate(total=Sum("size_bytes")).order_by())


# --- taking one in ----------------------------------------------------------------------------------------------------


def _refused(why: str) -> CheckpointAnswer:
    return CheckpointAnswer(is_registered=False, refused=why)


def _problem(attempt: Attempt, message: CheckpointOffer) -> str:
    if Attempt.objects.filter(job=attempt.job_id, number__gt=attempt.number, running_at__isnull=False).exists():
        return "superseded: a later attempt has begun to run"
    paths = [file.path for file in message.files]
    if not paths or len(set(paths)) != len(paths) or not all(map(_is_safe, paths)):
        return "its list of files is empty, names a file twice, or leaves the checkpoint's folder"
    return ""


def _is_safe(path: str) -> bool:
    parts = path.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not any(bad in path for bad in ("\\", "\x00", ":"))


def _size(files: list[CheckpointFile]) -> int:
    return sum({file.sha256: file.size_bytes for file in files}.values())


def _missing(files: list[CheckpointFile]) -> dict[str, str]:
    """Addresses to put what is not stored; what is stored is kept from the sweep until the next offer."""
    sizes = {file.sha256: file.size_bytes for file in files}
    known = StoredObject.objects.filter(sha256__in=sizes)
    known.update(used_at=timezone.now())
    have = set(known.values_list("sha256", flat=True))
    return {
        sha256: sign_put(sha256=sha256, max_bytes=size, seconds=PUT_SECONDS)
        for sha256, size in sizes.items()
        if sha256 not in have
    }


def _register(attempt: Attempt, message: CheckpointOffer) -> CheckpointAnswer:
    """Locks as every quota check does: team, person, then the job."""
    size = _size(message.files)
    with transaction.atomic():
        check_room(attempt.job.owner, attempt.job.team, size)
        job = lock_job(attempt.job_id)
        problem = _problem(attempt, message)
        if problem:
            return _refused(problem)
        stored = {row.sha256: row for row in StoredObject.objects.filter(sha256__in=[f.sha256 for f in message.files])}
        wrong = [file.path for file in message.files if stored[file.sha256].size_bytes != file.size_bytes]
        if wrong:
            return _refused(f"{wrong[0]} is not as long as was said")
        checkpoint, is_new = Checkpoint.objects.get_or_create(
            attempt=attempt,
            step=message.step,
            defaults={
                "job": job,
                "files": [file.model_dump() for file in message.files],
                "size_bytes": size,
                "metrics": {
                    name.replace("\x00", "␀"): value for name, value in message.metrics.items() if math.isfinite(value)
                },
            },
        )
        if is_new:
            CheckpointObject.objects.bulk_create(
                CheckpointObject(checkpoint=checkpoint, stored=row) for row in stored.values()
            )
            told = {"checkpoint": checkpoint.pk, "step": message.step}
            event = add_event(job, "checkpoint", _("Checkpoint at step %(step)d.") % told, data=told)
            Checkpoint.objects.filter(pk=checkpoint.pk).update(rev=event.rev)
            _keep_newest(job)
    return CheckpointAnswer(is_registered=True)


def _keep_newest(job: Job) -> None:
    """All but the newest few go, except those that an open job resumes from."""
    policy = job.spec.get("checkpoint") or {}
    keep = int(policy.get("keep") or DEFAULT_KEEP)
    standing = job.checkpoints.filter(is_removed=False).order_by("-step", "-id")
    old = list(standing.values_list("pk", flat=True)[keep:])
    in_use = Q(resume_from__in=old) | Q(attempts__checkpoint__in=old, attempts__state="open")
    busy = Job.objects.filter(in_use, state__in=OPEN)
    used = set(busy.values_list("resume_from", flat=True)) | set(
        Attempt.objects.filter(job__in=busy, state="open").values_list("checkpoint", flat=True)
    )
    for checkpoint in Checkpoint.objects.filter(pk__in=set(old) - used):
        remove(checkpoint)


def _tell_full(job: Job, step: int, error: StorageFull) -> None:
    """Told once per job: it goes on training, but what it saves stays on its node."""
    with transaction.atomic():
        locked = lock_job(job.pk)
        if not locked.events.filter(kind="warning", data__code="checkpoint_refused").exists():
            text = _("The checkpoint at step %(step)d was not stored. %(why)s") % {"step": step, "why": error.message}
            add_event(locked, "warning", text, data={"code": "checkpoint_refused", "step": step})


def _stored(checkpoint: Checkpoint) -> dict[str, StoredObject]:
    if checkpoint.is_removed:
        raise NotFound("checkpoint_removed", _("This checkpoint was removed: only the newest few are kept."))
    rows = StoredObject.objects.filter(pk__in=checkpoint.objects_used.values("stored"))
    found = {row.sha256: row for row in rows}
    lost = [file["path"] for file in checkpoint.files if file["sha256"] not in found]
    if lost:
        raise Invalid("checkpoint_incomplete", _("%(path)s is missing from storage.") % {"path": lost[0]})
    return found
