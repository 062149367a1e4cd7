"""One stream's part of one series, read from pyramid, chunks and open tail. Called inside `read_snapshot()`.

A range of ordinals is cut into whole stored buckets of the widest fitting level and, towards its end, ever narrower
ones and at last raw points; so any range can be read at any width without touching more than it needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import Min, Q, QuerySet, Sum
from numpy.typing import NDArray

from jobs.models import SeriesBatch, SeriesChunk, SeriesPyramid
from jobs.series.points import Points, columns, empty, join, places_by_name, unpack_chunk, unpack_records
from jobs.series.pyramid import (
    BLOCK_BITS,
    BUCKET,
    CHUNK,
    CHUNK_BITS,
    FAN_OUT_BITS,
    LEVELS,
    Buckets,
    from_points,
    merge,
    no_buckets,
)

Key = tuple[int, int]  # stream id, name id


@dataclass
class Extent:
    """How long a piece is and where it changed, with its open chunk and open tail as raw points from `closed` on."""

    chunked: int = 0  # points in chunks
    changed: int | None = None  # first ordinal of a chunk that is newer than `since`
    fresh: int = 0  # points of the tail that are newer than `since`
    tail: Points = field(default_factory=empty)
    raw: Points = field(default_factory=empty)

    @property
    def closed(self) -> int:
        return self.chunked // CHUNK * CHUNK

    @property
    def total(self) -> int:
        return self.chunked + len(self.tail)

    @property
    def seen(self) -> int:
        """Ordinals below this one have not changed since `since`."""
        return self.changed if self.changed is not None else self.total - self.fresh


def extents(streams: Iterable[int], names: Iterable[int], since: int) -> dict[Key, Extent]:
    """Every piece of these streams and names that has points."""
    streams, names = list(streams), list(names)
    found: dict[Key, Extent] = defaultdict(Extent)
    rows = SeriesChunk.objects.filter(stream_id__in=streams, name_id__in=names).order_by()
    lengths = {"total": Sum("n"), "changed": Min("ordinal", filter=Q(rev__gt=since))}
    for stream, name, total, first in rows.values_list("stream_id", "name_id").annotate(**lengths):
        found[stream, name] = Extent(chunked=total, changed=first)
    _read_tails(found, streams, set(names), since)
    _read_open_chunks(found)
    return found


def _read_tails(found: dict[Key, Extent], streams: list[int], names: set[int], since: int) -> None:
    parts: dict[int, list[tuple[int, NDArray[np.void]]]] = defaultdict(list)
    rows = SeriesBatch.objects.filter(stream_id__in=streams).order_by("stream_id", "first")
    for stream, rev, blob in rows.values_list("stream_id", "rev", "blob"):
        parts[stream].append((rev, unpack_records(blob)))
    for stream, batches in parts.items():
        records = np.concatenate([part for _, part in batches])
        old = sum(len(part) for rev, part in batches if rev <= since)
        new = np.arange(len(records)) >= old
        for name, places in places_by_name(records["name"]).items():
            if name in names:
                extent = found[stream, name]
                extent.tail, extent.fresh = columns(records[places]), int(np.count_nonzero(new[places]))


def _read_open_chunks(found: dict[Key, Extent]) -> None:
    wants = {key: ("chunk", extent.closed, extent.closed) for key, extent in found.items() if extent.chunked % CHUNK}
    rows = fetch({key: [want] for key, want in wants.items()})
    for key, extent in found.items():
        chunk = rows[key, wants[key]] if key in wants else []
        extent.raw = join([*(unpack_chunk(blob) for _, blob in chunk), extent.tail])


# --- rows, many pieces at once ----------------------------------------------------------------------------------------

# ('chunk', first ordinal, last ordinal) or (level, first block, last block), both ends included.
Want = tuple[str | int, int, int]
Rows = dict[tuple[Key, Want], list[tuple[int, bytes]]]


def fetch(wants: dict[Key, list[Want]]) -> Rows:
    """The rows of each want, in order: (ordinal or block, blob). Pieces that want alike share a query."""
    alike: dict[tuple[int, Want], list[int]] = defaultdict(list)
    for (stream, name), items in wants.items():
        for want in items:
            alike[stream, want].append(name)
    found: Rows = defaultdict(list)
    for (stream, want), names in alike.items():
        for name, at, blob in _rows(want).filter(stream_id=stream, name_id__in=names):
            found[(stream, name), want].append((at, blob))
    return found


def _rows(want: Want) -> QuerySet[Any, Any]:
    kind, first, last = want
    if isinstance(kind, str):
        chunks = SeriesChunk.objects.filter(ordinal__range=(first, last)).order_by("name_id", "ordinal")
        return chunks.values_list("name_id", "ordinal", "blob")
    blocks = SeriesPyramid.objects.filter(level=kind, block__range=(first, last)).order_by("name_id", "block")
    return blocks.values_list("name_id", "block", "blob")


# --- a range at a width -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """The ordinals [start, stop) of a piece at buckets of 2^level; `start` is a multiple of 2^level."""

    start: int
    stop: int
    level: int

    def wants(self, closed: int) -> list[Want]:
        return [want for want, _, _ in self._steps(closed)]

    def _steps(self, closed: int) -> list[tuple[Want, int, int]]:
        """(rows, from ordinal, to ordinal), widest buckets first; what lies beyond `closed` is not in them."""
        at, end = self.start, min(self.stop, closed)
        steps: list[tuple[Want, int, int]] = []
        for level in range(min(self.level // FAN_OUT_BITS, LEVELS), 0, -1):
            bits = level * FAN_OUT_BITS
            upto = end >> bits << bits
            if at < upto:
                wide = bits + BLOCK_BITS
                steps.append(((level, at >> wide, (upto - 1) >> wide), at, upto))
                at = upto
        if at < end:
            steps.append((("chunk", at >> CHUNK_BITS << CHUNK_BITS, end - 1), at, end))
        return steps

    def read(self, key: Key, extent: Extent, rows: Rows) -> Points | Buckets:
        """The range's points (level 0) or buckets."""
        parts: list[Points] = []
        buckets: list[Buckets] = []
        ordinals: list[NDArray[np.int64]] = []

        def add(made: Buckets, first: int, bits: int) -> None:
            buckets.append(made)
            ordinals.append(((first >> bits) + np.arange(len(made), dtype=np.int64)) << bits)

        for want, at, upto in self._steps(extent.closed):
            kind = want[0]
            if isinstance(kind, int):
                add(_cut_buckets(rows[key, want], kind * FAN_OUT_BITS, at, upto), at, kind * FAN_OUT_BITS)
            else:
                parts.append(_cut_points(rows[key, want], at, upto))
                add(from_points(parts[-1], at, self.level), at, self.level)
        first = max(self.start, extent.closed)
        if first < self.stop:
            parts.append(extent.raw[first - extent.closed : self.stop - extent.closed])
            add(from_points(parts[-1], first, self.level), first, self.level)
        if self.level == 0:
            return join(parts)
        if not buckets:
            return no_buckets()
        return merge(np.concatenate(buckets), np.concatenate(ordinals), self.level)


def _cut_buckets(rows: list[tuple[int, bytes]], bits: int, at: int, upto: int) -> Buckets:
    found = np.concatenate([np.frombuffer(blob, BUCKET) for _, blob in rows])
    base = rows[0][0] << BLOCK_BITS
    return found[(at >> bits) - base : (upto >> bits) - base]


def _cut_points(rows: list[tuple[int, bytes]], at: int, upto: int) -> Points:
    found, base = join([unpack_chunk(blob) for _, blob in rows]), rows[0][0]
    return found[at - base : upto - base]
