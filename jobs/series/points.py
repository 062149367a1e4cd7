"""The bytes of points: packed batches as a node sends them, and chunks of one name. Pure.

A batch is a row of records (name index, step, time, value); a chunk holds float64 arrays step, time, value one after
the other. NaN and ±inf pass through unchanged in value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nodes.messages import POINT, POINT_DTYPE

Floats = NDArray[np.float64]
RECORD = np.dtype(POINT_DTYPE)
assert RECORD.itemsize == POINT.size  # noqa: S101  both describe the same bytes


@dataclass(frozen=True)
class Points:
    """Parallel float64 arrays of one name's points, in the order of their ordinals. Time is seconds since 1970."""

    step: Floats
    time: Floats
    value: Floats

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, part: slice) -> Points:
        return Points(self.step[part], self.time[part], self.value[part])


def empty() -> Points:
    return Points(np.empty(0), np.empty(0), np.empty(0))


def join(parts: list[Points]) -> Points:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return empty()
    return Points(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("step", "time", "value")))


def pack_records(names: NDArray[np.uint32], points: Points) -> bytes:
    """One record per point; `names` gives each point's name index."""
    records = np.empty(len(points), RECORD)
    records["name"], records["step"], records["time"], records["value"] = names, points.step, points.time, points.value
    return records.tobytes()


def unpack_records(payload: bytes | memoryview) -> NDArray[np.void]:
    """Records of RECORD. Raises ValueError when the bytes are no whole number of them."""
    if len(payload) % RECORD.itemsize:
        raise ValueError(f"{len(payload)} bytes are no whole number of points of {RECORD.itemsize} bytes")
    return np.frombuffer(payload, RECORD)


def places_by_name(names: NDArray[np.uint32]) -> dict[int, NDArray[np.intp] | slice]:
    """Where each name's records lie, in their order."""
    if len(names) == 0:
        return {}
    if (names == names[0]).all():
        return {int(names[0]): slice(None)}
    order = np.argsort(names, kind="stable")
    found, starts = np.unique(names[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))


def columns(records: NDArray[np.void]) -> Points:
    return Points(*(np.ascontiguousarray(records[name]) for name in ("step", "time", "value")))


def pack_chunk(points: Points) -> bytes:
    return np.concatenate([points.step, points.time, points.value]).astype("<f8", copy=False).tobytes()


def unpack_chunk(blob: bytes | memoryview) -> Points:
    return Points(*np.frombuffer(blob, "<f8").reshape(3, -1))
