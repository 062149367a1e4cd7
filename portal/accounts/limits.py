"""What persons and teams may use, and the one order in which their rows are locked.

Use itself is counted from live rows where those rows live; here are only the ceilings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from portal.accounts.models import Quota, Team, User


@dataclass(frozen=True)
class Limits:
    """None means unlimited."""

    devices: int | None = None
    running_jobs: int | None = None
    queued_jobs: int | None = None
    storage_bytes: int | None = None
    job_seconds: int | None = None


UNLIMITED = Limits()


def lock_accounts(teams: Iterable[int], users: Iterable[int]) -> None:
    """Hold these rows until the transaction ends: all teams by id, then all persons by id. Nobody locks them otherwise.

    Whoever counts against a ceiling holds these first, so that two who count at once cannot both take the last place.
    On SQLite a writing transaction excludes all others anyway. `no_key` leaves foreign keys to these rows free.
    """
    list(Team.objects.select_for_update(no_key=True).filter(pk__in=set(teams)).order_by("pk").values_list("pk"))
    list(User.objects.select_for_update(no_key=True).filter(pk__in=set(users)).order_by("pk").values_list("pk"))


def limits_of_users(ids: Iterable[int]) -> dict[int, Limits]:
    """Only those who have a quota; the others are `UNLIMITED`."""
    return {quota.user_id: _limits(quota) for quota in Quota.objects.filter(user__in=set(ids)) if quota.user_id}


def limits_of_teams(ids: Iterable[int]) -> dict[int, Limits]:
    return {quota.team_id: _limits(quota) for quota in Quota.objects.filter(team__in=set(ids)) if quota.team_id}


def limits_of(user_id: int, team_id: int | None) -> tuple[Limits, Limits]:
    """(the person's, the team's); both must have room."""
    person = limits_of_users([user_id]).get(user_id, UNLIMITED)
    team = limits_of_teams([team_id]).get(team_id, UNLIMITED) if team_id is not None else UNLIMITED
    return person, team


def longest_job_seconds(user_id: int, team_id: int | None) -> int | None:
    """The smaller of both ceilings."""
    given = [limits.job_seconds for limits in limits_of(user_id, team_id) if limits.job_seconds is not None]
    return min(given, default=None)


def _limits(quota: Quota) -> Limits:
    return Limits(
        devices=quota.max_devices,
        running_jobs=quota.max_running_jobs,
        queued_jobs=quota.max_queued_jobs,
        storage_bytes=quota.max_storage_bytes,
        job_seconds=quota.max_job_seconds,
    )
