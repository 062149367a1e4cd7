"""Tables (CSV and its relatives): `sniff`, `inspect`, `preview` for people, `read` for training. One parser for all.

`inspect` streams over the whole file with bounded memory; `read` holds numbers as float64 and texts as codes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.formats.columns import ColumnScan, is_missing, number_of
from datasets.formats.dialect import complete_options
from datasets.formats.encoding import check_encoding, guess_encoding, refuse_other_files
from datasets.formats.facts import (
    TableFacts,
    choose_label,
    column_facts,
    column_warnings,
    cut,
    label_warnings,
    name_columns,
)
from datasets.formats.options import Finding, TableOptions, Unreadable, unreadable
from datasets.formats.rows import Lines, Shape, records

MAX_COLUMNS = 10_000
PREVIEW_ROWS = 20
BLOCK_CELLS = 200_000
NO_VALUE = -1  # code of a missing text

Progress = Callable[[int], None]  # called with the number of rows read so far


def sniff(path: Path, options: TableOptions | None = None) -> TableOptions:
    """The options with all that can be found out filled in; `header` None means: ask. Raises `Unreadable`."""
    options = options or TableOptions()
    refuse_other_files(path)
    encoding = options.encoding or guess_encoding(path)
    check_encoding(path, encoding)
    return complete_options(path, options, encoding)


def inspect(path: Path, options: TableOptions | None = None, progress: Progress | None = None) -> TableFacts:
    """Facts from every row. Never raises for what is in the file: see `problems` and `question` of the facts."""
    read_as = options or TableOptions()
    try:
        read_as = sniff(path, options)
        return _inspect(path, read_as, progress)
    except Unreadable as error:
        return TableFacts(read_as=read_as, problems=error.findings, problem_count=error.count)


def decision(facts: TableFacts) -> str:
    """'refuse', 'question' or 'accept' (perhaps with warnings)."""
    if facts.problems:
        return "refuse"
    return "question" if facts.question else "accept"


def preview(path: Path, options: TableOptions, rows: int = PREVIEW_ROWS) -> list[list[str]]:
    """The first rows as text, exactly as in the file, long cells cut."""
    _, body = _open(path, sniff(path, options))
    return [[cut(cell) for cell in row] for _, (_, row) in zip(range(rows), body, strict=False)]


@dataclass
class NumberColumn:
    """float64; NaN where a cell is missing or no number."""

    name: str
    numbers: np.ndarray


@dataclass
class TextColumn:
    """int64 `codes`, each the place of the row's text in `values`, or `NO_VALUE`."""

    name: str
    codes: np.ndarray
    values: list[str]


Column = NumberColumn | TextColumn


@dataclass
class Table:
    rows: int
    columns: list[Column]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


def read(
    path: Path, options: TableOptions, *, as_text: frozenset[str] = frozenset(), types: Mapping[str, str] | None = None
) -> Table:
    """All columns for training. `types` (from an inspection with the same options) saves a pass over the file.

    Columns named in `as_text` keep their words, such as the label. Raises `Unreadable`.
    """
    options = sniff(path, options)
    if options.header is None:
        raise unreadable("header", "Say first whether the first row names the columns.")
    head, body = _open(path, options)
    if types is None or not set(head.names) <= types.keys():
        facts = _inspect(path, options, None)
        types = {column.name: column.type for column in facts.columns}
    fillers = [
        _Texts() if name in as_text or types.get(name, "text") in ("text", "empty") else _Numbers()
        for name in head.names
    ]
    rows = 0
    for _, row in body:
        rows += 1
        for filler, cell in zip(fillers, row, strict=True):
            filler.add(cell)
    head.shape.check()
    return Table(rows, [filler.column(name) for name, filler in zip(head.names, fillers, strict=True)])


class _Numbers:
    def __init__(self) -> None:
        self._values = array("d")

    def add(self, cell: str) -> None:
        value = number_of(cell)
        self._values.append(np.nan if value is None else value)

    def column(self, name: str) -> NumberColumn:
        return NumberColumn(name, np.array(self._values, dtype=np.float64))


class _Texts:
    def __init__(self) -> None:
        self._codes = array("l")
        self._known: dict[str, int] = {}

    def add(self, cell: str) -> None:
        self._codes.append(NO_VALUE if is_missing(cell) else self._known.setdefault(cell, len(self._known)))

    def column(self, name: str) -> TextColumn:
        return TextColumn(name, np.array(self._codes, dtype=np.int64), list(self._known))


@dataclass
class _Head:
    names: list[str]
    oddities: list[Finding]
    shape: Shape
    lines: Lines


def _open(path: Path, options: TableOptions) -> tuple[_Head, Iterator[tuple[int, list[str]]]]:
    """Names of the columns, and the records below them that have the table's width, with their lines."""
    lines = Lines(path, options.encoding or "utf-8", options.hint_lines or 0)
    rows = records(lines, options.delimiter or ",")
    first = next(rows, None)
    if first is None or not any(cell.strip() for cell in first[1]):
        raise unreadable("empty", "The file is empty: it holds no rows and no names.")
    width = len(first[1])
    if width > MAX_COLUMNS:
        raise unreadable("many_columns", f"The table has {width} columns; at most {MAX_COLUMNS} are taken.")
    names, oddities = name_columns(first[1] if options.header else None, width)
    head = _Head(names, oddities, Shape(width), lines)
    return head, _body(head, rows, None if options.header else first)


def _body(
    head: _Head, rows: Iterator[tuple[int, list[str]]], first: tuple[int, list[str]] | None
) -> Iterator[tuple[int, list[str]]]:
    for line, row in rows if first is None else _with_first(first, rows):
        fitting = head.shape.fit(line, row)
        if fitting is not None:
            yield line, fitting


def _with_first(first: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rows


def _inspect(path: Path, options: TableOptions, progress: Progress | None) -> TableFacts:
    head, body = _open(path, options)
    scans = [ColumnScan(name) for name in head.names]
    shown: list[list[str]] = []
    rows = 0
    for lines, block in _blocks(body, len(scans)):
        rows += len(block)
        shown += block[: PREVIEW_ROWS - len(shown)]
        for scan, cells in zip(scans, zip(*block, strict=True), strict=True):
            scan.add(list(cells), lines)
        if progress is not None:
            progress(rows)
    head.shape.check()
    if not rows:
        raise unreadable("no_rows", "There are no rows below the names of the columns.")
    return _facts(options, head, scans, rows, shown)


def _blocks(body: Iterator[tuple[int, list[str]]], width: int) -> Iterator[tuple[list[int], list[list[str]]]]:
    size = max(1, BLOCK_CELLS // width)
    lines: list[int] = []
    block: list[list[str]] = []
    for line, row in body:
        lines.append(line)
        block.append(row)
        if len(block) == size:
            yield lines, block
            lines, block = [], []
    if block:
        yield lines, block


def _facts(
    options: TableOptions, head: _Head, scans: list[ColumnScan], rows: int, shown: list[list[str]]
) -> TableFacts:
    label, is_guess = choose_label(head.names, options.label)
    columns = [column_facts(scan, scan.name == label) for scan in scans]
    warnings = [*head.oddities, *_file_warnings(head)]
    for column in columns:
        warnings += column_warnings(column)
    chosen = next((column for column in columns if column.name == label), None)
    if chosen is not None:
        warnings += label_warnings(chosen, rows)
    else:
        text = f"There is no column '{options.label}'. Choose the label among the columns of this file."
        warnings.append(Finding(code="label_unknown", text=text))
    question = "header" if options.header is None else ("label" if chosen is None else "")
    return TableFacts(
        read_as=options,
        rows=rows,
        columns=columns,
        label=label,
        label_is_guess=is_guess,
        classes=chosen.classes if chosen else {},
        preview=[[cut(cell) for cell in row] for row in shown],
        warnings=warnings[:100],
        question=question,
    )


def _file_warnings(head: _Head) -> Iterator[Finding]:
    lines = head.lines
    if lines.nul_count:
        shown = ", ".join(f"line {number}" for number in lines.nul_lines[:5])
        text = f"{lines.nul_count} lines hold a NUL character ({shown}); it is shown and read as ␀."
        yield Finding(code="nul", text=text, line=lines.nul_lines[0])
    if head.shape.trailing:
        yield Finding(code="trailing", text="extra empty field at the end of each row; it is left out.")
