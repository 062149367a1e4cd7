"""Jobs and what belongs to them, as the REST API shows them. Times are ISO 8601 with offset, sizes in bytes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from pydantic import BaseModel, ConfigDict, Field
from rest_framework import serializers

from jobs.models import Attempt, Job, JobEvent, Placement
from jobs.spec import JobSpec
from jobs.states import OUTCOMES, StopReason
from nodes.messages import Launch

MAX_ID = 2**63 - 1
REASONS = "Why it ended or was sent back, from a closed list:\n\n" + "\n".join(
    f"- `{reason.value}`: "
    + ("back to the queue, up to `max_attempts`, else " if outcome.again else "ends as ")
    + f"`{outcome.final.value}`"
    for reason, outcome in OUTCOMES.items()
)


class Around(BaseModel):
    """What a submit may say around its spec."""

    model_config = ConfigDict(extra="forbid")

    team: int | None = Field(None, ge=1, le=MAX_ID, description="Id of a team of yours that the job counts for.")
    secrets: dict[str, str] = Field(
        default_factory=dict,
        max_length=100,
        description="Environment values that nobody can read again. Masked in logs; removed when the job has ended.",
    )
    origin: int | None = Field(None, ge=1, le=MAX_ID, description="The job this one was made from.")
    resume_from: int | None = Field(None, ge=1, le=MAX_ID, description="Id of a checkpoint to start from.")


class Wish(Around):
    """The body of a submit or a check: the job itself as `spec`, and around it what is not part of it."""

    spec: JobSpec


@extend_schema_field({"$ref": "#/components/schemas/JobSpec"})  # the body of a submit brings the component
class SpecField(serializers.JSONField):
    """The spec as it was submitted; secrets are never part of it."""


class ReasonField(serializers.ChoiceField):
    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("choices", [(reason.value, reason.value) for reason in StopReason])
        super().__init__(help_text=REASONS, allow_blank=True, **kwargs)


class JobListSerializer(serializers.ModelSerializer[Job]):
    owner = serializers.CharField(source="owner.username", read_only=True)
    team_name = serializers.CharField(source="team.name", read_only=True, allow_null=True, default=None)
    reason = ReasonField(read_only=True)
    strategy = serializers.CharField(read_only=True, allow_null=True)
    framework = serializers.CharField(read_only=True, allow_null=True)

    class Meta:
        model = Job
        fields = (
            "id",
            "name",
            "purpose",
            "state",
            "reason",
            "reason_text",
            "owner",
            "team",
            "team_name",
            "strategy",
            "framework",
            "node_count",
            "device_count",
            "priority",
            "position",
            "waiting_text",
            "progress",
            "created_at",
            "queued_at",
            "started_at",
            "ended_at",
            "version",
            "origin",
            "resume_from",
            "rev",
        )
        read_only_fields = fields


class JobSerializer(JobListSerializer):
    spec = SpecField(read_only=True)
    ended_by = serializers.CharField(source="ended_by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Job
        fields = (*JobListSerializer.Meta.fields, "spec", "ended_by")
        read_only_fields = fields


class EventSerializer(serializers.ModelSerializer[JobEvent]):
    actor = serializers.CharField(source="actor.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = JobEvent
        fields = ("id", "at", "rev", "kind", "text", "data", "actor")
        read_only_fields = fields


class SeatSerializer(serializers.Serializer[Any]):
    device = serializers.IntegerField(source="device.index")
    uuid = serializers.CharField(source="device.uuid")
    kind = serializers.CharField(source="device.kind")
    thousandths = serializers.IntegerField(help_text="Share of the device: 1000 is the whole of it.")
    released_at = serializers.DateTimeField(allow_null=True)


class PlacementSerializer(serializers.ModelSerializer[Placement]):
    node = serializers.UUIDField(source="node_id", read_only=True)
    node_name = serializers.CharField(source="node.name", read_only=True)
    exit = serializers.DictField(read_only=True, allow_null=True, help_text="How its launch ended, as its node told.")
    seats = SeatSerializer(many=True, read_only=True)

    class Meta:
        model = Placement
        fields = (
            "id",
            "node",
            "node_name",
            "node_rank",
            "ranks",
            "cpus",
            "memory_bytes",
            "state",
            "note",
            "exit",
            "dropped_bytes",
            "created_at",
            "ended_at",
            "released_at",
            "seats",
        )
        read_only_fields = fields


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    reason = ReasonField(read_only=True)
    placements = PlacementSerializer(many=True, read_only=True)

    class Meta:
        model = Attempt
        fields = (
            "number",
            "state",
            "reason",
            "reason_text",
            "resume_step",
            "checkpoint",
            "created_at",
            "running_at",
            "ended_at",
            "placements",
        )
        read_only_fields = fields


class QueuedSerializer(serializers.ModelSerializer[Job]):
    """A waiting job in line. What others run is theirs: a foreign job shows its place and size only."""

    id = serializers.SerializerMethodField()
    name = serializers.SerializerMethodField()
    owner = serializers.SerializerMethodField()
    waiting_text = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (
            "position",
            "id",
            "name",
            "owner",
            "waiting_text",
            "priority",
            "queued_at",
            "node_count",
            "device_count",
        )
        read_only_fields = fields

    def _if_visible(self, job: Any, value: Any) -> Any:
        return value if job.is_visible else None

    def get_id(self, job: Job) -> int | None:
        return self._if_visible(job, job.pk)

    def get_name(self, job: Job) -> str | None:
        return self._if_visible(job, job.name)

    def get_owner(self, job: Job) -> str | None:
        return self._if_visible(job, job.owner.username)

    def get_waiting_text(self, job: Job) -> str | None:
        return self._if_visible(job, job.waiting_text)


class ProblemSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(allow_null=True, help_text="Dotted name within the body; null or empty: the whole.")
    message = serializers.CharField()


class CheckSerializer(serializers.Serializer[Any]):
    """What a submit would answer, and what each node would run."""

    problems = ProblemSerializer(many=True)
    starts_now = serializers.BooleanField()
    why = serializers.CharField(allow_blank=True)
    previews = serializers.SerializerMethodField()

    @extend_schema_field({"type": "array", "items": {"$ref": "#/components/schemas/Launch"}})
    def get_previews(self, report: Any) -> list[dict[str, Any]]:
        return [preview(launch) for launch in report.previews]


def preview(launch: Launch) -> dict[str, Any]:
    """A launch for people: without the token and without the values of secrets."""
    shown = launch.model_dump(mode="json", exclude={"token", "spec"})
    shown["secrets"] = dict.fromkeys(launch.secrets, "••••")
    return shown
