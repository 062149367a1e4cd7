"""Two questions of whoever watches the service: does the process answer, and can it do its work."""

from __future__ import annotations

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal.broker import answers


@never_cache
@require_safe
def healthz(_: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")


@never_cache
@require_safe
def readyz(_: HttpRequest) -> JsonResponse:
    """503 when the database or the broker does not answer. Without the broker pages live on, only later news come."""
    parts = {"database": _database_answers(), "broker": answers(settings.REDIS_URL)}
    return JsonResponse(parts, status=200 if all(parts.values()) else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    except DatabaseError:
        return False
