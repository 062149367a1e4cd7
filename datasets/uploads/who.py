"""Who sends a tus request: the upload's own token, an API token, or a signed-in browser with CSRF protection."""

from __future__ import annotations

from django.contrib.auth import get_user
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException

from datasets.models import Upload
from datasets.services.uploads import find_upload
from portal.accounts.models import User
from portal.errors import DomainError, Forbidden
from portal.rest import as_domain_error
from portal.rest_auth import TokenAuthentication


class SignedOut(DomainError):
    http_status = 401


def find_sender(request: ASGIRequest) -> User:
    """The person behind an API token or a session. Raises `SignedOut`, `Forbidden`."""
    try:
        found = TokenAuthentication().authenticate(request)
    except APIException as error:
        raise as_domain_error(error) from error
    return found[0] if found is not None else _signed_in(request)


def find_own_upload(request: ASGIRequest, upload_id: str) -> Upload:
    """The upload, for whoever may move it; anybody else hears that there is none."""
    token = str(request.headers.get("Upload-Token", ""))
    if token:
        return find_upload(upload_id, token=token)
    return find_upload(upload_id, user=find_sender(request))


def _signed_in(request: ASGIRequest) -> User:
    SessionMiddleware(_nothing).process_request(request)
    user = get_user(request)
    if not isinstance(user, User) or not user.is_active:
        raise SignedOut("not_authenticated", _("Sign in, or send an API token, to upload."))
    guard = CsrfViewMiddleware(_nothing)
    guard.process_request(request)
    if request.method not in ("HEAD", "OPTIONS") and guard.process_view(request, _nothing, (), {}) is not None:
        raise Forbidden("csrf", _("This request did not come from a page of the portal. Reload the page."))
    return user


def _nothing(_request: object) -> HttpResponse:
    return HttpResponse()
