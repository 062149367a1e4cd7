"""Points of curves: into a queue here, into the file by a thread."""

from __future__ import annotations

import atexit
import collections
import contextlib
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard._place import folder, rank, say

MAX_NAME_CHARACTERS = 200
MAX_PENDING_POINTS = 200_000  # about 40 MB; reached only while the disk stands still
FLUSH_SECONDS = 0.03
EXIT_FLUSH_SECONDS = 10.0

_pending: collections.deque[tuple[Any, str, float, float]] = collections.deque()
_names: dict[str, str] = {}  # metric name -> its JSON text


class _State:
    writer: _Writer | None = None
    last_step: float = 0


def report(step: int, values: Mapping[str, Any] | None = None, **named: Any) -> None:
    """One point per value at `step`. NaN and ±inf are values too. TypeError names a metric whose value is no number.

    It only fills a queue; a thread writes within 50 ms. A queue that is full drops points and says how many.
    """
    now = time.time()
    if type(step) is not int:
        step = _step(step)
    _State.last_step = step
    if values:
        named = {**values, **named} if named else values  # type: ignore[assignment]
    for name, value in named.items():
        number = value if type(value) is float else _number(name, value)
        text = _names.get(name) or _admit(name)
        _pending.append((step, text, number, now))
    if _State.writer is None or len(_pending) > MAX_PENDING_POINTS:
        _care_for_queue()


def progress(fraction: float) -> None:
    """How much is done, 0 to 1: the curve `progress` at the step reported last."""
    report(_State.last_step, progress=min(1.0, max(0.0, float(fraction))))  # type: ignore[arg-type]


def flush(timeout_seconds: float = EXIT_FLUSH_SECONDS) -> bool:
    """Wait until everything reported so far is in the file; False when the disk did not take it in time."""
    return _State.writer is None or _State.writer.flush(timeout_seconds)


def _step(step: Any) -> Any:
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
    kept = name.replace("\x00", "␀").encode("utf-8", "replace").decode()
    if len(kept) > MAX_NAME_CHARACTERS:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:10]
        kept = f"{kept[: MAX_NAME_CHARACTERS - 11]}…{digest}"
        say(f"metric names are cut to {MAX_NAME_CHARACTERS} characters, for example {kept!r}", once="long name")
    text = json.dumps(kept)
    if len(_names) < 20_000:
        _names[name] = text
    return text


def _care_for_queue() -> None:
    if _State.writer is None:
        _State.writer = _Writer(folder() / f"metrics.{rank()}.jsonl")
    over = len(_pending) - MAX_PENDING_POINTS
    for _ in range(over):
        with contextlib.suppress(IndexError):  # the writer emptied it meanwhile
            _pending.pop()
            _State.writer.dropped += 1


class _Writer:
    """The thread that owns the file. A slow or full disk stops it, never the script."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._unwritten = b""
        self._wake = threading.Event()
        self._waiting: collections.deque[threading.Event] = collections.deque()
        self.dropped = 0
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
            waiting = len(self._waiting)  # those who came before the queue is emptied
            try:
                self._drain()
            except OSError as error:
                say(f"points wait in memory: {self._path}: {error.strerror}", once=f"errno {error.errno}")
                time.sleep(0.5)
                continue
            if self.dropped:
                say(f"{self.dropped} points were dropped: they came faster than the disk took them")
                self.dropped = 0
            for _ in range(waiting):
                self._waiting.popleft().set()

    def _drain(self) -> None:
        while _pending or self._unwritten:
            if not self._unwritten:
                points = [_pending.popleft() for _ in range(min(len(_pending), 1000))]
                self._unwritten = "".join(map(_line, points)).encode()
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._unwritten = self._unwritten[os.write(self._fd, self._unwritten) :]


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _line(point: tuple[Any, str, float, float]) -> str:
    step, name, value, now = point
    text = repr(value)
    return f'{{"step": {step!r}, "name": {name}, "value": {_NOT_FINITE.get(text, text)}, "time": {now:.6f}}}\n'


def _forget_parent() -> None:
    """In a forked child, such as a data loader's worker: the points are the parent's, the thread is not here."""
    _State.writer = None
    _pending.clear()


os.register_at_fork(after_in_child=_forget_parent)
atexit.register(flush)
