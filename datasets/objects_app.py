"""Stored objects by ticket at `/objects/<ticket>`: GET with ranges, PUT with a known sum. Raw ASGI, never in memory."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from django.utils.translation import gettext as _

from datasets.models import StoredObject
from datasets.raw_http import Blocking, Exchange, Receive, Scope, Send, Vanished, answer
from datasets.services import objects
from datasets.storage.contract import Reader, Writer
from datasets.tickets import PREFIX, GetTicket, PutTicket, read_ticket
from portal.errors import DomainError, NotFound

PIECE_BYTES = 1 << 18
IDLE_SECONDS = 60.0

_blocking = Blocking("objects", threads=12)

_SAFE = (
    ("Cache-Control", "private, no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; sandbox"),
)


class NotAllowed(DomainError):
    http_status = 405


class BadRange(DomainError):
    http_status = 416


class TooLong(DomainError):
    http_status = 413


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(Exchange(scope, receive, send), _handle, _SAFE)


async def _handle(exchange: Exchange) -> None:
    ticket = read_ticket(exchange.path.rpartition(PREFIX)[2])
    if isinstance(ticket, GetTicket) and exchange.method in ("GET", "HEAD"):
        await _give(exchange, ticket)
    elif isinstance(ticket, PutTicket) and exchange.method == "PUT":
        await _take(exchange, ticket)
    else:
        raise NotAllowed("method_not_allowed", _("This link is not made for that."))


async def _give(exchange: Exchange, ticket: GetTicket) -> None:
    stored = await _blocking.run(_row, ticket.stored_id)
    tag = f'"{stored.sha256}"'
    shared = [*_SAFE, ("ETag", tag), ("Accept-Ranges", "bytes")]
    if tag in [part.strip().removeprefix("W/") for part in exchange.header("If-None-Match").split(",")]:
        await exchange.reply(304, shared)
        return
    wanted = exchange.header("Range") if exchange.header("If-Range") in ("", tag) else ""
    try:
        chosen = byte_range(wanted, stored.size_bytes)
    except BadRange as error:
        await exchange.refuse(error, [*_SAFE, ("Content-Range", f"bytes */{stored.size_bytes}")])
        return
    start, stop = chosen or (0, stored.size_bytes)
    if chosen is not None:
        shared.append(("Content-Range", f"bytes {start}-{stop - 1}/{stored.size_bytes}"))
    reader = await _blocking.run(objects.open_object, stored, start, stop - start)
    try:
        named = ("Content-Disposition", attachment(ticket.file_name or stored.sha256[:12]))
        form = [("Content-Type", "application/octet-stream"), ("Content-Length", str(stop - start)), named]
        await exchange.begin(206 if chosen is not None else 200, [*shared, *form])
        await _send_all(exchange, reader, 0 if exchange.method == "HEAD" else stop - start)
    finally:
        await _blocking.run(reader.close)


async def _send_all(exchange: Exchange, reader: Reader, count: int) -> None:
    """The server's flow control makes `send` wait for a slow client, so one piece is in memory at a time."""
    left = count
    while left > 0:
        piece = await _blocking.run(reader.read, min(PIECE_BYTES, left))
        if not piece:
            raise Vanished  # shorter than its row says: the cut connection tells the client
        left -= len(piece)
        await exchange.send(piece, more=left > 0)
    if count == 0:
        await exchange.send(b"", more=False)


async def _take(exchange: Exchange, ticket: PutTicket) -> None:
    announced = exchange.header("Content-Length")
    if announced.isdecimal() and int(announced) > ticket.max_bytes:
        raise TooLong("too_large", _("At most %(limit)d bytes are expected here.") % {"limit": ticket.max_bytes})
    writer = await _blocking.run(objects.object_writer)
    try:
        await _receive_all(exchange, writer, ticket.max_bytes)
        stored = await _blocking.run(objects.commit_writer, writer, sha256=ticket.sha256)
    finally:
        await _blocking.run(writer.abort)
    await exchange.reply(201, [*_SAFE, ("ETag", f'"{stored.sha256}"')])


async def _receive_all(exchange: Exchange, writer: Writer, max_bytes: int) -> None:
    buffer = bytearray()
    while (part := await exchange.piece(IDLE_SECONDS)) is not None:
        if not part:
            raise Vanished
        buffer += part
        if len(buffer) >= PIECE_BYTES:
            await _blocking.run(objects.write_piece, writer, bytes(buffer), max_bytes=max_bytes)
            buffer.clear()
    await _blocking.run(objects.write_piece, writer, bytes(buffer), max_bytes=max_bytes)


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """(start, stop) of a single `bytes=` range; None for the whole (also several ranges, which may be ignored)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if first and last and int(last) < int(first):
        return None
    if start >= size or stop <= start:
        raise BadRange("range", _("The object has %(size)d bytes.") % {"size": size})
    return start, stop


def attachment(name: str) -> str:
    """RFC 6266: a plain ASCII name for old clients, the true one in UTF-8 beside it."""
    clean = "".join("_" if unicodedata.category(c).startswith("C") else c for c in name)
    plain = unicodedata.normalize("NFKD", clean).encode("ascii", "ignore").decode()
    plain = re.sub(r'["\\%/;]', "_", plain).strip() or "download"
    header = f'attachment; filename="{plain}"'
    return header if plain == clean else f"{header}; filename*=UTF-8''{quote(clean, safe='')}"


def _row(pk: int) -> StoredObject:
    stored = StoredObject.objects.filter(pk=pk).first()
    if stored is None:
        raise NotFound("not_found", _("This object was deleted."))
    return stored
