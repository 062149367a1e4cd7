"""How many bytes a person or a team stores, counted from rows, so that it cannot drift.

A version counts for its dataset's owner and team; an open upload reserves its whole size for whoever will own the
result. Apps that keep bytes of their own (checkpoints, code) say so once with `also_count`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from datasets.models import Upload, Version
from datasets.states import UploadState
from portal.accounts.limits import lock_accounts
from portal.accounts.models import Quota, Team, User
from portal.errors import StorageFull

Who = Literal["owner", "team"]
Counter = Callable[[Who, list[int]], dict[int, int]]  # (whose ids these are, ids) -> bytes by id

ON_THEIR_WAY = (UploadState.OPEN, UploadState.FINISHING)
_others: list[Counter] = []


def also_count(counter: Counter) -> None:
    """Called once by an app that depends on this one, when apps are ready."""
    if counter not in _others:
        _others.append(counter)


def used_bytes(subject: User | Team) -> int:
    """Everything stored plus everything reserved by uploads on their way."""
    return used_by("owner" if isinstance(subject, User) else "team", [subject.pk])[subject.pk]


def used_by(who: Who, ids: Iterable[int]) -> dict[int, int]:
    """`used_bytes` of many people or teams at once, in a fixed number of queries."""
    wanted = list(ids)
    totals = dict.fromkeys(wanted, 0)
    for counter in (_versions, reserved_by, _code, *_others):
        for pk, count in counter(who, wanted).items():
            totals[pk] += count
    return totals


def reserved_by(who: Who, ids: list[int]) -> dict[int, int]:
    """Bytes that uploads on their way keep free for themselves."""
    return _uploads(who, ids, Q(state__in=ON_THEIR_WAY))


def check_room(owner: User, team: Team | None, size_bytes: int, *, besides: Upload | None = None) -> None:
    """Refuse when person or team would go over. In a transaction; locks teams, then people, like every quota check.

    `besides` is an upload whose own reservation is not counted, because its bytes are the ones asked about.
    """
    lock_accounts([team.pk] if team is not None else [], [owner.pk])
    freed = besides.size_bytes if besides is not None else 0
    if team is not None:
        _check_one(team, size_bytes, freed, _("The team %(name)s") % {"name": team.name})
    _check_one(owner, size_bytes, freed, owner.get_username())


def in_words(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def limit_of(subject: User | Team) -> int | None:
    row = Quota.objects.filter(user=subject) if isinstance(subject, User) else Quota.objects.filter(team=subject)
    return row.values_list("max_storage_bytes", flat=True).first()


def _check_one(subject: User | Team, asked: int, freed: int, name: str) -> None:
    limit = limit_of(subject)
    if limit is None:
        return
    used = used_bytes(subject) - freed
    if used + asked > limit:
        raise StorageFull(
            "storage_quota",
            _(
                "%(name)s may store %(limit)s; %(used)s are in use or reserved, and this needs %(asked)s. "
                "Delete datasets that are no longer needed, or ask an administrator for more room."
            )
            % {"name": name, "limit": in_words(limit), "used": in_words(used), "asked": in_words(asked)},
        )


def _versions(who: Who, ids: list[int]) -> dict[int, int]:
    rows = Version.objects.filter(**{f"dataset__{who}__in": ids}).values_list(f"dataset__{who}")
    return dict(rows.annotate(total=Sum("stored__size_bytes")).order_by())


def _code(who: Who, ids: list[int]) -> dict[int, int]:
    """Code that arrived and was not yet taken by the app that wanted it."""
    return _uploads(who, ids, Q(state=UploadState.DONE, stored__isnull=False))


def _uploads(who: Who, ids: list[int], which: Q) -> dict[int, int]:
    payer = Coalesce(f"dataset__{who}", who) if who == "owner" else F(who)
    rows = Upload.objects.filter(which).annotate(payer=payer).filter(payer__in=ids).values_list("payer")
    return dict(rows.annotate(total=Sum("size_bytes")).order_by())
