"""Short control work: each is a shell around a service, safe to run twice. Times are kept by the master."""

from __future__ import annotations

from celery import shared_task

from datasets.services.finish import WORKER_BYTES, finish_waiting
from datasets.services.objects import sweep_objects, sweep_orphans
from datasets.services.uploads import sweep_uploads

WORK_SECONDS = 20.0  # the largest file that is begun then still ends within a task's minute


@shared_task(name="datasets.finish_uploads")
def finish_uploads() -> None:
    finish_waiting(max_bytes=WORKER_BYTES, work_seconds=WORK_SECONDS)


@shared_task(name="datasets.sweep")
def sweep() -> None:
    sweep_uploads()
    sweep_objects()
    sweep_orphans()
