"""What people and teams use now, beside their ceilings. Counted from live rows, so it cannot drift."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from datasets.services.storage_use import Who, used_by
from jobs.models import Job, Seat
from jobs.states import ACTIVE, JobState
from portal.accounts.models import Quota, Team, User

LABELS = {
    "devices": gettext_lazy("devices in use"),
    "running_jobs": gettext_lazy("running jobs"),
    "queued_jobs": gettext_lazy("queued jobs"),
    "storage_bytes": gettext_lazy("storage"),
}


@dataclass(frozen=True)
class Use:
    devices: float = 0.0  # whole devices; shares count as fractions
    running_jobs: int = 0
    queued_jobs: int = 0
    storage_bytes: int = 0


@dataclass(frozen=True)
class Row:
    """One limit beside the present use; `limit` None means unlimited."""

    name: str  # a field of Use, also a limit's name in the API
    used: float
    limit: int | None

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.used > self.limit


def use_of(subject: User | Team) -> Use:
    who: Who = "owner" if isinstance(subject, User) else "team"
    return _uses(who, [subject.pk])[subject.pk]


def uses_of_users(users: Iterable[User]) -> dict[int, Use]:
    return _uses("owner", [user.pk for user in users])


def uses_of_teams(teams: Iterable[Team]) -> dict[int, Use]:
    return _uses("team", [team.pk for team in teams])


def rows_of(quota: Quota | None, use: Use) -> list[Row]:
    """Each limit that has a present use. `max_job_seconds` has none: it bounds each job alone."""
    return [
        Row("devices", use.devices, quota.max_devices if quota else None),
        Row("running_jobs", use.running_jobs, quota.max_running_jobs if quota else None),
        Row("queued_jobs", use.queued_jobs, quota.max_queued_jobs if quota else None),
        Row("storage_bytes", use.storage_bytes, quota.max_storage_bytes if quota else None),
    ]


def _uses(who: Who, ids: list[int]) -> dict[int, Use]:
    """Use of many people (`who` = owner) or teams at once, in a fixed number of queries."""
    devices = _devices(who, ids)
    jobs = _jobs(who, ids)
    storage = used_by(who, ids)
    return {
        pk: Use(
            devices=devices.get(pk, 0) / 1000,
            running_jobs=jobs.get(pk, (0, 0))[0],
            queued_jobs=jobs.get(pk, (0, 0))[1],
            storage_bytes=storage.get(pk, 0),
        )
        for pk in ids
    }


def _devices(who: str, ids: list[int]) -> dict[int, int]:
    path = f"placement__attempt__job__{who}"
    live = Seat.objects.filter(released_at__isnull=True, **{f"{path}__in": ids})
    return dict(live.values_list(path).annotate(total=Sum("thousandths")).order_by())


def _jobs(who: str, ids: list[int]) -> dict[int, tuple[int, int]]:
    rows = (
        Job.objects.of_people()
        .filter(**{f"{who}__in": ids})
        .open()
        .values_list(who)
        .annotate(running=Count("pk", filter=Q(state__in=ACTIVE)), queued=Count("pk", filter=Q(state=JobState.QUEUED)))
        .order_by()
    )
    return {pk: (running, queued) for pk, running, queued in rows}


def contradictions(quota: Quota) -> list[str]:
    """Ceilings below what is in use already. They are allowed: nothing is stopped, but nothing new starts."""
    subject = quota.user or quota.team
    if subject is None:
        return []
    return [
        _("%(who)s uses %(used)s now, above the limit of %(limit)s (%(what)s). Nothing is stopped; nothing new starts.")
        % {"who": subject, "used": _number(row.used), "limit": row.limit, "what": LABELS[row.name]}
        for row in rows_of(quota, use_of(subject))
        if row.is_over
    ]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
