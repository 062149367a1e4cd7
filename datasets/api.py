"""Datasets, versions and uploads under `/api/v1/`. Every write goes through a service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.db.models import OuterRef, Prefetch, Subquery
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from datasets import serializers
from datasets.filters import DatasetFilter, UploadFilter, VersionFilter
from datasets.models import Dataset, Upload, Version
from datasets.services.datasets import change_dataset, create_dataset, delete_dataset
from datasets.services.storage_use import Who, limit_of, reserved_by, used_bytes
from datasets.services.uploads import forget
from datasets.services.versions import inspect_again, set_options
from datasets.tickets import PERSON_SECONDS, sign_get
from portal.accounts.models import Team, User
from portal.rest import RestViewSet


@extend_schema(tags=["datasets"])
@extend_schema_view(
    list=extend_schema(summary="List datasets you may see", description="Newest first."),
    retrieve=extend_schema(summary="Show a dataset with its newest version"),
    destroy=extend_schema(
        summary="Delete a dataset", description="With all its versions. Refused with 409 while a job uses one of them."
    ),
)
class DatasetViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, RestViewSet):
    serializer_class = serializers.DatasetSerializer
    filterset_class = DatasetFilter
    lookup_value_regex = r"\d{1,18}"

    def get_queryset(self) -> Any:
        newest = Version.objects.filter(dataset=OuterRef("dataset")).order_by("-number").values("pk")[:1]
        versions = Version.objects.filter(pk=Subquery(newest)).select_related("stored").defer("facts")
        rows = Dataset.objects.visible_to(self.request.user).select_related("owner")
        return rows.prefetch_related(Prefetch("versions", versions, to_attr="newest"))

    @extend_schema(summary="Create an empty dataset", description="Then upload its first version by tus to /uploads/.")
    def create(self, request: Request) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        dataset = create_dataset(_user(request), **serializer.validated_data)
        return Response(self.get_serializer(dataset).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        summary="Rename or describe a dataset",
        request=serializers.DatasetChangeSerializer,
        responses=serializers.DatasetSerializer,
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        dataset = self.get_object()
        serializer = serializers.DatasetChangeSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        change_dataset(_user(request), dataset, **serializer.validated_data)
        return Response(self.get_serializer(self.get_object()).data)

    def perform_destroy(self, instance: Dataset) -> None:
        delete_dataset(_user(self.request), instance)


@extend_schema(tags=["datasets"])
@extend_schema_view(
    list=extend_schema(summary="List versions", description="Newest first, of all datasets or of `?dataset=`."),
    retrieve=extend_schema(summary="Show a version with what its inspection found"),
)
class VersionViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, RestViewSet):
    serializer_class = serializers.VersionSerializer
    filterset_class = VersionFilter
    lookup_value_regex = r"\d{1,18}"

    def get_queryset(self) -> Any:
        rows = Version.objects.visible_to(self.request.user).select_related("stored", "created_by", "dataset")
        return rows.defer("facts") if self.action == "list" else rows

    def get_serializer_class(self) -> Any:
        return serializers.VersionBriefSerializer if self.action == "list" else serializers.VersionSerializer

    @extend_schema(
        summary="Change how a version is read",
        description="The file is inspected again unless only the label moves to a column whose classes are counted.",
        request=serializers.OptionsSerializer,
        responses=serializers.VersionSerializer,
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        version = self.get_object()
        serializer = serializers.OptionsSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        set_options(_user(request), version, **serializer.validated_data["options"])
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(summary="Inspect a version again", request=None, responses=serializers.VersionSerializer)
    @action(detail=True, methods=["post"])
    def inspect(self, request: Request, pk: str) -> Response:
        inspect_again(_user(request), self.get_object())
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(summary="First rows of a version", responses=serializers.PreviewSerializer)
    @action(detail=True, methods=["get"])
    def preview(self, request: Request, pk: str) -> Response:
        facts = self.get_object().facts
        columns = [c for c in facts.get("columns", []) if isinstance(c, dict)]
        return Response({"columns": columns, "rows": facts.get("preview", [])})

    @extend_schema(
        summary="A link to download the file",
        description="Anybody who holds the link may use it until it expires; ranges are supported.",
        responses=serializers.LinkSerializer,
    )
    @action(detail=True, methods=["get"])
    def download(self, request: Request, pk: str) -> Response:
        version = self.get_object()
        path = sign_get(version.stored, file_name=version.file_name)
        expires_at = timezone.now() + timedelta(seconds=PERSON_SECONDS)
        return Response({"url": request.build_absolute_uri(path), "expires_at": expires_at})


@extend_schema(tags=["uploads"])
@extend_schema_view(
    list=extend_schema(summary="List your uploads", description="Newest first. New ones begin by tus at /uploads/."),
    retrieve=extend_schema(summary="Show an upload and what became of it"),
    destroy=extend_schema(
        summary="Give up an upload", description="Its room is free at once; ended ones are forgotten."
    ),
)
class UploadViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, RestViewSet):
    serializer_class = serializers.UploadSerializer
    queryset = Upload.objects.none()
    filterset_class = UploadFilter
    ordering = ("-created_at", "-id")
    lookup_value_regex = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

    def get_queryset(self) -> Any:
        return Upload.objects.filter(owner_id=self.request.user.pk)

    def perform_destroy(self, instance: Upload) -> None:
        forget(instance)


class StorageUseView(APIView):
    @extend_schema(
        tags=["uploads"], summary="Storage you and your teams use", responses=serializers.StorageUseSerializer
    )
    def get(self, request: Request) -> Response:
        user = _user(request)
        teams = Team.objects.filter(memberships__user=user)
        return Response({"user": _use(user), "teams": [_use(team) for team in teams]})


def _use(subject: User | Team) -> dict[str, Any]:
    who: Who = "owner" if isinstance(subject, User) else "team"
    return {
        "name": str(subject),
        "used_bytes": used_bytes(subject),
        "reserved_bytes": reserved_by(who, [subject.pk]).get(subject.pk, 0),
        "limit_bytes": limit_of(subject),
    }


def _user(request: Any) -> User:
    return cast("User", request.user)
