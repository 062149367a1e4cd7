"""REST: zips of own code. Uploaded by tus to /uploads/ like a dataset, then kept here and named by jobs."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import CodeBundle
from jobs.services.bundles import keep_bundle
from portal.rest import RestViewSet, StrictSerializer


class BundleSerializer(serializers.ModelSerializer[CodeBundle]):
    sha256 = serializers.CharField(source="stored.sha256", read_only=True)
    size_bytes = serializers.IntegerField(source="stored.size_bytes", read_only=True)

    class Meta:
        model = CodeBundle
        fields = ("id", "sha256", "file_name", "size_bytes", "created_at")
        read_only_fields = fields


class NewBundleSerializer(StrictSerializer):
    upload = serializers.UUIDField(help_text="Id of a finished upload whose purpose is `code`.")


@extend_schema_view(list=extend_schema(summary="Your zips of code, newest first"))
class BundleViewSet(ListModelMixin, RestViewSet):
    serializer_class = BundleSerializer
    queryset = CodeBundle.objects.none()

    def get_queryset(self) -> QuerySet[CodeBundle]:
        return CodeBundle.objects.filter(owner=self.person).select_related("stored")

    @extend_schema(
        summary="Keep an uploaded zip of code",
        description="Jobs then name it by its SHA-256. The same bytes sent twice stay one bundle.",
        request=NewBundleSerializer,
        responses={201: BundleSerializer},
    )
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        asked = NewBundleSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        bundle = keep_bundle(self.person, asked.validated_data["upload"])
        return Response(BundleSerializer(bundle).data, status=201)
