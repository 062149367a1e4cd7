"""Who asks over REST. Apart from the frame: Django REST framework loads this while its own views are still loading."""

from __future__ import annotations

import binascii
from datetime import datetime, timedelta
from typing import Any, cast

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from knox.auth import TokenAuthentication as KnoxAuthentication
from knox.crypto import hash_token
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS

from portal.accounts.models import ApiToken, User

USED_EVERY = timedelta(minutes=1)  # how exact `last_used_at` is; each write costs the request a transaction


class TokenAuthentication(KnoxAuthentication):
    """`Authorization: Token …`. Read tokens refuse every method that writes, whatever the view."""

    def authenticate(self, request: Any) -> tuple[User, ApiToken] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user, token = found
        if token.scope == ApiToken.Scope.READ and request.method not in SAFE_METHODS:
            raise exceptions.PermissionDenied(
                _("This token may only read. Make one with the scope “read and write”."), code="read_only_token"
            )
        return user, token

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        try:
            digest = hash_token(token.decode("ascii"))
        except (UnicodeDecodeError, TypeError, binascii.Error):
            raise exceptions.AuthenticationFailed(_("This is no API token."), code="invalid_token") from None
        row = ApiToken.objects.select_related("user").filter(digest=digest).first()
        now = timezone.now()
        if row is None or not row.user.is_active or (row.expiry is not None and row.expiry <= now):
            raise exceptions.AuthenticationFailed(
                _("The API token is wrong, expired or revoked. Make a new one on your account page."),
                code="invalid_token",
            )
        _note_use(row, now)
        return cast("User", row.user), row


def _note_use(token: ApiToken, now: datetime) -> None:
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - USED_EVERY)
    if token.last_used_at is None or token.last_used_at <= now - USED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
