"""Stored bytes and their rows: a row exists only after its bytes are safe, and identical bytes are stored once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import Exists, OuterRef, ProtectedError
from django.utils import timezone
from django.utils.translation import gettext as _

from datasets.models import StoredObject
from datasets.storage.contract import NoSpace, Reader, Storage, StorageError, Writer, Written
from datasets.storage.open import open_storage
from portal.errors import Conflict, Invalid, StorageFull, Unavailable

SPARE_SECONDS = 86_400  # an unreferenced object this young may be on its way into a row


def storage() -> Storage:
    return _storage(settings.STORAGE_URL)


def store_stream(pieces: Iterable[bytes], *, sha256: str = "", max_bytes: int | None = None) -> StoredObject:
    """Store what `pieces` yields. Raises `Invalid` on a wrong sum or too many bytes, `StorageFull`, `Unavailable`."""
    with object_writer() as writer:
        for piece in pieces:
            write_piece(writer, piece, max_bytes=max_bytes)
        return commit_writer(writer, sha256=sha256)


def store_file(path: Path, *, sha256: str = "") -> StoredObject:
    """Store a file's bytes; nobody may write to `path` any more, since storage may keep the very same inode."""
    try:
        written = storage().put_file(path)
    except StorageError as error:
        raise refusal(error) from error
    return _adopt(written, sha256)


def open_object(stored: StoredObject, start: int = 0, length: int | None = None) -> Reader:
    """Bytes of an object. Raises `Unavailable` when storage cannot give them."""
    try:
        return storage().open(stored.key, start, length)
    except StorageError as error:
        raise refusal(error) from error


def object_writer() -> Writer:
    try:
        return storage().create()
    except StorageError as error:
        raise refusal(error) from error


def write_piece(writer: Writer, piece: bytes, *, max_bytes: int | None = None) -> None:
    if max_bytes is not None and writer.size_bytes + len(piece) > max_bytes:
        raise Invalid("too_large", _("More than the announced %(limit)d bytes arrived.") % {"limit": max_bytes})
    try:
        writer.write(piece)
    except StorageError as error:
        raise refusal(error) from error


def commit_writer(writer: Writer, *, sha256: str = "") -> StoredObject:
    if sha256 and writer.hash.hexdigest() != sha256:
        raise _wrong_sum(sha256, writer.hash.hexdigest())
    try:
        written = writer.commit()
    except StorageError as error:
        raise refusal(error) from error
    return _adopt(written, sha256)


def refusal(error: StorageError) -> StorageFull | Unavailable:
    """A storage's own complaint as a refusal a person can act on; the details stay in the log."""
    if isinstance(error, NoSpace):
        return StorageFull(
            "disk_full", _("The portal's disk is full. Nothing was lost; an administrator must make room.")
        )
    return Unavailable("storage_down", _("The storage does not answer as it should. Try again in a minute."))


def sweep_objects(*, older_than_seconds: float = SPARE_SECONDS) -> int:
    """Delete objects no row refers to and nobody was handed lately; returns how many."""
    cutoff = timezone.now() - timedelta(seconds=older_than_seconds)
    swept = 0
    for pk in _unreferenced().filter(used_at__lte=cutoff).values_list("pk", flat=True)[:1000]:
        swept += _sweep_one(pk, cutoff)
    return swept


def sweep_orphans(*, older_than_seconds: float = SPARE_SECONDS) -> int:
    """Delete bytes without a row, left by a process that died between the two; returns how many."""
    store = storage()
    limit = time.time() - older_than_seconds
    swept = store.drop_unfinished(older_than_seconds)
    old: list[str] = []
    for entry in store.entries():
        if entry.modified_at <= limit:
            old.append(entry.key)
        if len(old) == 500:
            swept += _drop_rowless(store, old)
            old = []
    return swept + _drop_rowless(store, old)


@cache
def _storage(url: str) -> Storage:
    return open_storage(url)


def _adopt(written: Written, wanted: str) -> StoredObject:
    """The row for bytes that are safe: an older row of the same content wins and our copy goes."""
    if wanted and written.sha256 != wanted:
        storage().delete(written.key)
        raise _wrong_sum(wanted, written.sha256)
    for _attempt in range(5):
        # The update makes a sweep that is about to delete this row think again.
        if StoredObject.objects.filter(sha256=written.sha256).update(used_at=timezone.now()):
            known = StoredObject.objects.filter(sha256=written.sha256).first()
            if known is not None:
                storage().delete(written.key)
                return known
        try:
            with transaction.atomic():
                return StoredObject.objects.create(
                    sha256=written.sha256, key=written.key, size_bytes=written.size_bytes
                )
        except IntegrityError:  # another process stored the same content in between
            continue
    storage().delete(written.key)
    raise Conflict("stored_twice", _("The same content is being stored and removed at once. Try again."))


def _wrong_sum(wanted: str, found: str) -> Invalid:
    return Invalid(
        "wrong_checksum",
        _("The bytes that arrived have the SHA-256 %(found)s, not %(wanted)s as announced. Send the file again.")
        % {"found": found, "wanted": wanted},
        field="sha256",
    )


def _unreferenced() -> models.QuerySet[StoredObject]:
    """Objects no row of any app points to, by whatever foreign keys there are."""
    rows = StoredObject.objects.order_by("pk")
    for relation in StoredObject._meta.get_fields(include_hidden=True):
        if relation.auto_created and not relation.concrete and (relation.one_to_many or relation.one_to_one):
            users = relation.related_model._default_manager.filter(**{relation.field.name: OuterRef("pk")})  # type: ignore[union-attr]
            rows = rows.exclude(Exists(users))
    return rows


def _sweep_one(pk: int, cutoff: object) -> int:
    try:
        with transaction.atomic():
            stored = StoredObject.objects.select_for_update().filter(pk=pk, used_at__lte=cutoff).first()
            if stored is None:
                return 0
            key = stored.key
            stored.delete()
    except (ProtectedError, IntegrityError):  # a row took it in the meantime
        return 0
    storage().delete(key)
    return 1


def _drop_rowless(store: Storage, keys: list[str]) -> int:
    known = set(StoredObject.objects.filter(key__in=keys).values_list("key", flat=True))
    lost = [key for key in keys if key not in known]
    for key in lost:
        store.delete(key)
    return len(lost)
