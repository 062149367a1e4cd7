"""Logs come in as rows of at most 64 KiB and are sealed into storage objects of 8 MiB with a line index.

Sealing keeps the rule 'load, work, apply': bytes are read, stored outside of any transaction, and only then, under the
stream's lock, the object's row replaces the parts.
"""

from __future__ import annotations

from django.db import transaction

from datasets.models import StoredObject
from datasets.services.objects import store_stream
from jobs.models import LogObject, LogPart, Stream

PART_BYTES = 64 * 1024
JOIN_BYTES = 8 * 1024  # pieces are joined to rows of this size
OBJECT_BYTES = 8 * 2**20
INDEX_LINES = 1_000  # every so many lines the index holds an offset
LEAST_FINAL_BYTES = 2**20  # shorter rests of ended logs stay in rows


def append(stream: Stream, payload: bytes, *, gap: int, rev: int) -> None:
    """Keep bytes that begin at `stream.acked + gap`. Called under the stream's lock; the caller advances `acked`."""
    rows = [LogPart(stream=stream, offset=stream.acked, length=0, gap=gap, rev=rev, blob=b"")] if gap else []
    if not gap and len(payload) < JOIN_BYTES and _extend_last(stream, payload, rev):
        return
    for at in range(0, len(payload), PART_BYTES):
        part = payload[at : at + PART_BYTES]
        rows.append(LogPart(stream=stream, offset=stream.acked + gap + at, length=len(part), rev=rev, blob=part))
    LogPart.objects.bulk_create(rows)


def _extend_last(stream: Stream, payload: bytes, rev: int) -> bool:
    """A line a second must not become a row a second."""
    last = stream.log_parts.order_by("-offset").first()
    if last is None or last.gap or last.length + len(payload) > JOIN_BYTES or last.offset + last.length != stream.acked:
        return False
    last.blob, last.length, last.rev = bytes(last.blob) + payload, last.length + len(payload), rev
    last.save(update_fields=["blob", "length", "rev"])
    return True


def seal(stream_id: int, *, is_final: bool = False) -> bool:
    """Move one object's worth of the tail into storage; False when there is too little, or somebody else was faster."""
    stream = Stream.objects.get(pk=stream_id)
    start, data, is_cut_short = _head_of_tail(stream)
    if len(data) < OBJECT_BYTES and not (is_cut_short or (is_final and len(data) >= LEAST_FINAL_BYTES)):
        return False
    data = _whole_lines(data[:OBJECT_BYTES], keep_all=len(data) < OBJECT_BYTES)
    return _replace_parts(stream, start, data, store_stream([data]))


def _head_of_tail(stream: Stream) -> tuple[int, bytes, bool]:
    """Where the unsealed bytes begin, up to an object's worth of them, and whether a gap ends them before that."""
    parts = stream.log_parts.filter(length__gt=0, offset__gte=stream.compacted).order_by("offset")
    start = end = None
    pieces: list[bytes] = []
    for offset, length, blob in parts.values_list("offset", "length", "blob").iterator(chunk_size=32):
        if start is None:
            start = end = offset
        if offset != end:
            return start, b"".join(pieces), True
        pieces.append(bytes(blob))
        end = offset + length
        if end - start >= OBJECT_BYTES:
            break
    return start or stream.compacted, b"".join(pieces), False


def _whole_lines(data: bytes, *, keep_all: bool) -> bytes:
    """Cut after the last line end, so that objects begin with lines; a line longer than an object is cut anywhere."""
    if keep_all:
        return data
    return data[: data.rfind(b"\n") + 1] or data


def line_index(data: bytes) -> tuple[int, list[int]]:
    """How many lines end in `data`, and where each INDEX_LINES-th line begins."""
    starts = [0]
    count, at = 0, data.find(b"\n")
    while at >= 0:
        count += 1
        if count % INDEX_LINES == 0:
            starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    return count, starts


def _replace_parts(stream: Stream, start: int, data: bytes, stored: StoredObject) -> bool:
    end = start + len(data)
    lines, index = line_index(data)
    with transaction.atomic():
        locked = Stream.objects.select_for_update(no_key=True).get(pk=stream.pk)
        if locked.compacted != stream.compacted:
            return False
        parts = locked.log_parts.filter(length__gt=0, offset__gte=start, offset__lt=end)
        last = parts.order_by("offset").last()
        if last is None:
            return False
        parts.delete()
        rest = bytes(last.blob)[end - last.offset :]
        if rest:
            LogPart.objects.create(stream=locked, offset=end, length=len(rest), rev=last.rev, blob=rest)
        LogObject.objects.create(
            stream=locked, offset=start, length=len(data), stored=stored, lines=lines, line_index=index
        )
        Stream.objects.filter(pk=locked.pk).update(compacted=end)
    return True
