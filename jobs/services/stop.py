"""Cancelling a job, by a person."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from jobs.models import Job
from jobs.services.placements import ask_to_stop, forget_secrets
from jobs.services.transition import lock_job, move
from jobs.states import FINAL, JobState, StopReason
from portal.accounts.models import User
from portal.audit import record
from portal.errors import Conflict, Forbidden, NotFound


def cancel_job(user: User, job: Job) -> Job:
    """A waiting job is cancelled at once, an active one is stopped first. Cancelling twice is once.

    Raises NotFound, Forbidden (visible, but not theirs to change), Conflict (it is over already).
    """
    if not Job.objects.visible_to(user).filter(pk=job.pk).exists():
        raise NotFound("not_found", _("There is no such job."))
    if not Job.objects.editable_by(user).filter(pk=job.pk).exists():
        raise Forbidden("forbidden", _("Only its owner, a manager of its team or staff may cancel this job."))
    text = _("Cancelled by %(name)s.") % {"name": user.get_username()}
    with transaction.atomic():
        row = lock_job(job.pk)
        old = row.state
        if old == JobState.CANCELLED:
            return row
        if JobState(row.state) in FINAL:
            raise Conflict("job_over", _("The job is over already: it %(state)s.") % {"state": row.state})
        if row.state == JobState.QUEUED:
            move(row, JobState.CANCELLED, reason=StopReason.CANCELLED, text=text, actor=user, ended_by=user)
            forget_secrets(row)
        else:
            ask_to_stop(row, StopReason.CANCELLED, text, actor=user)
        record(user, row, state=(old, row.state), reason=("", StopReason.CANCELLED))
    return row
