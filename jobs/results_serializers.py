"""What a job leaves behind, as the REST API shows it: series, logs, checkpoints, usage, seats."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from jobs.models import Checkpoint, Seat
from nodes.serializers import UsageSerializer


class CheckpointFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    sha256 = serializers.CharField()
    size_bytes = serializers.IntegerField()


class CheckpointSerializer(serializers.ModelSerializer[Checkpoint]):
    attempt = serializers.IntegerField(source="attempt.number", read_only=True)
    files = CheckpointFileSerializer(many=True, read_only=True)

    class Meta:
        model = Checkpoint
        fields = ("id", "step", "attempt", "size_bytes", "files", "metrics", "is_removed", "created_at", "rev")
        read_only_fields = fields


class PieceSerializer(serializers.Serializer[Any]):
    """What one attempt's rank holds of one metric. NaN and ±inf are the strings 'NaN', 'Infinity', '-Infinity'."""

    stream = serializers.IntegerField()
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    name = serializers.CharField()
    level = serializers.IntegerField(help_text="0: `step`, `time`, `value` of every point; L: buckets of 2^L points.")
    first = serializers.IntegerField(help_text="Index of the first bucket sent; replaces what was there from it on.")
    n = serializers.IntegerField()
    total = serializers.IntegerField()
    hidden_from = serializers.FloatField(allow_null=True)
    y = serializers.ListField(child=serializers.FloatField(), allow_null=True, help_text="Finite range.")
    step = serializers.ListField(child=serializers.JSONField(), required=False)
    time = serializers.ListField(child=serializers.JSONField(), required=False)
    value = serializers.ListField(child=serializers.JSONField(), required=False)


class SeriesPageSerializer(serializers.Serializer[Any]):
    job = serializers.IntegerField()
    rev = serializers.IntegerField(help_text="Send it back as `since`.")
    attempt = serializers.IntegerField(help_text="Send it back as `since_attempt`.")
    attempts = serializers.CharField()
    reset = serializers.BooleanField(help_text="Drop what you have: a new attempt has hidden some of it.")
    names_total = serializers.IntegerField()
    pieces = PieceSerializer(many=True)


class LogStreamSerializer(serializers.Serializer[Any]):
    stream = serializers.IntegerField()
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField(help_text="-1 is the launcher.")
    node_rank = serializers.IntegerField()
    node = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes so far.")
    gap_bytes = serializers.IntegerField(help_text="Bytes that were dropped on the node.")


class LogLineSerializer(serializers.Serializer[Any]):
    offset = serializers.IntegerField()
    text = serializers.CharField()
    gap = serializers.IntegerField(help_text="Bytes missing just before this line.")
    is_open = serializers.BooleanField(help_text="Its end has not come yet: read on from its offset.")


class LogPageSerializer(serializers.Serializer[Any]):
    stream = serializers.IntegerField()
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField(help_text="Read on from here.")
    size = serializers.IntegerField()
    lines = LogLineSerializer(many=True)
    first_line = serializers.IntegerField(allow_null=True)


class LogSearchSerializer(serializers.Serializer[Any]):
    lines = LogLineSerializer(many=True)
    next_offset = serializers.IntegerField(allow_null=True, help_text="Search on from here; null: to the end.")


class CheckpointLinkSerializer(CheckpointFileSerializer):
    url = serializers.URLField()


class CheckpointLinksSerializer(serializers.Serializer[Any]):
    expires_at = serializers.DateTimeField()
    files = CheckpointLinkSerializer(many=True)


class JobUsageSerializer(UsageSerializer):
    attempt = serializers.IntegerField()
    node_rank = serializers.IntegerField()


class LiveSeatSerializer(serializers.ModelSerializer[Seat]):
    node = serializers.UUIDField(source="placement.node_id", read_only=True)
    node_name = serializers.CharField(source="placement.node.name", read_only=True)
    device = serializers.IntegerField(source="device.index", read_only=True, help_text="Its index on the node.")
    kind = serializers.CharField(source="device.kind", read_only=True)
    owner = serializers.CharField(source="placement.attempt.job.owner.username", read_only=True)
    job = serializers.SerializerMethodField(help_text="null when you may not see it.")

    class Meta:
        model = Seat
        fields = ("id", "node", "node_name", "device", "kind", "thousandths", "owner", "job")
        read_only_fields = fields

    def get_job(self, seat: Any) -> int | None:
        return seat.placement.attempt.job_id if seat.is_visible else None
