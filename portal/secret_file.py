"""A secret made once and kept in a file that only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_make(path: Path) -> str:
    """The file's text; when it is missing, 64 random URL-safe characters written exclusively with mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(2):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            text = path.read_text(encoding="ascii").strip()
            if text:
                return text
            path.unlink(missing_ok=True)  # made by a process that died between create and write
            continue
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48))
    return path.read_text(encoding="ascii").strip()
