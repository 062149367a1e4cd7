"""How a table is read. What is None is found out from the file; what was found is told in the facts' `read_as`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TableOptions(BaseModel):
    """JSON-able; unknown names are ignored, so that newer portals can speak to older nodes."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    encoding: str | None = None
    delimiter: str | None = None
    header: bool | None = None  # does the first row name the columns?
    label: str | None = None
    hint_lines: int | None = None  # leading lines that are no records, such as Excel's 'sep=;'


class Finding(BaseModel):
    """Something wrong or odd, as a sentence; `line` counts from 1 in the file."""

    code: str
    text: str
    line: int | None = None


class Unreadable(Exception):
    """The file is no table, or not with these options; `findings` say why, `count` how many there were in all."""

    def __init__(self, findings: list[Finding], count: int | None = None) -> None:
        super().__init__(findings[0].text)
        self.findings = findings
        self.count = count or len(findings)


def unreadable(code: str, text: str, line: int | None = None) -> Unreadable:
    return Unreadable([Finding(code=code, text=text, line=line)])
