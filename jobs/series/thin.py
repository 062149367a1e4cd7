"""Which width keeps a piece within N buckets, and the range of the y axis. Pure."""

from __future__ import annotations

import numpy as np

from jobs.series.points import Points
from jobs.series.pyramid import Buckets

HEAD_ROOM = 0.05


def level_for(start: int, stop: int, most: int) -> int:
    """The smallest level whose buckets over the ordinals [start, stop) are at most `most` (≥ 2). 0 means raw points."""
    level = 0
    while stop > start and ((stop - 1) >> level) - (start >> level) + 1 > most:
        level += 1
    return level


def y_range(low: float | None, high: float | None) -> tuple[float, float] | None:
    """A y axis with head room around finite values; None where there are none. Equal ends are spread apart."""
    if low is None or high is None:
        return None
    spread = (high / 2 - low / 2) * 2 * HEAD_ROOM if high > low else abs(low) * HEAD_ROOM or 1.0
    bottom, top = low - spread, high + spread
    return (bottom if np.isfinite(bottom) else low, top if np.isfinite(top) else high)


def finite_range(part: Points | Buckets) -> tuple[float, float] | None:
    """Least and greatest finite value of raw points or buckets."""
    if isinstance(part, Points):
        lows = highs = part.value[np.isfinite(part.value)]
    else:
        has = part["finite"] > 0
        lows, highs = part["low"][has], part["high"][has]
    return (float(lows.min()), float(highs.max())) if len(lows) else None
