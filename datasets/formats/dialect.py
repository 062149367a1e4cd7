"""How the columns are separated and whether the first row names them, judged from the beginning of the file."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from pathlib import Path

from datasets.formats.columns import is_number
from datasets.formats.options import TableOptions
from datasets.formats.rows import Lines

SAMPLE_CHARACTERS = 1 << 18
SAMPLE_RECORDS = 500
DELIMITERS = (",", ";", "\t", "|")
_HINT = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)


def complete_options(path: Path, options: TableOptions, encoding: str) -> TableOptions:
    """The options with encoding, delimiter and hint lines filled in; `header` stays None when it needs a person."""
    text = _beginning(path, encoding)
    hint = _HINT.match(text.split("\n", 1)[0].split("\r", 1)[0])
    hint_lines = options.hint_lines if options.hint_lines is not None else int(bool(hint))
    if hint_lines:
        text = "".join(text.splitlines(keepends=True)[hint_lines:])
    delimiter = options.delimiter or (hint[1] if hint else None) or guess_delimiter(text)
    header = options.header if options.header is not None else guess_header(sample_records(text, delimiter))
    found = {"encoding": encoding, "delimiter": delimiter, "header": header, "hint_lines": hint_lines}
    return options.model_copy(update=found)


def guess_delimiter(text: str) -> str:
    """The candidate that splits the most records into the same number (> 1) of cells; quotes are respected."""
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        widths = Counter(len(row) for row in sample_records(text, delimiter))
        wide = Counter({width: count for width, count in widths.items() if width > 1})
        if not wide:
            continue
        width, count = wide.most_common(1)[0]
        score = (round(count / widths.total(), 1), width)
        if score > best_score:
            best, best_score = delimiter, score
    return best


def guess_header(rows: list[list[str]]) -> bool | None:
    """True when the first row can only be names; None when it might be data: numbers, or words that recur below."""
    if not rows:
        return True
    first, body = rows[0], rows[1:]
    if any(is_number(cell) for cell in first):
        return None
    comes_again = any(
        cell.strip() and any(cell == row[i] for row in body if i < len(row)) for i, cell in enumerate(first)
    )
    return None if comes_again else True


def sample_records(text: str, delimiter: str) -> list[list[str]]:
    csv.field_size_limit(SAMPLE_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    try:
        rows = [row for row in itertools.islice(reader, SAMPLE_RECORDS) if row]
    except csv.Error:
        return rows
    if len(text) >= SAMPLE_CHARACTERS and len(rows) > 1:
        rows.pop()  # the last one is cut off
    return rows


def _beginning(path: Path, encoding: str) -> str:
    parts: list[str] = []
    size = 0
    for line in Lines(path, encoding, 0):
        parts.append(line[: SAMPLE_CHARACTERS - size])
        size += len(parts[-1])
        if size >= SAMPLE_CHARACTERS:
            break
    return "".join(parts)
