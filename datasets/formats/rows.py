"""A text file as records with line numbers, streamed; what breaks a table's shape is collected, not guessed away."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from datasets.formats.options import Finding, Unreadable, unreadable

MAX_FIELD_CHARACTERS = 16 * 2**20
MAX_FINDINGS = 20
NUL_SHOWN = "\u2400"  # PostgreSQL and JSON readers take no NUL; the sign for it is shown in its place


class Lines:
    """The lines of a file, endings kept (LF, CR LF or CR). Notes NULs and whether the end was reached."""

    def __init__(self, path: Path, encoding: str, hint_lines: int) -> None:
        self._path, self._encoding, self._hint_lines = path, encoding, hint_lines
        self.number = 0
        self.ended = False
        self.nul_lines: list[int] = []
        self.nul_count = 0

    def __iter__(self) -> Iterator[str]:
        with self._path.open("rb") as raw, io.TextIOWrapper(raw, self._encoding, newline="") as text:
            while line := text.readline(MAX_FIELD_CHARACTERS + 1):
                self.number += 1
                if len(line) > MAX_FIELD_CHARACTERS:
                    raise unreadable("long_line", f"Line {self.number} is longer than 16 MiB.", self.number)
                if self.number <= self._hint_lines:
                    continue
                if "\0" in line:
                    line = self._without_nul(line)
                yield line
            self.ended = True

    def _without_nul(self, line: str) -> str:
        self.nul_count += 1
        if len(self.nul_lines) < MAX_FINDINGS:
            self.nul_lines.append(self.number)
        return line.replace("\0", NUL_SHOWN)


def records(lines: Lines, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it starts, cells) of every record that is not blank. Raises `Unreadable` for a quote left open."""
    csv.field_size_limit(MAX_FIELD_CHARACTERS)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter == " ")
    start = lines.number + 1
    try:
        for row in reader:
            if lines.ended:
                raise _open_quote(start)
            if row:
                yield start, row
            start = lines.number + 1
    except csv.Error as error:
        if "field larger" in str(error):
            raise _open_quote(start) from None
        raise unreadable("csv", f"Line {start} cannot be read as CSV: {error}.", start) from None


def _open_quote(line: int) -> Unreadable:
    return unreadable(
        "open_quote",
        f"line {line}: a quote is opened and never closed, so that the rest of the file would be one cell."
        ' Close it, or double it ("") where it belongs to the text.',
        line,
    )


class Shape:
    """Gives every record the table's width, and keeps account of those that do not have it."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = 0
        self.trailing = 0  # records with one empty field too many at the end
        self._first_trailing: list[int] = []
        self._ragged: list[Finding] = []
        self._ragged_count = 0

    def fit(self, line: int, row: list[str]) -> list[str] | None:
        """The record's cells, or None when it has another number of them."""
        self.rows += 1
        if len(row) == self.width:
            return row
        if len(row) == self.width + 1 and not row[-1]:
            self.trailing += 1
            if len(self._first_trailing) < MAX_FINDINGS:
                self._first_trailing.append(line)
            return row[:-1]
        self._ragged_count += 1
        if len(self._ragged) < MAX_FINDINGS:
            self._ragged.append(self._finding(line, len(row)))
        return None

    def check(self) -> None:
        """Raises `Unreadable` with the first records of another width, and how many there are."""
        findings, count = list(self._ragged), self._ragged_count
        if 0 < self.trailing < self.rows:
            findings += [self._finding(line, self.width + 1) for line in self._first_trailing]
            count += self.trailing
        if findings:
            findings.sort(key=lambda finding: finding.line or 0)
            raise Unreadable(findings[:MAX_FINDINGS], count)

    def _finding(self, line: int, width: int) -> Finding:
        text = f"line {line} has {width} fields, but the table has {self.width} columns."
        return Finding(code="ragged", text=text, line=line)
