"""All launches of this node: taken on, adopted after a restart, stopped, let go."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from nodes.agent import procs, sandbox, workdir
from nodes.agent.environment import ROOT
from nodes.agent.files import write_json
from nodes.agent.kill import sweep_cgroups
from nodes.agent.placement import Placement
from nodes.agent.start import make_job_folder
from nodes.agent.workdir import Launches, Workdir
from nodes.messages import DeviceSeat, Go, Launch, StopOrder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NodeSetting:
    """What every launch of this node shares: where it is and how it is boxed and killed."""

    address: str
    interface: str
    sandbox: sandbox.Sandbox
    cgroup: Path | None
    kill: Literal["cgroup2", "pidns", "group"]
    device_environment: Callable[[list[DeviceSeat]], dict[str, str]]


class Registry:
    """Placements by token. The exchange thread alone adds and removes; other threads look at `all()`."""

    def __init__(self, state: Path, setting: NodeSetting, prepare: Callable[[Placement], None]) -> None:
        self.launches = Launches(state)
        self._setting = setting
        self._prepare = prepare  # fetches the inputs in the background, then says so in the orders
        self._lock = threading.Lock()
        self._placements: dict[UUID, Placement] = {}
        self.busy: set[UUID] = set()  # tokens whose files a thread is reading for long

    def all(self) -> list[Placement]:
        with self._lock:
            return list(self._placements.values())

    def get(self, token: UUID) -> Placement | None:
        with self._lock:
            return self._placements.get(token)

    def adopt(self) -> None:
        """Take up every folder that an earlier agent left: running launches go on, untold ends are told."""
        self.launches.sweep()
        if self._setting.cgroup is not None:
            sweep_cgroups(self._setting.cgroup)
        for folder in self.launches:
            if not _is_token(folder.token):
                continue
            if not folder.has(workdir.LAUNCH) and not folder.has(workdir.TOMBSTONE):
                folder.remove()  # never acknowledged: its order will be repeated
                continue
            placement = self._add(Placement(folder))
            if placement.has_ended():
                continue
            if not folder.has(workdir.PID):
                self._spawn(placement)
            if not folder.orders()["inputs_ready"]:
                self._prepare(placement)

    def accept(self, launch: Launch) -> None:
        """Journal the order, then start its supervisor. A known token, if only by a tombstone, starts nothing."""
        folder = self.launches.at(launch.token)
        try:
            folder.create()
        except FileExistsError:
            return
        try:
            self._journal(folder, launch)
        except OSError:
            log.exception("launch %s could not be journalled; it will be taken when it is ordered again", launch.token)
            folder.remove()
            return
        placement = self._add(Placement(folder))
        log.info("launch %s of job %s taken", launch.token, launch.job_id)
        self._spawn(placement)
        self._prepare(placement)

    def stop(self, order: StopOrder) -> None:
        placement = self.get(order.token)
        if placement is not None:
            placement.stop(order.reason, grace_seconds=order.grace_seconds)
            return
        folder = self.launches.at(order.token)
        folder.create()
        try:
            folder.write(workdir.TOMBSTONE, {"reason": order.reason})
        except OSError:
            folder.remove()  # so that the repeated stop finds no folder that nobody reports
            raise
        self._add(Placement(folder))

    def go(self, go: Go) -> None:
        placement = self.get(go.token)
        if placement is not None:
            placement.go(go.peers)

    def close(self, token: UUID) -> None:
        """The portal has the end and every byte: the folder may go, once nobody reads it any more."""
        placement = self.get(token)
        if placement is None or not placement.has_ended() or token in self.busy or placement.is_stuck():
            return
        with self._lock:
            del self._placements[token]
        placement.folder.remove()

    def devices_in_use(self) -> set[str]:
        open_launches = [p.launch for p in self.all() if p.launch is not None and not p.has_ended()]
        return {seat.uuid for launch in open_launches for seat in launch.devices}

    def stuck_devices(self) -> set[str]:
        """Devices that a process which cannot be killed still holds."""
        stuck = [p.launch for p in self.all() if p.launch is not None and p.has_ended() and p.is_stuck()]
        return {seat.uuid for launch in stuck for seat in launch.devices}

    def _add(self, placement: Placement) -> Placement:
        with self._lock:
            self._placements[placement.token] = placement
        return placement

    def _journal(self, folder: Workdir, launch: Launch) -> None:
        node = self._node_part(folder, launch)
        make_job_folder(folder, node["uid"])
        write_json(folder.job / "spec.json", launch.spec, mode=0o644)
        folder.set_room_aside()
        folder.write(workdir.ORDERS, workdir.NO_ORDERS)
        folder.write(workdir.LAUNCH, {"launch": launch.model_dump(mode="json"), "node": node})

    def _node_part(self, folder: Workdir, launch: Launch) -> dict[str, Any]:
        """How this launch is boxed; written down before its first process, so that whoever comes later can end it."""
        setting = self._setting
        level = setting.sandbox.level if launch.sandboxed else "none"
        return {
            "address": setting.address,
            "interface": setting.interface,
            "sandbox": level,
            "uid": self._free_uid() if level != "none" and os.geteuid() == 0 else None,
            "kill": setting.kill,
            "cgroup": str(setting.cgroup / f"trainyard-{folder.token}") if setting.cgroup else None,
            "device_env": setting.device_environment(launch.devices),
        }

    def _free_uid(self) -> int:
        """A user id that no launch of ours and no living process has; other agents of this machine start elsewhere."""
        taken = {placement.node.get("uid") for placement in self.all()}
        offset = hash(str(self.launches.place)) % sandbox.UID_COUNT
        for step in range(sandbox.UID_COUNT):
            uid = sandbox.FIRST_UID + (offset + step) % sandbox.UID_COUNT
            if uid not in taken and not any(procs.owned_by(uid)):
                return uid
        raise OSError("no user id is free for another launch")

    def _spawn(self, placement: Placement) -> None:
        """Start the supervisor; it detaches itself, and only the first to claim the folder stays."""
        try:
            subprocess.run(
                [sys.executable, "-m", "nodes.agent.supervise", str(placement.folder.place)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=20, check=False, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            log.exception("the supervisor of %s could not be started", placement.token)


def _is_token(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
