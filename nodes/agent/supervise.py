"""The supervisor of one launch: `python -m nodes.agent.supervise FOLDER`. Stdlib only, small, and nobody's child.

It reserves ports, waits for GO, starts the launcher, watches it, ends every process of the launch and writes exit.json.
It hears the agent through orders.json and the portal's life through lease.json; it goes on when both are silent, until
the lease runs out. Nothing it does is ever done twice: the first to claim the folder is the only one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from nodes.agent import gang, wake, workdir
from nodes.agent.kill import Cage
from nodes.agent.lease import Lease
from nodes.agent.procs import adopt_orphans, boot_seconds
from nodes.agent.start import Started, start_launcher
from nodes.agent.verdict import End
from nodes.agent.watch import Watch
from nodes.agent.workdir import Workdir

LAST_WORD_TRIES = 600


def main(arguments: list[str]) -> int:
    folder = Workdir(Path(arguments[0]).resolve())
    if os.fork():
        return 0
    os.setsid()
    if not folder.claim():
        return 0
    _detach(folder)
    adopt_orphans()
    supervisor = Supervisor(folder)
    try:
        end = supervisor.run()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here must still end the launch and be told
        traceback.print_exc()
        end = End("launch_failed", message=f"The supervisor failed: {error}")
    supervisor.finish(end)
    return 0


def _detach(folder: Workdir) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(folder.private / workdir.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.closerange(3, 256)


class Supervisor:
    def __init__(self, folder: Workdir) -> None:
        self.folder = folder
        record = folder.read(workdir.LAUNCH)
        self.launch: dict[str, Any] = record["launch"]
        self.node: dict[str, Any] = record["node"]
        self.lease = Lease(folder, float(self.launch["lease_seconds"]))
        cgroup = self.node.get("cgroup")
        self.cage = Cage(
            folder.token,
            cgroup=Path(cgroup) if cgroup else None,
            uid=self.node.get("uid"),
            root_pid=os.getpid(),
        )
        self.doorbell = folder.place.parent.parent / wake.NAME
        self.started: Started | None = None

    def run(self) -> End:
        try:
            listeners = gang.reserve_ports(self.node["address"], int(self.launch["ports"]))
        except OSError as error:
            return End("launch_failed", message=f"No port could be reserved: {error}")
        self.folder.write(workdir.READY, {"ports": [listener.getsockname()[1] for listener in listeners]})
        wake.knock(self.doorbell)
        try:
            peers = self._wait_for_go(listeners)
        finally:
            for listener in listeners:
                listener.close()
        if isinstance(peers, End):
            return peers
        return self._train(peers)

    def _wait_for_go(self, listeners: list[socket.socket]) -> list[dict[str, Any]] | End:
        """Everybody's facts once each pair of nodes has connected, or why it will not come to that."""
        launch = self.launch
        greeting = f"trainyard {launch['job_id']}.{launch['attempt']}"
        check = gang.PairCheck(listeners[0] if listeners else None, greeting, int(launch["node_rank"]))
        deadline: float | None = None
        while True:
            orders = self.folder.orders()
            if orders["stop"] is not None:
                stop = orders["stop"]
                return End(
                    stop.get("cause") or "never_started", message=stop.get("message") or "Stopped before it began."
                )
            if self.lease.has_run_out():
                return End("lease_expired", message=self.lease.sentence())
            if orders["go"] is not None:
                check.peers = orders["go"]
                deadline = deadline or gang.pair_deadline()
                check.step()
                if check.is_done():
                    return check.peers
                if boot_seconds() > deadline:
                    return End("peer_unreachable", message=check.complaint())
            else:
                check.answer()
            gang.pause()

    def _train(self, peers: list[dict[str, Any]]) -> End:
        try:
            self.started = start_launcher(self.folder, self.launch, self.node, peers)
        except (OSError, ValueError) as error:
            return End("launch_failed", message=f"The launcher could not be started: {error}")
        self.folder.write(workdir.STARTED, {"pid": self.started.pid, "at_boot": boot_seconds()})
        wake.knock(self.doorbell)
        return Watch(self.folder, self.launch, self.lease, self.started, self.cage).until_end()

    def finish(self, end: End) -> None:
        """Three steps that do not depend on each other's success."""
        is_gone = False
        with contextlib.suppress(Exception):
            is_gone = self.cage.kill_all(after_each=_reap)
        with contextlib.suppress(Exception):
            shutil.rmtree(self.folder.job / "tmp", ignore_errors=True)
        self._say_last_word(end.report(self.folder, self.launch, processes_gone=is_gone))
        wake.knock(self.doorbell)

    def _say_last_word(self, report: dict[str, Any]) -> None:
        """If even the room set aside is gone, somebody else fills the disk: wait, then leave it to the agent."""
        for _ in range(LAST_WORD_TRIES):
            with contextlib.suppress(OSError):
                self.folder.write_exit(report)
                return
            time.sleep(1.0)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
