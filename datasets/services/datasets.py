"""What people do to datasets as a whole."""

from __future__ import annotations

from django.db import transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from datasets.models import Dataset
from portal.accounts.models import Team, User
from portal.after_commit import hint
from portal.audit import acting
from portal.errors import Conflict, Forbidden, Invalid, NotFound

NAME_LENGTH = 200
DESCRIPTION_LENGTH = 20_000


def create_dataset(user: User, *, name: str, description: str = "", team: Team | None = None) -> Dataset:
    check_team(user, team)
    with acting(user):
        dataset: Dataset = Dataset.objects.create(
            owner=user, team=team, name=checked_name(name), description=checked_description(description)
        )
    tell(dataset)
    return dataset


def change_dataset(user: User, dataset: Dataset, *, name: str | None = None, description: str | None = None) -> Dataset:
    require_editor(user, dataset)
    if name is not None:
        dataset.name = checked_name(name)
    if description is not None:
        dataset.description = checked_description(description)
    with acting(user):
        dataset.save(update_fields=["name", "description"])
    tell(dataset)
    return dataset


def delete_dataset(user: User, dataset: Dataset) -> None:
    """With all its versions; the bytes go with the next sweep. Refused while jobs refer to a version."""
    require_editor(user, dataset)
    topics = (f"dataset.{dataset.pk}", f"user.{dataset.owner_id}")
    try:
        with acting(user), transaction.atomic():
            dataset.delete()
    except ProtectedError as error:
        names = ", ".join(sorted({str(row) for row in error.protected_objects})[:3])
        raise Conflict(
            "dataset_in_use",
            _("“%(name)s” is used by %(users)s and cannot be deleted. Delete or wait for those first.")
            % {"name": dataset.name, "users": names},
        ) from error
    for topic in topics:
        hint(topic)


def find_dataset(user: User, pk: object) -> Dataset:
    dataset: Dataset = Dataset.objects.get_visible(user, pk)
    return dataset


def require_editor(user: User, dataset: Dataset) -> None:
    if Dataset.objects.editable_by(user).filter(pk=dataset.pk).exists():
        return
    if not Dataset.objects.visible_to(user).filter(pk=dataset.pk).exists():
        raise NotFound("not_found", _("There is no such dataset."))
    raise Forbidden(
        "not_editor",
        _("Only %(owner)s and the team's managers may change “%(name)s”.")
        % {"owner": dataset.owner, "name": dataset.name},
    )


def check_team(user: User, team: Team | None) -> None:
    """A person may give rows only to teams they belong to."""
    if team is None or user.is_staff or user.is_superuser or user.memberships.filter(team=team).exists():
        return
    raise Invalid("unknown_team", _("You are not a member of such a team."), field="team")


def checked_name(name: str) -> str:
    text = name.strip()
    if not text:
        raise Invalid("required", _("Give the dataset a name."), field="name")
    if len(text) > NAME_LENGTH:
        raise Invalid(
            "max_length",
            _("The name has %(count)d characters; %(most)d are allowed.") % {"count": len(text), "most": NAME_LENGTH},
            field="name",
        )
    if "\x00" in text:
        raise Invalid("null_characters_not_allowed", _("The name contains a NUL character."), field="name")
    return text


def checked_description(description: str) -> str:
    text = description.strip()
    if len(text) > DESCRIPTION_LENGTH or "\x00" in text:
        raise Invalid(
            "invalid",
            _("A description has at most %(most)d characters and no NUL.") % {"most": DESCRIPTION_LENGTH},
            field="description",
        )
    return text


def tell(dataset: Dataset) -> None:
    hint(f"dataset.{dataset.pk}")
    hint(f"user.{dataset.owner_id}")
