"""Watching a running launch: its end, its limits, its orders. Stdlib only."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import Any

from nodes.agent import procs, verdict
from nodes.agent.files import write_json
from nodes.agent.kill import KILL_SECONDS, Cage
from nodes.agent.lease import Lease
from nodes.agent.procs import boot_seconds
from nodes.agent.start import Started
from nodes.agent.verdict import End
from nodes.agent.workdir import Workdir

TICK_SECONDS = 0.2
MEASURE_SECONDS = 2.0
AFTER_LIMIT_GRACE_SECONDS = 5.0


class Watch:
    """One launcher from its start to its end. `until_end` returns with whatever the launcher left still running."""

    def __init__(self, folder: Workdir, launch: dict[str, Any], lease: Lease, started: Started, cage: Cage) -> None:
        self.folder = folder
        self.launch = launch
        self.lease = lease
        self.started = started
        self.cage = cage
        self.quota = DiskQuota(folder.job, int(launch["disk_bytes"]))
        self.control = Control(folder)
        self.stop: dict[str, Any] | None = None  # why we ask it to end, and how long it has
        self.kill_at: float | None = None
        self.first_done_at: float | None = None
        self._pidfd = os.pidfd_open(started.pid)
        self.control.tell(None, 0, lease)

    def until_end(self) -> End:
        while True:
            status = self._wait(TICK_SECONDS)
            if status is not None:
                return self._judge(status)
            self._tick()
            if self.stop is not None and self.kill_at is not None and boot_seconds() > self.kill_at + KILL_SECONDS:
                return End(self.stop["cause"], self.stop["message"])  # it hangs in the kernel; nobody waits for ever

    def _wait(self, seconds: float) -> int | None:
        """The launcher's wait status when it ended within so long. Orphans that came to us are reaped on the way."""
        select.select([self._pidfd], [], [], seconds)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.started.pid:
                    return self.started.true_status(status)
                if pid == 0:
                    return None
        return None

    def _tick(self) -> None:
        orders = self.folder.orders()
        if self.stop is None:
            self.stop = self._reason_to_stop(orders)
            if self.stop is not None:
                self._ask_to_end(self.stop)
        self.control.tell(self.stop, int(orders["checkpoint"]), self.lease)
        if self.kill_at is not None and boot_seconds() >= self.kill_at:
            self.cage.kill_all(after_each=lambda: None, seconds=0.0)

    def _reason_to_stop(self, orders: dict[str, Any]) -> dict[str, Any] | None:
        grace = float(self.launch["grace_seconds"])
        if orders["stop"] is not None:
            return {"cause": "stopped", "message": "", **{k: v for k, v in orders["stop"].items() if v is not None}}
        limit = self.launch.get("limit_seconds")
        if limit is not None and boot_seconds() - self.started.at_boot > limit:
            message = f"It ran longer than its limit of {limit / 60:g} minutes."
            return {"cause": "time_limit", "reason": "time limit", "message": message, "grace_seconds": grace}
        if self.lease.has_run_out():
            message = self.lease.sentence()
            return {"cause": "lease_expired", "reason": "lease expired", "message": message, "grace_seconds": grace}
        over = self.quota.complaint()
        if over:
            grace = min(grace, AFTER_LIMIT_GRACE_SECONDS)
            return {"cause": "disk_quota", "reason": "disk quota", "message": over, "grace_seconds": grace}
        return self._stragglers(grace)

    def _stragglers(self, grace: float) -> dict[str, Any] | None:
        """Ranks that go on long after others of this node ended well: nothing they wait for will come."""
        ranks: list[int] = self.launch["ranks"]
        done = [rank for rank in ranks if len(ranks) > 1 and verdict.has_completed(self.folder, rank)]
        if not done or len(done) == len(ranks):
            return None
        self.first_done_at = self.first_done_at or boot_seconds()
        if boot_seconds() - self.first_done_at < grace:
            return None
        late = ", ".join(str(rank) for rank in ranks if rank not in done)
        early = ", ".join(map(str, done))
        message = f"Rank {late} still ran {grace:.0f} s after rank {early} had ended well; it was stopped."
        return {"cause": "exited", "reason": "other ranks have ended", "message": message, "grace_seconds": grace}

    def _ask_to_end(self, stop: dict[str, Any]) -> None:
        self.kill_at = boot_seconds() + float(stop.get("grace_seconds", self.launch["grace_seconds"]))
        self.control.tell(stop, self.control.checkpoint, self.lease)
        pid = self.started.launcher_pid()
        if pid is None:
            self.kill_at = 0.0
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def _judge(self, status: int) -> End:
        os.close(self._pidfd)
        if self.stop is None:
            end = verdict.of_status(status, oom_kills=procs.oom_kills() - self.started.oom_kills)
            return verdict.of_ranks(end, self.folder, self.launch)
        end = verdict.coded(self.stop["cause"], self.stop["message"], status)
        if end.cause == "exited" and end.exit_code == 0:
            return End("exited", end.message, exit_code=1)  # a rank that had to be stopped did not end well
        return end


class Control:
    """The job's control.json: what trainyard.should_stop() and wants_checkpoint() read."""

    def __init__(self, folder: Workdir) -> None:
        self._path = folder.job / "control.json"
        self._told: tuple[str | None, int] | None = None
        self._told_at = 0.0
        self.checkpoint = 0
        self._half_lease_asked = False

    def tell(self, stop: dict[str, Any] | None, asked: int, lease: Lease) -> None:
        if lease.is_half_over() and not self._half_lease_asked:
            self._half_lease_asked = True
        elif not lease.is_half_over():
            self._half_lease_asked = False
        self.checkpoint = max(self.checkpoint, asked + (1 if self._half_lease_asked else 0))
        now = (str(stop["reason"]) if stop else None, self.checkpoint)
        if now == self._told and boot_seconds() - self._told_at < 5.0:
            return
        value = {"stop": now[0], "checkpoint": now[1], "exchanged_at_boot": lease.heard_at()}
        with contextlib.suppress(OSError):  # a full disk must not end the watch; it is tried again
            write_json(self._path, value, mode=0o644, sync=False)
            self._told, self._told_at = now, boot_seconds()


class DiskQuota:
    """What the launch's folder holds beyond what was put there for it; the longer a look takes, the rarer it is."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self._at_start = folder_bytes(folder)
        self._next = 0.0

    def complaint(self) -> str:
        began = boot_seconds()
        if began < self._next:
            return ""
        used = folder_bytes(self._folder) - self._at_start
        took = boot_seconds() - began
        self._next = began + max(MEASURE_SECONDS, 20 * took)
        if used <= self._most:
            return ""
        return f"It wrote {used / 2**20:.0f} MiB on the node, its disk quota is {self._most / 2**20:.0f} MiB."


def folder_bytes(folder: Path) -> int:
    """Bytes on disk below `folder`, links not followed; files that vanish meanwhile do not count."""
    total = 0
    places = [str(folder)]
    while places:
        with contextlib.suppress(OSError), os.scandir(places.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        places.append(entry.path)
    return total
