"""Every refusal as an answer a person can act on, with an id to quote; the same id stands in the log."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from portal.errors import DomainError, Unavailable

logger = logging.getLogger(__name__)


def request_id(request: HttpRequest) -> str:
    """The id that the log's middleware gave this request, or a new one."""
    known = getattr(request, "request_id", "")
    if not known:
        known = uuid.uuid4().hex[:12]
        request.request_id = known  # type: ignore[attr-defined]
    return str(known)


def database_trouble() -> Unavailable:
    """For an OperationalError: the database is down, or on SQLite somebody wrote for too long."""
    return Unavailable("database", _("The database does not answer at the moment. Try again in some seconds."))


class RefusalMiddleware:
    """Turns a DomainError that a view let through into a page, or into JSON where that was asked for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        is_page = "application/json" not in request.headers.get("Accept", "")
        if isinstance(error, OperationalError):
            logger.error("The database failed request %s.", request_id(request), exc_info=error)
            if is_page:
                return server_error(request, status=503)
            error = database_trouble()
        if not isinstance(error, DomainError):
            return None
        logger.info("refused %s: %s", request_id(request), error.code)
        if not is_page:
            body = {"code": error.code, "message": error.message, "field": error.field, "id": request_id(request)}
            return JsonResponse(body, status=error.http_status)
        return refusal_page(request, error.http_status, error.message)


def refusal_page(request: HttpRequest, status: int, message: str = "") -> HttpResponse:
    titles = {
        400: _("This could not be understood"),
        403: _("You may not do this"),
        404: _("There is nothing here"),
        409: _("Not possible now"),
        503: _("A part is down at the moment"),
        507: _("No room left"),
    }
    context: dict[str, Any] = {
        "title": titles.get(status, _("This did not work")),
        "message": message,
        "status": status,
        "request_id": request_id(request),
    }
    return render(request, "refusal.html", context, status=status)


def bad_request(request: HttpRequest, *_args: object, **_facts: object) -> HttpResponse:
    return refusal_page(request, 400, _("The address or the form did not arrive as expected. Go back and try again."))


def forbidden(request: HttpRequest, *_args: object, **_facts: object) -> HttpResponse:
    return refusal_page(request, 403, _("Ask the person it belongs to, or an admin."))


def csrf_failure(request: HttpRequest, **_why: object) -> HttpResponse:
    text = _("This page was open too long, or cookies are switched off. Go back, reload the page and send it again.")
    return refusal_page(request, 403, text)


def not_found(request: HttpRequest, *_args: object, **_facts: object) -> HttpResponse:
    text = _("It does not exist, was deleted, or belongs to somebody who has not shared it with you.")
    return refusal_page(request, 404, text)


def server_error(request: HttpRequest, status: int = 500) -> HttpResponse:
    """Plain, without the frame: whatever broke may break it again."""
    return render(request, "500.html", {"request_id": request_id(request)}, status=status)
