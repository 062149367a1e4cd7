"""Bytes from a socket into a file: memory stays flat, and whatever arrived counts, even from a cut request."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from datasets.models import Upload
from datasets.raw_http import Blocking, Exchange, Vanished
from datasets.services import uploads
from datasets.services.objects import refusal
from datasets.storage.contract import StorageError
from datasets.storage.staging import StagedFile
from datasets.uploads.headers import Checksum, TooLong, too_long, wrong_piece
from portal.errors import Conflict, DomainError

BUFFER_BYTES = 1 << 20  # per upload under way; the socket's own flow control holds the sender back
LOOK_SECONDS = 1.0  # how often a writer looks whether a newer one has taken over
SYNC_BYTES = 64 << 20
IDLE_SECONDS = 60.0  # without a byte: the connection is taken for dead, what came is kept
TAKE_OVER_SECONDS = 15.0  # how long a newer writer waits for an older one to let go


class Locked(DomainError):
    http_status = 423


class TimedOut(DomainError):
    http_status = 408


class WrongOffset(Conflict):
    def __init__(self, offset: int) -> None:
        super().__init__(
            "wrong_offset", _("The portal has %(offset)d bytes of this upload. Go on from there.") % {"offset": offset}
        )
        self.offset = offset


class TakenOver(Exception):
    """A newer request for the same upload is writing now."""


@dataclass
class Piece:
    """One request's bytes, `length` None when the client does not say how many."""

    offset: int
    length: int | None
    checksum: Checksum | None


@dataclass
class _Writing:
    upload: Upload
    epoch: int
    file: StagedFile
    piece: Piece
    buffer: bytearray = field(default_factory=bytearray)
    received: int = 0
    looked_at: float = field(default_factory=time.monotonic)
    moved_at: float = field(default_factory=time.monotonic)
    synced: int = 0
    turn: threading.RLock = field(default_factory=threading.RLock)  # a cancelled request may leave a write under way


async def receive_piece(blocking: Blocking, exchange: Exchange, upload: Upload, piece: Piece) -> int:
    """Take one request's body; the offset afterwards, synced and saved. All bytes here makes the upload FINISHING.

    Raises `WrongOffset`, `TooLong`, `WrongPiece` (offset unchanged), `StorageFull`, `Locked`, `Vanished`.
    """
    epoch = await blocking.run(uploads.take_over, upload)
    file = await _locked(blocking, upload)
    writing = _Writing(upload, epoch, file, piece)
    try:
        await blocking.run(_start, writing)
        await _transfer(blocking, exchange, writing)
        return file.size
    except StorageError as error:
        raise refusal(error) from error
    except TakenOver:
        raise Conflict("taken_over", _("Another request goes on with this upload.")) from None
    finally:
        await blocking.run(_close, writing)


async def _locked(blocking: Blocking, upload: Upload) -> StagedFile:
    deadline = time.monotonic() + TAKE_OVER_SECONDS
    while True:
        file = await blocking.run(uploads.staging().lock, upload.pk)
        if file is not None:
            return file
        if time.monotonic() > deadline or uploads.staging().size(upload.pk) is None:
            raise Locked("locked", _("An older request still writes to this upload. Try again in a moment."))
        await asyncio.sleep(0.05)


def _start(writing: _Writing) -> None:
    """Compare with the true offset: the file's length."""
    file, piece = writing.file, writing.piece
    settle(writing.upload, file)
    if file.size != piece.offset:
        raise WrongOffset(file.size)
    if piece.offset + (piece.length or 0) > writing.upload.size_bytes:
        raise too_long()
    writing.synced = file.size
    if not uploads.note_piece(writing.upload, writing.epoch, file.size, is_checked=piece.checksum is not None):
        raise TakenOver


def settle(upload: Upload, file: StagedFile) -> None:
    """Make the locked file what the upload's row may promise: nothing unverified, nothing unsynced."""
    upload.refresh_from_db(fields=["unverified_from"])
    if upload.unverified_from is not None and file.size > upload.unverified_from:
        file.truncate(upload.unverified_from)
    file.sync()


async def _transfer(blocking: Blocking, exchange: Exchange, writing: _Writing) -> None:
    try:
        await _pump(blocking, exchange, writing)
    except (Vanished, TimedOut, StorageError, asyncio.CancelledError):
        await blocking.run(_end, writing, is_whole=False)
        raise
    except TooLong:
        await blocking.run(_undo, writing)
        raise
    await blocking.run(_end, writing, is_whole=True)


async def _pump(blocking: Blocking, exchange: Exchange, writing: _Writing) -> None:
    while (part := await exchange.piece(LOOK_SECONDS)) is not None:
        now = time.monotonic()
        if part:
            writing.moved_at = now
            writing.received += len(part)
            if writing.piece.offset + writing.received > writing.upload.size_bytes:
                raise too_long()
            writing.buffer += part
        if len(writing.buffer) >= BUFFER_BYTES or (writing.buffer and not part):
            await blocking.run(_flush, writing)
        if not part or now - writing.looked_at >= LOOK_SECONDS:
            await blocking.run(_look, writing)
            writing.looked_at = now
        if not part and now - writing.moved_at > IDLE_SECONDS:
            raise TimedOut("idle", _("No byte came for a minute. What arrived is kept; go on from the offset."))


def _flush(writing: _Writing) -> None:
    with writing.turn:
        buffer, writing.buffer = writing.buffer, bytearray()  # taken first: what a full disk cut is not written twice
        if writing.piece.checksum is not None:
            writing.piece.checksum.hash.update(buffer)
        writing.file.append(buffer)
        if writing.file.size - writing.synced >= SYNC_BYTES:
            writing.file.sync()
            writing.synced = writing.file.size


def _look(writing: _Writing) -> None:
    """Still the newest writer? Says on the way that somebody is there, and how far the file is synced."""
    offset = writing.synced if writing.piece.checksum is None else None
    is_moving = time.monotonic() - writing.moved_at < 2 * LOOK_SECONDS
    if not uploads.note_progress(writing.upload, writing.epoch, offset, is_moving=is_moving):
        raise TakenOver


def _end(writing: _Writing, *, is_whole: bool) -> None:
    """Keep what arrived. A piece with a sum is kept only whole and right."""
    with writing.turn:
        trouble = _flush_rest(writing)
        checksum = writing.piece.checksum
        is_right = checksum is None or (is_whole and trouble is None and checksum.is_right())
        if not is_right:
            writing.file.truncate(writing.piece.offset)
        _keep(writing)
    if is_whole and trouble is not None:
        raise trouble
    if is_whole and not is_right:
        raise wrong_piece()


def _flush_rest(writing: _Writing) -> StorageError | None:
    try:
        _flush(writing)
    except StorageError as error:
        return error
    return None


def _undo(writing: _Writing) -> None:
    with writing.turn:
        writing.file.truncate(writing.piece.offset)
        _keep(writing)


def _keep(writing: _Writing) -> None:
    writing.file.sync()
    if not uploads.note_end(writing.upload, writing.epoch, writing.file.size):
        raise TakenOver


def _close(writing: _Writing) -> None:
    with writing.turn:
        writing.file.close()
