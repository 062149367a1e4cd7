"""A version's life. Every state is written here, by `datasets.states.MOVES`, with a compare-and-set."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from datasets.models import Dataset, StoredObject, Version
from datasets.services.datasets import require_editor, tell
from datasets.services.options import checked_options, relabelled
from datasets.states import MOVES, VersionState
from portal.accounts.models import User
from portal.after_commit import hint
from portal.errors import Conflict

_AFTER = {"accept": VersionState.READY, "question": VersionState.QUESTION, "refuse": VersionState.REFUSED}


def add_version(
    user: User, dataset: Dataset, *, stored: StoredObject, file_name: str, options: dict[str, Any] | None = None
) -> Version:
    """The next version of a dataset, waiting for its inspection."""
    require_editor(user, dataset)
    with transaction.atomic():
        Dataset.objects.select_for_update().get(pk=dataset.pk)  # numbers are given one after the other
        newest = dataset.versions.order_by("-number").values_list("number", flat=True).first() or 0
        version = Version.objects.create(
            dataset=dataset,
            number=newest + 1,
            stored=stored,
            file_name=file_name,
            options=checked_options(options or {}),
            created_by=user,
        )
        _told(version)
    return version


def set_options(user: User, version: Version, **options: Any) -> Version:
    """Change how the file is read; options not named stay, None goes back to guessing.

    The version is inspected again unless what is known already answers (another label among known columns).
    """
    require_editor(user, version.dataset)
    changes = checked_options(options)
    with transaction.atomic():
        row = Version.objects.select_for_update().select_related("dataset").get(pk=version.pk)
        before = row.options
        row.options = {name: value for name, value in (before | changes).items() if value is not None}
        row.save(update_fields=["options"])
        if row.options != before:
            _read_again(row, before)
        _told(row)
    return row


def mark_inspecting(version: Version) -> int:
    """WAITING → INSPECTING; returns the number that the inspection's answer must carry. Raises `Conflict`."""
    with transaction.atomic():
        row = Version.objects.select_for_update().select_related("dataset").get(pk=version.pk)
        row.inspection += 1
        _move(row, VersionState.INSPECTING, "inspection")
    return row.inspection


def apply_inspection(version_id: int, inspection: int, result: dict[str, Any]) -> bool:
    """What an inspection found: {"kind", "decision": "accept" | "question" | "refuse", "facts"}.

    False when it answers an older question (options changed meanwhile) or the version is gone; that is no error.
    """
    decision = _AFTER.get(str(result.get("decision")))
    facts = result.get("facts")
    if decision is None or not isinstance(facts, dict):
        return fail_inspection(version_id, inspection, _("The inspection gave an answer that cannot be read."))
    with transaction.atomic():
        row = _awaited(version_id, inspection)
        if row is None:
            return False
        row.kind = str(result.get("kind", ""))[:20]
        row.facts = facts
        _move(row, decision, "kind", "facts")
    return True


def fail_inspection(version_id: int, inspection: int, text: str, *, retry: bool = False) -> bool:
    """The inspection itself did not come to an end. With `retry` it waits for another node, else it is refused."""
    with transaction.atomic():
        row = _awaited(version_id, inspection)
        if row is None:
            return False
        if retry:
            _move(row, VersionState.WAITING)
        else:
            row.facts = {"problems": [{"code": "inspection_failed", "text": text[:2000]}]}
            _move(row, VersionState.REFUSED, "facts")
    return True


def inspect_again(user: User, version: Version) -> Version:
    """Once more with the same options, say after a node's trouble. Raises `Conflict` when it waits already."""
    require_editor(user, version.dataset)
    with transaction.atomic():
        row = Version.objects.select_for_update().select_related("dataset").get(pk=version.pk)
        _move(row, VersionState.WAITING)
    return row


def _awaited(version_id: int, inspection: int) -> Version | None:
    return (
        Version.objects.select_for_update()
        .select_related("dataset")
        .filter(pk=version_id, inspection=inspection, state=VersionState.INSPECTING)
        .first()
    )


def _read_again(row: Version, before: dict[str, Any]) -> None:
    known = relabelled(before, row.options, row.facts) if row.state == VersionState.READY else None
    if known is not None:
        row.facts = known
        row.save(update_fields=["facts"])
    elif row.state != VersionState.WAITING:
        _move(row, VersionState.WAITING)


def _move(row: Version, state: VersionState, *fields: str) -> None:
    """The only writer of a version's state."""
    old = VersionState(row.state)
    if state not in MOVES[old]:
        raise Conflict(
            "version_state",
            _("Version %(number)d of “%(name)s” is %(old)s and cannot become %(new)s now.")
            % {"number": row.number, "name": row.dataset.name, "old": old, "new": state},
        )
    row.state = state
    changed = {name: getattr(row, name) for name in fields}
    if not Version.objects.filter(pk=row.pk, state=old).update(state=state, **changed):
        raise Conflict("version_state", _("The version changed at the same moment. Look again."))
    _told(row)


def _told(row: Version) -> None:
    tell(row.dataset)
    if row.state == VersionState.WAITING:
        hint("master")  # it makes the inspection
