"""How a person says how a table is to be read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from datasets.models import Version
from datasets.shown import label_of

_SELECT = {"class": "form-select"}
_HEADER = {"yes": True, "no": False}


class OptionsForm(forms.Form):
    label = forms.ChoiceField(label=_("Label column"), required=False, widget=forms.Select(attrs=_SELECT))
    header = forms.ChoiceField(
        label=_("First row"),
        required=False,
        choices=[("", _("find out")), ("yes", _("names the columns")), ("no", _("is data already"))],
        widget=forms.Select(attrs=_SELECT),
    )
    encoding = forms.ChoiceField(
        label=_("Encoding"),
        required=False,
        choices=[
            ("", _("find out")),
            ("utf-8", "UTF-8"),
            ("utf-16", "UTF-16"),
            ("gb18030", "GB18030 / GBK"),
            ("big5", "Big5"),
            ("shift_jis", "Shift JIS"),
            ("cp1252", "Windows-1252"),
            ("iso8859-1", "Latin-1"),
        ],
        widget=forms.Select(attrs=_SELECT),
    )
    delimiter = forms.ChoiceField(
        label=_("Columns are separated by"),
        required=False,
        choices=[
            ("", _("find out")),
            (",", _("comma")),
            (";", _("semicolon")),
            ("\t", _("tab")),
            ("|", _("bar")),
            (" ", _("space")),
        ],
        widget=forms.Select(attrs=_SELECT),
    )

    def __init__(self, data: Any = None, *, version: Version) -> None:
        options = version.options
        header = {True: "yes", False: "no"}.get(options.get("header"), "")
        super().__init__(data, initial={**options, "header": header})
        names = [column.get("name", "") for column in version.facts.get("columns", []) if isinstance(column, dict)]
        chosen = str(options.get("label") or "")
        if chosen and chosen not in names:
            names.insert(0, chosen)
        self.fields["label"].choices = [("", self._unchosen(version)), *((name, name) for name in names)]  # type: ignore[attr-defined]
        self._add_choice("encoding", str(options.get("encoding") or ""))

    def _unchosen(self, version: Version) -> str:
        guess = "" if version.options.get("label") else label_of(version)
        return gettext("%(name)s (guessed)") % {"name": guess} if guess else gettext("none chosen")

    def _add_choice(self, name: str, value: str) -> None:
        field: Any = self.fields[name]
        if value not in dict(field.choices):
            field.choices = [*field.choices, (value, value)]

    def changes(self) -> dict[str, Any]:
        """For `set_options`: None goes back to guessing."""
        data = self.cleaned_data
        return {
            "label": data["label"] or None,
            "header": _HEADER.get(data["header"]),
            "encoding": data["encoding"] or None,
            "delimiter": data["delimiter"] or None,
        }
