"""The one door through which a job's state changes, and through which its events are written."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.models import Job, JobEvent
from jobs.states import FINAL, JobState, StopReason, can_move
from portal.accounts.models import User
from portal.after_commit import hint
from portal.db import next_revision
from portal.errors import Conflict


def move(
    job: Job,
    new: JobState,
    *,
    reason: StopReason | None = None,
    text: str = "",
    actor: User | None = None,
    data: dict[str, Any] | None = None,
    **fields: Any,
) -> Job:
    """Compare-and-set the state, with its event, in one transaction; `job` is brought up to date.

    `text` is the sentence for a person, `fields` further columns that change with the state.
    Raises Conflict when the table forbids the move or the row is no longer in the state that `job` was read in.
    """
    old = JobState(job.state)
    if not can_move(old, new):
        raise _refusal(old, new)
    changes = {**_columns(new, reason, text), **fields, "state": new}
    with transaction.atomic():
        if not Job.objects.filter(pk=job.pk, state=old).update(**changes):
            raise _refusal(JobState(Job.objects.values_list("state", flat=True).get(pk=job.pk)), new)
        for name, value in changes.items():
            setattr(job, name, value)
        told = {"from": old, "to": new, **({"reason": reason} if reason else {}), **(data or {})}
        add_event(job, "state", text or _label(new), actor=actor, data=told)
        hint("jobs", job.rev)
        hint("master")
    return job


def add_event(
    job: Job, kind: str, text: str, *, actor: User | None = None, data: dict[str, Any] | None = None
) -> JobEvent:
    """A row of the job's history, stamped with the job's next revision."""
    with transaction.atomic():
        job.rev = next_revision("jobs_job", job.pk)
        event = JobEvent.objects.create(job=job, rev=job.rev, kind=kind, text=text, data=data or {}, actor=actor)
        hint(f"job.{job.pk}", job.rev)
    return event


def lock_job(job_id: int) -> Job:
    """The row, held until the transaction ends. Rows that refer to it may be written meanwhile."""
    job: Job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
    return job


def _columns(new: JobState, reason: StopReason | None, text: str) -> dict[str, Any]:
    if new in FINAL:
        told = {"reason": reason or "", "reason_text": text, "ended_at": timezone.now()}
        return {**told, "waiting_text": "", "position": None}
    if new is JobState.QUEUED:  # back in line: why it is there again stays readable
        return {"reason": reason or "", "reason_text": text, "stop_reason": "", "waiting_text": "", "position": None}
    if new is JobState.STARTING:
        return {"waiting_text": "", "position": None, "reason": "", "reason_text": ""}
    if new is JobState.STOPPING:
        return {"stop_reason": reason or "", "reason_text": text}
    return {}


def _label(state: JobState) -> str:
    return {
        JobState.QUEUED: _("Waits in the queue."),
        JobState.STARTING: _("Starts."),
        JobState.RUNNING: _("Runs."),
        JobState.STOPPING: _("Is being stopped."),
        JobState.SUCCEEDED: _("Succeeded."),
        JobState.FAILED: _("Failed."),
        JobState.CANCELLED: _("Was cancelled."),
    }[state]


def _refusal(old: JobState, new: JobState) -> Conflict:
    told = {"old": old.value, "new": new.value}
    return Conflict("job_state", _("The job is %(old)s and cannot become %(new)s now.") % told, **told)
