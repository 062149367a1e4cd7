"""From the last byte to a dataset version: sum, storage, quota once more, row. Safe to run twice."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from datasets.models import Dataset, StoredObject, Upload
from datasets.services.datasets import create_dataset
from datasets.services.objects import store_file
from datasets.services.storage_use import check_room
from datasets.services.uploads import is_here, staging
from datasets.services.versions import add_version
from datasets.states import UploadState
from datasets.storage.staging import StagedFile
from portal.after_commit import hint
from portal.errors import DomainError, Invalid, StorageFull, Unavailable

INLINE_BYTES = 64 << 20  # smaller files finish before the last request is answered
LATE_WRITER_SECONDS = 3.0
WORKER_BYTES = 8 << 30  # hashed well within a Celery task's minute


def finish_upload(upload_id: UUID | str) -> Upload | None:
    """Finish one upload whose bytes are all here; None when its row is gone.

    Raises the refusal that ended it (wrong sum, quota), or `StorageFull`/`Unavailable` when it stays FINISHING and
    is tried again later. Returns the row unchanged when another process or host is the one to finish it.
    """
    upload = Upload.objects.filter(pk=upload_id).first()
    if upload is None or upload.state != UploadState.FINISHING or not is_here(upload):
        return upload
    held = _hold(upload)
    if held is None:
        return _without_file(upload)
    with held:
        if not Upload.objects.filter(pk=upload.pk, state=UploadState.FINISHING).exists():
            return Upload.objects.filter(pk=upload.pk).first()
        if held.size != upload.size_bytes:
            raise _fail(upload, Invalid("bytes_lost", _("Some bytes are missing on the portal. Send the file again.")))
        try:
            stored = store_file(staging().path(upload.pk), sha256=upload.sha256)
        except Invalid as error:
            raise _fail(upload, error) from error
        return _conclude(upload, stored)


def finish_waiting(*, idle_seconds: float = 30.0, max_bytes: int | None = None, work_seconds: float = math.inf) -> int:
    """Finish what stands at FINISHING because its process died or storage was full; returns how many ended.

    After `work_seconds` no further one is begun.
    """
    until = time.monotonic() + work_seconds
    cutoff = timezone.now() - timedelta(seconds=idle_seconds)
    waiting = Upload.objects.filter(state=UploadState.FINISHING, moved_at__lte=cutoff).order_by("size_bytes")
    if max_bytes is not None:
        waiting = waiting.filter(size_bytes__lte=max_bytes)
    ended = 0
    for pk in waiting.values_list("pk", flat=True)[:100]:
        if time.monotonic() > until:
            break
        try:
            upload = finish_upload(pk)
        except (StorageFull, Unavailable):
            continue
        except DomainError:
            ended += 1
            continue
        ended += upload is not None and upload.state == UploadState.DONE
    return ended


def _hold(upload: Upload) -> StagedFile | None:
    """The locked file. A late writer holds it for a moment until it sees that it is too late; a finisher for longer."""
    deadline = time.monotonic() + LATE_WRITER_SECONDS
    while True:
        held = staging().lock(upload.pk)
        if held is not None or time.monotonic() > deadline or staging().size(upload.pk) is None:
            return held
        time.sleep(0.02)


def _without_file(upload: Upload) -> Upload | None:
    """Held by another finisher, or gone: then it was finished meanwhile, or lost."""
    is_gone = staging().size(upload.pk) is None  # asked first: the row says DONE before its file goes
    row = Upload.objects.filter(pk=upload.pk).first()
    if is_gone and row is not None and row.state == UploadState.FINISHING:
        raise _fail(row, Invalid("bytes_lost", _("The file is gone from the portal's disk. Send it again.")))
    return row


def _conclude(upload: Upload, stored: StoredObject) -> Upload:
    try:
        with transaction.atomic():
            row: Upload = (
                Upload.objects.select_for_update(of=("self",))
                .select_related("owner", "team", "dataset")
                .get(pk=upload.pk)
            )
            if row.state == UploadState.FINISHING:
                _make_rows(row, stored)
    except Upload.DoesNotExist:  # its dataset was deleted meanwhile
        staging().remove(upload.pk)
        return upload
    except DomainError as error:
        raise _fail(upload, error) from error
    staging().remove(upload.pk)
    return row


def _make_rows(row: Upload, stored: StoredObject) -> None:
    payer = row.dataset.owner if row.dataset is not None else row.owner
    check_room(payer, row.team, row.size_bytes, besides=row)
    if row.purpose == "dataset":
        dataset: Dataset = row.dataset or create_dataset(row.owner, name=row.dataset_name, team=row.team)
        row.dataset = dataset
        row.version = add_version(row.owner, dataset, stored=stored, file_name=row.file_name)
    else:
        row.stored = stored
    row.sha256 = stored.sha256
    row.state = UploadState.DONE
    row.moved_at = timezone.now()
    row.save(update_fields=["dataset", "version", "stored", "sha256", "state", "moved_at"])
    hint(f"user.{row.owner_id}")


def _fail(upload: Upload, error: DomainError) -> DomainError:
    """The upload is over; its bytes go, its reason stays."""
    if Upload.objects.filter(pk=upload.pk, state=UploadState.FINISHING).update(
        state=UploadState.FAILED, problem=error.message, moved_at=timezone.now()
    ):
        staging().remove(upload.pk)
        hint(f"user.{upload.owner_id}")
    return error
