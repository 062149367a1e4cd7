"""A node's usage over time, packed: rows of float64 (unix time, cpu, memory bytes, device 0, device 1, ...)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from nodes.messages import UsageSample
from nodes.models import Node, UsageBatch

ROWS_PER_BATCH = 240
KEEP_HOURS = 48.0
_FIXED = 3  # columns before the devices


def keep_usage(node: Node, samples: Sequence[UsageSample], now: datetime) -> None:
    """Ages were counted by the node's own clock; the portal's receipt gives them their time."""
    if not samples:
        return
    width = _FIXED + max(len(sample.devices) for sample in samples)
    rows = np.full((len(samples), width), math.nan)
    for row, sample in zip(rows, sorted(samples, key=lambda sample: -sample.age_seconds), strict=True):
        row[0] = now.timestamp() - sample.age_seconds
        row[1:_FIXED] = sample.cpu, sample.memory_used_bytes
        row[_FIXED : _FIXED + len(sample.devices)] = [math.nan if v is None else v for v in sample.devices]
    _append(node, rows)


def read_usage(node: Node, since: datetime, until: datetime | None = None) -> NDArray[np.float64]:
    """Rows by time; the widest row decides the width, missing devices are NaN."""
    batches = UsageBatch.objects.filter(node=node, last_at__gte=since).order_by("first_at", "pk")
    if until is not None:
        batches = batches.filter(first_at__lte=until)
    parts = [_rows(batch) for batch in batches]
    if not parts:
        return np.empty((0, _FIXED))
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=math.nan) for part in parts]
    rows = np.concatenate(padded)
    rows = rows[rows[:, 0].argsort(kind="stable")]
    end = math.inf if until is None else until.timestamp()
    kept: NDArray[np.float64] = rows[(rows[:, 0] >= since.timestamp()) & (rows[:, 0] <= end)]
    return kept


def thin_usage(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """At most `most` rows: means of equal runs, without their NaN; a run of nothing but NaN stays NaN."""
    run = -(-len(rows) // most)
    if run <= 1:
        return rows
    padded = np.pad(rows, ((0, -len(rows) % run), (0, 0)), constant_values=math.nan)
    runs = padded.reshape(-1, run, rows.shape[1])
    counts = np.count_nonzero(~np.isnan(runs), axis=1)
    sums = np.nansum(runs, axis=1)
    thin: NDArray[np.float64] = np.divide(sums, counts, out=np.full(sums.shape, math.nan), where=counts > 0)
    return thin


def sweep_usage(*, keep_hours: float = KEEP_HOURS) -> int:
    deleted, _ = UsageBatch.objects.filter(last_at__lt=timezone.now() - timedelta(hours=keep_hours)).delete()
    return deleted


def _append(node: Node, rows: NDArray[np.float64]) -> None:
    last_at = datetime.fromtimestamp(float(rows[-1, 0]), UTC)
    newest = UsageBatch.objects.filter(node=node).order_by("-pk").first()
    if newest is not None and newest.width == rows.shape[1] and len(newest.blob) // 8 < ROWS_PER_BATCH * newest.width:
        UsageBatch.objects.filter(pk=newest.pk).update(
            blob=bytes(newest.blob) + rows.astype("<f8").tobytes(), last_at=max(last_at, newest.last_at)
        )
        return
    first_at = datetime.fromtimestamp(float(rows[0, 0]), UTC)
    UsageBatch.objects.create(
        node=node, first_at=first_at, last_at=last_at, width=rows.shape[1], blob=rows.astype("<f8").tobytes()
    )


def _rows(batch: UsageBatch) -> NDArray[np.float64]:
    return np.frombuffer(bytes(batch.blob), "<f8").reshape(-1, batch.width)
