"""A page of series and its forms on the wire: packed binary for the browser, JSON for scripts (README.md). Pure."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jobs.series.points import Points
from jobs.series.pyramid import COUNTS, Buckets
from jobs.series.thin import finite_range

MAGIC = b"TYS1"
BUCKET_FLOATS = ("step_min", "step_max", "time_first", "time_last", "low", "high", "first", "last", "mean")


@dataclass(frozen=True)
class Piece:
    """What one stream holds of one series from index `first` on: raw points at level 0, else buckets of 2^level."""

    stream: int
    attempt: int
    rank: int
    name: str
    level: int
    first: int
    total: int
    hidden_from: int | None
    data: Points | Buckets

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        if isinstance(self.data, Points):
            return {"step": self.data.step, "time": self.data.time, "value": self.data.value}
        found = {name: self.data[name] for name in (*BUCKET_FLOATS[:-1], *COUNTS)}
        mean = np.full(len(self.data), np.nan)
        np.divide(self.data["total"], self.data["finite"], out=mean, where=self.data["finite"] > 0)
        return {name: mean if name == "mean" else found[name] for name in (*BUCKET_FLOATS, *COUNTS)}

    def head(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "attempt": self.attempt,
            "rank": self.rank,
            "name": self.name,
            "level": self.level,
            "first": self.first,
            "n": len(self.data),
            "total": self.total,
            "hidden_from": self.hidden_from,
            "y": finite_range(self.data),
        }


@dataclass(frozen=True)
class SeriesPage:
    """`rev` is the cursor for the next read, `attempt` the newest attempt's number to send back beside it."""

    job: int
    rev: int
    attempt: int
    attempts: str
    reset: bool
    names_total: int
    window: tuple[float, float] | None = None
    pieces: list[Piece] = field(default_factory=list)

    def head(self, view: str = "") -> dict[str, Any]:
        return {
            "type": "series",
            "job": self.job,
            "view": view,
            "rev": self.rev,
            "attempt": self.attempt,
            "reset": self.reset,
            "attempts": self.attempts,
            "names_total": self.names_total,
            "window": self.window,
        }

    def to_bytes(self, view: str = "") -> bytes:
        at, heads, body = 0, [], []
        for piece in self.pieces:
            heads.append({**piece.head(), "at": at})
            blob = b"".join(
                column.astype("<f8" if column.dtype.kind == "f" else "<u4", copy=False).tobytes()
                for column in piece.columns().values()
            )
            at += len(blob)
            body.append(blob)
        head = json.dumps({**self.head(view), "pieces": heads}, ensure_ascii=False, separators=(",", ":")).encode()
        head += b" " * (-(8 + len(head)) % 8)
        return b"".join([MAGIC, struct.pack("<I", len(head)), head, *body])

    def to_json(self) -> dict[str, Any]:
        """The same in JSON; NaN and ±inf are the strings 'NaN', 'Infinity', '-Infinity'."""
        pieces = [
            {
                **piece.head(),
                **{name: [_plain(item) for item in column.tolist()] for name, column in piece.columns().items()},
            }
            for piece in self.pieces
        ]
        return {**self.head(), "pieces": pieces}


def _plain(item: float) -> float | str:
    if math.isfinite(item):
        return item
    return "NaN" if math.isnan(item) else ("Infinity" if item > 0 else "-Infinity")


def from_bytes(blob: bytes) -> tuple[dict[str, Any], list[dict[str, np.ndarray[Any, Any]]]]:
    """The header and each piece's columns: for Python clients and tests."""
    if blob[:4] != MAGIC:
        raise ValueError("not a page of series")
    (length,) = struct.unpack_from("<I", blob, 4)
    head = json.loads(blob[8 : 8 + length])
    return head, [_columns_at(blob, 8 + length + piece["at"], piece) for piece in head["pieces"]]


def _columns_at(blob: bytes, at: int, piece: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    names = [(name, "<f8") for name in (("step", "time", "value") if piece["level"] == 0 else BUCKET_FLOATS)]
    names += [(name, "<u4") for name in COUNTS] if piece["level"] else []
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for name, kind in names:
        columns[name] = np.frombuffer(blob, kind, piece["n"], at)
        at += columns[name].nbytes
    return columns
