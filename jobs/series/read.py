"""What a page shows of a job's series: thinned, since a cursor, without what later attempts have hidden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jobs.models import Attempt, Job, SeriesName, Stream
from jobs.series.page import Piece, SeriesPage
from jobs.series.pieces import Extent, Key, Range, Rows, extents, fetch
from jobs.series.points import unpack_chunk
from jobs.series.pyramid import BLOCK, BUCKET, CHUNK
from jobs.series.read_limits import DEFAULT_POINTS, MAX_NAMES, MAX_POINTS
from jobs.series.thin import level_for
from portal.db import read_snapshot

Attempts = Literal["current", "all"]
CUT_LEVEL = 3  # its buckets are one chunk wide


@dataclass(frozen=True)
class NameList:
    """Names of a job's metrics in the order in which they first came; `total` counts all that match."""

    names: list[str]
    total: int


def series_names(job: Job, search: str = "", *, offset: int = 0, limit: int = MAX_NAMES) -> NameList:
    found = SeriesName.objects.filter(job=job).order_by("id")
    if search:
        found = found.filter(text__icontains=search)
    return NameList(list(found.values_list("text", flat=True)[offset : offset + limit]), found.count())


def read_series(
    job: Job,
    names: Sequence[str] | None = None,
    *,
    ranks: Sequence[int] = (0,),
    points: int = DEFAULT_POINTS,
    since_rev: int = 0,
    since_attempt: int | None = None,
    attempts: Attempts = "current",
    window: tuple[float, float] | None = None,
) -> SeriesPage:
    """The page of `names` (None: the first MAX_NAMES), each piece thinned to at most `points` buckets or points.

    `since_rev` and `since_attempt` are `rev` and `attempt` of the page before: only what changed comes. When a new
    attempt has hidden points since, everything comes and `reset` is set. `window` is a range of steps, read
    whole and without deltas. `ranks` empty means all.
    """
    points = min(max(points, 2), MAX_POINTS)
    with read_snapshot():
        rev = Job.objects.values_list("rev", flat=True).get(pk=job.pk)
        numbers = _hiding_attempts(job)
        newest = max(numbers, default=0)
        is_reset = bool(since_rev) and since_attempt not in (None, newest) and attempts == "current"
        since = 0 if is_reset or window else since_rev
        texts = _texts(job, names)
        streams = _streams(job, ranks)
        reader = _Reader(points, since, window)
        pieces = reader.read(streams, texts, _cuts(numbers) if attempts == "current" else {})
        total = SeriesName.objects.filter(job=job).count() if names is None else len(texts)
    return SeriesPage(job.pk, rev, newest, attempts, is_reset, total, window, pieces)


def _texts(job: Job, names: Sequence[str] | None) -> dict[int, str]:
    found = SeriesName.objects.filter(job=job).order_by("id")
    if names is not None:
        found = found.filter(text__in=list(names)[:MAX_NAMES])
    return dict(found.values_list("id", "text")[:MAX_NAMES])


@dataclass(frozen=True)
class _Source:
    stream: int
    attempt: int
    rank: int


def _streams(job: Job, ranks: Sequence[int]) -> list[_Source]:
    found = Stream.objects.filter(placement__attempt__job=job, kind="metrics")
    if ranks:
        found = found.filter(rank__in=list(ranks))
    rows = found.order_by("placement__attempt__number", "rank", "id")
    return [_Source(*row) for row in rows.values_list("id", "placement__attempt__number", "rank")]


def _hiding_attempts(job: Job) -> dict[int, int]:
    """Attempts that began to run, and the first step that each repeats: a checkpoint holds what its own step did."""
    rows = Attempt.objects.filter(job=job, running_at__isnull=False).values_list("number", "resume_step")
    return {number: 0 if step is None else step + 1 for number, step in rows}


def _cuts(numbers: dict[int, int]) -> dict[int, int]:
    """For each attempt the step from which a later one hides it."""
    cuts: dict[int, int] = {}
    least: int | None = None
    for number in sorted(numbers, reverse=True):
        if least is not None:
            cuts[number] = least
        least = numbers[number] if least is None else min(least, numbers[number])
    return cuts


class _Reader:
    def __init__(self, points: int, since: int, window: tuple[float, float] | None) -> None:
        self.points, self.since, self.window = points, since, window

    def read(self, streams: list[_Source], texts: dict[int, str], cuts: dict[int, int]) -> list[Piece]:
        found = extents([source.stream for source in streams], texts, self.since)
        wanted = [
            (source, name, found[source.stream, name])
            for source in streams
            for name in texts
            if (source.stream, name) in found
        ]
        if self.since:
            wanted = [item for item in wanted if item[2].seen < item[2].total]
        stops = self._stops(wanted, cuts)
        ranges = self._ranges(wanted, stops)
        rows = fetch({key: part.wants(found[key].closed) for key, part in ranges.items()})
        pieces = []
        for source, name, extent in wanted:
            key = (source.stream, name)
            if key not in ranges:
                continue
            part = ranges[key]
            data = part.read(key, extent, rows)
            pieces.append(
                Piece(
                    source.stream,
                    source.attempt,
                    source.rank,
                    texts[name],
                    part.level,
                    part.start >> part.level,
                    stops[key],
                    cuts.get(source.attempt),
                    data,
                )
            )
        return pieces

    def _stops(self, wanted: list[tuple[_Source, int, Extent]], cuts: dict[int, int]) -> dict[Key, int]:
        """Where each piece ends: at its end, or before the first point that a later attempt hides."""
        steps = {
            (source.stream, name): (extent, float(cuts[source.attempt]))
            for source, name, extent in wanted
            if source.attempt in cuts
        }
        stops = {(source.stream, name): extent.total for source, name, extent in wanted}
        return stops | first_at_or_after(steps)

    def _ranges(self, wanted: list[tuple[_Source, int, Extent]], stops: dict[Key, int]) -> dict[Key, Range]:
        starts = dict.fromkeys(stops, 0)
        ends = stops
        if self.window:
            asked = {(source.stream, name): extent for source, name, extent in wanted}
            low, high = self.window
            starts = first_at_or_after({key: (extent, low) for key, extent in asked.items()})
            after = first_at_or_after({key: (extent, np.nextafter(high, np.inf)) for key, extent in asked.items()})
            ends = {key: min(stops[key], after[key]) for key in stops}
        ranges = {}
        for source, name, extent in wanted:
            key = (source.stream, name)
            start, stop = starts[key], ends[key]
            level = level_for(start, stop, self.points)
            if self.since and level == level_for(0, min(extent.seen, stop), self.points):
                start = extent.seen
            if start < stop:
                ranges[key] = Range(start >> level << level, stop, level)
        return ranges


def first_at_or_after(steps: dict[Key, tuple[Extent, float]]) -> dict[Key, int]:
    """For each piece the ordinal of its first point at that step or later; its length where there is none."""
    last = {key: (CUT_LEVEL, 0, (extent.closed // CHUNK - 1) // BLOCK) for key, (extent, _) in steps.items()}
    rows = fetch({key: [last[key]] for key, (extent, _) in steps.items() if extent.closed})
    chunks: dict[Key, int] = {}
    for key, (_, step) in steps.items():
        for block, blob in rows.get((key, last[key]), []):
            hits = np.flatnonzero(np.frombuffer(blob, BUCKET)["step_max"] >= step)
            if len(hits):
                chunks[key] = (block * BLOCK + int(hits[0])) * CHUNK
                break
    found = fetch({key: [("chunk", ordinal, ordinal)] for key, ordinal in chunks.items()})
    return {key: _place(key, extent, step, chunks.get(key), found) for key, (extent, step) in steps.items()}


def _place(key: Key, extent: Extent, step: float, chunk: int | None, rows: Rows) -> int:
    base, points = extent.closed, extent.raw
    if chunk is not None:
        base, points = chunk, unpack_chunk(rows[key, ("chunk", chunk, chunk)][0][1])
    hits = np.flatnonzero(points.step >= step)
    return base + int(hits[0]) if len(hits) else base + len(points)
