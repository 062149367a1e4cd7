"""Points come in: names get ids, points get ordinals, batches lie in the open tail until they are compacted.

Called under the stream's row lock with a fresh `rev` of the job; the caller owns the transaction and saves the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.models import SeriesBatch, SeriesName, Stream
from jobs.series.points import columns, pack_records

MAX_NAMES = 5_000  # per job
MAX_NAME_LENGTH = 200
SAMPLES = 5  # refused lines kept for a person to see


@dataclass(frozen=True)
class Appended:
    """What a batch brought; `not_finite` is the first NaN or ±inf in it: (metric name, step)."""

    points: int = 0
    excess_names: int = 0
    not_finite: tuple[str, float] | None = None


def append(stream: Stream, job_id: int, names: list[str], records: NDArray[np.void], rev: int) -> Appended:
    """Give the records ordinals and keep them. Points that cannot be kept are counted in the stream's `bad_lines`.

    Raises ValueError when a record's name index is not one of `names`.
    """
    if len(records) == 0:
        return Appended()
    if int(records["name"].max()) >= len(names):
        raise ValueError("a point names an index that the batch does not define")
    ids, excess = _ids(stream, job_id, names)
    points, own = columns(records), ids[records["name"]]
    keep = (own > 0) & np.isfinite(points.step)
    lost = int(len(records) - np.count_nonzero(keep))
    if lost:
        stream.bad_lines += lost
        own, points = own[keep], type(points)(points.step[keep], points.time[keep], points.value[keep])
    if len(points) == 0:
        return Appended(excess_names=excess)
    SeriesBatch.objects.create(
        stream=stream,
        first=stream.points,
        last=stream.points + len(points),
        rev=rev,
        blob=pack_records(own, points),
    )
    stream.points += len(points)
    return Appended(len(points), excess, _first_not_finite(names, records, keep))


def add_samples(stream: Stream, samples: list[str]) -> None:
    """Keep the first few refused lines, cut short and without what PostgreSQL refuses."""
    room = SAMPLES - len(stream.bad_samples)
    stream.bad_samples = [
        *stream.bad_samples,
        *(clean_text(text)[:MAX_NAME_LENGTH] for text in samples[: max(0, room)]),
    ]


def clean_text(text: str) -> str:
    """Text that every database takes: NUL becomes its picture, lone surrogates a question mark."""
    return text.replace("\x00", "␀").encode("utf-8", "replace").decode("utf-8")


def _ids(stream: Stream, job_id: int, names: list[str]) -> tuple[NDArray[np.uint32], int]:
    """The id of each name (0 where it is refused), and how many names were beyond the limit."""
    texts = [clean_text(name) for name in names]
    wanted = {text for text in texts if 0 < len(text) <= MAX_NAME_LENGTH}
    known = _known(job_id, wanted)
    missing = [text for text in dict.fromkeys(texts) if text in wanted and text not in known]
    excess = 0
    if missing:
        room = max(0, MAX_NAMES - SeriesName.objects.filter(job_id=job_id).count())
        excess = len(missing[room:])
        SeriesName.objects.bulk_create(SeriesName(job_id=job_id, text=text) for text in missing[:room])
        known |= _known(job_id, set(missing[:room]))
    refused = [text for text in texts if text not in known]
    add_samples(stream, [text or "''" for text in refused])
    return np.array([known.get(text, 0) for text in texts], np.uint32), excess


def _known(job_id: int, texts: set[str]) -> dict[str, int]:
    found = SeriesName.objects.filter(job_id=job_id)
    if len(texts) < 500:
        found = found.filter(text__in=texts)
    return dict(found.values_list("text", "id"))


def _first_not_finite(names: list[str], records: NDArray[np.void], keep: NDArray[np.bool_]) -> tuple[str, float] | None:
    places = np.flatnonzero(keep & ~np.isfinite(records["value"]))
    if len(places) == 0:
        return None
    first = records[places[0]]
    return clean_text(names[int(first["name"])]), float(first["step"])
