"""REST: a job's checkpoints, and the usage of the nodes it ran on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from datasets.tickets import PERSON_SECONDS
from jobs.api import JobRows
from jobs.models import Checkpoint, Job, Placement, Seat
from jobs.queries import PAGE
from jobs.results_serializers import (
    CheckpointLinksSerializer,
    CheckpointSerializer,
    JobUsageSerializer,
    LiveSeatSerializer,
)
from jobs.services.checkpoint_zip import zip_of
from jobs.services.checkpoints import links
from nodes.serializers import usage_body
from nodes.services.usage import read_usage, thin_usage
from portal.errors import NotFound
from portal.rest import RestViewSet
from portal.streaming import Download

CHECKPOINT = r"checkpoints/(?P<checkpoint>[0-9]{1,18})"
ID = OpenApiParameter("checkpoint", int, OpenApiParameter.PATH, description="Id of the checkpoint.")
MAX_ROWS = 2_000


class CheckpointViewSet(JobRows):
    """Adds to /jobs/<id>/ what training saved."""

    @extend_schema(summary="Checkpoints, highest step first", responses=CheckpointSerializer(many=True))
    @action(detail=True, filterset_class=None, ordering=("-step", "-id"), query_parameters=PAGE)
    def checkpoints(self, request: Request, pk: str) -> Response:
        page = self.paginate_queryset(self.get_object().checkpoints.select_related("attempt"))
        return self.get_paginated_response(CheckpointSerializer(page, many=True).data)

    @extend_schema(
        summary="Addresses to fetch the files of a checkpoint from",
        description="Whoever holds an address may use it until it expires; ranges are supported.",
        parameters=[ID],
        responses=CheckpointLinksSerializer,
    )
    @action(detail=True, url_path=f"{CHECKPOINT}/links", pagination_class=None)
    def checkpoint_links(self, request: Request, pk: str, checkpoint: str) -> Response:
        found = links(self._checkpoint())
        files = [
            {
                "path": link.path,
                "size_bytes": link.size_bytes,
                "sha256": link.sha256,
                "url": request.build_absolute_uri(link.url),
            }
            for link in found
        ]
        return Response({"expires_at": timezone.now() + timedelta(seconds=PERSON_SECONDS), "files": files})

    @extend_schema(
        summary="A whole checkpoint as a zip",
        parameters=[ID],
        responses={(200, "application/zip"): OpenApiTypes.BINARY},
    )
    @action(detail=True, url_path=f"{CHECKPOINT}/download", pagination_class=None)
    def checkpoint_download(self, request: Request, pk: str, checkpoint: str) -> HttpResponseBase:
        row = self._checkpoint()
        name = f"job-{row.job_id}-step-{row.step}.zip"
        return Download(zip_of(row), file_name=name, content_type="application/zip")

    def _checkpoint(self) -> Checkpoint:
        row = self.get_object().checkpoints.filter(pk=self.kwargs["checkpoint"]).first()
        if row is None:
            raise NotFound("not_found", _("There is no such checkpoint."))
        return row


class JobUsageViewSet(JobRows):
    """Adds to /jobs/<id>/ what its nodes were doing meanwhile."""

    @extend_schema(
        summary="Usage of its nodes while it was there",
        description="One entry per placement, thinned to 2,000 rows each. Kept for two days.",
        responses=JobUsageSerializer(many=True),
    )
    @action(detail=True, pagination_class=None)
    def usage(self, request: Request, pk: str) -> Response:
        placements = Placement.objects.filter(attempt__job=self.get_object()).select_related("attempt", "node")
        return Response([_usage(row) for row in placements.order_by("attempt__number", "node_rank")])


class SeatViewSet(ListModelMixin, RestViewSet):
    """Every device in use now. A job that you may not see keeps its seat, without a name."""

    serializer_class = LiveSeatSerializer
    queryset = Seat.objects.none()
    ordering = ("id",)

    def get_queryset(self) -> Any:
        mine = Job.objects.visible_to(self.request.user).filter(pk=OuterRef("placement__attempt__job"))
        rows = Seat.objects.filter(released_at__isnull=True).annotate(is_visible=Exists(mine))
        return rows.select_related("device", "placement__node", "placement__attempt__job__owner")


def _usage(placement: Placement) -> dict[str, Any]:
    rows = read_usage(placement.node, placement.created_at, placement.released_at or placement.ended_at)
    told = usage_body(placement.node, thin_usage(rows, MAX_ROWS))
    return {**told, "attempt": placement.attempt.number, "node_rank": placement.node_rank}
