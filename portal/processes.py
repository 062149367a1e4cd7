"""Keeping a tree of processes together: nobody outlives whoever started it, however that one ends. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Between fork and exec: SIGTERM for this process when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parent ended become our children, so also detached ones can be found by descent."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_unknown(known: set[int]) -> None:
    """Collect adopted orphans that have ended; children that somebody waits for by id are left to them."""
    for process in psutil.Process().children():
        if process.pid not in known and not _is_alive(process):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def descendants() -> list[psutil.Process]:
    """All live processes below this one, zombies left out."""
    with contextlib.suppress(psutil.Error):
        return [one for one in psutil.Process().children(recursive=True) if _is_alive(one)]
    return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end_descendants(grace_seconds: float, *, kill_seconds: float = 10.0) -> bool:
    """SIGTERM to everything below this process, after the grace SIGKILL, again until nobody is left."""
    _signal(descendants(), signal.SIGTERM)
    if _gone_within(grace_seconds, lambda: None):
        return True
    return _gone_within(kill_seconds, lambda: _signal(descendants(), signal.SIGKILL))


def _gone_within(seconds: float, each_time: Callable[[], None]) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        each_time()
        if not descendants():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def run_kept(work: Callable[[], int], *, grace_seconds: float = 5.0) -> int:
    """Run `work` in a child and return its exit code; when either of the two dies, the other ends everything below.

    The child has a process group of its own: a terminal's Ctrl-C reaches the keeper alone, which passes it on.
    """
    adopt_orphans()
    child = os.fork()
    if child == 0:
        _work_in_child(work)

    def pass_on(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    while True:
        ended, status = os.waitpid(-1, 0)  # adopted orphans too
        if ended == child:
            break
    end_descendants(grace_seconds)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _work_in_child(work: Callable[[], int]) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        die_with_parent()
        if os.getppid() == 1:  # the keeper died before it could be watched
            return
        adopt_orphans()
        code = work()
    except Exception:  # noqa: BLE001 - the process ends here, and its reason must be seen
        traceback.print_exc()
    finally:
        os._exit(code)
