"""Where this process is, what its job is, and how a file is written so that it is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Dataset(NamedTuple):
    path: Path
    label: str | None
    options: dict[str, Any]  # how the portal reads the table: encoding, delimiter, header


def folder() -> Path:
    """The launch's folder on a node, else ./trainyard (made when needed)."""
    given = os.environ.get("TRAINYARD_FOLDER")
    if given:
        return Path(given)
    here = Path.cwd() / "trainyard"
    here.mkdir(exist_ok=True)
    return here


def rank() -> int:
    return int(os.environ.get("TRAINYARD_RANK") or os.environ.get("RANK") or 0)


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE") or 1)


def dataset() -> Dataset:
    """The job's dataset; FileNotFoundError says what to do when there is none."""
    told = spec().get("dataset") or {}
    path = Path(os.environ.get("TRAINYARD_DATA") or folder() / "inputs" / "data")
    if not path.exists():
        raise FileNotFoundError(f"no dataset at {path}: choose one in the job's form, or set TRAINYARD_DATA to a file")
    label = os.environ.get("TRAINYARD_LABEL") or told.get("label")
    return Dataset(path, label, dict(told.get("options") or {}))


def spec() -> dict[str, Any]:
    """The job as submitted (spec.json), or {} off the cluster."""
    try:
        return dict(json.loads((folder() / "spec.json").read_text("utf-8")))
    except FileNotFoundError:
        return {}


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_synced(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    sync(unfinished)
    unfinished.rename(path)


def sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_said: set[str] = set()


def say(text: str, *, once: str = "") -> None:
    if once not in _said:
        print(f"trainyard: {text}", file=sys.stderr, flush=True)  # noqa: T201
    if once:
        _said.add(once)
