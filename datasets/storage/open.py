"""The one way to a storage: its address. `file:///folder` for now; a scheme more is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from datasets.storage.contract import Storage
from datasets.storage.local import LocalStorage


def open_storage(url: str) -> Storage:
    """Raises `ValueError` with the reason when no storage can have this address."""
    scheme = urlsplit(url).scheme
    try:
        opener = _OPENERS[scheme]
    except KeyError:
        raise ValueError(f"STORAGE_URL={url!r}: use one of {', '.join(f'{s}://' for s in _OPENERS)}.") from None
    return opener(url)


def _open_local(url: str) -> Storage:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError(f"STORAGE_URL={url!r} must look like file:///absolute/folder.")
    return LocalStorage(Path(unquote(parts.path)))


_OPENERS: dict[str, Callable[[str], Storage]] = {"file": _open_local}
