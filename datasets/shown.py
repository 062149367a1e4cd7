"""What a version's facts look like on its page: bounded, whatever an inspection wrote."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from datasets.models import Version

MAX_COLUMNS = 300
MAX_CLASSES = 200
MAX_ROWS = 20
CLASSES_IN_ROW = 6

QUESTIONS = {
    "header": _("Does the first row name the columns, or is it data already?"),
    "label": _("Which column is to be learned?"),
}
TYPES = {
    "number": _("number"),
    "integer": _("integer"),
    "text": _("text"),
    "empty": _("empty"),
}


def shown(version: Version) -> dict[str, Any]:
    facts = version.facts
    columns = [column for column in facts.get("columns", []) if isinstance(column, dict)]
    label = label_of(version)
    counts = class_counts(facts, label)
    problems = facts.get("problems", [])
    return {
        "label": label,
        "label_is_guess": not version.options.get("label"),
        "columns": [_column(column) for column in columns[:MAX_COLUMNS]],
        "column_count": len(columns),
        "column_names": [column.get("name", "") for column in columns[:MAX_COLUMNS]],
        "rows": facts.get("rows"),
        "read_as": {name: value for name, value in facts.get("read_as", {}).items() if value is not None},
        "classes": counts[:MAX_CLASSES],
        "class_count": len(counts),
        "class_most": max((count for _name, count in counts), default=0),
        "preview": [row[:MAX_COLUMNS] for row in facts.get("preview", [])[:MAX_ROWS]],
        "warnings": facts.get("warnings", []),
        "problems": problems,
        "more_problems": max(0, int(facts.get("problem_count", 0)) - len(problems)),
        "question": QUESTIONS.get(str(facts.get("question", "")), ""),
    }


def label_of(version: Version) -> str:
    """The column chosen by a person, else the one that inspection guessed."""
    return str(version.options.get("label") or version.facts.get("label") or "")


def column_names(version: Version) -> list[str]:
    return [str(column.get("name", "")) for column in version.facts.get("columns", []) if isinstance(column, dict)]


def class_counts(facts: dict[str, Any], label: str) -> list[tuple[str, int]]:
    """Rows of each class, most frequent first."""
    found: dict[str, int] = facts.get("classes") or {}
    for column in facts.get("columns", []):
        if isinstance(column, dict) and column.get("name") == label and column.get("classes"):
            found = column["classes"]
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _column(column: dict[str, Any]) -> dict[str, Any]:
    classes = sorted((column.get("classes") or {}).items(), key=lambda item: (-item[1], item[0]))
    return {
        **column,
        "type_word": TYPES.get(str(column.get("type")), column.get("type", "")),
        "classes": classes[:CLASSES_IN_ROW] if 1 < len(classes) <= 50 and column.get("type") == "text" else [],
    }
