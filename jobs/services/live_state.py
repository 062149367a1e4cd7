"""What a job's page shows besides curves and logs, read in one go; the same for the first page, REST and sockets."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils import timezone

from jobs.models import Attempt, Checkpoint, Job, JobEvent, Placement, Stream
from jobs.services.desired import WATCHED_SECONDS
from jobs.services.placements import wake_nodes
from jobs.states import OPEN
from nodes.models import Node

WATCH_SECONDS = 3.0  # a watched job's nodes come more often; written no more often than this
MAX_EVENTS = 500  # per message; a page asks REST for older ones
MAX_CHECKPOINTS = 200


def mark_watched(job: Job) -> None:
    """Somebody has the job's page open. The first one wakes its nodes, which come rarely while nobody looks."""
    age = None if job.watched_at is None else timezone.now() - job.watched_at
    if job.state not in OPEN or (age is not None and age < timedelta(seconds=WATCH_SECONDS)):
        return
    Job.objects.filter(pk=job.pk).update(watched_at=timezone.now())
    if age is None or age > timedelta(seconds=WATCHED_SECONDS):
        wake_nodes(job)


def job_state(job: Job) -> dict[str, Any]:
    """The job with its attempts and placements, as JSON."""
    placements: dict[int, list[dict[str, Any]]] = {}
    rows = Placement.objects.filter(attempt__job=job).select_related("node").order_by("attempt", "node_rank")
    for placement in rows:
        placements.setdefault(placement.attempt_id, []).append(_placement(placement))
    return {
        **job_row(job),
        "reason_text": job.reason_text,
        "stop_reason": job.stop_reason,
        "attempts": [
            {**_attempt(attempt), "placements": placements.get(attempt.pk, [])}
            for attempt in Attempt.objects.filter(job=job).order_by("number")
        ],
        "streams": stream_troubles(job),
    }


def job_row(job: Job) -> dict[str, Any]:
    """What a list shows of a job."""
    return {
        "id": job.pk,
        "name": job.name,
        "owner": job.owner.get_username(),
        "team": job.team.name if job.team else None,
        "state": job.state,
        "reason": job.reason,
        "waiting_text": job.waiting_text,
        "position": job.position,
        "priority": job.priority,
        "progress": job.progress,
        "node_count": job.node_count,
        "device_count": job.device_count,
        "created_at": _iso(job.created_at),
        "queued_at": _iso(job.queued_at),
        "started_at": _iso(job.started_at),
        "ended_at": _iso(job.ended_at),
    }


def stream_troubles(job: Job) -> dict[str, Any]:
    """Lines of metrics that could not be read, and bytes that nodes had to drop."""
    streams = Stream.objects.filter(placement__attempt__job=job)
    sums = streams.aggregate(bad_lines=Sum("bad_lines", default=0), gap_bytes=Sum("gap_bytes", default=0))
    samples: list[str] = []
    if sums["bad_lines"]:
        for own in streams.exclude(bad_lines=0).values_list("bad_samples", flat=True)[:5]:
            samples += own
    return {**sums, "bad_samples": samples[:5]}


def events_since(job: Job, rev: int) -> list[dict[str, Any]]:
    """Events newer than `rev`, oldest first; of the very first read the newest MAX_EVENTS."""
    rows = JobEvent.objects.filter(job=job, rev__gt=rev).select_related("actor").order_by("-id")[:MAX_EVENTS]
    return [
        {
            "id": event.pk,
            "rev": event.rev,
            "at": _iso(event.at),
            "kind": event.kind,
            "text": event.text,
            "data": event.data,
            "actor": event.actor.get_username() if event.actor else None,
        }
        for event in reversed(rows)
    ]


def checkpoints_of(job: Job) -> list[dict[str, Any]]:
    rows = Checkpoint.objects.filter(job=job).select_related("attempt").order_by("-step", "-id")[:MAX_CHECKPOINTS]
    return [
        {
            "id": row.pk,
            "attempt": row.attempt.number,
            "step": row.step,
            "size_bytes": row.size_bytes,
            "files": len(row.files),
            "metrics": row.metrics,
            "is_removed": row.is_removed,
            "created_at": _iso(row.created_at),
        }
        for row in rows
    ]


def usage_of(job: Job) -> list[dict[str, Any]]:
    """The newest sample of each node on which the job has seats."""
    nodes = Node.objects.filter(
        pk__in=Placement.objects.filter(attempt__job=job, released_at__isnull=True).values("node")
    )
    return [node_usage(node) for node in nodes.prefetch_related("devices")]


def node_usage(node: Node) -> dict[str, Any]:
    return {
        "id": str(node.pk),
        "name": node.name,
        "exchanged_at": _iso(node.exchanged_at),
        "usage": node.usage,
        "devices": [
            {"index": device.index, "kind": device.kind, "usage": device.usage}
            for device in sorted(node.devices.all(), key=lambda device: device.index)
            if device.is_present
        ],
    }


def queue_head(limit: int = 50) -> tuple[int, list[Job]]:
    """How many people's jobs wait, and the first of them."""
    waiting = Job.objects.of_people().filter(state="queued")
    total = waiting.aggregate(total=Count("id", filter=Q()))["total"]
    return total, list(waiting.select_related("owner", "team").order_by("position", "id")[:limit])


def visible_ids(jobs: Iterable[int], user: Any) -> set[int]:
    return set(Job.objects.visible_to(user).filter(pk__in=list(jobs)).values_list("pk", flat=True))


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "state": attempt.state,
        "reason": attempt.reason,
        "reason_text": attempt.reason_text,
        "resume_step": attempt.resume_step,
        "created_at": _iso(attempt.created_at),
        "running_at": _iso(attempt.running_at),
        "ended_at": _iso(attempt.ended_at),
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {
        "id": placement.pk,
        "node": placement.node.name,
        "node_id": str(placement.node_id),
        "node_rank": placement.node_rank,
        "ranks": placement.ranks,
        "state": placement.state,
        "note": placement.note,
        "dropped_bytes": placement.dropped_bytes,
        "ended_at": _iso(placement.ended_at),
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
