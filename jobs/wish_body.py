"""The body of a submit or a check, read and checked as far as that needs no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pydantic
from django.utils.translation import gettext as _
from rest_framework.request import Request

from jobs.models import Checkpoint, Job
from jobs.serializers import Around
from jobs.spec import JobSpec, problems_of
from portal.accounts.models import Team, User
from portal.errors import DomainError, Invalid, InvalidFields

MAX_KEY = 200
Model = TypeVar("Model", bound=pydantic.BaseModel)


@dataclass(frozen=True)
class ReadWish:
    spec: JobSpec
    team: Team | None
    secrets: dict[str, str]
    origin: Job | None
    resume_from: Checkpoint | None


def read_wish(request: Request) -> ReadWish:
    """The body, checked as far as that needs no cluster. Raises InvalidFields with everything that is wrong at once."""
    body = request.data
    if not isinstance(body, dict) or "spec" not in body:
        raise InvalidFields([Invalid("required", _("The body is an object with the job below 'spec'."), field="spec")])
    problems: list[DomainError] = []
    spec = _validated(JobSpec, body["spec"], "spec.", problems)
    around = _validated(Around, {name: value for name, value in body.items() if name != "spec"}, "", problems)
    if problems or spec is None or around is None:
        raise InvalidFields(problems)
    return ReadWish(
        spec=spec,
        team=_team(request, around.team),
        secrets=around.secrets,
        origin=_origin(request, around.origin),
        resume_from=_checkpoint(request, around.resume_from),
    )


@contextmanager
def beside_spec() -> Iterator[None]:
    """Services speak of fields of the spec; in the body those are below 'spec'."""
    try:
        yield
    except DomainError as error:
        for each in error.errors if isinstance(error, InvalidFields) else [error]:
            each.field = in_spec(each.field) if each.field else None
        raise


def in_spec(field: str) -> str:
    return f"spec.{field}" if field.split(".", maxsplit=1)[0] in JobSpec.model_fields else field


def _validated(model: type[Model], value: Any, prefix: str, problems: list[DomainError]) -> Model | None:
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        problems += [
            Invalid("invalid", found.message, field=(prefix + found.field).rstrip(".")) for found in problems_of(error)
        ]
        return None


def _team(request: Request, pk: int | None) -> Team | None:
    if pk is None:
        return None
    user = cast("User", request.user)
    teams = Team.objects.all() if user.is_staff or user.is_superuser else Team.objects.filter(members=user)
    team = teams.filter(pk=pk).first()
    if team is None:
        raise InvalidFields([Invalid("unknown", _("You are in no team %(id)d.") % {"id": pk}, field="team")])
    return team


def _origin(request: Request, pk: int | None) -> Job | None:
    job = None if pk is None else Job.objects.visible_to(request.user).filter(pk=pk).first()
    if pk is not None and job is None:
        raise InvalidFields([Invalid("unknown", _("There is no job %(id)d.") % {"id": pk}, field="origin")])
    return job


def _checkpoint(request: Request, pk: int | None) -> Checkpoint | None:
    if pk is None:
        return None
    found = Checkpoint.objects.filter(pk=pk, job__in=Job.objects.visible_to(request.user)).first()
    if found is None:
        raise InvalidFields([Invalid("unknown", _("There is no checkpoint %(id)d.") % {"id": pk}, field="resume_from")])
    return found


def idempotency_key(request: Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > MAX_KEY or not key.isprintable():
        text = _("An Idempotency-Key has at most %(most)d printable characters.") % {"most": MAX_KEY}
        raise Invalid("invalid", text, field="Idempotency-Key")
    return key
