"""REST: what a job leaves behind – series, logs, checkpoints, the usage of its nodes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api import JobRows
from jobs.models import Stream
from jobs.queries import (
    ExportQuery,
    LogPlaceQuery,
    LogQuery,
    LogSearchQuery,
    SeriesQuery,
    names_of,
    read_query,
)
from jobs.results_serializers import (
    LogPageSerializer,
    LogSearchSerializer,
    LogStreamSerializer,
    SeriesPageSerializer,
)
from jobs.series.export import export_csv
from jobs.series.read import read_series
from jobs.services.log_read import find_stream, log_bytes, log_streams, read_log, search_log
from portal.streaming import Download

LOG_PATH = r"logs/(?P<rank>-1|[0-9]{1,6})"


class PackedRenderer(BaseRenderer):
    """Bytes as they are; series in it are as jobs/series/README.md says."""

    media_type = "application/octet-stream"
    format = "packed"
    charset = None
    render_style = "binary"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> Any:
        return data


class SeriesViewSet(JobRows):
    """Adds to /jobs/<id>/ what training reported."""

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Response:
        if getattr(response, "exception", False):  # a refusal is JSON also where floats were asked for
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), "application/json"
        return super().finalize_response(request, response, *args, **kwargs)

    @extend_schema(
        summary="Metrics, thinned for drawing",
        description="JSON, or with `Accept: application/octet-stream` packed floats (the form the job's page reads).",
        parameters=[SeriesQuery],
        responses={
            (200, "application/json"): SeriesPageSerializer,
            (200, "application/octet-stream"): OpenApiTypes.BINARY,
        },
    )
    @action(
        detail=True,
        renderer_classes=[JSONRenderer, PackedRenderer],
        query_parameters=names_of(SeriesQuery),
        pagination_class=None,
    )
    def series(self, request: Request, pk: str) -> Response:
        job, query = self.get_object(), read_query(request, SeriesQuery)
        zoom = (query["step_from"], query["step_to"]) if "step_from" in query else None
        page = read_series(
            job,
            query.get("name") or None,
            ranks=query.get("rank", [0]),
            points=query["points"],
            since_rev=query["since"],
            since_attempt=query.get("since_attempt"),
            attempts=query["attempts"],
            window=zoom,
        )
        is_packed = isinstance(request.accepted_renderer, PackedRenderer)
        return Response(page.to_bytes() if is_packed else page.to_json())

    @extend_schema(
        summary="Every point exactly as it came, as CSV",
        parameters=[ExportQuery],
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def series_csv(self, request: Request, pk: str) -> HttpResponseBase:
        job, query = self.get_object(), read_query(request, ExportQuery)
        parts = export_csv(job, query.get("name") or None, query.get("rank", ()))
        return Download(parts, file_name=f"job-{job.pk}-series.csv", content_type="text/csv; charset=utf-8")


RANK = OpenApiParameter(
    "rank",
    {"type": "integer", "minimum": -1, "maximum": 999_999},
    OpenApiParameter.PATH,
    description="-1 is what the launcher itself printed.",
)


class LogViewSet(JobRows):
    """Adds to /jobs/<id>/ what its ranks printed."""

    @extend_schema(summary="Every log of a job", responses=LogStreamSerializer(many=True))
    @action(detail=True, pagination_class=None)
    def logs(self, request: Request, pk: str) -> Response:
        return Response(log_streams(self.get_object()))

    @extend_schema(
        summary="Lines of one log", parameters=[RANK, LogQuery], responses=LogPageSerializer, operation_id="job_log"
    )
    @action(detail=True, url_path=LOG_PATH, query_parameters=names_of(LogQuery), pagination_class=None)
    def log(self, request: Request, pk: str, rank: str) -> Response:
        stream, query = self._ask(LogQuery)
        place = {name: query.get(name) for name in ("offset", "line", "tail")}
        page = read_log(stream, **place, limit=query["limit"], colours=False)
        return Response(page.to_json())

    @extend_schema(summary="Lines that hold a text", parameters=[RANK, LogSearchQuery], responses=LogSearchSerializer)
    @action(
        detail=True, url_path=f"{LOG_PATH}/search", query_parameters=names_of(LogSearchQuery), pagination_class=None
    )
    def log_search(self, request: Request, pk: str, rank: str) -> Response:
        stream, query = self._ask(LogSearchQuery)
        found = search_log(stream, query["text"], offset=query["offset"], limit=query["limit"])
        return Response(asdict(found))

    @extend_schema(
        summary="A whole log as it was written",
        parameters=[RANK, LogPlaceQuery],
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    @action(
        detail=True, url_path=f"{LOG_PATH}/download", query_parameters=names_of(LogPlaceQuery), pagination_class=None
    )
    def log_download(self, request: Request, pk: str, rank: str) -> HttpResponseBase:
        stream, _ = self._ask(LogPlaceQuery)
        name = f"job-{pk}-attempt-{stream.placement.attempt.number}-rank-{stream.rank}.log"
        return Download(log_bytes(stream), file_name=name, content_type="text/plain; charset=utf-8")

    def _ask(self, kind: type[LogPlaceQuery]) -> tuple[Stream, dict[str, Any]]:
        """The log and what is asked of it. First who, then what: strangers see a 404."""
        job = self.get_object()
        query = read_query(self.request, kind)
        stream = find_stream(job, int(self.kwargs["rank"]), query.get("attempt"), query.get("node_rank"))
        return stream, query
