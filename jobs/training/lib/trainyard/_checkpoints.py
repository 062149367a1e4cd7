"""Checkpoints that are there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trainyard._control import checkpoints_wanted, note_served
from trainyard._place import folder, say, sha256_of, spec, sync, write_synced
from trainyard._points import flush

_FINISHED = re.compile(r"step_(\d+)")


class Checkpoint(NamedTuple):
    path: Path
    step: int
    metrics: dict[str, float]


@contextlib.contextmanager
def checkpoint(step: int, metrics: Mapping[str, float] | None = None, *, keep: int | None = None) -> Iterator[Path]:
    """A folder to save into. It becomes checkpoints/step_<step> only when the block ends well, whole or not at all.

    Files are hashed, synced and listed in manifest.json, then the folder is renamed; whatever kills the process or
    fills the disk, older checkpoints stay good. The newest `keep` remain (default: the job's setting, else 3). A step
    that is saved already and good is left as it is.
    """
    wanted = checkpoints_wanted()
    place = folder() / "checkpoints"
    place.mkdir(parents=True, exist_ok=True)
    _sweep(place)
    unfinished = place / f".saving-{os.getpid()}-step_{int(step)}"
    unfinished.mkdir()
    try:
        yield unfinished
        flush()
        _write_manifest(unfinished, int(step), dict(metrics or {}))
        _publish(unfinished, place / f"step_{int(step)}")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    note_served(wanted)
    kept = keep or int((spec().get("checkpoint") or {}).get("keep") or 3)
    for path in _finished(place)[:-kept]:
        _remove(path)


def latest_checkpoint() -> Checkpoint | None:
    """The newest checkpoint whose every byte is as it was saved; a damaged one is named and the one before is taken.

    Looks at what this launch saved and at what the portal handed over to continue from (inputs/checkpoint).
    """
    candidates = [folder() / "inputs" / "checkpoint", *_finished(folder() / "checkpoints")]
    known = [(_step_of(path), path) for path in candidates if path.is_dir()]
    for _, path in sorted(known, key=lambda item: item[0], reverse=True):
        trouble = _trouble(path)
        if trouble is None:
            told = _manifest(path)
            return Checkpoint(path, int(told["step"]), dict(told.get("metrics") or {}))
        say(f"checkpoint {path.name} is not used: {trouble}")
    return None


def _finished(place: Path) -> list[Path]:
    return sorted((path for path in place.glob("step_*") if _FINISHED.fullmatch(path.name)), key=_step_of)


def _step_of(path: Path) -> int:
    named = _FINISHED.fullmatch(path.name)
    return int(named[1] if named else _manifest(path).get("step", -1))


def _manifest(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return dict(json.loads((path / "manifest.json").read_bytes()))
    return {}


def _trouble(path: Path) -> str | None:
    """Why a checkpoint is not good, or None."""
    try:
        for item in _manifest(path)["files"]:
            file = path / item["path"]
            if file.stat().st_size != item["size_bytes"]:
                return f"{item['path']} has {file.stat().st_size} bytes, saved were {item['size_bytes']}"
            if sha256_of(file) != item["sha256"]:
                return f"{item['path']} is not what was saved (SHA-256 differs)"
    except (OSError, KeyError, TypeError) as error:
        return f"its manifest or a file cannot be read ({error!r})"
    return None


def _write_manifest(place: Path, step: int, metrics: dict[str, float]) -> None:
    files = []
    folders = [place]
    for path in sorted(place.rglob("*")):
        if path.is_dir():
            folders.append(path)
            continue
        sync(path)
        name = path.relative_to(place).as_posix()
        files.append({"path": name, "sha256": sha256_of(path), "size_bytes": path.stat().st_size})
    values = {name: float(value) for name, value in metrics.items()}
    manifest = {"step": step, "saved_at": time.time(), "files": files, "metrics": values}
    write_synced(place / "manifest.json", json.dumps(manifest).encode())
    for path in reversed(folders):
        sync(path)


def _publish(unfinished: Path, final: Path) -> None:
    if final.exists():
        if _trouble(final) is None:
            return
        _remove(final)
    unfinished.rename(final)
    sync(final.parent)


def _remove(path: Path) -> None:
    """Out of sight first, so that a half deleted checkpoint is never taken for one."""
    doomed = path.with_name(f".removing-{os.getpid()}-{path.name}")
    with contextlib.suppress(OSError):
        path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sweep(place: Path) -> None:
    """Remove what a killed process left half done."""
    for path in place.glob(".*ing-*-step_*"):
        if not Path(f"/proc/{path.name.split('-')[1]}").exists():
            shutil.rmtree(path, ignore_errors=True)
