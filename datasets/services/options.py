"""How a version's file is read: what a person may choose, and which choices need no second look at the file."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _
from pydantic import ValidationError

from datasets.formats.facts import TableFacts, label_warnings
from portal.errors import DomainError, Invalid, InvalidFields

DELIMITERS = (",", ";", "\t", "|", " ")
LABEL_LENGTH = 500
_ABOUT_LABEL = {"one_class", "label_missing", "labels_alike", "many_classes", "label_unknown"}  # codes of warnings


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """The same options with values of the right kind. Raises `InvalidFields` naming every wrong one."""
    errors: list[DomainError] = []
    checked: dict[str, Any] = {}
    for name, value in options.items():
        try:
            checked[name] = _checked(name, value)
        except Invalid as error:
            errors.append(error)
    if errors:
        raise InvalidFields(errors)
    return checked


def relabelled(before: dict[str, Any], after: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any] | None:
    """The facts with another label column, when that is the only change and its classes are counted already.

    None when the file must be looked at again.
    """
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if changed != {"label"}:
        return None
    try:
        table = TableFacts.model_validate(facts)
    except ValidationError:
        return None
    column = next((column for column in table.columns if column.name == after.get("label")), None)
    if column is None or len(column.classes) < 2:
        return None
    table.label, table.label_is_guess, table.classes = column.name, False, column.classes
    others = [finding for finding in table.warnings if finding.code not in _ABOUT_LABEL]
    table.warnings = [*others, *label_warnings(column, table.rows)]
    return table.model_dump(mode="json")


def _checked(name: str, value: Any) -> Any:
    check = _CHECKS.get(name)
    if check is None:
        known = ", ".join(sorted(_CHECKS))
        raise Invalid(
            "unknown_field",
            _("There is no option “%(name)s”. Known: %(known)s.") % {"name": name, "known": known},
            field=name,
        )
    return None if value is None or value == "" else check(value)


def _encoding(value: Any) -> str:
    try:
        return codecs.lookup(str(value)).name
    except (LookupError, ValueError):
        raise Invalid(
            "unknown_encoding",
            _("“%(value)s” is no known encoding. Try utf-8, gb18030 or latin-1.") % {"value": str(value)[:40]},
            field="encoding",
        ) from None


def _delimiter(value: Any) -> str:
    if value in DELIMITERS:
        return str(value)
    raise Invalid(
        "unknown_delimiter",
        _("Columns can be separated by comma, semicolon, tab, bar or space, not by “%(value)s”.")
        % {"value": str(value)[:40]},
        field="delimiter",
    )


def _header(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Invalid("not_a_boolean", _("Say true when the first row names the columns, else false."), field="header")


def _label(value: Any) -> str:
    if isinstance(value, str) and len(value) <= LABEL_LENGTH and "\x00" not in value:
        return value
    raise Invalid("invalid_label", _("The label is the name of one column."), field="label")


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "encoding": _encoding,
    "delimiter": _delimiter,
    "header": _header,
    "label": _label,
}
