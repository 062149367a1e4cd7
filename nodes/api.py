"""REST: nodes with their devices, history and usage. Everybody signed in reads; staff open and close."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.models import Node
from nodes.serializers import NodeEventSerializer, NodeSerializer, UsageSerializer, usage_body
from nodes.services import admission
from nodes.services.usage import KEEP_HOURS, read_usage, thin_usage
from portal.errors import NotFound
from portal.rest import RestViewSet

MAX_ROWS = 2_000


class UsageQuery(serializers.Serializer[Any]):
    minutes = serializers.FloatField(
        default=15.0, min_value=0.1, max_value=KEEP_HOURS * 60, help_text="Back from now; kept for two days."
    )


@extend_schema_view(
    list=extend_schema(summary="All nodes by name"),
    retrieve=extend_schema(summary="One node with its devices"),
)
class NodeViewSet(ListModelMixin, RetrieveModelMixin, RestViewSet):
    serializer_class = NodeSerializer
    queryset = Node.objects.none()
    ordering = ("name", "id")
    lookup_value_regex = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

    def get_queryset(self) -> QuerySet[Node]:
        return Node.objects.prefetch_related("devices")

    def get_object(self) -> Node:
        node = self.get_queryset().filter(pk=self.kwargs["pk"]).first()
        if node is None:
            raise NotFound("not_found", _("There is no such node."))
        return node

    @extend_schema(summary="What happened to a node, newest first", responses=NodeEventSerializer(many=True))
    @action(detail=True, ordering=("-id",), query_parameters=frozenset({"cursor", "limit"}))
    def events(self, request: Request, pk: str) -> Response:
        page = self.paginate_queryset(self.get_object().events.select_related("actor"))
        return self.get_paginated_response(NodeEventSerializer(page, many=True).data)

    @extend_schema(
        summary="A node's usage over time, thinned to 2,000 rows", parameters=[UsageQuery], responses=UsageSerializer
    )
    @action(detail=True, query_parameters=frozenset({"minutes"}))
    def usage(self, request: Request, pk: str) -> Response:
        query = UsageQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        node = self.get_object()
        since = timezone.now() - timedelta(minutes=query.validated_data["minutes"])
        return Response(usage_body(node, thin_usage(read_usage(node, since), MAX_ROWS)))

    @extend_schema(summary="Take no new jobs; running ones go on", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, pk: str) -> Response:
        return self._after(admission.cordon(self.person, self.get_object()))

    @extend_schema(summary="Take no new jobs; running ones are moved elsewhere", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, pk: str) -> Response:
        return self._after(admission.drain(self.person, self.get_object()))

    @extend_schema(summary="Take new jobs again", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, pk: str) -> Response:
        return self._after(admission.uncordon(self.person, self.get_object()))

    def _after(self, node: Node) -> Response:
        return Response(NodeSerializer(self.get_queryset().get(pk=node.pk)).data)
