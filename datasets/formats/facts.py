"""What a person and the training must know of a table; JSON-able, without NaN, infinity or NUL, and of bounded size."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from datasets.formats.columns import EXACT_INTEGER, MAX_DISTINCT, ColumnScan, is_missing
from datasets.formats.options import Finding, TableOptions

MAX_JSON_BYTES = 250_000
MAX_CELL_CHARACTERS = 200
LABEL_NAMES = ("label", "target", "class", "y", "labels", "targets", "classes", "category", "outcome")
MAX_OTHER_CLASSES = 100  # of columns that are not the label
MAX_CLASSES = 1000


class ColumnFacts(BaseModel):
    name: str
    type: str  # number, integer, text, empty
    missing: int = 0
    distinct: int = 0
    distinct_is_minimum: bool = False
    min: float | int | str | None = None  # text where a float would not be exact
    max: float | int | str | None = None
    mean: float | None = None
    infinite: int = 0
    not_numbers: int = 0
    examples: list[Finding] = Field(default_factory=list)
    classes: dict[str, int] = Field(default_factory=dict)  # value → rows; empty when there are too many values


class TableFacts(BaseModel):
    read_as: TableOptions = TableOptions()
    rows: int = 0
    columns: list[ColumnFacts] = Field(default_factory=list)
    label: str | None = None
    label_is_guess: bool = True
    classes: dict[str, int] = Field(default_factory=dict)  # of the label
    preview: list[list[str]] = Field(default_factory=list)  # cells as they stand in the file, long ones cut
    warnings: list[Finding] = Field(default_factory=list)
    problems: list[Finding] = Field(default_factory=list)  # the first 20
    problem_count: int = 0
    question: str = ""  # what a person must decide: 'header' or 'label'


def name_columns(first: list[str] | None, width: int) -> tuple[list[str], list[Finding]]:
    """Unique, non-blank names for all columns, and what was odd about the given ones."""
    given = [name.strip() for name in first] if first is not None else [""] * width
    counts = Counter(name for name in given if name)
    repeated = {name: count for name, count in counts.items() if count > 1}
    findings = [
        Finding(code="duplicate_name", text=f"column '{name}' appears {_times(count)}.")
        for name, count in repeated.items()
    ]
    names: dict[str, None] = {}
    for number, name in enumerate(given, 1):
        if not name and first is not None:
            findings.append(Finding(code="no_name", text=f"column {number} has no name."))
        wanted = name or f"column_{number}"
        is_free = wanted not in names and (bool(name) or wanted not in counts)
        while not is_free:
            wanted = f"{wanted} ({number})"
            is_free = wanted not in names and wanted not in counts
        names[wanted] = None
    return list(names), findings


def choose_label(names: list[str], wanted: str | None) -> tuple[str | None, bool]:
    """The label column and whether it is only a suggestion: a usual name, else the last column."""
    if wanted is not None:
        return (wanted if wanted in names else None), False
    by_folded = {name.casefold(): name for name in reversed(names)}
    usual = next((by_folded[name] for name in LABEL_NAMES if name in by_folded), None)
    return usual or names[-1], True


def column_facts(scan: ColumnScan, is_label: bool) -> ColumnFacts:
    kind = scan.type
    is_numeric = kind in ("number", "integer")
    limit = MAX_CLASSES if is_label else MAX_OTHER_CLASSES
    counted = {value: count for value, count in (scan.classes or {}).items() if not is_missing(value)}
    return ColumnFacts(
        name=scan.name,
        type=kind,
        missing=scan.missing,
        distinct=len(counted) if scan.classes is not None else MAX_DISTINCT,
        distinct_is_minimum=scan.classes is None,
        min=_bound(scan.low, scan.low_text, kind) if is_numeric else None,
        max=_bound(scan.high, scan.high_text, kind) if is_numeric else None,
        mean=scan.mean if is_numeric else None,
        infinite=scan.infinite if is_numeric else 0,
        not_numbers=scan.not_numbers if is_numeric else 0,
        examples=[Finding(code="not_a_number", text=cut(text), line=line) for line, text in scan.examples]
        if is_numeric
        else [],
        classes=_classes(counted) if len(counted) <= limit else {},
    )


def column_warnings(column: ColumnFacts) -> Iterable[Finding]:
    if column.not_numbers:
        first = column.examples[0]
        shown = ", ".join(f"line {item.line}: '{item.text[:40]}'" for item in column.examples[:4])
        yield Finding(
            code="not_numbers",
            text=f"column {column.name}: {column.not_numbers} values are not numbers ({shown});"
            " training takes them as missing.",
            line=first.line,
        )
    if column.infinite:
        text = f"column {column.name}: {column.infinite} infinite values; training takes them as missing."
        yield Finding(code="infinite", text=text)
    if column.type == "empty":
        yield Finding(code="empty_column", text=f"column {column.name} is empty.")


def label_warnings(label: ColumnFacts, rows: int) -> Iterable[Finding]:
    if label.distinct_is_minimum or label.distinct > MAX_CLASSES:
        text = f"the label '{label.name}' has more than {MAX_CLASSES} different values: too many for classes."
        yield Finding(code="many_classes", text=text)
        return
    if label.distinct == 1:
        text = f"the label '{label.name}' has only one class: there is nothing to tell apart, and training is refused."
        yield Finding(code="one_class", text=text)
    if label.missing:
        text = f"{label.missing} of {rows} rows have no label; training leaves them out."
        yield Finding(code="label_missing", text=text)
    for alike in _look_alike(label.classes):
        shown = ", ".join(f"'{name}'" for name in alike[:10])
        text = f"labels that look alike: {shown}. They are kept as different classes."
        yield Finding(code="labels_alike", text=text)


def cut(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 1] + "…"


def fit_json(facts: TableFacts) -> dict[str, Any]:
    """The facts as JSON values, made smaller step by step until they fit into `MAX_JSON_BYTES`."""
    label = facts.label
    few = [
        c if c.name == label else c.model_copy(update={"classes": {}, "examples": c.examples[:3]})
        for c in facts.columns
    ]
    steps: list[Mapping[str, Any]] = [
        {},
        {"preview": [row[:100] for row in facts.preview[:10]]},
        {"columns": few},
        {"columns": [c.model_copy(update={"examples": []}) for c in few[:1000]], "preview": []},
        {"columns": [c.model_copy(update={"name": cut(c.name), "classes": {}, "examples": []}) for c in few[:500]]},
    ]
    small = facts
    for step in steps:
        small = small.model_copy(update=dict(step))
        text = small.model_dump_json()
        if len(text.encode()) <= MAX_JSON_BYTES:
            break
    else:
        small = TableFacts(read_as=facts.read_as, rows=facts.rows, label=cut(label) if label else None)
    return small.model_dump(mode="json")


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _bound(value: float, exact: str, kind: str) -> float | int | str | None:
    if not math.isfinite(value):
        return None
    if kind == "integer":
        return int(value) if abs(value) < EXACT_INTEGER else exact
    return value


def _classes(counted: Mapping[str, int]) -> dict[str, int]:
    classes: defaultdict[str, int] = defaultdict(int)
    for value, count in counted.items():
        classes[cut(value)] += count
    return dict(classes)


def _look_alike(classes: Iterable[str]) -> list[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[" ".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
    return [group for group in groups.values() if len(group) > 1]
