"""People, teams, quotas and API tokens: every write, with an audit row that names who did it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.limits import lock_accounts
from portal.accounts.models import ApiToken, Membership, Quota, Team, User
from portal.audit import acting
from portal.errors import Conflict, DomainError, Invalid, InvalidFields, NotFound

LIMITS = ("max_devices", "max_running_jobs", "max_queued_jobs", "max_storage_bytes", "max_job_seconds")
MAX_TOKEN_NAME = 100


def create_user(
    actor: User | None,
    *,
    username: str,
    password: str | None,
    email: str = "",
    staff: bool = False,
    superuser: bool = False,
) -> User:
    """A person; `password=None`: one who cannot sign in with a password. Raises Conflict, Invalid, InvalidFields."""
    user = User(username=username, email=email, is_staff=staff or superuser, is_superuser=superuser)
    if User.objects.filter(username=username).exists():
        raise Conflict("taken", _("There is already a user '%(name)s'.") % {"name": username}, field="username")
    if password is None:
        user.set_unusable_password()
    else:
        _check_password(user, password)
        user.set_password(password)
    _validate(user)
    with acting(actor), transaction.atomic():
        user.save()
    return user


def set_password(actor: User | None, user: User, password: str) -> None:
    """A new password; ends the user's sessions. Raises InvalidFields."""
    _check_password(user, password)
    user.set_password(password)
    with acting(actor), transaction.atomic():
        user.save(update_fields=["password"])


def create_team(actor: User | None, *, name: str) -> Team:
    """Raises InvalidFields when the name is taken, empty or too long."""
    team = Team(name=name)
    _validate(team)
    with acting(actor):
        team.save()
    return team


def set_membership(actor: User | None, user: User, team: Team, *, role: str = Membership.Role.MEMBER) -> Membership:
    """Put a person into a team, or change their role there."""
    with acting(actor), transaction.atomic():
        membership = Membership.objects.filter(user=user, team=team).first() or Membership(user=user, team=team)
        membership.role = role
        _validate(membership)
        membership.save()
    return membership


def remove_membership(actor: User | None, user: User, team: Team) -> None:
    """Nothing happens when they are not in it. The person's jobs keep their team."""
    with acting(actor), transaction.atomic():
        for membership in Membership.objects.filter(user=user, team=team):
            membership.delete()


def set_quota(actor: User | None, subject: User | Team, **limits: int | None) -> Quota:
    """Change the named ceilings of one person or team; None lifts one. Unnamed ones stay.

    Takes the account's lock, as submit does, so that no submit counts with half of the change.
    """
    unknown = sorted(set(limits) - set(LIMITS))
    if unknown:
        raise TypeError(f"no such limit: {', '.join(unknown)}")
    with acting(actor), transaction.atomic():
        is_person = isinstance(subject, User)
        lock_accounts([] if is_person else [subject.pk], [subject.pk] if is_person else [])
        owner = {"user": subject} if is_person else {"team": subject}
        quota = Quota.objects.filter(**owner).first() or Quota(**owner)
        for name, value in limits.items():
            setattr(quota, name, value)
        _validate(quota)
        quota.save()
    return quota


def create_token(
    user: User,
    *,
    name: str,
    scope: str = ApiToken.Scope.WRITE,
    expires_at: datetime | None = None,
    actor: User | None = None,
) -> tuple[ApiToken, str]:
    """A token and its text, which nobody can read again: only its hash is kept. Raises InvalidFields."""
    _check_token(name, scope, expires_at)
    lifetime = None if expires_at is None else expires_at - timezone.now()
    with acting(actor or user), transaction.atomic():
        token, text = ApiToken.objects.create(user=user, expiry=lifetime, name=name, scope=scope)
    return token, text


def revoke_token(user: User, key: str) -> None:
    """End one of the user's own tokens, named by its key (the first characters of its text). Raises NotFound."""
    with acting(user), transaction.atomic():
        token = ApiToken.objects.filter(user=user, token_key=key).first()
        if token is None:
            raise NotFound("not_found", _("You have no token '%(key)s'.") % {"key": key})
        token.delete()


def _check_token(name: str, scope: str, expires_at: datetime | None) -> None:
    errors: list[DomainError] = []
    if not name.strip() or len(name) > MAX_TOKEN_NAME or "\x00" in name:
        errors.append(
            Invalid("invalid", _("Name it in 1 to %(most)d characters.") % {"most": MAX_TOKEN_NAME}, field="name")
        )
    if scope not in ApiToken.Scope.values:
        errors.append(
            Invalid("invalid", _("The scope is 'read' or 'write', not '%(s)s'.") % {"s": scope}, field="scope")
        )
    if expires_at is not None and expires_at <= timezone.now() + timedelta(seconds=1):
        errors.append(Invalid("invalid", _("It would have expired already: give a later time."), field="expires_at"))
    if errors:
        raise InvalidFields(errors)


def _check_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid("password", " ".join(error.messages), field="password") from error


def _validate(row: Any) -> None:
    """The model's own checks as refusals beside their fields."""
    try:
        row.full_clean()
    except ValidationError as error:
        raise InvalidFields(
            [
                Invalid("invalid", text, field=None if name == "__all__" else name)
                for name, texts in error.message_dict.items()
                for text in texts
            ]
        ) from error
