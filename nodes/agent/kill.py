"""Ending every process of a launch, also one that called setsid, forked twice or stopped itself. Stdlib only.

One kernel object per launch where there is one: a cgroup (v2) of its own, else a PID namespace (made by bubblewrap,
whose first process takes all others with it). Below both lie the marks that need no privilege: the token in every
environment, the launch's own user id, and descent from the supervisor, which adopts orphans.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from nodes.agent import procs

_YOUNG_SECONDS = 60.0
KILL_SECONDS = 10.0  # a process that survives SIGKILL this long hangs in the kernel


def own_cgroup() -> Path | None:
    """The version 2 group that this process sits in, if groups can be made below it and killed."""
    mount = _cgroup2_mount()
    if mount is None:
        return None
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        if line.startswith("0::"):
            return mount / line[3:].lstrip("/")
    return None


def _cgroup2_mount() -> Path | None:
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def probe_cgroup() -> Path | None:
    """A folder below which launches get groups of their own; None where the kernel or our rights do not allow it."""
    base = own_cgroup()
    if base is None:
        return None
    trial = base / f"trainyard-probe-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return None
    try:
        return base if os.access(trial / "cgroup.kill", os.W_OK) and os.access(base / "cgroup.procs", os.W_OK) else None
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()


def make_cgroup(path: Path) -> None:
    path.mkdir(exist_ok=True)


def enter_cgroup(path: Path) -> None:
    """Called in the child between fork and exec."""
    handle = os.open(path / "cgroup.procs", os.O_WRONLY)
    os.write(handle, b"0")
    os.close(handle)


class Cage:
    """All the ways to find the processes of one launch. `uid` only when no other launch and no person uses it."""

    def __init__(self, token: str, *, cgroup: Path | None, uid: int | None, root_pid: int | None = None) -> None:
        self.token = token
        self.cgroup = cgroup
        self.uid = uid
        self.root_pid = root_pid

    def pids(self) -> set[int]:
        found = set(procs.marked(self.token)) | self._cgroup_pids()
        if self.uid is not None:
            found |= set(procs.owned_by(self.uid))
        if self.root_pid is not None:
            found |= procs.descendants_of(self.root_pid)
        return found - {os.getpid(), self.root_pid or 0}

    def _cgroup_pids(self) -> set[int]:
        if self.cgroup is None:
            return set()
        try:
            text = (self.cgroup / "cgroup.procs").read_text(encoding="ascii")
        except OSError:
            return set()
        return {pid for pid in map(int, text.split()) if procs.start_ticks(pid) is not None}

    def kill_all(self, *, after_each: Callable[[], None] = lambda: None, seconds: float = KILL_SECONDS) -> bool:
        """SIGKILL until nobody is left; True when all are gone. `after_each` reaps."""
        deadline = time.monotonic() + seconds
        pause = 0.01
        while True:
            self._kill_once()
            after_each()
            if not self.pids():
                self._remove()
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.2)

    def _kill_once(self) -> None:
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                (self.cgroup / "cgroup.kill").write_text("1", encoding="ascii")
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _remove(self) -> None:
        """The kernel counts a dead process as a member until it is reaped, which may take a moment."""
        for _ in range(50):
            if self.cgroup is None or not self.cgroup.exists():
                return
            with contextlib.suppress(OSError):
                self.cgroup.rmdir()
                return
            time.sleep(0.02)


def sweep_cgroups(base: Path) -> None:
    """Remove groups that a killed supervisor left empty; young ones may be about to be entered."""
    for leftover in base.glob("trainyard-*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _YOUNG_SECONDS:
                leftover.rmdir()
