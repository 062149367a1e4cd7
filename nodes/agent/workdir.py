"""The folder of a launch on its node. Stdlib only: the supervisor uses it too.

    launches/<token>/            0711, the agent's
      private/                   0700: launch.json  supervisor.pid  ready.json  started.json  orders.json  exit.json ...
      job/                       the launch's own: ${FOLDER}, the only place it may write

Each file has one writer: launch.json, orders.json, tombstone.json and shipped.json the agent; the others, and
job/control.json, the supervisor. After the supervisor is gone the agent writes exit.json in its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodes.agent import procs
from nodes.agent.files import read_json, sync_folder, write_bytes, write_json

RESERVE_BYTES = 64 * 1024  # given up when the launch ends, so that its end can be written on a full disk
LAUNCH, ORDERS, TOMBSTONE, SHIPPED = "launch.json", "orders.json", "tombstone.json", "shipped.json"
PID, READY, STARTED, EXIT, LOG = "supervisor.pid", "ready.json", "started.json", "exit.json", "supervisor.log"

NO_ORDERS: dict[str, Any] = {"stop": None, "checkpoint": 0, "inputs_ready": False, "go": None}


class Workdir:
    """Paths and whole-file reads and writes of one launch; what it means is decided elsewhere."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.token = place.name
        self.private = place / "private"
        self.job = place / "job"

    def set_room_aside(self) -> None:
        write_bytes(self.private / "reserve", os.urandom(RESERVE_BYTES), sync=False)

    def write_exit(self, value: Any) -> None:
        """The last word must be said: the job may have filled the disk."""
        (self.private / "reserve").unlink(missing_ok=True)
        self.write(EXIT, value)

    def exists(self) -> bool:
        return self.private.is_dir()

    def create(self) -> None:
        """FileExistsError when an order or a tombstone for this token came before."""
        self.place.mkdir(mode=0o711)
        try:
            self.private.mkdir(mode=0o700)
            sync_folder(self.place)
            sync_folder(self.place.parent)
        except OSError:  # half a folder would pass for a known token, and its order never be taken
            self.remove()
            raise

    def read(self, name: str) -> Any:
        return read_json(self.private / name)

    def write(self, name: str, value: Any) -> None:
        write_json(self.private / name, value)

    def has(self, name: str) -> bool:
        return (self.private / name).exists()

    def orders(self) -> dict[str, Any]:
        return {**NO_ORDERS, **(self.read(ORDERS) or {})}

    def claim(self) -> bool:
        """Become this launch's supervisor; False when somebody was before us. Once per folder, for ever."""
        me = {"pid": os.getpid(), "start_ticks": procs.start_ticks(os.getpid()), "boot_id": procs.boot_id()}
        unclaimed = f"unclaimed.{os.getpid()}"
        self.write(unclaimed, me)
        try:
            os.link(self.private / unclaimed, self.private / PID)
        except FileExistsError:
            return False
        finally:
            (self.private / unclaimed).unlink()
        sync_folder(self.private)
        return True

    def supervisor_pid(self) -> int | None:
        """The living supervisor's process, None when there is none (any more); start times tell a reused pid."""
        known = self.read(PID)
        if known is None or known["boot_id"] != procs.boot_id():
            return None
        pid = int(known["pid"])
        return pid if procs.start_ticks(pid) == known["start_ticks"] else None

    def remove(self) -> None:
        """Out of the listing first, so that a half removed folder is never taken for a launch."""
        doomed = self.place.with_name(f".removing-{self.token}")
        with contextlib.suppress(FileNotFoundError):
            self.place.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


class Launches:
    """All launch folders of one agent."""

    def __init__(self, state: Path) -> None:
        self.place = state / "launches"
        self.place.mkdir(mode=0o711, parents=True, exist_ok=True)

    def at(self, token: object) -> Workdir:
        return Workdir(self.place / str(token))

    def __iter__(self) -> Iterator[Workdir]:
        for place in sorted(self.place.iterdir()):
            if not place.name.startswith("."):
                yield Workdir(place)

    def sweep(self) -> None:
        """Finish removals that a crash interrupted."""
        for leftover in self.place.glob(".removing-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def lease_path(launches: Path) -> Path:
    """Where the agent notes each successful exchange, for every supervisor below `launches`."""
    return launches.parent / "lease.json"


def note_exchange(launches: Path) -> None:
    """On a full disk no new file can be made; the old one is then written over, which needs no room."""
    value = {"boot_id": procs.boot_id(), "exchanged_at_boot": procs.boot_seconds()}
    try:
        write_json(lease_path(launches), value, sync=False)
    except OSError:
        with lease_path(launches).open("r+", encoding="ascii") as file:
            file.write(json.dumps(value))
            file.truncate()


def exchanged_at_boot(launches: Path) -> float | None:
    """Boot-clock second of the last exchange with the portal; None when there was none since boot."""
    known = read_json(lease_path(launches))
    if known is None or known["boot_id"] != procs.boot_id():
        return None
    return float(known["exchanged_at_boot"])
