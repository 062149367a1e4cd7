"""Open tail → chunks of 4,096 points and the pyramid of full chunks, in one transaction under the stream's row lock.

Readers see either the batches or the chunks, never both. The greatest `rev` of what is packed is kept, no new one
given out. The pyramid is written only when a chunk is full, so its buckets of up to 4,096 points never change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import Max

from jobs.models import SeriesBatch, SeriesChunk, SeriesName, SeriesPyramid, Stream
from jobs.series.points import Floats, Points, columns, join, pack_chunk, places_by_name, unpack_chunk, unpack_records
from jobs.series.pyramid import BLOCK_BITS, BUCKET, CHUNK, FAN_OUT_BITS, LEVELS, Buckets, from_points, merge

MAX_BATCHES = 256  # in one transaction
TAIL_BATCHES = 200
POINTS_PER_NAME = 32  # below that, packing would rewrite every name's open chunk for little


def is_due(stream: Stream) -> bool:
    """Whether the open tail is long enough to be packed now."""
    tail = stream.points - stream.compacted
    if tail == 0:
        return False
    if tail < CHUNK:
        return SeriesBatch.objects.filter(stream=stream).count() >= TAIL_BATCHES
    names = SeriesName.objects.filter(job_id=stream.placement.attempt.job_id).count()
    return tail >= names * POINTS_PER_NAME


def compact(stream_id: int) -> int:
    """Pack up to MAX_BATCHES of the tail; returns how many points it moved, 0 when there were none."""
    with transaction.atomic():
        stream = Stream.objects.select_for_update(no_key=True).get(pk=stream_id)
        batches = list(stream.batches.order_by("first").values_list("last", "rev", "blob")[:MAX_BATCHES])
        if not batches:
            return 0
        parts = [unpack_records(blob) for _, _, blob in batches]
        records = np.concatenate(parts)
        revs = np.repeat([rev for _, rev, _ in batches], [len(part) for part in parts])
        work = _Work(stream_id)
        places = places_by_name(records["name"])
        heads = _open_chunks(stream_id, places)
        for name, where in places.items():
            work.add(name, heads.get(name), columns(records[where]), revs[where])
        work.write()
        last = batches[-1][0]
        stream.batches.filter(last__lte=last).delete()
        Stream.objects.filter(pk=stream_id).update(compacted=last)
        return int(last - stream.compacted)


@dataclass(frozen=True)
class _Head:
    """Where a name's next point goes: its last chunk, whose points are given when it is not full."""

    ordinal: int
    rev: int
    points: Points | None


def _open_chunks(stream_id: int, names: Iterable[int]) -> dict[int, _Head]:
    own = SeriesChunk.objects.filter(stream_id=stream_id, name_id__in=list(names))
    newest = dict(own.values_list("name_id").annotate(Max("ordinal")).order_by())
    rows = own.filter(ordinal__in=set(newest.values())).values_list("id", "name_id", "ordinal", "n", "rev")
    last = {name: (key, ordinal, n, rev) for key, name, ordinal, n, rev in rows if newest[name] == ordinal}
    partial = [key for key, _, n, _ in last.values() if n < CHUNK]
    blobs = dict(SeriesChunk.objects.filter(pk__in=partial).values_list("id", "blob"))
    return {
        name: _Head(ordinal, rev, unpack_chunk(blobs[key])) if key in blobs else _Head(ordinal + CHUNK, 0, None)
        for name, (key, ordinal, _, rev) in last.items()
    }


@dataclass
class _Work:
    stream_id: int
    chunks: list[SeriesChunk] = field(default_factory=list)
    closed: list[tuple[int, int, Points, int]] = field(default_factory=list)  # name, first ordinal, points, rev

    def add(self, name: int, head: _Head | None, points: Points, revs: Floats) -> None:
        base = head.ordinal if head else 0
        if head and head.points is not None:
            points = join([head.points, points])
            revs = np.concatenate([np.full(len(points) - len(revs), head.rev), revs])
        for at in range(0, len(points), CHUNK):
            part = points[at : at + CHUNK]
            self.chunks.append(
                SeriesChunk(
                    stream_id=self.stream_id,
                    name_id=name,
                    ordinal=base + at,
                    n=len(part),
                    rev=int(revs[at : at + CHUNK].max()),
                    blob=pack_chunk(part),
                )
            )
        full = len(points) // CHUNK * CHUNK
        if full:
            self.closed.append((name, base, points[:full], int(revs[:full].max())))

    def write(self) -> None:
        _upsert(SeriesChunk, self.chunks, ["stream", "name", "ordinal"], ["n", "rev", "blob"])
        rows: list[SeriesPyramid] = []
        for name, base, points, rev in self.closed:
            new, bits = from_points(points, base, FAN_OUT_BITS), FAN_OUT_BITS
            for level in range(1, LEVELS + 1):
                for block, blob in self._blocks(name, level, base, new):
                    key = {"stream_id": self.stream_id, "name_id": name, "level": level, "block": block}
                    rows.append(SeriesPyramid(**key, rev=rev, blob=blob))
                start = (base >> bits) + np.arange(len(new), dtype=np.int64)
                new, bits = merge(new, start << bits, bits + FAN_OUT_BITS), bits + FAN_OUT_BITS
        _upsert(SeriesPyramid, rows, ["stream", "name", "level", "block"], ["rev", "blob"])

    def _blocks(self, name: int, level: int, base: int, new: Buckets) -> Iterable[tuple[int, bytes]]:
        """The rows that `new` buckets go to; the first may stand already, and its last bucket may be open."""
        bits = level * FAN_OUT_BITS
        index = base >> bits
        block = index >> BLOCK_BITS
        kept = self._row(name, level, block) if base & ((1 << bits + BLOCK_BITS) - 1) else new[:0]
        places = np.concatenate([(block << BLOCK_BITS) + np.arange(len(kept)), index + np.arange(len(new))]).astype(
            np.int64
        )
        buckets = merge(np.concatenate([kept, new]), places << bits, bits)
        for at in range(0, len(buckets), 1 << BLOCK_BITS):
            yield block + (at >> BLOCK_BITS), buckets[at : at + (1 << BLOCK_BITS)].tobytes()

    def _row(self, name: int, level: int, block: int) -> Buckets:
        key = {"stream_id": self.stream_id, "name_id": name, "level": level, "block": block}
        return np.frombuffer(SeriesPyramid.objects.values_list("blob", flat=True).get(**key), BUCKET)


def _upsert(model: type[Any], rows: list[Any], keys: list[str], values: list[str]) -> None:
    model.objects.bulk_create(rows, batch_size=100, update_conflicts=True, unique_fields=keys, update_fields=values)
