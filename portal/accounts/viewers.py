"""Who stands behind a socket: its session cookie or API token, looked up anew for each read and many at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from knox.crypto import hash_token
from knox.settings import CONSTANTS, knox_settings

from portal.accounts.models import ApiToken, User


@dataclass(frozen=True)
class Credentials:
    """What a connection brought along; both empty for nobody."""

    session: str = ""
    token: str = ""


def credentials_of(scope: dict[str, Any]) -> Credentials:
    """From an ASGI scope: `Authorization: Token …` goes before the session cookie."""
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    kind, _, token = headers.get(b"authorization", "").partition(" ")
    if kind:  # its origin was not checked: no cookie counts beside this header
        is_token = kind.lower() == knox_settings.AUTH_HEADER_PREFIX.lower()
        return Credentials(token=token.strip() if is_token else "")
    try:
        cookies = SimpleCookie(headers.get(b"cookie", ""))
    except CookieError:
        return Credentials()
    morsel = cookies.get(settings.SESSION_COOKIE_NAME)
    return Credentials(session=morsel.value if morsel else "")


def users_of(everyone: Iterable[Credentials]) -> dict[Credentials, User]:
    """The active user behind each; whoever is missing is signed out, expired, inactive or nobody."""
    known = set(everyone)
    claims = {**_session_claims(known), **_token_claims(known)}
    users = User.objects.filter(is_active=True).in_bulk({user for user, _ in claims.values()})
    return {
        credentials: users[user]
        for credentials, (user, password_hash) in claims.items()
        if user in users and (password_hash is None or _is_current(users[user], password_hash))
    }


def _session_claims(known: set[Credentials]) -> dict[Credentials, tuple[int, str | None]]:
    wanted = {item.session: item for item in known if item.session}
    rows = Session.objects.filter(session_key__in=wanted, expire_date__gt=timezone.now()) if wanted else []
    claims: dict[Credentials, tuple[int, str | None]] = {}
    for row in rows:
        data = row.get_decoded()
        if str(data.get(SESSION_KEY, "")).isdecimal() and data.get(BACKEND_SESSION_KEY):
            claims[wanted[row.session_key]] = int(data[SESSION_KEY]), str(data.get(HASH_SESSION_KEY, ""))
    return claims


def _token_claims(known: set[Credentials]) -> dict[Credentials, tuple[int, str | None]]:
    wanted = {hash_token(item.token): item for item in known if item.token}
    if not wanted:
        return {}
    keys = {item.token[: CONSTANTS.TOKEN_KEY_LENGTH] for item in wanted.values()}
    current = Q(expiry__isnull=True) | Q(expiry__gt=timezone.now())
    rows = ApiToken.objects.filter(current, token_key__in=keys).values_list("digest", "user_id")
    return {wanted[digest]: (user, None) for digest, user in rows if digest in wanted}


def _is_current(user: User, password_hash: str) -> bool:
    """A session ends when its password changes, as it does for pages."""
    return constant_time_compare(password_hash, cast("str", user.get_session_auth_hash())) or any(
        constant_time_compare(password_hash, older) for older in user.get_session_auth_fallback_hash()
    )
