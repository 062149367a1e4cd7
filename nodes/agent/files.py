"""Files written so that a reader sees all or nothing, opened so that a job cannot point us elsewhere. Stdlib only."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 64 * 2**20


def write_json(path: Path, value: Any, *, mode: int = 0o600, sync: bool = True) -> None:
    """Write to a temporary name, sync, rename. Replaces a link or file of that name without following it."""
    write_bytes(path, json.dumps(value).encode(), mode=mode, sync=sync)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o600, sync: bool = True) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path) -> Any:
    """The value, or None when the file is missing or not (yet) whole."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def open_inside(folder: Path, relative: str) -> int | None:
    """A read-only descriptor of a regular file below a folder that a job may have rearranged; None when there is none.

    No component may be a link, and a second hard link is refused: it could be somebody else's file.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *parents, name = relative.split("/")
        for part in parents:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        handle = os.open(name, flags, dir_fd=at)
    except OSError:
        return None
    finally:
        os.close(at)
    facts = os.fstat(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        os.close(handle)
        return None
    return handle


def read_inside(folder: Path, relative: str, *, most_bytes: int) -> bytes | None:
    """The content of a job's file, or None when it is missing, no regular file, or larger than `most_bytes`."""
    handle = open_inside(folder, relative)
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as file:
        data = file.read(most_bytes + 1)
    return data if len(data) <= most_bytes else None


def is_inside(path: str) -> bool:
    """Whether a relative POSIX path stays below the folder it is joined to."""
    parts = path.split("/")
    return (
        bool(path)
        and not path.startswith("/")
        and "\\" not in path
        and "\x00" not in path
        and not ({"", ".", ".."} & set(parts))
    )
