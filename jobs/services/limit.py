"""How long a job may still run: its own limit and those of its owner and team, over all its attempts."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from jobs.models import Job
from portal.accounts.limits import longest_job_seconds

# A recipe ends well by itself when its minutes are over; from outside it is ended only if it does not.
RECIPE_SLACK_SECONDS = 120.0


def limit_seconds(job: Job) -> float | None:
    """The smallest of what applies; None: no limit."""
    minutes = (job.spec.get("stop") or {}).get("minutes")
    is_recipe = (job.spec.get("code") or {}).get("kind") == "recipe"
    own = float(minutes) * 60 + (RECIPE_SLACK_SECONDS if is_recipe else 0.0) if minutes else None
    ceiling = longest_job_seconds(job.owner_id, job.team_id) if job.purpose == Job.Purpose.TRAIN else None
    return min((value for value in (own, ceiling) if value is not None), default=None)


def remaining_seconds(job: Job, *, now: datetime | None = None) -> float | None:
    """At least one second, so that a node need not understand a limit that has passed already."""
    limit = limit_seconds(job)
    return None if limit is None else max(1.0, limit - used_seconds(job, now=now))


def used_seconds(job: Job, *, now: datetime | None = None) -> float:
    """Time during which its attempts really ran."""
    moment = now or timezone.now()
    attempts = job.attempts.exclude(running_at=None)
    return sum(((a.ended_at or moment) - a.running_at).total_seconds() for a in attempts if a.running_at)
