"""The REST frame of all apps: tokens with scopes, keyset pages, one error shape, nothing unknown taken silently."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any, cast

import pydantic
from django.db import OperationalError
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_standardized_errors.formatter import ExceptionFormatter as BaseFormatter
from drf_standardized_errors.handler import ExceptionHandler as BaseHandler
from drf_standardized_errors.types import CLIENT_ERROR, ErrorType
from rest_framework import exceptions, serializers
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.settings import api_settings
from rest_framework.utils.urls import replace_query_param
from rest_framework.viewsets import GenericViewSet

from portal.accounts.models import User
from portal.errors import DomainError, Invalid, InvalidFields, NotFound
from portal.refusals import database_trouble

# --- errors ---------------------------------------------------------------------------------------------------------


class Refusal(exceptions.APIException):
    """A `DomainError` on its way out."""

    def __init__(self, error: DomainError) -> None:
        detail = exceptions.ErrorDetail(error.message, error.code)
        super().__init__()
        self.status_code = error.http_status
        self.detail = {error.field: [detail]} if error.field else detail


class ExceptionHandler(BaseHandler):
    def convert_known_exceptions(self, exc: Exception) -> Exception:
        if isinstance(exc, InvalidFields):
            return _validation([(error.field, error.code, error.message) for error in exc.errors])
        if isinstance(exc, Invalid):
            return _validation([(exc.field, exc.code, exc.message)])
        if isinstance(exc, DomainError):
            return Refusal(exc)
        if isinstance(exc, OperationalError):
            return Refusal(database_trouble())
        if isinstance(exc, pydantic.ValidationError):
            return _validation(
                [(".".join(str(part) for part in e["loc"]), e["type"], _plain(e["msg"])) for e in exc.errors()]
            )
        return cast("Exception", super().convert_known_exceptions(exc))

    def report_exception(self, exc: exceptions.APIException, response: Response) -> None:
        # A full quota (507) is an answer, not an accident.
        if not isinstance(exc, Refusal) or isinstance(self.exc, OperationalError):
            super().report_exception(exc, response)


class ExceptionFormatter(BaseFormatter):
    def get_error_type(self) -> ErrorType:
        return CLIENT_ERROR if isinstance(self.exc, Refusal) else super().get_error_type()


def error_body(error: DomainError) -> dict[str, Any]:
    """The same shape for answers that are made outside REST framework."""
    errors = error.errors if isinstance(error, InvalidFields) else [error]
    return {
        "type": "validation_error" if isinstance(error, Invalid | InvalidFields) else "client_error",
        "errors": [{"code": e.code, "detail": e.message, "attr": e.field} for e in errors],
    }


def as_domain_error(error: exceptions.APIException) -> DomainError:
    detail = error.detail if isinstance(error.detail, exceptions.ErrorDetail) else str(error.detail)
    refusal = DomainError(getattr(detail, "code", error.default_code), str(detail))
    refusal.http_status = error.status_code
    return refusal


def _validation(problems: list[tuple[str | None, str, str]]) -> exceptions.ValidationError:
    fields: dict[str, list[exceptions.ErrorDetail]] = {}
    for field, code, text in problems:
        name = field or api_settings.NON_FIELD_ERRORS_KEY
        fields.setdefault(name, []).append(exceptions.ErrorDetail(text, code))
    return exceptions.ValidationError(fields)


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


# --- pages ----------------------------------------------------------------------------------------------------------


class KeysetPage(BasePagination):
    """`?cursor=…&limit=…`: rows after the last one seen, by a total order that ends with the primary key.

    New rows never shift a page. The view's `ordering` names fields that are never NULL, '-' for descending; all in one
    direction, so that one comparison finds the next page by index.
    """

    default_limit = 100
    max_limit = 500
    cursor_description = gettext_lazy("Where the page before ended: take it from `next`.")
    limit_description = gettext_lazy("Rows on a page, 1 to 500; 100 when it is not given.")

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        self.ordering: tuple[str, ...] = tuple(view.ordering)
        limit = self._limit(request)
        rows = queryset.order_by(*self.ordering)
        text = request.query_params.get("cursor")
        if text:
            rows = rows.filter(self._after(queryset, text))
        found = list(rows[: limit + 1])
        self.has_more = len(found) > limit
        self.rows = found[:limit]
        return self.rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self._next(), "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri", "example": "https://portal.example/api/v1/…?cursor=…"}
        return {
            "type": "object",
            "required": ["next", "results"],
            "properties": {"next": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            _parameter("cursor", self.cursor_description, {"type": "string"}),
            _parameter("limit", self.limit_description, {"type": "integer", "minimum": 1, "maximum": self.max_limit}),
        ]

    def _limit(self, request: Request) -> int:
        raw = request.query_params.get("limit", str(self.default_limit))
        if not (raw.isascii() and raw.isdecimal() and len(raw) < 6 and 1 <= int(raw) <= self.max_limit):
            raise Invalid(
                "invalid", _("The limit is a number from 1 to %(most)d.") % {"most": self.max_limit}, field="limit"
            )
        return int(raw)

    def _next(self) -> str | None:
        if not self.has_more:
            return None
        last = self.rows[-1]
        values = [getattr(last, name.lstrip("-")) for name in self.ordering]
        text = json.dumps([v.isoformat() if isinstance(v, datetime) else v for v in values], default=str)
        cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return replace_query_param(self.request.build_absolute_uri(), "cursor", cursor)

    def _after(self, queryset: QuerySet[Any], text: str) -> Q:
        """(a, b, id) beyond the cursor's, written so that both databases can use an index on a."""
        wrong = Invalid("invalid_cursor", _("This cursor is damaged. Begin at the first page."), field="cursor")
        names = [name.lstrip("-") for name in self.ordering]
        try:
            raw = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            pairs = list(zip(names, raw, strict=True))
            values = {name: _typed(queryset, name, value) for name, value in pairs}
        except (ValueError, TypeError, binascii.Error, exceptions.ValidationError):
            raise wrong from None
        beyond = "lt" if self.ordering[0].startswith("-") else "gt"
        condition = Q()
        for index, name in enumerate(names):
            equal = Q(**{before: values[before] for before in names[:index]})
            condition |= equal & Q(**{f"{name}__{beyond}": values[name]})
        return condition


def _typed(queryset: QuerySet[Any], name: str, value: object) -> object:
    """The cursor's value as the column's type, or ValueError: it comes from outside."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(name)  # noqa: TRY004 - one kind of trouble for the caller
    field = queryset.model._meta.pk if name == "pk" else queryset.model._meta.get_field(name)
    if field.get_internal_type() == "DateTimeField":
        moment = parse_datetime(str(value))
        if moment is None or timezone.is_naive(moment):
            raise ValueError(name)
        return moment
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError(name)
    try:
        return field.get_prep_value(field.to_python(value))
    except Exception as error:
        raise ValueError(name) from error


def _parameter(name: str, description: Any, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": str(description), "schema": schema}


# --- views and serializers ------------------------------------------------------------------------------------------


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields it does not know or does not take, by name, instead of dropping them silently."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            _refuse_unknown(self, data)
        return super().to_internal_value(data)


class StrictModelSerializer(StrictSerializer, serializers.ModelSerializer[Any]):
    pass


def _refuse_unknown(serializer: serializers.Serializer[Any], data: dict[str, Any]) -> None:
    writable = sorted(name for name, field in serializer.fields.items() if not field.read_only)
    problems: dict[str, list[exceptions.ErrorDetail]] = {}
    for name in data:
        if name in writable:
            continue
        text = (
            _("This field cannot be set.")
            if name in serializer.fields
            else _("There is no such field. Known: %(known)s.") % {"known": ", ".join(writable) or "–"}
        )
        problems[str(name)] = [exceptions.ErrorDetail(text, "unknown_field")]
    if problems:
        raise exceptions.ValidationError(problems)


class RestViewSet(GenericViewSet[Any]):
    """Base of every resource: strict about query parameters, keyset pages, rows by who may see them.

    Subclasses answer `get_queryset` with `visible_to`; `query_parameters` names what is read besides filters and pages.
    """

    pagination_class = KeysetPage
    ordering: tuple[str, ...] = ("-id",)
    query_parameters: frozenset[str] = frozenset()
    filterset_class: type[Any] | None = None

    @property
    def person(self) -> User:
        """Who asks; only the signed-in get as far as an action."""
        return cast("User", self.request.user)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self._check_query(request)

    def _check_query(self, request: Request) -> None:
        known = set(self.query_parameters)
        if self.action == "list":
            known |= {"cursor", "limit"}
            known |= set(self.filterset_class.base_filters) if self.filterset_class else set()
        errors: list[DomainError] = [
            Invalid(
                "unknown_parameter",
                _("There is no such query parameter. Known: %(known)s.") % {"known": ", ".join(sorted(known)) or "–"},
                field=name,
            )
            for name in request.query_params
            if name not in known
        ]
        if errors:
            raise InvalidFields(errors)


def router() -> SimpleRouter:
    """A router for one app's `api_urls`; addresses end with a slash."""
    return SimpleRouter(trailing_slash=True)


def no_such_address(_request: HttpRequest, **_address: str) -> HttpResponse:
    """What is below /api/ answers JSON also where there is nothing."""
    text = _("There is no such address. Addresses end with a slash; /api/schema/ lists all of them.")
    return JsonResponse(error_body(NotFound("no_such_address", text)), status=404)
