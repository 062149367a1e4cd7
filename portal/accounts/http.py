"""The request of a view behind sign-in, for the type checker."""

from __future__ import annotations

from django.http import HttpRequest

from portal.accounts.models import User


class SignedInRequest(HttpRequest):
    user: User
