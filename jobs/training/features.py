"""From a table's columns to numbers a network can take; fitted on the training rows only.

Numbers are standardised (missing → the mean, so 0). A text column with at most `MAX_ONE_HOT` different values becomes
one input per value (an unknown value: all 0); one with more is hashed into `HASH_BUCKETS` inputs, where values may
collide.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from datasets.formats.table import Column, NumberColumn, TextColumn
from jobs.training.settings import Refused

MAX_ONE_HOT = 64
HASH_BUCKETS = 64
MAX_FEATURES = 50_000


@dataclass(frozen=True)
class Standardised:
    name: str
    mean: float
    deviation: float
    kind: str = "standardised"
    width: int = 1

    def apply(self, column: Column, out: np.ndarray) -> None:
        scaled = (_numbers(column) - self.mean) / self.deviation
        out[:, 0] = np.where(np.isfinite(scaled), scaled, 0.0)


@dataclass(frozen=True)
class OneHot:
    name: str
    values: tuple[str, ...]
    kind: str = "one_hot"

    @property
    def width(self) -> int:
        return len(self.values)

    def apply(self, column: Column, out: np.ndarray) -> None:
        texts = _texts(column)
        place = {value: index for index, value in enumerate(self.values)}
        _set_ones(texts, [place.get(value, -1) for value in texts.values], out)


@dataclass(frozen=True)
class Hashed:
    name: str
    width: int = HASH_BUCKETS
    kind: str = "hashed"

    def apply(self, column: Column, out: np.ndarray) -> None:
        texts = _texts(column)
        _set_ones(texts, [zlib.crc32(value.encode()) % self.width for value in texts.values], out)


Encoder = list[Standardised | OneHot | Hashed]


def fit(columns: list[Column], rows: np.ndarray) -> Encoder:
    """The encoding of every column that can tell rows apart. `rows` are the indexes of the training rows."""
    encoder = [code for column in columns if (code := _fit_column(column, rows)) is not None]
    width = sum(code.width for code in encoder)
    if not encoder:
        raise Refused("No column beside the label differs between rows: there is nothing to learn from.")
    if width > MAX_FEATURES:
        raise Refused(f"The columns make {width} inputs; this recipe takes at most {MAX_FEATURES}.")
    return encoder


def encode(columns: list[Column], encoder: Encoder, rows: int) -> np.ndarray:
    """float32 of shape (rows, inputs)."""
    by_name = {column.name: column for column in columns}
    features = np.zeros((rows, sum(code.width for code in encoder)), dtype=np.float32)
    at = 0
    for code in encoder:
        code.apply(by_name[code.name], features[:, at : at + code.width])
        at += code.width
    return features


def as_json(encoder: Encoder) -> list[dict[str, Any]]:
    return [asdict(code) for code in encoder]


def _fit_column(column: Column, rows: np.ndarray) -> Standardised | OneHot | Hashed | None:
    if isinstance(column, NumberColumn):
        values = column.numbers[rows]
        finite = values[np.isfinite(values)]
        deviation = float(finite.std()) if finite.size else 0.0
        usable = np.isfinite(deviation) and deviation > 0
        return Standardised(column.name, float(finite.mean()), deviation) if usable else None
    used = np.unique(column.codes[rows])
    words = sorted(column.values[code] for code in used if code >= 0)
    if len(used) < 2:
        return None
    return OneHot(column.name, tuple(words)) if len(words) <= MAX_ONE_HOT else Hashed(column.name)


def _numbers(column: Column) -> np.ndarray:
    if not isinstance(column, NumberColumn):
        raise TypeError(f"column '{column.name}' was not read as numbers")
    return column.numbers


def _texts(column: Column) -> TextColumn:
    if not isinstance(column, TextColumn):
        raise TypeError(f"column '{column.name}' was not read as text")
    return column


def _set_ones(column: TextColumn, place_of_code: list[int], out: np.ndarray) -> None:
    places = np.array([*place_of_code, -1])[column.codes]  # the code of a missing text, -1, meets the last entry
    known = np.flatnonzero(places >= 0)
    out[known, places[known]] = 1.0
