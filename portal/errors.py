"""The few kinds of refusal that services raise; every face turns them into its own reply.

A refusal tells a person what to do: the field, the value, the limit, the next step.
"""

from __future__ import annotations

from typing import Any


class DomainError(Exception):
    """A refusal with a stable `code`, a sentence for a person and, where there is one, the field it is about."""

    http_status = 400

    def __init__(self, code: str, message: str, *, field: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.facts = facts


class Invalid(DomainError):
    """The wish itself cannot be taken."""


class InvalidFields(DomainError):
    """Several fields are wrong at once; `errors` holds one refusal per field, all of them shown together."""

    def __init__(self, errors: list[DomainError]) -> None:
        super().__init__("invalid", " ".join(error.message for error in errors))
        self.errors = errors


class Forbidden(DomainError):
    """The viewer may see the row but not do this to it."""

    http_status = 403


class NotFound(DomainError):
    """No such row, or one the viewer may not see."""

    http_status = 404


class Conflict(DomainError):
    """The row is not in a state that allows this now."""

    http_status = 409


class OverLimit(DomainError):
    """A quota forbids it: says the limit, the present use and what was asked."""

    http_status = 409


class StorageFull(DomainError):
    """No room: a person's or team's storage quota, or the disk itself."""

    http_status = 507


class Unavailable(DomainError):
    """A part the answer needs is down at the moment; trying again later helps."""

    http_status = 503
