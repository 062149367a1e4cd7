"""Resumable uploads by tus 1.0 at `/uploads/`, as a raw ASGI application: bytes go from the socket to disk.

POST creates (and may carry the first bytes), HEAD tells the offset, PATCH appends, DELETE gives up. The answer to the
request with the last byte names the upload's state: small files are datasets by then, large ones finish behind it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable

from django.utils.http import http_date
from django.utils.translation import gettext as _

from datasets.models import Upload
from datasets.raw_http import Blocking, Exchange, Receive, Scope, Send, answer
from datasets.services import uploads
from datasets.services.finish import INLINE_BYTES, finish_upload, finish_waiting
from datasets.states import UploadState
from datasets.uploads import headers
from datasets.uploads.who import find_own_upload, find_sender
from datasets.uploads.writer import Piece, WrongOffset, receive_piece, settle
from portal.errors import DomainError, Invalid, NotFound, StorageFull, Unavailable

PREFIX = "/uploads/"

_blocking = Blocking("uploads", threads=12)
_finishing = Blocking("uploads-finish", threads=2)
_is_resumed = False

Handler = Callable[[Exchange], Awaitable[None]]


class NotAllowed(DomainError):
    http_status = 405


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    _resume_finishing()
    await answer(Exchange(scope, receive, send), _handle, headers.ALWAYS)


def _resume_finishing() -> None:
    """Once per process: what a process before this one left between last byte and dataset, however large."""
    global _is_resumed  # noqa: PLW0603 - one flag of the process
    if not _is_resumed:
        _is_resumed = True
        _finishing.start(finish_waiting)


async def _handle(exchange: Exchange) -> None:
    if exchange.method == "POST" and exchange.header("X-HTTP-Method-Override"):
        exchange.method = exchange.header("X-HTTP-Method-Override").upper()
    handlers = _ONE if _upload_id(exchange) else _ALL
    handler = handlers.get(exchange.method)
    if handler is None:
        raise NotAllowed("method_not_allowed", _("Use %(methods)s here.") % {"methods": ", ".join(handlers)})
    if exchange.method != "OPTIONS":
        headers.require_protocol(exchange.header("Tus-Resumable"))
    try:
        await handler(exchange)
    except WrongOffset as error:
        await exchange.refuse(error, [*headers.ALWAYS, ("Upload-Offset", str(error.offset))])


async def _options(exchange: Exchange) -> None:
    await exchange.reply(204, [*headers.ALWAYS, *headers.ABILITIES])


async def _create(exchange: Exchange) -> None:
    user = await _blocking.run(find_sender, exchange.request)
    size = headers.number(exchange.header("Upload-Length"), "Upload-Length")
    values = headers.metadata(exchange.header("Upload-Metadata"))
    has_body = bool(exchange.header("Content-Type")) and exchange.header("Content-Length") != "0"
    piece = _piece(exchange, offset=0) if has_body else None
    upload, token = await _blocking.run(
        uploads.create_upload,
        user,
        file_name=values.get("filename", ""),
        size_bytes=size,
        dataset_id=values.get("dataset"),
        dataset_name=values.get("dataset_name", ""),
        team_id=values.get("team"),
        purpose=values.get("purpose", "dataset"),
        sha256=values.get("sha256", ""),
    )
    offset = 0
    if piece is not None:
        offset = await receive_piece(_blocking, exchange, upload, piece)
    if offset == size:
        await _finish(upload)
    address = [("Location", f"{PREFIX}{upload.pk}"), ("Upload-Token", token)]
    await exchange.reply(201, [*headers.ALWAYS, *address, *await _blocking.run(_progress, upload, offset)])


async def _tell(exchange: Exchange) -> None:
    upload = await _blocking.run(find_own_upload, exchange.request, _upload_id(exchange))
    uploads.require_open(upload)
    offset = await _blocking.run(_true_offset, upload)
    if await _blocking.run(_state, upload) == UploadState.FINISHING:
        await _finish(upload)  # a client that reads of all its bytes sends nothing more
    name = base64.b64encode(upload.file_name.encode()).decode()
    length = [("Upload-Length", str(upload.size_bytes)), ("Upload-Metadata", f"filename {name}")]
    await exchange.reply(200, [*headers.ALWAYS, *length, *await _blocking.run(_progress, upload, offset)])


async def _append(exchange: Exchange) -> None:
    headers.require_piece_type(exchange.header("Content-Type"))
    piece = _piece(exchange, offset=headers.number(exchange.header("Upload-Offset"), "Upload-Offset"))
    upload = await _blocking.run(find_own_upload, exchange.request, _upload_id(exchange))
    uploads.require_open(upload)
    if upload.state != UploadState.OPEN and piece.offset == upload.size_bytes and not piece.length:
        offset = upload.size_bytes  # asked again for a last answer that got lost
    else:
        offset = await receive_piece(_blocking, exchange, upload, piece)
    if offset == upload.size_bytes:
        await _finish(upload)
    await exchange.reply(204, [*headers.ALWAYS, *await _blocking.run(_progress, upload, offset)])


async def _give_up(exchange: Exchange) -> None:
    upload = await _blocking.run(find_own_upload, exchange.request, _upload_id(exchange))
    await _blocking.run(uploads.abandon, upload)
    await exchange.reply(204, headers.ALWAYS)


async def _finish(upload: Upload) -> None:
    """Small files before the answer, large ones behind it; a full disk leaves it to the next sweep."""
    if upload.size_bytes > INLINE_BYTES:
        _finishing.start(finish_upload, upload.pk)
        return
    try:
        await _finishing.run(finish_upload, upload.pk)
    except (StorageFull, Unavailable):
        if (await _blocking.run(_state, upload)) == UploadState.FAILED:
            raise
    except Invalid as error:
        if error.code != "wrong_checksum":
            raise
        raise headers.WrongPiece(error.code, error.message, field=error.field) from error


def _piece(exchange: Exchange, *, offset: int) -> Piece:
    headers.require_piece_type(exchange.header("Content-Type"))
    text = exchange.header("Content-Length")
    length = headers.number(text, "Content-Length") if text else None
    return Piece(offset, length, headers.checksum(exchange.header("Upload-Checksum")))


def _true_offset(upload: Upload) -> int:
    """From the file when nobody writes to it: a process that died may have written more than it could save."""
    if upload.state != UploadState.OPEN:
        return upload.size_bytes
    file = uploads.staging().lock(upload.pk)
    if file is not None:
        with file:
            settle(upload, file)
            if file.size == upload.size_bytes:
                uploads.note_all_here(upload)
            return file.size
    if upload.unverified_from is not None:
        return upload.unverified_from
    size = uploads.staging().size(upload.pk)
    if size is None:
        raise uploads.Gone("bytes_lost", _("The bytes of this upload are gone from the portal's disk. Start it again."))
    return size


def _progress(upload: Upload, offset: int) -> list[tuple[str, str]]:
    """Upload-State is ours: open, finishing, done or failed. What became of it is at /api/v1/uploads/<id>/."""
    upload.refresh_from_db(fields=["state", "moved_at"])
    expires = [("Upload-Expires", http_date(uploads.expires_at(upload).timestamp()))]
    is_open = upload.state == UploadState.OPEN
    return [("Upload-Offset", str(offset)), ("Upload-State", upload.state), *(expires if is_open else [])]


def _state(upload: Upload) -> str | None:
    return Upload.objects.filter(pk=upload.pk).values_list("state", flat=True).first()


def _upload_id(exchange: Exchange) -> str:
    """The id in the address, '' for the collection. Raises `NotFound` for any other address."""
    found = re.fullmatch(r".*/uploads(?:/([0-9a-fA-F-]{32,36})?/?)?", exchange.path)
    if found is None:
        raise NotFound("not_found", _("There is no such upload."))
    return found[1] or ""


_ALL: dict[str, Handler] = {"OPTIONS": _options, "POST": _create}
_ONE: dict[str, Handler] = {"OPTIONS": _options, "HEAD": _tell, "PATCH": _append, "DELETE": _give_up}
