"""Translations: `python -m portal.texts` compiles every catalogue, needing no gettext tools on the machine.

`python -m portal.texts collect` (for whoever changes texts; needs xgettext) brings new texts into the catalogues:
those of Python and templates by Django's makemessages, those of TypeScript by its calls of `t("...")`. A text without
a translation appears in English.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polib

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "frontend" / "locale"
SOURCES = ROOT / "frontend" / "src"
_CALL = re.compile(r"""\bt\(\s*"((?:[^"\\]|\\.)*)\"""")


def compile_all(folder: Path = LOCALE) -> list[Path]:
    """Writes each .mo beside its .po; returns what was written."""
    written = []
    for path in sorted(folder.glob("*/LC_MESSAGES/*.po")):
        target = path.with_suffix(".mo")
        polib.pofile(str(path)).save_as_mofile(str(target))
        written.append(target)
    return written


def script_texts(folder: Path = SOURCES) -> list[str]:
    """The texts of the TypeScript modules, in order of their files."""
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*.ts")):
        for match in _CALL.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(match[1].replace('\\"', '"').replace("\\n", "\n"))
    return list(found)


def collect() -> None:
    command = ["makemessages", "--all", "--no-location", "--no-obsolete"]
    ignored = [f"--ignore={name}/*" for name in ("frontend/node_modules", "frontend/dist", ".venv", "var", "tests")]
    subprocess.run([sys.executable, str(ROOT / "manage.py"), *command, *ignored], check=True, cwd=ROOT)
    wanted = script_texts()
    for path in LOCALE.glob("*/LC_MESSAGES/djangojs.po"):
        catalogue = polib.pofile(str(path))
        known = {entry.msgid for entry in catalogue}
        catalogue[:] = [entry for entry in catalogue if entry.msgid in wanted]
        catalogue.extend(polib.POEntry(msgid=text) for text in wanted if text not in known)
        catalogue.save()


if __name__ == "__main__":
    if sys.argv[1:] == ["collect"]:
        collect()
    compile_all()
