"""Logs are read by window: from a byte offset, from a line, or the tail; searched and downloaded on the server.

Offsets count bytes of the file on the node. Lines are named by the offset at which they begin; the last line of a page
may still be open, and whoever reads on from its offset gets it again, longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext as _

from datasets.services.objects import open_object
from jobs.models import Job, LogObject, LogPart, Stream
from jobs.services.log_text import clean_line
from jobs.services.logs import INDEX_LINES
from portal.errors import NotFound

MAX_LINES = 2_000
WINDOW_BYTES = 512 * 1024
SEARCH_BYTES = 32 * 2**20  # per request; the answer says where to go on
BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class LogLine:
    """`gap` bytes are missing just before this line; `is_open` while its end has not come."""

    offset: int
    text: str
    gap: int = 0
    is_open: bool = False


@dataclass(frozen=True)
class LogPage:
    """Lines from `start` to `end`; `size` is the log's length so far. `first_line` counts from 0 where it is known."""

    stream: int
    attempt: int
    rank: int
    start: int
    end: int
    size: int
    lines: list[LogLine]
    is_end: bool  # nothing was there behind them
    first_line: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"type": "log", **asdict(self)}


def find_stream(job: Job, rank: int = 0, attempt: int | None = None, node_rank: int | None = None) -> Stream:
    """The log of a rank in an attempt (None: the newest that has one); rank -1 is the launcher. Raises NotFound."""
    found = Stream.objects.filter(placement__attempt__job=job, kind="log", rank=rank)
    if attempt is not None:
        found = found.filter(placement__attempt__number=attempt)
    if node_rank is not None:
        found = found.filter(placement__node_rank=node_rank)
    found = found.select_related("placement__attempt").order_by("-placement__attempt__number", "placement__node_rank")
    stream = found.first()
    if stream is None:
        raise NotFound("no_log", _("There is no such log yet."))
    return stream


def log_streams(job: Job) -> list[dict[str, Any]]:
    """Every log of a job, newest attempt first."""
    found = Stream.objects.filter(placement__attempt__job=job, kind="log")
    found = found.select_related("placement__attempt", "placement__node")
    return [
        {
            "stream": stream.pk,
            "attempt": stream.placement.attempt.number,
            "rank": stream.rank,
            "node_rank": stream.placement.node_rank,
            "node": stream.placement.node.name,
            "size": stream.acked,
            "gap_bytes": stream.gap_bytes,
        }
        for stream in found.order_by("-placement__attempt__number", "rank", "placement__node_rank")
    ]


def read_log(
    stream: Stream,
    *,
    offset: int | None = None,
    line: int | None = None,
    tail: int | None = None,
    limit: int = MAX_LINES,
    colours: bool = True,
) -> LogPage:
    """At most `limit` lines and about WINDOW_BYTES from one of three places; the tail of `limit` lines by default."""
    limit = min(max(limit, 1), MAX_LINES)
    if offset is not None:
        return _page(stream, offset, limit, None, colours)
    if line is not None:
        start, number = _line_start(stream, max(0, line))
        return _page(stream, start, limit, number, colours)
    limit = min(max(tail if tail is not None else limit, 1), MAX_LINES)
    return _page(stream, _tail_start(stream, limit), limit, None, colours)


def log_bytes(stream: Stream) -> Iterator[bytes]:
    """The whole log as it was written; a line in square brackets stands where bytes were dropped."""
    at = 0
    while at < stream.acked:
        spans = read_spans(stream, at, BLOCK_BYTES)
        if not spans:
            return
        for span in spans:
            yield span.data if span.data else ("\n[" + _gap_text(span.gap) + "]\n").encode()
            at = span.end


@dataclass(frozen=True)
class SearchPage:
    """Lines that hold the text, ignoring case; `next_offset` is where to go on, None at the end."""

    lines: list[LogLine]
    next_offset: int | None


def search_log(stream: Stream, text: str, *, offset: int = 0, limit: int = 100) -> SearchPage:
    needle, found, at = text.casefold(), [], max(0, offset)
    stop = at + SEARCH_BYTES
    while at < stream.acked and at < stop:
        page = _page(stream, at, MAX_LINES, None, colours=False)
        if not page.lines or page.end <= at:
            break
        for place, line in enumerate(page.lines):
            if needle in line.text.casefold():
                found.append(line)
            if len(found) >= limit:
                is_last = place + 1 == len(page.lines)
                following = page.end if is_last else page.lines[place + 1].offset
                return SearchPage(found, following if following < stream.acked else None)
        at = page.end
    return SearchPage(found, at if at < stream.acked else None)


# --- bytes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """Bytes from `offset`, or (without data) a gap of that many bytes."""

    offset: int
    data: bytes = b""
    gap: int = 0

    @property
    def end(self) -> int:
        return self.offset + (len(self.data) or self.gap)


def read_spans(stream: Stream, start: int, length: int) -> list[Span]:
    """What is there of [start, start + length), in order. Raises `Unavailable` when the storage is down."""
    stop = start + length
    spans = [*_sealed(stream, start, stop), *_tail(stream, start, stop)]
    return sorted(spans, key=lambda span: span.offset)


def _sealed(stream: Stream, start: int, stop: int) -> Iterator[Span]:
    found = LogObject.objects.filter(stream=stream, offset__lt=stop, offset__gt=start - 2 * 8 * 2**20)
    for row in found.select_related("stored").order_by("offset"):
        first, last = max(start, row.offset), min(stop, row.offset + row.length)
        if first < last:
            with closing(open_object(row.stored, first - row.offset, last - first)) as reader:
                yield Span(first, b"".join(iter(lambda: reader.read(BLOCK_BYTES), b"")))


def _tail(stream: Stream, start: int, stop: int) -> Iterator[Span]:
    """Parts and gaps; a gap is given whole."""
    newer = LogPart.objects.filter(stream=stream, offset__lt=stop, offset__gt=start - 64 * 1024)
    gaps = LogPart.objects.filter(stream=stream, offset__lt=stop, length=0)
    rows = (newer | gaps).order_by("offset").values_list("offset", "length", "gap", "blob")
    for offset, size, gap, blob in rows:
        if gap and offset + gap > start:
            yield Span(offset, gap=gap)
        elif not gap and offset + size > start:
            yield Span(max(start, offset), bytes(blob)[max(0, start - offset) : stop - offset])


# --- lines ------------------------------------------------------------------------------------------------------------


def _page(stream: Stream, start: int, limit: int, first_line: int | None, colours: bool) -> LogPage:
    spans = read_spans(stream, start, WINDOW_BYTES)
    lines, end = _lines(spans, limit, start)
    shown = [LogLine(offset, clean_line(raw, colours=colours), gap, is_open) for offset, raw, gap, is_open in lines]
    is_end = len(lines) < limit and (spans[-1].end if spans else start) >= stream.acked
    attempt = stream.placement.attempt.number
    return LogPage(stream.pk, attempt, stream.rank, start, end, stream.acked, shown, is_end, first_line)


def _lines(spans: list[Span], limit: int, start: int) -> tuple[list[tuple[int, bytes, int, bool]], int]:
    """(offset, raw line, gap before it, is it open) and the offset after them; an open last line is not passed."""
    lines: list[tuple[int, bytes, int, bool]] = []
    gap, at, rest = 0, start, b""
    for span in spans:
        if span.gap:
            if rest or gap:
                lines.append((at, rest, gap, True))
            rest, gap, at = b"", gap + span.gap, span.end
            continue
        if not rest:
            at = span.offset
        *whole, rest = (rest + span.data).split(b"\n")
        for raw in whole:
            lines.append((at, raw, gap, False))
            gap, at = 0, at + len(raw) + 1
            if len(lines) >= limit:
                return lines, at
    if rest or gap:
        lines.append((at, rest, gap, True))
    if len(rest) >= WINDOW_BYTES // 2:
        return lines, at + len(rest)  # a line as long as a window must not hold up its reader
    return lines, at


def _tail_start(stream: Stream, lines: int) -> int:
    """The offset of the line that begins `lines` lines before the end, or what fits into a window."""
    first = max(0, stream.acked - WINDOW_BYTES)
    spans = read_spans(stream, first, stream.acked - first)
    seen = 0
    for span in reversed(spans):
        at = len(span.data)
        if span is spans[-1] and span.data.endswith(b"\n"):
            at -= 1
        while (at := span.data.rfind(b"\n", 0, at)) >= 0:
            seen += 1
            if seen == lines:
                return span.offset + at + 1
    return _after_line_end(spans, first) if first else 0


def _after_line_end(spans: list[Span], first: int) -> int:
    for span in spans:
        at = span.data.find(b"\n")
        if at >= 0:
            return span.offset + at + 1
    return first


def _line_start(stream: Stream, line: int) -> tuple[int, int]:
    """The offset of a line by its number, and its number; beyond the end it is the last one's."""
    number, at = 0, 0
    for row in LogObject.objects.filter(stream=stream).order_by("offset").defer("stored"):
        if number + row.lines > line:
            index = (line - number) // INDEX_LINES
            return _scan(stream, row.offset + row.line_index[index], number + index * INDEX_LINES, line)
        number, at = number + row.lines, row.offset + row.length
    return _scan(stream, at, number, line)


def _scan(stream: Stream, at: int, number: int, line: int) -> tuple[int, int]:
    while number < line:
        lines, end = _lines(read_spans(stream, at, WINDOW_BYTES), line - number, at)
        done = sum(not is_open for _, _, _, is_open in lines)
        if done == 0 or end <= at:
            break
        number, at = number + done, end
    return at, number


def _gap_text(count: int) -> str:
    return _("%(count)s bytes were dropped on the node") % {"count": count}
