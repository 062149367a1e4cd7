"""A job with an attempt, a placement and a node, and the bytes that a node would send for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import pytest
from django.utils import timezone

from jobs.models import Attempt, Job, Placement
from jobs.series.points import Points, pack_records
from jobs.services.progress import take_batches
from nodes.messages import Batch, StreamAck, StreamHead, pack_batches
from nodes.models import Node


@dataclass
class Writer:
    """One rank's metrics file, as its node ships it: ten bytes of file for each point."""

    node: Node
    placement: Placement
    rank: int = 0
    offset: int = 0
    sent: list[Batch] = field(default_factory=list)

    def batch(self, values: Sequence[float], names: Sequence[str] | None = None, first: float = 0) -> Batch:
        n = len(values)
        texts = list(names or ["loss"] * n)
        known = list(dict.fromkeys(texts))
        points = Points(first + np.arange(n, dtype=float), np.full(n, 1e9), np.array(values, dtype=float))
        index = np.array([known.index(text) for text in texts], np.uint32)
        head = StreamHead(
            token=self.placement.token,
            rank=self.rank,
            kind="metrics",
            offset=self.offset,
            source_bytes=10 * n,
            names=known,
        )
        return Batch(head, pack_records(index, points))

    def send(self, values: Sequence[float], names: Sequence[str] | None = None, first: float = 0) -> StreamAck:
        batch = self.batch(values, names, first)
        self.sent.append(batch)
        ack = self.post(batch)
        self.offset = ack.acked
        return ack

    def post(self, *batches: Batch) -> StreamAck:
        return take_batches(self.node, pack_batches(batches)).acks[-1]

    def log(self, payload: bytes, *, gap: int = 0) -> StreamAck:
        head = StreamHead(
            token=self.placement.token,
            rank=self.rank,
            kind="log",
            offset=self.offset + gap,
            source_bytes=len(payload),
            gap=gap,
        )
        ack = self.post(Batch(head, payload))
        self.offset = ack.acked
        return ack


@pytest.fixture
def make_job(make_user) -> Callable[..., Job]:
    def make(owner: str = "ada", **fields: object) -> Job:
        from portal.accounts.models import User

        user = User.objects.filter(username=owner).first() or make_user(owner)
        return Job.objects.create(owner=user, name="digits", spec={}, queued_at=timezone.now(), **fields)

    return make


@pytest.fixture
def make_writer(make_job) -> Callable[..., Writer]:
    """make_writer(job=None, attempt=1, rank=0, resume_step=None): a node that runs an attempt of the job."""

    def make(job: Job | None = None, attempt: int = 1, rank: int = 0, resume_step: int | None = None) -> Writer:
        job = job or make_job()
        node = Node.objects.create(name=f"node-{uuid4().hex[:8]}", token_hash="x")
        Attempt.objects.filter(job=job, state="open").update(state="stopped")
        row = Attempt.objects.create(
            job=job, number=attempt, epoch=1, resume_step=resume_step, running_at=timezone.now()
        )
        placement = Placement.objects.create(attempt=row, node=node, node_rank=0, ranks=[rank])
        return Writer(node, placement, rank)

    return make
