"""Short control work of the Celery worker; each is safe to run twice and ends within a minute."""

from __future__ import annotations

import logging
import time

from celery import shared_task
from django.db.models import F, Q

from jobs.models import Stream
from jobs.series import compact
from jobs.services import logs
from portal.errors import DomainError

WORK_SECONDS = 30.0  # what is left waits for the next round

logger = logging.getLogger(__name__)


@shared_task(name="jobs.compact_series")
def compact_series() -> int:
    """Pack the open tails that are long enough, and those of ended placements whole; returns the points moved."""
    until, moved = time.monotonic() + WORK_SECONDS, 0
    waiting = Stream.objects.filter(kind="metrics", points__gt=F("compacted")).select_related("placement__attempt")
    for stream in waiting.order_by("id").iterator(chunk_size=200):
        while time.monotonic() < until and (stream.placement.ended_at or compact.is_due(stream)):
            count = compact.compact(stream.pk)
            moved += count
            stream.compacted += count
            if not count:
                break
    return moved


@shared_task(name="jobs.seal_logs")
def seal_logs() -> int:
    """Move long tails of logs into storage; returns the objects made."""
    until, made = time.monotonic() + WORK_SECONDS, 0
    is_long = Q(acked__gt=F("compacted") + logs.OBJECT_BYTES)
    is_final = Q(placement__is_closed=True, acked__gt=F("compacted") + logs.LEAST_FINAL_BYTES)
    waiting = Stream.objects.filter(is_long | is_final, kind="log").select_related("placement").order_by("id")
    for stream in waiting.iterator(chunk_size=200):
        try:
            while time.monotonic() < until and logs.seal(stream.pk, is_final=stream.placement.is_closed):
                made += 1
        except DomainError as error:  # the storage is down or full: the bytes stay where they are
            logger.warning("Could not seal log %s: %s", stream.pk, error.message)
            break
    return made
