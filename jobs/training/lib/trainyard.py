"""What a training script may say to the portal, and hear from it. Standard library only; one file.

    import trainyard

    data = trainyard.dataset()                     # .path, .label, .options
    start = trainyard.latest_checkpoint()          # newest good one, or None
    for step in range(start.step + 1 if start else 0, 1000):
        trainyard.report(step, loss=loss)          # a point of a curve; about a microsecond, never waits for a disk
        if trainyard.wants_checkpoint():
            with trainyard.checkpoint(step, metrics={"loss": loss}) as folder:
                torch.save(model.state_dict(), folder / "model.pt")
        if trainyard.should_stop():
            break

With several ranks all must leave the loop at the same step: `if trainyard.any_rank(trainyard.should_stop())` asks them
all (a collective: call it on every rank at the same step), and rank 0 alone saves what the ranks share.

Off the cluster the same script runs unchanged: without TRAINYARD_FOLDER everything lands in ./trainyard, nobody asks
for a stop or a checkpoint, and `dataset()` reads TRAINYARD_DATA and TRAINYARD_LABEL.

On a node the folder is the whole contract: this module appends to metrics.<rank>.jsonl, renames finished checkpoints into
checkpoints/step_<n>, and reads spec.json, control.json and inputs/. It opens no connection.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import hashlib
import json
import math
import operator
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MAX_NAME_CHARACTERS = 200
MAX_PENDING_POINTS = 200_000  # about 40 MB; reached only while the disk stands still
FLUSH_SECONDS = 0.03
CONTROL_SECONDS = 0.2
EXIT_FLUSH_SECONDS = 10.0

__all__ = [
    "Checkpoint",
    "Dataset",
    "any_rank",
    "checkpoint",
    "complete",
    "dataset",
    "flush",
    "folder",
    "latest_checkpoint",
    "progress",
    "rank",
    "report",
    "should_stop",
    "wants_checkpoint",
    "world_size",
]


class Dataset(NamedTuple):
    path: Path
    label: str | None
    options: dict[str, Any]  # how the portal reads the table: encoding, delimiter, has_header, ...


class Checkpoint(NamedTuple):
    path: Path
    step: int
    metrics: dict[str, float]


# --- where we are ------------------------------------------------------------------------------------------------


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


# --- points ------------------------------------------------------------------------------------------------------

_pending: collections.deque[tuple[Any, str, float, float]] = collections.deque()
_names: dict[str, str] = {}  # metric name -> its JSON text
_last_step: int | float = 0
_writer: _Writer | None = None


def report(step: int, values: Mapping[str, Any] | None = None, **named: Any) -> None:
    """One point per value at `step`. NaN and ±inf are values too. TypeError names a metric whose value is no number.

    Only puts tuples into a queue; a thread writes them within 50 ms. A queue that is full drops points and says how many.
    """
    global _last_step
    now = time.time()
    if type(step) is not int:
        step = _step(step)
    _last_step = step
    if values:
        named = {**values, **named} if named else values  # type: ignore[assignment]
    for name, value in named.items():
        number = value if type(value) is float else _number(name, value)
        text = _names.get(name) or _admit(name)
        _pending.append((step, text, number, now))
    if _writer is None or len(_pending) > MAX_PENDING_POINTS:
        _care_for_queue()


def progress(fraction: float) -> None:
    """How much is done, 0 to 1: the curve `progress` at the step reported last."""
    report(_last_step, progress=min(1.0, max(0.0, float(fraction))))  # type: ignore[arg-type]


def flush(timeout_seconds: float = EXIT_FLUSH_SECONDS) -> bool:
    """Wait until everything reported so far is in the file; False when the disk did not take it in time."""
    return _writer is None or _writer.flush(timeout_seconds)


def _step(step: Any) -> Any:
    try:
        return operator.index(step)
    except TypeError:
        pass
    number = _number("step", step)
    if not math.isfinite(number):
        raise TypeError(f"report: step must be a finite number, not {step!r}")
    return int(number) if number.is_integer() else number


def _number(name: Any, value: Any) -> float:
    if isinstance(value, str | bytes | bytearray | complex) or value is None:
        raise TypeError(f"report: metric {name!r} must be a number, not {type(value).__name__} {str(value)[:60]!r}")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"report: metric {name!r} must be one number, not {type(value).__name__}: {error}") from None


def _admit(name: Any) -> str:
    """The JSON text of a new name. Longer ones are cut, with a hash so that two of them stay two."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"report: a metric's name must be a text, not {name!r}")
    kept = name.replace("\x00", "�")
    if len(kept) > MAX_NAME_CHARACTERS:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:10]
        kept = f"{kept[: MAX_NAME_CHARACTERS - 11]}…{digest}"
        _say_once("long name", f"metric names are cut to {MAX_NAME_CHARACTERS} characters, for example {kept!r}")
    text = json.dumps(kept)
    if len(_names) < 20_000:
        _names[name] = text
    return text


def _care_for_queue() -> None:
    global _writer
    if _writer is None:
        _writer = _Writer(folder() / f"metrics.{rank()}.jsonl")
    over = len(_pending) - MAX_PENDING_POINTS
    for _ in range(over):
        with contextlib.suppress(IndexError):  # the writer emptied it meanwhile
            _pending.pop()
            _writer.dropped += 1


class _Writer:
    """The thread that owns the file. A slow or full disk stops it, never the script."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._unwritten = b""
        self._wake = threading.Event()
        self._waiting: list[threading.Event] = []
        self.dropped = 0
        self._said_dropped = 0
        threading.Thread(target=self._run, name="trainyard", daemon=True).start()

    def flush(self, timeout_seconds: float) -> bool:
        done = threading.Event()
        self._waiting.append(done)
        self._wake.set()
        return done.wait(timeout_seconds)

    def _run(self) -> None:
        while True:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            waiting, self._waiting = self._waiting, []
            try:
                self._drain()
            except OSError as error:
                _say_once(f"errno {error.errno}", f"points wait in memory: {self._path}: {error.strerror}")
                self._waiting = waiting + self._waiting
                time.sleep(0.5)
                continue
            self._say_dropped()
            for done in waiting:
                done.set()

    def _drain(self) -> None:
        while _pending or self._unwritten:
            if not self._unwritten:
                points = [_pending.popleft() for _ in range(min(len(_pending), 1000))]
                self._unwritten = "".join(map(_line, points)).encode()
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._unwritten = self._unwritten[os.write(self._fd, self._unwritten) :]

    def _say_dropped(self) -> None:
        if self.dropped > self._said_dropped:
            _say(f"{self.dropped - self._said_dropped} points were dropped: they came faster than the disk took them")
            self._said_dropped = self.dropped


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _line(point: tuple[Any, str, float, float]) -> str:
    step, name, value, now = point
    text = repr(value)
    return f'{{"step": {step!r}, "name": {name}, "value": {_NOT_FINITE.get(text, text)}, "time": {now:.6f}}}\n'


def _forget_parent() -> None:
    """In a forked child (a data loader's worker) the parent's points are the parent's; own ones get a thread of their own."""
    global _writer
    _writer = None
    _pending.clear()


os.register_at_fork(after_in_child=_forget_parent)
atexit.register(flush)


# --- what the portal wants -------------------------------------------------------------------------------------

_control: dict[str, Any] = {}
_control_read_at = -math.inf
_checkpoints_served = 0
_sigterm_came = False


def should_stop() -> str | None:
    """The reason when the portal asked this launch to stop, else None. Cheap: looks at most five times a second.

    The first call takes over SIGTERM (unless the script handles it): it then means 'stop soon', not 'die now'.
    """
    _listen_for_sigterm()
    reason = _read_control().get("stop")
    return str(reason) if reason else ("SIGTERM" if _sigterm_came else None)


def wants_checkpoint() -> bool:
    """True while the portal asks for a checkpoint that has not been saved since."""
    return int(_read_control().get("checkpoint") or 0) > _checkpoints_served


def any_rank(flag: object) -> bool:
    """True on every rank as soon as `flag` is true on one. A collective over torch.distributed, when that is in use."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return bool(flag)
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    shared = torch.tensor([1.0 if flag else 0.0], device=device)
    distributed.all_reduce(shared, op=distributed.ReduceOp.MAX)
    return bool(shared.item() > 0)


def complete() -> None:
    """Say that the work is done and saved: from here on the job counts as well ended, even if the exit goes wrong.

    Not needed by a script that exits with 0; useful where libraries abort while the interpreter shuts down.
    """
    flush()
    _write_synced(folder() / f"complete.{rank()}", b"")


def _read_control() -> dict[str, Any]:
    global _control, _control_read_at
    now = time.monotonic()
    if now - _control_read_at >= CONTROL_SECONDS:
        _control_read_at = now
        with contextlib.suppress(OSError, ValueError):  # not there yet, or being replaced: what was known stays
            _control = dict(json.loads((folder() / "control.json").read_bytes()))
    return _control


def _listen_for_sigterm() -> None:
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _note_sigterm)


def _note_sigterm(*_: object) -> None:
    global _sigterm_came
    _sigterm_came = True


# --- checkpoints ---------------------------------------------------------------------------------------------------

_FINISHED = re.compile(r"step_(\d+)")


@contextlib.contextmanager
def checkpoint(step: int, metrics: Mapping[str, float] | None = None, *, keep: int | None = None) -> Iterator[Path]:
    """A folder to save into. It becomes checkpoints/step_<step> only when the block ends well: all of it or nothing.

    Files are hashed and synced, listed in manifest.json, and the folder is renamed; whatever kills the process or fills the
    disk, older checkpoints stay good. The newest `keep` remain (default: the job's setting, else 3). A step that is
    saved already and good is left as it is.
    """
    global _checkpoints_served
    wanted = int(_read_control().get("checkpoint") or 0)
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
    _checkpoints_served = max(_checkpoints_served, wanted)
    _drop_old(place, keep or int((spec().get("checkpoint") or {}).get("keep") or 3))


def latest_checkpoint() -> Checkpoint | None:
    """The newest checkpoint whose every byte is as it was saved; a damaged one is named and the one before is taken.

    Looks at what this launch saved and at what the portal handed over to continue from (inputs/checkpoint).
    """
    candidates = [folder() / "inputs" / "checkpoint", *_finished(folder() / "checkpoints")]
    known = [(_step_of(path), path) for path in candidates if path.is_dir()]
    for _, path in sorted(known, key=lambda item: item[0], reverse=True):
        trouble = _trouble(path)
        if trouble is None:
            manifest = json.loads((path / "manifest.json").read_bytes())
            return Checkpoint(path, int(manifest["step"]), dict(manifest.get("metrics") or {}))
        _say(f"checkpoint {path.name} is not used: {trouble}")
    return None


def _finished(place: Path) -> list[Path]:
    if not place.is_dir():
        return []
    found = [path for path in place.iterdir() if _FINISHED.fullmatch(path.name)]
    return sorted(found, key=_step_of)


def _step_of(path: Path) -> int:
    named = _FINISHED.fullmatch(path.name)
    if named:
        return int(named[1])
    try:
        return int(json.loads((path / "manifest.json").read_bytes())["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return -1


def _trouble(path: Path) -> str | None:
    """Why a checkpoint is not good, or None."""
    try:
        listed = json.loads((path / "manifest.json").read_bytes())["files"]
        for item in listed:
            file = path / item["path"]
            if file.stat().st_size != item["size_bytes"]:
                return f"{item['path']} has {file.stat().st_size} bytes, saved were {item['size_bytes']}"
            if _sha256(file) != item["sha256"]:
                return f"{item['path']} is not what was saved (SHA-256 differs)"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its manifest or a file cannot be read ({error})"
    return None


def _write_manifest(place: Path, step: int, metrics: dict[str, float]) -> None:
    files = []
    folders = [place]
    for path in sorted(place.rglob("*")):
        if path.is_dir():
            folders.append(path)
            continue
        _sync(path)
        files.append(
            {
                "path": path.relative_to(place).as_posix(),
                "sha256": _sha256(path),
                "size_bytes": path.stat().st_size,
            }
        )
    values = {name: float(value) for name, value in metrics.items()}
    manifest = {"step": step, "saved_at": time.time(), "files": files, "metrics": values}
    _write_synced(place / "manifest.json", json.dumps(manifest).encode())
    for path in reversed(folders):
        _sync(path)


def _publish(unfinished: Path, final: Path) -> None:
    if final.exists():
        if _trouble(final) is None:
            return
        _remove(final)
    unfinished.rename(final)
    _sync(final.parent)


def _drop_old(place: Path, keep: int) -> None:
    for path in _finished(place)[:-keep]:
        _remove(path)


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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_synced(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    _sync(unfinished)
    unfinished.rename(path)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- words for the log ---------------------------------------------------------------------------------------------

_said: set[str] = set()


def _say(text: str) -> None:
    print(f"trainyard: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _say_once(topic: str, text: str) -> None:
    if topic not in _said:
        _said.add(topic)
        _say(text)
