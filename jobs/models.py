"""Jobs, their attempts and placements, and everything a job leaves behind. Rows change only in `jobs.services`."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from datasets.models import StoredObject, Version
from jobs.states import OPEN, AttemptState, JobState, PlacementState, StopReason
from nodes.models import Device, Node
from portal.accounts.models import Team
from portal.accounts.visibility import OwnedQuerySet


def _choices(kind: type) -> list[tuple[str, str]]:
    return [(item.value, item.value) for item in kind]  # type: ignore[attr-defined]


class Leader(models.Model):
    """The one row (id 1) that says which master leads; every applying transaction locks it and compares the epoch."""

    epoch = models.PositiveBigIntegerField(default=0)
    holder = models.CharField(max_length=100, blank=True)
    beats = models.PositiveBigIntegerField(default=0)  # a standby watches it move by its own monotonic clock
    beat_at = models.DateTimeField(null=True)


class JobQuerySet(OwnedQuerySet):
    def open(self) -> JobQuerySet:
        return self.filter(state__in=OPEN)

    def of_people(self) -> JobQuerySet:
        """Without the portal's own work (inspections)."""
        return self.filter(purpose=Job.Purpose.TRAIN)

    def for_list(self) -> JobQuerySet:
        """What a row of a list shows, in one query: without the spec, but with its strategy."""
        return self.select_related("owner", "team").defer("spec").annotate(strategy=models.F("spec__strategy"))


class Job(models.Model):
    class Purpose(models.TextChoices):
        TRAIN = "train", _("Training")
        INSPECT = "inspect", _("Inspection")

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs", verbose_name=_("owner")
    )
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="jobs", verbose_name=_("team")
    )
    purpose = models.CharField(max_length=10, choices=Purpose.choices, default=Purpose.TRAIN)
    name = models.CharField(_("name"), max_length=200)
    spec = models.JSONField()
    state = models.CharField(_("state"), max_length=10, choices=_choices(JobState), default=JobState.QUEUED)
    reason = models.CharField(_("reason"), max_length=20, choices=_choices(StopReason), blank=True)
    reason_text = models.TextField(blank=True)
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    # While it is STOPPING (or asked to): why, and whether it goes back to the queue afterwards.
    stop_reason = models.CharField(max_length=20, choices=_choices(StopReason), blank=True)
    waiting_text = models.TextField(blank=True)  # one sentence: why it waits
    position = models.PositiveIntegerField(null=True)  # in the queue, from 1
    priority = models.IntegerField(_("priority"), default=0)
    created_at = models.DateTimeField(_("submitted at"), auto_now_add=True)
    queued_at = models.DateTimeField()  # its waiting clock: kept when a failure that is not its fault sends it back
    started_at = models.DateTimeField(null=True)  # of the first attempt that ran
    ended_at = models.DateTimeField(null=True)
    version = models.ForeignKey(Version, null=True, on_delete=models.PROTECT, related_name="jobs")
    inspects = models.ForeignKey(Version, null=True, on_delete=models.CASCADE, related_name="inspections")
    inspection = models.PositiveIntegerField(default=0)  # which inspection of the version this one answers
    origin = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="descendants")
    resume_from = models.ForeignKey("Checkpoint", null=True, on_delete=models.SET_NULL, related_name="+")
    idempotency_key = models.CharField(max_length=200, blank=True)
    spec_hash = models.CharField(
        max_length=64, blank=True
    )  # of the submitted body: a reused key with another body is refused
    device_count = models.PositiveIntegerField(default=0)
    node_count = models.PositiveIntegerField(default=1)
    avoid_nodes = models.JSONField(default=list)  # node ids named late or failing for this job
    progress = models.FloatField(null=True)  # 0..1, told by the training code
    watched_at = models.DateTimeField(null=True)  # somebody's page asked for news; its nodes then come more often
    rev = models.PositiveBigIntegerField(default=0)  # stamps every committed batch: the one cursor of REST and sockets

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        ordering = ("-id",)
        indexes = [
            models.Index(fields=["state", "priority"], name="job_state_priority"),
            models.Index(fields=["owner", "-id"], name="job_owner"),
            models.Index(fields=["team", "-id"], name="job_team"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "idempotency_key"], condition=~models.Q(idempotency_key=""), name="job_idempotency_key"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def devices_per_node(self) -> int:
        return self.device_count // max(1, self.node_count)

    @property
    def run_seconds(self) -> float | None:
        """From the first attempt that ran until its end, or until now."""
        if self.started_at is None:
            return None
        return ((self.ended_at or timezone.now()) - self.started_at).total_seconds()


class JobSecret(models.Model):
    """A secret environment value: write-only, never in the spec, masked in output, removed when the job has ended."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=128)
    value = models.BinaryField()  # encrypted with a key derived from SECRET_KEY

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="job_secret_once")]


class Attempt(models.Model):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    epoch = models.PositiveBigIntegerField()  # of the leader that placed it
    state = models.CharField(max_length=10, choices=_choices(AttemptState), default=AttemptState.OPEN)
    reason = models.CharField(max_length=20, choices=_choices(StopReason), blank=True)
    reason_text = models.TextField(blank=True)
    resume_step = models.PositiveBigIntegerField(null=True)  # earlier attempts are hidden from here on
    checkpoint = models.ForeignKey("Checkpoint", null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    running_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("number",)
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["job"], condition=models.Q(state="open"), name="one_open_attempt"),
        ]


class Placement(models.Model):
    """One attempt on one node. Its token fences every write that the launch can cause."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="placements")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="placements")
    token = models.UUIDField(unique=True, default=uuid.uuid4)
    node_rank = models.PositiveIntegerField()
    ranks = models.JSONField(default=list)  # global ranks on this node
    cpus = models.PositiveIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=_choices(PlacementState), default=PlacementState.ORDERED)
    facts = models.JSONField(null=True)  # LaunchFacts, told with READY
    exit = models.JSONField(null=True)  # ExitReport
    note = models.CharField(max_length=300, blank=True)
    moved_at = models.DateTimeField(default=timezone.now)  # last change of state or note: the join limit goes by it
    missing_since = models.DateTimeField(null=True)  # its node exchanges but no longer names it
    dropped_bytes = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)  # its seats are free again
    is_closed = models.BooleanField(default=False)  # end acknowledged and streams complete: the node may forget it

    class Meta:
        ordering = ("node_rank",)
        indexes = [models.Index(fields=["node", "is_closed"], name="placement_node_open")]


class SeatQuerySet(models.QuerySet["Seat"]):
    def holding(self) -> SeatQuerySet:
        """Those whose processes may still use the device: also of a lost node's launch until it tells its end.

        Such a seat counts against nobody's quota, but when the node is back its old launch runs on until it is stopped.
        """
        returned = models.Q(placement__state=PlacementState.LOST, placement__exit__isnull=True)
        return self.filter(models.Q(released_at__isnull=True) | returned)


class Seat(models.Model):
    """A device in use by a placement, in thousandths. An index and a sum under lock forbid double use."""

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="seats")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="seats")
    thousandths = models.PositiveIntegerField(default=1000)
    released_at = models.DateTimeField(null=True)

    objects = SeatQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device"],
                condition=models.Q(released_at__isnull=True, thousandths=1000),
                name="whole_device_once",
            )
        ]


class JobEvent(models.Model):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    rev = models.PositiveBigIntegerField(default=0)
    kind = models.CharField(max_length=40)  # submitted, state, placed, checkpoint, warning, quota, ...
    text = models.TextField()
    data = models.JSONField(default=dict)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ("id",)
        indexes = [models.Index(fields=["job", "rev"], name="event_job_rev")]


class Checkpoint(models.Model):
    """A complete checkpoint in storage: a manifest object that names its file objects."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="checkpoints")
    step = models.PositiveBigIntegerField()
    files = models.JSONField()  # [{path, sha256, size_bytes}]
    size_bytes = models.PositiveBigIntegerField()
    metrics = models.JSONField(default=dict)
    is_removed = models.BooleanField(default=False)  # its objects were given back
    created_at = models.DateTimeField(auto_now_add=True)
    rev = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("-step", "-id")
        constraints = [models.UniqueConstraint(fields=["attempt", "step"], name="checkpoint_step_once")]


class CheckpointObject(models.Model):
    """Keeps a file's stored object alive while its checkpoint stands."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="objects_used")
    stored = models.ForeignKey(StoredObject, on_delete=models.PROTECT, related_name="+")


class CodeBundle(models.Model):
    """A zip of own code that jobs refer to by its SHA-256; visible to whoever uploaded it."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="code_bundles")
    stored = models.ForeignKey(StoredObject, on_delete=models.PROTECT, related_name="+")
    file_name = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)


# --- streams: what a launch writes, by offset -------------------------------------------------------------------------


class Stream(models.Model):
    """(placement, rank, kind). `acked` counts bytes of the node's file; under this row's lock batches come in once."""

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="streams")
    rank = models.IntegerField()
    kind = models.CharField(max_length=10, choices=[("log", "log"), ("metrics", "metrics")])
    acked = models.PositiveBigIntegerField(default=0)
    points = models.PositiveBigIntegerField(default=0)  # metrics: ordinals given so far
    compacted = models.PositiveBigIntegerField(
        default=0
    )  # metrics: ordinals already in chunks; log: bytes already sealed
    gap_bytes = models.PositiveBigIntegerField(default=0)
    bad_lines = models.PositiveBigIntegerField(default=0)
    bad_samples = models.JSONField(default=list)
    rev = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["placement", "rank", "kind"], name="stream_once")]


class SeriesName(models.Model):
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="series_names")
    text = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "text"], name="series_name_once")]


class SeriesBatch(models.Model):
    """The open tail: points as they came. blob = packed POINTs whose name index is the SeriesName id."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="batches")
    first = models.PositiveBigIntegerField()  # ordinal of the first point
    last = models.PositiveBigIntegerField()  # ordinal after the last
    rev = models.PositiveBigIntegerField()
    blob = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "first"], name="batch_once")]
        indexes = [models.Index(fields=["stream", "rev"], name="batch_stream_rev")]


class SeriesChunk(models.Model):
    """Up to 4,096 points of one name, blob = float64 arrays step, time, value one after the other."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="chunks")
    name = models.ForeignKey(SeriesName, on_delete=models.CASCADE, related_name="+")
    ordinal = models.PositiveBigIntegerField()  # of its first point, within (stream, name)
    n = models.PositiveIntegerField()
    rev = models.PositiveBigIntegerField()
    blob = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "name", "ordinal"], name="chunk_once")]


class SeriesPyramid(models.Model):
    """Buckets of a level, fan-out 16: step range, min, max, first, last, counts of finite, NaN, +inf, -inf."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="pyramid")
    name = models.ForeignKey(SeriesName, on_delete=models.CASCADE, related_name="+")
    level = models.PositiveIntegerField()
    block = models.PositiveIntegerField()
    rev = models.PositiveBigIntegerField()
    blob = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "name", "level", "block"], name="pyramid_once")]


class LogPart(models.Model):
    """The open tail of a log: at most 64 KiB of raw bytes from `offset`; or a gap, of length 0, which stays."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="log_parts")
    offset = models.PositiveBigIntegerField()
    length = models.PositiveIntegerField()
    gap = models.PositiveBigIntegerField(default=0)  # bytes from `offset` on that the node dropped
    rev = models.PositiveBigIntegerField()
    blob = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "offset"], name="log_part_once")]


class LogObject(models.Model):
    """Sealed bytes of a log in storage (8 MiB) with a line index: every 1,000th line's offset."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="log_objects")
    offset = models.PositiveBigIntegerField()
    length = models.PositiveBigIntegerField()
    stored = models.ForeignKey(StoredObject, on_delete=models.PROTECT, related_name="+")
    lines = models.PositiveBigIntegerField(default=0)
    line_index = models.JSONField(default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stream", "offset"], name="log_object_once")]
