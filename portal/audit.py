"""Who changed what: rows of the audit log, with the person who did it also where no browser session says so.

Models named in `settings.AUDITLOG_INCLUDE_TRACKING_MODELS` leave rows by themselves whenever they are saved.
`acting(user)` names the person for saves within it (tokens and commands have no session). `record` writes a row by hand
for changes that pass by the models' signals, such as compare-and-set updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Model
from django.db.models.signals import pre_save

_actor: ContextVar[AbstractBaseUser | None] = ContextVar("audit_actor", default=None)


@contextmanager
def acting(user: AbstractBaseUser | None) -> Iterator[None]:
    """Saves within are this person's. Nests, unlike auditlog's own `set_actor`, which leaks a receiver then."""
    before = _actor.set(user)
    try:
        yield
    finally:
        _actor.reset(before)


def record(actor: AbstractBaseUser | None, instance: Model, **changes: tuple[object, object]) -> LogEntry:
    """One row saying that `actor` changed `instance`: record(user, job, state=('running', 'stopping'))."""
    entry: LogEntry = LogEntry.objects.log_create(
        instance,
        force_log=True,
        action=LogEntry.Action.UPDATE,
        changes={name: [str(old), str(new)] for name, (old, new) in changes.items()},
        actor=actor,
    )
    return entry


def mask(_value: str) -> str:
    """For fields whose change is told but never their value, such as password hashes."""
    return "••••"


def _name_actor(instance: LogEntry, **_: Any) -> None:
    actor = _actor.get()
    if instance.actor_id is None and actor is not None:
        instance.actor = actor


def connect() -> None:
    """Called once when the apps are ready."""
    pre_save.connect(_name_actor, sender=LogEntry, dispatch_uid="trainyard_audit_actor")
