"""What launches wrote comes in: log bytes and points, by offset, each exactly once.

Under the stream's row lock what precedes `acked` is dropped, a gap refused, the rest stored, `acked` advanced, in one
transaction per job; the answered offset rules. Ended and superseded placements may append to their own streams: fencing
only keeps them from starting or becoming anything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from jobs.models import Job, JobEvent, Placement, Stream
from jobs.series import compact, store
from jobs.series.points import RECORD, unpack_records
from jobs.services import logs
from jobs.services.transition import add_event, lock_job
from nodes.messages import LAUNCHER_RANK, BadFraming, Batch, StreamAck, StreamAnswer, unpack_batches
from nodes.models import Node
from portal.after_commit import hint
from portal.db import next_revision
from portal.errors import Invalid

logger = logging.getLogger(__name__)

Key = tuple[UUID, int, str]  # token, rank, kind

PROGRESS = "progress"  # the name that trainyard.progress() reports under
UNKNOWN_TOKEN = "unknown token"  # noqa: S105  a name on the wire, no secret


def take_batches(node: Node, body: bytes) -> StreamAnswer:
    """Store a framed body of batches; one ack per stream. Raises Invalid when the framing itself is broken."""
    try:
        batches = list(unpack_batches(body))
    except BadFraming as error:
        raise Invalid("bad_framing", str(error)) from error
    placements = _placements(node, {batch.head.token for batch in batches})
    jobs: dict[int, list[Batch]] = {}
    acks: dict[Key, StreamAck] = {}
    for batch in batches:
        placement = placements.get(batch.head.token)
        problem = _refusal(placement, batch)
        if problem or placement is None:
            acks[_key(batch)] = _ack(batch, batch.head.offset, problem)
        else:
            jobs.setdefault(placement.attempt.job_id, []).append(batch)
    for job_id, items in jobs.items():
        acks |= _take_job(job_id, placements, items)
    return StreamAnswer(acks=list(acks.values()))


def _placements(node: Node, tokens: set[UUID]) -> dict[UUID, Placement]:
    own = Placement.objects.filter(node=node, token__in=tokens).select_related("attempt")
    return {placement.token: placement for placement in own}


def _refusal(placement: Placement | None, batch: Batch) -> str:
    """Why a batch can never be taken, or ''. The node keeps such bytes; nothing here waits for them."""
    head = batch.head
    if placement is None:
        return UNKNOWN_TOKEN
    if head.rank != LAUNCHER_RANK and head.rank not in (placement.ranks or [0]):
        return "unknown rank"
    if head.kind == "log" and len(batch.payload) != head.source_bytes:
        return "payload and source_bytes differ"
    if head.kind == "metrics" and len(batch.payload) % RECORD.itemsize:
        return "payload is no whole number of points"
    return ""


def _key(batch: Batch) -> Key:
    return batch.head.token, batch.head.rank, batch.head.kind


def _ack(batch: Batch, acked: int, problem: str = "") -> StreamAck:
    return StreamAck(token=batch.head.token, rank=batch.head.rank, kind=batch.head.kind, acked=acked, problem=problem)


# --- one job's batches, one transaction -------------------------------------------------------------------------------


@dataclass
class _News:
    """What is worth an event."""

    excess_names: int = 0
    not_finite: tuple[str, float] | None = None


def _take_job(job_id: int, placements: dict[UUID, Placement], batches: list[Batch]) -> dict[Key, StreamAck]:
    taker = _Taker(job_id)
    with transaction.atomic():
        streams = _locked_streams(placements, batches)
        acks = {}
        for batch in batches:
            stream = streams[_key(batch)]
            problem = taker.take(stream, batch)
            acks[_key(batch)] = _ack(batch, stream.acked, problem)
        taker.save()
    if taker.rev:
        hint(f"job.{job_id}", taker.rev)
    _tell(job_id, taker.news)
    _compact_where_due(taker.changed.values())
    return acks


def _compact_where_due(streams: Iterable[Stream]) -> None:
    """The points are safe already: trouble here is told, and the sweep tries again."""
    for stream in streams:
        try:
            if stream.kind == "metrics" and compact.is_due(stream):
                compact.compact(stream.pk)
        except DatabaseError:
            logger.exception("Could not compact stream %s", stream.pk)


def _locked_streams(placements: dict[UUID, Placement], batches: list[Batch]) -> dict[Key, Stream]:
    keys = {_key(batch) for batch in batches}
    found = _find(placements, keys)
    if len(found) < len(keys):
        missing = [
            Stream(placement=placements[token], rank=rank, kind=kind) for token, rank, kind in sorted(keys - set(found))
        ]
        Stream.objects.bulk_create(missing, ignore_conflicts=True)
        found = _find(placements, keys)
    return found


def _find(placements: dict[UUID, Placement], keys: set[Key]) -> dict[Key, Stream]:
    tokens = {token for token, _rank, _kind in keys}
    ranks = {rank for _token, rank, _kind in keys}
    rows = Stream.objects.select_for_update(of=("self",), no_key=True).order_by("id")
    rows = rows.filter(placement__in=[placements[token] for token in tokens], rank__in=ranks)
    owners = {placement.pk: placement for placement in placements.values()}
    found = {}
    for stream in rows:
        stream.placement = owners[stream.placement_id]
        found[stream.placement.token, stream.rank, stream.kind] = stream
    return {key: stream for key, stream in found.items() if key in keys}


class _Taker:
    """Takes batches into locked streams; the job's revision is stamped once, when the first byte is new."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        self.rev = 0
        self.changed: dict[int, Stream] = {}
        self.news = _News()
        self.progress: float | None = None

    def take(self, stream: Stream, batch: Batch) -> str:
        """Store what is new of a batch; says the problem, or ''."""
        head = batch.head
        end = head.offset + head.source_bytes
        if end <= stream.acked:
            return ""
        if head.offset - head.gap > stream.acked:
            return f"gap: expected offset {stream.acked}"
        if head.offset < stream.acked and head.kind == "metrics":
            return ""  # points have no bytes to cut at: the node cuts its lines anew from `acked`
        return self._store(stream, batch)

    def _store(self, stream: Stream, batch: Batch) -> str:
        head = batch.head
        rev = self._stamp()
        gap = max(0, head.offset - stream.acked)
        if head.kind == "log":
            logs.append(stream, batch.payload[max(0, stream.acked - head.offset) :], gap=gap, rev=rev)
        else:
            records = unpack_records(batch.payload)
            try:
                took = store.append(stream, self.job_id, head.names, records, rev)
            except ValueError as error:
                return str(error)
            if head.rank == 0 and PROGRESS in head.names:
                self._note_progress(records["value"][records["name"] == head.names.index(PROGRESS)])
            self.news.excess_names += took.excess_names
            self.news.not_finite = self.news.not_finite or took.not_finite
            stream.bad_lines += head.bad_lines
            store.add_samples(stream, head.bad_samples)
        stream.gap_bytes += gap
        stream.acked = head.offset + head.source_bytes
        stream.rev = rev
        self.changed[stream.pk] = stream
        return ""

    def _note_progress(self, values: NDArray[np.float64]) -> None:
        finite = values[np.isfinite(values)]
        if len(finite):
            self.progress = min(1.0, max(0.0, float(finite[-1])))

    def _stamp(self) -> int:
        self.rev = self.rev or next_revision("jobs_job", self.job_id)
        return self.rev

    def save(self) -> None:
        fields = ["acked", "points", "gap_bytes", "bad_lines", "bad_samples", "rev"]
        for stream in self.changed.values():
            stream.save(update_fields=fields)
        if self.progress is not None:
            Job.objects.filter(pk=self.job_id).update(progress=self.progress)


# --- events -----------------------------------------------------------------------------------------------------------


def _tell(job_id: int, news: _News) -> None:
    """Each kind of trouble is told once per job."""
    for code, text, data in _texts(news):
        with transaction.atomic():
            job = lock_job(job_id)
            if not JobEvent.objects.filter(job=job, kind="warning", data__code=code).exists():
                add_event(job, "warning", text, data={"code": code, **data})


def _texts(news: _News) -> Iterator[tuple[str, str, dict[str, object]]]:
    if news.excess_names:
        text = _("More than %(limit)s metric names: points of further names are counted but not kept.")
        yield "too_many_names", text % {"limit": store.MAX_NAMES}, {}
    if news.not_finite:
        name, step = news.not_finite
        text = _("“%(name)s” is not finite since step %(step)s.") % {"name": name, "step": f"{step:g}"}
        yield "not_finite", text, {"name": name, "step": step}
