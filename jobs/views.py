"""The list of jobs and the page of one."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from pydantic import ValidationError

from jobs.commands import commands_of
from jobs.models import Attempt, Job, JobQuerySet
from jobs.reasons import REASON_WORDS
from jobs.services.stop import cancel_job
from jobs.spec import JobSpec
from jobs.spec_text import write_text
from jobs.states import OPEN, JobState
from portal.accounts.http import SignedInRequest

PAGE_ROWS = 50
TABS = ("curves", "logs", "nodes", "events", "checkpoints", "configuration")
EVENT_ROWS = 200


@login_required
def job_list(request: SignedInRequest) -> HttpResponse:
    """Newest first, by keyset: `before` and `after` are ids, so a page costs the same however far down it is."""
    found = _filtered(request)
    before, after = _number(request, "before"), _number(request, "after")
    if after is not None:
        rows = list(found.filter(pk__gt=after).order_by("pk")[: PAGE_ROWS + 1])[::-1]
        has_newer, has_older = len(rows) > PAGE_ROWS, True
        rows = rows[-PAGE_ROWS:]
    else:
        if before is not None:
            found = found.filter(pk__lt=before)
        rows = list(found.order_by("-pk")[: PAGE_ROWS + 1])
        has_newer, has_older = before is not None, len(rows) > PAGE_ROWS
        rows = rows[:PAGE_ROWS]
    context = {
        "jobs": rows,
        "newer": rows[0].pk if rows and has_newer else None,
        "older": rows[-1].pk if rows and has_older else None,
        "states": [state.value for state in JobState],
        "is_filtered": any(request.GET.get(name) for name in ("state", "owner", "q")),
    }
    template = "jobs/_list.html" if request.headers.get("HX-Request") else "jobs/list.html"
    return render(request, template, context)


def _filtered(request: SignedInRequest) -> JobQuerySet:
    found: JobQuerySet = Job.objects.of_people().visible_to(request.user).for_list()
    state, text = request.GET.get("state", ""), request.GET.get("q", "").replace("\x00", "").strip()
    if state == "open":
        found = found.open()
    elif state in list(JobState):
        found = found.filter(state=state)
    if request.GET.get("owner") == "me":
        found = found.filter(owner=request.user)
    if text:
        words = Q(name__icontains=text) | Q(owner__username__iexact=text)
        found = found.filter(words | Q(pk=int(text)) if text.isdecimal() and len(text) < 18 else words)
    return found


def _number(request: SignedInRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 18 else None


@login_required
def job_page(request: SignedInRequest, pk: int) -> HttpResponse:
    job = _job(request, pk)
    tab = request.GET.get("tab", TABS[0])
    context = {
        **_head(request, job),
        "tab": tab if tab in TABS else TABS[0],
        "spec_yaml": _yaml(job),
        "commands": commands_of(job),
        "ranks": _ranks(job),
    }
    return render(request, "jobs/job.html", context)


@login_required
def job_moving(request: SignedInRequest, pk: int) -> HttpResponse:
    """The moving parts of a job's page that are text: header, events, checkpoints, placements."""
    return render(request, "jobs/_moving.html", _head(request, _job(request, pk)))


def _job(request: SignedInRequest, pk: int) -> Any:
    return (
        Job.objects.of_people()
        .select_related("owner", "team", "version__dataset", "ended_by")
        .get_visible(request.user, pk)
    )


def _head(request: SignedInRequest, job: Job) -> dict[str, Any]:
    attempts = list(job.attempts.prefetch_related("placements__node", "placements__seats__device"))
    checkpoints = list(job.checkpoints.select_related("attempt"))
    kinds = {seat.device.kind for row in attempts for placed in row.placements.all() for seat in placed.seats.all()}
    return {
        "job": job,
        "is_open": job.state in OPEN,
        "may_edit": Job.objects.editable_by(request.user).filter(pk=job.pk).exists(),
        "strategy": job.spec.get("strategy", ""),
        "attempts": attempts,
        "attempt": attempts[-1] if attempts else None,
        "events": list(job.events.select_related("actor").order_by("-id")[:EVENT_ROWS]),
        "checkpoints": checkpoints,
        "newest_checkpoint": next((found for found in checkpoints if not found.is_removed), None),
        "kinds": ", ".join(sorted(kinds)),
        "reason_word": REASON_WORDS.get(job.reason or job.stop_reason, ""),
        "time_left": _seconds_left(job, attempts[-1] if attempts else None),
    }


def _seconds_left(job: Job, attempt: Attempt | None) -> float | None:
    """By the pace of the present attempt, when there is enough of it to tell."""
    if job.state != JobState.RUNNING or not job.progress or attempt is None or attempt.running_at is None:
        return None
    if attempt.resume_step is not None or job.progress < 0.01:  # part of the progress was made before
        return None
    spent = (timezone.now() - attempt.running_at).total_seconds()
    return spent * (1 - job.progress) / job.progress


def _yaml(job: Job) -> str:
    try:
        return write_text(JobSpec.model_validate(job.spec))
    except ValidationError:
        return json.dumps(job.spec, indent=2, ensure_ascii=False)


def _ranks(job: Job) -> list[int]:
    roles = job.spec.get("roles") or [{}]
    size = job.node_count * max(1, int(roles[0].get("devices_per_node", 1) or 1))
    return list(range(size))


@login_required
@require_POST
def cancel(request: SignedInRequest, pk: int) -> HttpResponse:
    job = _job(request, pk)
    cancel_job(request.user, job)
    messages.success(request, _("'%(name)s' is being cancelled.") % {"name": job.name})
    return redirect("job", pk=pk)
