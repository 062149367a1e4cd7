"""Query parameters of the jobs API as typed values; they stand in the OpenAPI document as they are here."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request

from jobs.series.read_limits import DEFAULT_POINTS, MAX_NAMES, MAX_POINTS
from jobs.services.log_read import MAX_LINES

PAGE = frozenset({"cursor", "limit"})
MAX_INTEGER = 2**53  # what a JSON reader keeps exact
MAX_RANK = 100_000
Query = serializers.Serializer[Any]


def read_query(request: Request, kind: type[Query]) -> dict[str, Any]:
    """Raises DRF's ValidationError beside the parameter."""
    query = kind(data=request.query_params)
    query.is_valid(raise_exception=True)
    found: dict[str, Any] = query.validated_data
    return found


def names_of(kind: type[Query]) -> frozenset[str]:
    return frozenset(kind().fields)


class EventQuery(Query):
    since = serializers.IntegerField(
        default=0, min_value=0, max_value=MAX_INTEGER, help_text="Only what was stamped after this `rev`."
    )


class RerunQuery(Query):
    form = serializers.ChoiceField(choices=[("json", "json"), ("yaml", "yaml")], default="json")


class ExportQuery(Query):
    name = serializers.ListField(
        child=serializers.CharField(max_length=200, trim_whitespace=False),
        max_length=MAX_NAMES,
        required=False,
        help_text="Of a metric; may be given several times. All when it is not given.",
    )
    rank = serializers.ListField(
        child=serializers.IntegerField(min_value=-1, max_value=MAX_RANK),
        max_length=1000,
        required=False,
        help_text="May be given several times.",
    )


class SeriesQuery(ExportQuery):
    points = serializers.IntegerField(
        default=DEFAULT_POINTS,
        min_value=2,
        max_value=MAX_POINTS,
        help_text="Thin each series to at most so many buckets.",
    )
    since = serializers.IntegerField(
        default=0, min_value=0, max_value=MAX_INTEGER, help_text="`rev` of the answer before: only what changed comes."
    )
    since_attempt = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_INTEGER, help_text="`attempt` of the answer before."
    )
    attempts = serializers.ChoiceField(
        choices=[("current", "current"), ("all", "all")],
        default="current",
        help_text="`all` also shows what a later attempt has hidden by resuming before it.",
    )
    step_from = serializers.FloatField(required=False, help_text="With `step_to`: a range of steps, read whole.")
    step_to = serializers.FloatField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("step_from" in attrs) != ("step_to" in attrs):
            raise serializers.ValidationError({"step_from": _("Give step_from and step_to together.")})
        return attrs


class LogPlaceQuery(Query):
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_INTEGER, help_text="The newest with a log when it is not given."
    )
    node_rank = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_RANK, help_text="For the launcher's log (rank -1), one per node."
    )


class LogQuery(LogPlaceQuery):
    """One place at most; the tail when none is given."""

    offset = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_INTEGER, help_text="First byte; `end` of the page before goes on."
    )
    line = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_INTEGER, help_text="First line, counted from 0."
    )
    tail = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_LINES, help_text="So many lines from the end."
    )
    limit = serializers.IntegerField(default=MAX_LINES, min_value=1, max_value=MAX_LINES)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("offset", "line", "tail") if name in attrs]
        if len(given) > 1:
            raise serializers.ValidationError({given[1]: _("Give one of offset, line and tail.")})
        return attrs


class LogSearchQuery(LogPlaceQuery):
    text = serializers.CharField(max_length=200, trim_whitespace=False, help_text="Upper and lower case are the same.")
    offset = serializers.IntegerField(
        default=0, min_value=0, max_value=MAX_INTEGER, help_text="`next_offset` of the answer before goes on."
    )
    limit = serializers.IntegerField(default=100, min_value=1, max_value=500)
