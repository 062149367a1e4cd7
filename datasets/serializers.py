"""How datasets, versions and uploads look in the REST interface."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from datasets.models import Dataset, Upload, Version
from datasets.services.uploads import expires_at
from datasets.states import UploadState, VersionState
from portal.accounts.models import Team
from portal.rest import StrictModelSerializer, StrictSerializer

STATES = [state.value for state in VersionState]


class VersionSerializer(serializers.ModelSerializer[Version]):
    """Without the preview rows, which have an address of their own."""

    state = serializers.ChoiceField(choices=STATES, read_only=True)
    size_bytes = serializers.IntegerField(source="stored.size_bytes", read_only=True)
    sha256 = serializers.CharField(source="stored.sha256", read_only=True)
    created_by: Any = serializers.SlugRelatedField(slug_field="username", read_only=True)
    options = serializers.DictField(
        read_only=True, help_text=_("What a person chose: label, header, encoding, delimiter.")
    )
    facts = serializers.SerializerMethodField(
        help_text=_("What the inspection found: rows, columns, warnings, problems.")
    )

    class Meta:
        model = Version
        fields = (
            "id",
            "dataset",
            "number",
            "file_name",
            "size_bytes",
            "sha256",
            "kind",
            "state",
            "options",
            "facts",
            "created_by",
            "created_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.DictField())
    def get_facts(self, version: Version) -> dict[str, Any]:
        return {name: value for name, value in version.facts.items() if name != "preview"}


class VersionBriefSerializer(serializers.ModelSerializer[Version]):
    """For lists: what an inspection found can be large and is shown with the version itself."""

    state = serializers.ChoiceField(choices=STATES, read_only=True)
    size_bytes = serializers.IntegerField(source="stored.size_bytes", read_only=True)

    class Meta:
        model = Version
        fields = ("id", "dataset", "number", "file_name", "size_bytes", "kind", "state", "created_at")
        read_only_fields = fields


class DatasetSerializer(StrictModelSerializer):
    """`team` is given at creation and stays."""

    owner: Any = serializers.SlugRelatedField(slug_field="username", read_only=True)
    team = serializers.PrimaryKeyRelatedField(queryset=Team.objects.all(), required=False, allow_null=True)
    name = serializers.CharField(max_length=200)
    description = serializers.CharField(max_length=20_000, required=False, allow_blank=True)
    newest_version = serializers.SerializerMethodField()

    class Meta:
        model = Dataset
        fields = ("id", "name", "description", "owner", "team", "created_at", "newest_version")
        read_only_fields = ("id", "created_at")

    @extend_schema_field(VersionBriefSerializer(allow_null=True))
    def get_newest_version(self, dataset: Dataset) -> dict[str, Any] | None:
        newest = next(iter(getattr(dataset, "newest", [])), None)
        return VersionBriefSerializer(newest).data if newest is not None else None


class DatasetChangeSerializer(StrictSerializer):
    name = serializers.CharField(max_length=200, required=False)
    description = serializers.CharField(max_length=20_000, required=False, allow_blank=True)


class OptionsSerializer(StrictSerializer):
    """What is not named stays; null goes back to finding out."""

    options = serializers.DictField(help_text=_("Any of label, header, encoding, delimiter."))


class PreviewSerializer(serializers.Serializer[Any]):
    columns = serializers.ListField(child=serializers.DictField())
    rows = serializers.ListField(child=serializers.ListField())


class LinkSerializer(serializers.Serializer[Any]):
    url = serializers.URLField()
    expires_at = serializers.DateTimeField()


class UploadSerializer(serializers.ModelSerializer[Upload]):
    state = serializers.ChoiceField(choices=[state.value for state in UploadState], read_only=True)
    expires_at = serializers.SerializerMethodField()

    class Meta:
        model = Upload
        fields = (
            "id",
            "file_name",
            "purpose",
            "size_bytes",
            "offset_bytes",
            "sha256",
            "state",
            "problem",
            "dataset",
            "dataset_name",
            "version",
            "team",
            "created_at",
            "moved_at",
            "expires_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_expires_at(self, upload: Upload) -> Any:
        return expires_at(upload) if upload.state == UploadState.OPEN else None


class UseSerializer(serializers.Serializer[Any]):
    """`limit_bytes` null means unlimited; `reserved_bytes` (uploads on their way) is part of `used_bytes`."""

    name = serializers.CharField()
    used_bytes = serializers.IntegerField()
    reserved_bytes = serializers.IntegerField()
    limit_bytes = serializers.IntegerField(allow_null=True)


class StorageUseSerializer(serializers.Serializer[Any]):
    user = UseSerializer()
    teams = UseSerializer(many=True)
