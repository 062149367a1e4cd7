"""Buckets: fixed ranges of ordinals with what a chart needs of them, made from points and merged into wider ones. Pure.

A bucket of level L covers the ordinals [i·2^L, (i+1)·2^L). low, high, first, last and total speak of finite values
alone; low, high, first and last are NaN where a bucket has none. NaN, +inf and -inf are counted beside them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobs.series.points import Points

FAN_OUT_BITS = 4  # stored levels are 16 times as wide as the one below
LEVELS = 5  # stored: buckets of 16, 256, 4,096, 65,536 and 1,048,576 points; wider ones are merged on reading
CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS  # points in a full chunk
BLOCK_BITS = 8
BLOCK = 1 << BLOCK_BITS  # buckets in a full pyramid row: level 1 has one row per chunk

BUCKET = np.dtype(
    [
        (name, "<f8")
        for name in ("step_min", "step_max", "time_first", "time_last", "low", "high", "first", "last", "total")
    ]
    + [(name, "<u4") for name in ("finite", "nan", "pos", "neg")]
)
COUNTS = ("finite", "nan", "pos", "neg")
Buckets = NDArray[np.void]
Ordinals = NDArray[np.int64]


def no_buckets() -> Buckets:
    return np.empty(0, BUCKET)


def from_points(points: Points, first_ordinal: int, bits: int) -> Buckets:
    """The buckets of 2^bits ordinals that `points` touch, starting with `first_ordinal`; the ends may be partial."""
    singles = np.empty(len(points), BUCKET)
    finite = np.isfinite(points.value)
    clean = np.where(finite, points.value, np.nan)
    singles["step_min"] = singles["step_max"] = points.step
    singles["time_first"] = singles["time_last"] = points.time
    singles["low"] = singles["high"] = singles["first"] = singles["last"] = clean
    singles["total"] = np.where(finite, points.value, 0.0)
    singles["finite"] = finite
    singles["nan"] = np.isnan(points.value)
    singles["pos"], singles["neg"] = np.isposinf(points.value), np.isneginf(points.value)
    return merge(singles, first_ordinal + np.arange(len(points), dtype=np.int64), bits)


def merge(buckets: Buckets, ordinals: Ordinals, bits: int) -> Buckets:
    """Wider buckets from narrower ones; `ordinals` are the first ordinals of the narrower ones, ascending.

    Narrower ones that share a range of 2^bits ordinals become one.
    """
    if len(buckets) == 0:
        return no_buckets()
    groups = ordinals >> bits
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    if len(starts) == len(buckets):
        return buckets
    ends = np.concatenate([starts[1:], [len(buckets)]]) - 1
    wide = np.empty(len(starts), BUCKET)
    wide["step_min"] = np.minimum.reduceat(buckets["step_min"], starts)
    wide["step_max"] = np.maximum.reduceat(buckets["step_max"], starts)
    wide["time_first"], wide["time_last"] = buckets["time_first"][starts], buckets["time_last"][ends]
    wide["low"] = np.fmin.reduceat(buckets["low"], starts)
    wide["high"] = np.fmax.reduceat(buckets["high"], starts)
    wide["first"], wide["last"] = _first_and_last(buckets, starts)
    with np.errstate(over="ignore"):
        wide["total"] = np.add.reduceat(buckets["total"], starts)
    for name in COUNTS:
        wide[name] = np.add.reduceat(buckets[name], starts)
    return wide


def _first_and_last(buckets: Buckets, starts: Ordinals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First and last value of each group that is not NaN; NaN where there is none."""
    places = np.arange(len(buckets))
    has = buckets["finite"] > 0
    head = np.minimum.reduceat(np.where(has, places, len(buckets)), starts)
    tail = np.maximum.reduceat(np.where(has, places, -1), starts)
    none = tail < 0
    first = np.where(none, np.nan, buckets["first"][np.minimum(head, len(buckets) - 1)])
    last = np.where(none, np.nan, buckets["last"][tail])
    return first, last
