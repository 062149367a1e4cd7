"""What is in a column, found by looking at every cell once, in blocks.

A cell is missing when it is blank or "nan". A column is numeric when at least 95 % of its other cells are numbers;
usual words for a missing value, such as N/A, count for neither side, and the rest are named with their lines. Whole
numbers with leading zeros are codes, so text. Counts of distinct values stop at a bound.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

NUMERIC_SHARE = 0.95
MAX_DISTINCT = 1000
MAX_EXAMPLES = 20
EXACT_INTEGER = 2**53
_MISSING_WORDS = {"na", "n/a", "#n/a", "null", "none", "nil", "-", "?", "missing", "unknown"}
_LEADING_ZERO = re.compile(r"^ *[+-]?0\d+ *$", re.MULTILINE)
_INTEGER_CHARACTERS = "0123456789+- \n"


def is_number(cell: str) -> bool:
    return number_of(cell) is not None


def number_of(cell: str) -> float | None:
    """The cell's number (±inf included), else None. Underscores are no part of a number here."""
    if "_" in cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def is_missing(cell: str) -> bool:
    text = cell.strip()
    return not text or text.lower() == "nan"


@dataclass
class ColumnScan:
    """Running facts of one column. `add` takes the cells of a block with the lines they stand on."""

    name: str
    cells: int = 0
    missing: int = 0
    numbers: int = 0
    infinite: int = 0
    excused: int = 0  # not numbers, but usual words for a missing value
    is_integer: bool = True
    has_leading_zero: bool = False
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    low_text: str = ""
    high_text: str = ""
    not_numbers: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    classes: Counter[str] | None = field(default_factory=Counter)

    def add(self, cells: list[str], lines: list[int]) -> None:
        self.cells += len(cells)
        if self.classes is not None:
            self.classes.update(cells)
            if len(self.classes) > MAX_DISTINCT:
                self.classes = None
        joined = "\n".join(cells)
        try:
            values = list(map(float, cells)) if "_" not in joined else None
        except ValueError:
            values = None
        if values is None or any(map(math.isnan, values)):
            values, joined = self._one_by_one(cells, lines)
        self._add_numbers(values, joined)

    def _one_by_one(self, cells: list[str], lines: list[int]) -> tuple[list[float], str]:
        values: list[float] = []
        texts: list[str] = []
        for cell, line in zip(cells, lines, strict=True):
            value = number_of(cell)
            if value is not None:
                values.append(value)
                texts.append(cell.strip())
            elif is_missing(cell):
                self.missing += 1
            else:
                self._note_not_number(cell, line)
        return values, "\n".join(texts)

    def _note_not_number(self, cell: str, line: int) -> None:
        self.not_numbers += 1
        self.excused += cell.strip().lower() in _MISSING_WORDS
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append((line, cell))

    def _add_numbers(self, values: list[float], texts: str) -> None:
        if not values:
            return
        self.numbers += len(values)
        if self.is_integer and texts.strip(_INTEGER_CHARACTERS):
            self.is_integer = False
        if self.is_integer and not self.has_leading_zero:
            self.has_leading_zero = _LEADING_ZERO.search(texts) is not None
        finite = values
        if math.inf in values or -math.inf in values:
            finite = [value for value in values if math.isfinite(value)]
            self.infinite += len(values) - len(finite)
        if finite:
            self._add_range(min(finite), max(finite), texts)
            self.total += math.fsum(finite)

    def _add_range(self, low: float, high: float, texts: str) -> None:
        if self.is_integer and max(abs(low), abs(high)) >= EXACT_INTEGER:
            whole = [int(text) for text in texts.split("\n")]
            self.low_text = str(min(whole + ([int(self.low_text)] if self.low_text else [])))
            self.high_text = str(max(whole + ([int(self.high_text)] if self.high_text else [])))
        self.low, self.high = min(self.low, low), max(self.high, high)

    @property
    def type(self) -> str:
        """'number', 'integer', 'text' or 'empty'."""
        if self.cells == self.missing:
            return "empty"
        if self.numbers < NUMERIC_SHARE * (self.cells - self.missing - self.excused) or not self.numbers:
            return "text"
        if self.is_integer and not self.not_numbers:
            return "text" if self.has_leading_zero else "integer"
        return "number"

    @property
    def mean(self) -> float | None:
        finite = self.numbers - self.infinite
        mean = self.total / finite if finite else math.nan
        return mean if math.isfinite(mean) else None
