"""The dataset as arrays: read with the options its inspection used, split by class, shared out among ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.formats.facts import MAX_CLASSES, choose_label
from datasets.formats.options import Unreadable
from datasets.formats.table import Column, Table, TextColumn, read
from jobs.training.features import Encoder, encode, fit
from jobs.training.settings import Recipe, Refused


@dataclass(frozen=True)
class Samples:
    """`features` float32 (rows, inputs), `labels` int64 (rows,): training rows first, then validation rows."""

    features: np.ndarray
    labels: np.ndarray
    train_count: int
    classes: list[str]
    encoder: Encoder
    label: str
    dropped: int  # rows without a label

    @property
    def validation_count(self) -> int:
        return len(self.labels) - self.train_count


def load_samples(recipe: Recipe, path: Path, world_size: int) -> Samples:
    try:
        table = read(path, recipe.options, as_text=frozenset(filter(None, [recipe.label])), types=recipe.types)
        label = _label_of(table.columns, recipe.label)
        if recipe.label is None:  # its words are wanted, also where they look like numbers
            table = read(path, recipe.options, as_text=frozenset([label]), types=recipe.types)
    except Unreadable as error:
        raise Refused(f"The dataset cannot be read. {error.findings[0].text}") from None
    labels, classes = _labels(table, label)
    seed, fraction = recipe.spec.parameters.seed, recipe.spec.parameters.validation_fraction
    train, validation = split(labels, fraction, seed)
    if len(train) < world_size:
        raise Refused(f"{len(train)} training rows cannot be shared by {world_size} processes.")
    columns = [column for column in table.columns if column.name != label]
    encoder = fit(columns, train)
    order = np.concatenate([train, validation])
    encoded = encode(columns, encoder, table.rows)[order]
    return Samples(encoded, labels[order], len(train), classes, encoder, label, int((labels < 0).sum()))


def split(labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row indexes for training and validation: by class, the same for the same seed. Rows with label -1 are left out.

    Every class keeps at least one training row; Refused when nothing is left to validate on.
    """
    random = np.random.default_rng([seed, 0x5EED])
    train, validation = [], []
    for number in range(int(labels.max()) + 1):
        rows = random.permutation(np.flatnonzero(labels == number))
        held_out = min(round(len(rows) * fraction), len(rows) - 1)
        validation.append(rows[:held_out])
        train.append(rows[held_out:])
    held = np.sort(np.concatenate(validation))
    if not len(held):
        raise Refused(
            f"validation_fraction {fraction} of {int((labels >= 0).sum())} rows leaves no row to validate on."
            " Use more rows or a larger fraction."
        )
    return np.sort(np.concatenate(train)), held


def batches(count: int, size: int, *, seed: int, epoch: int, start: int = 0) -> Iterator[np.ndarray]:
    """The global batches of an epoch from row `start` of its order on; the order depends on seed and epoch alone."""
    order = np.random.default_rng([seed, epoch]).permutation(count)
    for at in range(start, count, size):
        yield order[at : at + size]


def share(rows: np.ndarray, rank: int, world_size: int) -> np.ndarray:
    """A rank's part: disjoint from the others', together everything, sizes differing by at most one."""
    return rows[rank::world_size]


def _label_of(columns: list[Column], wanted: str | None) -> str:
    names = [column.name for column in columns]
    label, _ = choose_label(names, wanted)
    if label is None:
        raise Refused(f"data.label: the dataset has no column '{wanted}'. It has: {', '.join(names[:20])}.")
    return label


def _labels(table: Table, label: str) -> tuple[np.ndarray, list[str]]:
    """Class numbers by sorted class name, -1 where the label is missing."""
    column = table.column(label)
    if not isinstance(column, TextColumn):
        raise TypeError(f"the label '{label}' was not read as text")
    classes = sorted(column.values)
    if len(classes) < 2:
        had = f"only one class ('{classes[0]}')" if classes else "no values"
        raise Refused(f"The label '{column.name}' has {had}: a classifier needs at least two classes.")
    if len(classes) > MAX_CLASSES:
        raise Refused(
            f"The label '{column.name}' has {len(classes)} different values; this recipe tells at most"
            f" {MAX_CLASSES} classes apart. Is it a measured number?"
        )
    number_of = {name: number for number, name in enumerate(classes)}
    lookup = np.array([*(number_of[value] for value in column.values), -1])
    return lookup[column.codes], classes
