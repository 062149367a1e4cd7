"""Every point of a job, exactly and in order, read part by part so that a slow reader holds no transaction."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.models import Job, SeriesBatch, SeriesChunk, SeriesName, Stream
from jobs.series.points import Points, columns, join, unpack_chunk, unpack_records
from portal.db import read_snapshot

CSV_HEADER = ("name", "rank", "attempt", "step", "time", "value")


@dataclass(frozen=True)
class Part:
    """Consecutive points of one piece."""

    name: str
    rank: int
    attempt: int
    points: Points


def export_points(job: Job, names: Sequence[str] | None = None, ranks: Sequence[int] = ()) -> Iterator[Part]:
    """All points of all attempts, by name, rank, attempt and then as they came. None and empty mean all."""
    texts = SeriesName.objects.filter(job=job).order_by("text", "id")
    if names is not None:
        texts = texts.filter(text__in=list(names))
    streams = Stream.objects.filter(placement__attempt__job=job, kind="metrics")
    if ranks:
        streams = streams.filter(rank__in=list(ranks))
    found = list(streams.order_by("rank", "placement__attempt__number", "id").select_related("placement__attempt"))
    for name_id, text in list(texts.values_list("id", "text")):
        for stream in found:
            ordinal = 0
            while len(points := _part_at(stream.pk, name_id, ordinal)):
                yield Part(text, stream.rank, stream.placement.attempt.number, points)
                ordinal += len(points)


def export_csv(job: Job, names: Sequence[str] | None = None, ranks: Sequence[int] = ()) -> Iterator[bytes]:
    """UTF-8 CSV with a header line; numbers as Python writes them, so 'nan', 'inf' and '-inf' are values."""
    yield (",".join(CSV_HEADER) + "\r\n").encode()
    for part in export_points(job, names, ranks):
        name = _as_text(part.name)
        text = io.StringIO()
        rows = csv.writer(text)
        for step, time, value in zip(part.points.step, part.points.time, part.points.value, strict=True):
            rows.writerow((name, part.rank, part.attempt, _number(step), _number(time), _number(value)))
        yield text.getvalue().encode()


def _part_at(stream: int, name: int, ordinal: int) -> Points:
    """Points from `ordinal` on: the rest of its chunk, else of the open tail. Empty at the end."""
    with read_snapshot():
        chunks = SeriesChunk.objects.filter(stream_id=stream, name_id=name)
        chunk = chunks.filter(ordinal__lte=ordinal).order_by("-ordinal").values_list("ordinal", "n", "blob").first()
        if chunk and ordinal < chunk[0] + chunk[1]:
            return unpack_chunk(chunk[2])[ordinal - chunk[0] :]
        chunked = chunk[0] + chunk[1] if chunk else 0
        batches = SeriesBatch.objects.filter(stream_id=stream).order_by("first").values_list("blob", flat=True)
        records = [unpack_records(blob) for blob in batches]
    tail = join([columns(part[part["name"] == name]) for part in records])
    return tail[ordinal - chunked :]


def _as_text(name: str) -> str:
    """An apostrophe before what a spreadsheet would take for a formula; only names can hold one."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def _number(item: float) -> str:
    return str(int(item)) if float(item).is_integer() and abs(item) < 1e15 else repr(float(item))
