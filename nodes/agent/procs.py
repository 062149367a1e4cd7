"""What the kernel says about processes and its own clock. Stdlib only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "TRAINYARD_TOKEN"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38


def boot_seconds() -> float:
    """Seconds since boot, also counting sleep; the only clock a lease is measured by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; with the pid it names a process for good. None when gone."""
    try:
        fields = _stat(pid)
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def parent_of(pid: int) -> int | None:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the third (state) on; the second, the name, may itself hold blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text[text.rindex(")") + 2 :].split()


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def environ_of(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - asked often


def children_of(pid: int) -> list[int]:
    return [other for other in all_pids() if parent_of(other) == pid]


def descendants_of(pid: int) -> set[int]:
    """Every living process below `pid`; with a subreaper that includes those that daemonised."""
    parents = {other: parent_of(other) for other in all_pids()}
    found: set[int] = set()
    edge = {pid}
    while edge:
        edge = {child for child, parent in parents.items() if parent in edge} - found
        found |= edge
    return {child for child in found if start_ticks(child) is not None}


def marked(token: str) -> Iterator[int]:
    """Living processes that carry the launch's token in their environment."""
    needle = f"{MARK}={token}".encode()
    for pid in all_pids():
        with contextlib.suppress(OSError):
            raw = Path(f"/proc/{pid}/environ").read_bytes()
            if needle in raw.split(b"\0") and start_ticks(pid) is not None:
                yield pid


def owned_by(uid: int) -> Iterator[int]:
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid == uid and start_ticks(pid) is not None:
                yield pid


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent(signal_number: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal_number)


_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def oom_kills() -> int:
    """Processes the kernel has killed for lack of memory since boot."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
