"""Inspections: the portal's own jobs that look at a dataset version's bytes on some node.

`datasets` knows no jobs. The master finds versions that wait, makes a job for each, and hands the answer back.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from datasets.models import Version
from datasets.services.versions import apply_inspection, fail_inspection, mark_inspecting
from datasets.states import VersionState
from jobs.endings import Verdict
from jobs.models import Job
from jobs.services.transition import add_event
from jobs.states import OPEN, JobState, StopReason
from portal.errors import Conflict

MAX_PER_PASS = 50


def make_inspections() -> int:
    """A job for every version that waits for its inspection; returns how many were made."""
    waiting = list(Version.objects.filter(state=VersionState.WAITING).order_by("pk")[:MAX_PER_PASS])
    return sum(_make_inspection(version) for version in waiting)


def find_orphans() -> int:
    """Versions under inspection without a job that would answer go back to waiting (a person may have deleted it)."""
    alive = Job.objects.filter(purpose=Job.Purpose.INSPECT, state__in=OPEN).values("inspects")
    orphans = Version.objects.filter(state=VersionState.INSPECTING).exclude(pk__in=alive)
    return sum(
        fail_inspection(version.pk, version.inspection, _("The inspection was interrupted."), retry=True)
        for version in orphans[:MAX_PER_PASS]
    )


def conclude_inspection(job: Job, verdict: Verdict, exit_: dict[str, Any] | None) -> None:
    """Called in the transaction that ends the job's attempt. A job that waits again has no answer yet."""
    if job.state == JobState.QUEUED or job.inspects_id is None:
        return
    result = (exit_ or {}).get("result")
    if verdict.reason is StopReason.COMPLETED and isinstance(result, dict):
        apply_inspection(job.inspects_id, job.inspection, result)
        return
    text = verdict.text if verdict.reason is not StopReason.COMPLETED else _("The inspection gave no answer.")
    fail_inspection(job.inspects_id, job.inspection, _("The file could not be inspected. %(text)s") % {"text": text})


def _make_inspection(version: Version) -> bool:
    with transaction.atomic():
        try:
            number = mark_inspecting(version)
        except Conflict:
            return False
        row = Version.objects.select_related("dataset").get(pk=version.pk)
        job = Job.objects.create(
            owner_id=row.created_by_id,
            team_id=row.dataset.team_id,
            purpose=Job.Purpose.INSPECT,
            name=_("Inspect %(file)s") % {"file": row.file_name[:180]},
            spec={"kind": "inspect", "file_name": row.file_name, "options": row.options},
            queued_at=timezone.now(),
            inspects=row,
            inspection=number,
        )
        add_event(job, "submitted", _("The file waits to be inspected."))
    return True
