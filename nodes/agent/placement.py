"""One launch as the agent sees it: its folder read afresh, and what the agent itself is doing for it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

from nodes.agent import shelf, workdir
from nodes.agent.kill import Cage
from nodes.agent.masking import needles
from nodes.agent.procs import boot_seconds
from nodes.agent.spool import Spool
from nodes.agent.verdict import End
from nodes.agent.workdir import Workdir
from nodes.messages import (
    LAUNCHER_RANK,
    EndCause,
    ExitReport,
    Launch,
    LaunchFacts,
    Phase,
    PlacementReport,
)

log = logging.getLogger(__name__)
CLAIM_SECONDS = 30.0  # within which a supervisor that was started must have claimed its folder
CHECKPOINT_PAUSE_SECONDS = 10.0
HOLD_SECONDS = 300.0  # how long an end waits while the portal does not take the last checkpoint


class Placement:
    """Reads of the folder may happen on any thread; orders.json is written under `_lock` only."""

    def __init__(self, folder: Workdir) -> None:
        self.folder = folder
        self.token = UUID(folder.token)
        self._lock = threading.Lock()
        self.note = ""
        self._ended_at: float | None = None
        self.is_quarantined = folder.has("quarantined")
        self.spawned_at = boot_seconds()
        self._asked_checkpoint_at = -CHECKPOINT_PAUSE_SECONDS
        record = folder.read(workdir.LAUNCH)
        self.launch = Launch.model_validate(record["launch"]) if record else None
        self.node: dict[str, Any] = record["node"] if record else {}
        self.spools = self._make_spools()

    # --- what it is -------------------------------------------------------------------------------------------------

    def has_ended(self) -> bool:
        return self.launch is None or self.folder.has(workdir.EXIT)

    def report(self) -> PlacementReport:
        dropped = sum(spool.dropped_bytes for spool in self.spools.values())
        held = self._end_waits_for() if self.has_ended() else ""
        if self.has_ended() and not held:
            return PlacementReport(token=self.token, phase=Phase.ENDED, exit=self.exit_report(), dropped_bytes=dropped)
        phase = self._phase()
        return PlacementReport(
            token=self.token,
            phase=phase,
            facts=self._facts() if phase in (Phase.READY, Phase.RUNNING) else None,
            note=held or self.note,
            dropped_bytes=dropped,
        )

    def _end_waits_for(self) -> str:
        """Why the end is not told yet: a successor resumes from what is stored, so the last checkpoint goes first."""
        unsettled = shelf.waiting(self.folder) if self.launch is not None else []
        self._ended_at = self._ended_at or boot_seconds()
        if not unsettled or boot_seconds() - self._ended_at > HOLD_SECONDS:
            return ""
        return f"storing checkpoint {unsettled[0]}"

    def exit_report(self) -> ExitReport:
        if self.launch is None:
            return ExitReport(cause=EndCause.NEVER_STARTED, message="Stopped before its order came.")
        lengths = {spool.key: max(spool.size(), spool.acked) for spool in self.spools.values()}
        told = {key: length for key, length in lengths.items() if length}
        exit_ = self.folder.read(workdir.EXIT)
        is_gone = exit_["processes_gone"] or not self.is_stuck()  # what hung may have ended since
        return ExitReport.model_validate({**exit_, "processes_gone": is_gone, "streams": told})

    def _phase(self) -> Phase:
        if self.folder.has(workdir.STARTED):
            return Phase.RUNNING
        is_ready = self.folder.has(workdir.READY) and self.folder.orders()["inputs_ready"]
        return Phase.READY if is_ready else Phase.ACCEPTED

    def _facts(self) -> LaunchFacts:
        ready = self.folder.read(workdir.READY) or {"ports": []}
        return LaunchFacts(address=self.node["address"], ports=ready["ports"])

    def _make_spools(self) -> dict[str, Spool]:
        if self.launch is None:
            return {}
        shipped: dict[str, int] = self.folder.read(workdir.SHIPPED) or {}
        secrets = needles(self.launch.secrets.values())
        files = [("output.launcher.log", LAUNCHER_RANK, "log")]
        files += [(f"output.{rank}.log", rank, "log") for rank in self.launch.ranks]
        files += [(f"metrics.{rank}.jsonl", rank, "metrics") for rank in self.launch.ranks]
        spools = {}
        for file, rank, kind in files:
            spool = Spool(self.folder.job, file, token=self.token, rank=rank, kind=kind, secrets=secrets)  # type: ignore[arg-type]
            spool.acked = shipped.get(spool.key, 0)
            spools[spool.key] = spool
        return spools

    # --- what it is told ---------------------------------------------------------------------------------------------

    def _order(self, **changes: Any) -> None:
        with self._lock:
            self.folder.write(workdir.ORDERS, {**self.folder.orders(), **changes})

    def go(self, peers: list[LaunchFacts]) -> None:
        if self.launch is not None and self.folder.orders()["go"] is None:
            self._order(go=[facts.model_dump() for facts in peers])

    def inputs_are_ready(self) -> None:
        self.note = ""
        self._order(inputs_ready=True)

    def stop(
        self, reason: str, *, grace_seconds: float | None = None, cause: EndCause | None = None, message: str = ""
    ) -> None:
        """The first reason stands. Does nothing for what has ended."""
        if self.launch is None or self.has_ended() or self.folder.orders()["stop"] is not None:
            return
        stop = {"reason": reason, "grace_seconds": grace_seconds, "cause": cause, "message": message or None}
        self._order(stop=stop)

    def is_stopping(self) -> bool:
        return self.folder.orders()["stop"] is not None

    def ask_for_checkpoint(self) -> None:
        """The portal repeats itself with each exchange; one counter step per pause is enough."""
        if boot_seconds() - self._asked_checkpoint_at >= CHECKPOINT_PAUSE_SECONDS:
            self._asked_checkpoint_at = boot_seconds()
            self._order(checkpoint=int(self.folder.orders()["checkpoint"]) + 1)

    def quarantine(self) -> None:
        if not self.is_quarantined:
            self.is_quarantined = True
            self.folder.write("quarantined", {})

    # --- after the supervisor ---------------------------------------------------------------------------------------

    def look_after(self) -> None:
        """If the supervisor is gone without a word, end what it left behind and tell so in its place."""
        if self.has_ended() or self.folder.supervisor_pid() is not None:
            return
        if not self.folder.has(workdir.PID):
            if boot_seconds() - self.spawned_at > CLAIM_SECONDS and self.folder.claim():
                self._tell_end(EndCause.LAUNCH_FAILED, "The supervisor could not be started.")
            return
        if not self.has_ended():  # it may have written its last word between the two looks
            self._tell_end(
                EndCause.SUPERVISOR_GONE, "The supervisor ended unexpectedly; nobody saw how the launch ended."
            )

    def is_stuck(self) -> bool:
        """Whether a process that could not be killed still hangs in the kernel and holds this launch's devices."""
        told = self.folder.read(workdir.EXIT) if self.launch is not None else None
        return told is not None and not told["processes_gone"] and bool(self._cage().pids())

    def _cage(self) -> Cage:
        cgroup = self.node.get("cgroup")
        return Cage(self.folder.token, cgroup=Path(cgroup) if cgroup else None, uid=self.node.get("uid"))

    def _tell_end(self, cause: EndCause, message: str) -> None:
        is_gone = self._cage().kill_all()
        log.warning("launch %s: %s", self.token, message)
        end = End(str(cause), message)
        launch = self.folder.read(workdir.LAUNCH)["launch"]
        self.folder.write_exit(end.report(self.folder, launch, processes_gone=is_gone))

    def note_shipped(self) -> None:
        acked = {key: spool.acked for key, spool in self.spools.items() if spool.acked}
        if acked != (self.folder.read(workdir.SHIPPED) or {}):
            self.folder.write(workdir.SHIPPED, acked)
