"""What the portal wants: control.json and SIGTERM."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import threading
import time
from typing import Any

from trainyard._place import folder, rank, write_synced
from trainyard._points import flush

CONTROL_SECONDS = 0.2


class _State:
    control: dict[str, Any] = {}
    control_read_at = -math.inf
    checkpoints_served = 0
    sigterm_came = False


def should_stop() -> str | None:
    """The reason when the portal asked this launch to stop, else None. Cheap: looks at most five times a second.

    The first call takes over SIGTERM (unless the script handles it): it then means 'stop soon', not 'die now'.
    """
    _listen_for_sigterm()
    if _State.sigterm_came and not _State.control.get("stop"):
        _State.control_read_at = -math.inf  # the reason was written just before the signal was sent
    reason = _read_control().get("stop")
    return str(reason) if reason else ("SIGTERM" if _State.sigterm_came else None)


def wants_checkpoint() -> bool:
    """True while the portal asks for a checkpoint that has not been saved since."""
    return checkpoints_wanted() > _State.checkpoints_served


def checkpoint_is_saved_elsewhere() -> None:
    """On ranks that leave saving to another one: the portal's wish for a checkpoint is answered for this rank too."""
    note_served(checkpoints_wanted())


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
    write_synced(folder() / f"complete.{rank()}", b"")


def checkpoints_wanted() -> int:
    """The portal counts its wishes; the newest count."""
    return int(_read_control().get("checkpoint") or 0)


def note_served(count: int) -> None:
    _State.checkpoints_served = max(_State.checkpoints_served, count)


def _read_control() -> dict[str, Any]:
    now = time.monotonic()
    if now - _State.control_read_at >= CONTROL_SECONDS:
        _State.control_read_at = now
        with contextlib.suppress(OSError, ValueError):  # not there yet, or being replaced: what was known stays
            _State.control = dict(json.loads((folder() / "control.json").read_bytes()))
    return _State.control


def _listen_for_sigterm() -> None:
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: setattr(_State, "sigterm_came", True))
