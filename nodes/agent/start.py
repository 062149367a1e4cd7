"""From a launch to a running launcher: fill in the line, build the box, fork once. Stdlib only."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodes.agent import kill, procs, sandbox
from nodes.agent.environment import fill, launch_environment, placeholders
from nodes.agent.workdir import Workdir

MAX_PROCESSES = 16_384


@dataclass
class Started:
    """The direct child of the supervisor: the launcher, or the sandbox around it."""

    pid: int
    at_boot: float
    is_wrapped: bool
    oom_kills: int

    def launcher_pid(self) -> int | None:
        """The launcher itself. Signals meant for it must not reach the sandbox, whose end would kill it unasked."""
        pid = self.pid
        while self.is_wrapped and procs.name_of(pid) == "bwrap":
            inner = procs.children_of(pid)
            if not inner:
                return None
            pid = inner[0]
        return pid

    def true_status(self, status: int) -> int:
        """The launcher's wait status; a sandbox tells a death by signal as exit code 128 plus its number."""
        code = os.waitstatus_to_exitcode(status)
        return code - 128 if self.is_wrapped and code > 128 else status


def start_launcher(
    folder: Workdir, launch: dict[str, Any], node: dict[str, Any], peers: list[dict[str, Any]]
) -> Started:
    """Start it with its output in output.launcher.log. OSError when it cannot be."""
    known = placeholders(folder.job, node["address"], peers)
    argv = [fill(part, known) for part in launch["argv"]]
    env = launch_environment(launch, known, interface=node["interface"], device_env=node["device_env"])
    argv, before, is_wrapped = _box(folder, argv, node)
    log = os.open(
        folder.job / "output.launcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
    )
    try:
        oom_kills = procs.oom_kills()
        child = subprocess.Popen(
            argv, cwd=folder.job, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=before,  # noqa: PLW1509 - the supervisor has one thread
        )  # fmt: skip
    finally:
        os.close(log)
    return Started(child.pid, procs.boot_seconds(), is_wrapped, oom_kills)


def _box(folder: Workdir, argv: list[str], node: dict[str, Any]) -> tuple[list[str], Callable[[], None], bool]:
    """The line with what is wrapped around it, and what the child does to itself before exec."""
    cgroup = Path(node["cgroup"]) if node.get("cgroup") else None
    if cgroup is not None:
        kill.make_cgroup(cgroup)
    drop: Callable[[], None] | None = None
    is_wrapped = False
    if node["sandbox"] == "bubblewrap":
        argv, is_wrapped = sandbox.bubblewrap_argv(folder.job, uid=node.get("uid"), argv=argv), True
    elif node["sandbox"] == "uid":
        drop = sandbox.become(node["uid"])
    elif node["kill"] == "pidns":
        argv, is_wrapped = sandbox.namespace_argv(argv), True
    return argv, _before_exec(cgroup, drop, limit_processes=node.get("uid") is not None), is_wrapped


def _before_exec(cgroup: Path | None, drop: Callable[[], None] | None, *, limit_processes: bool) -> Callable[[], None]:
    def before() -> None:
        if cgroup is not None:
            kill.enter_cgroup(cgroup)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit_processes:
            resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
        _raise_soft_limit(resource.RLIMIT_NOFILE, 65_536)
        _die_first()
        if drop is not None:
            drop()

    return before


def _raise_soft_limit(which: int, wanted: int) -> None:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _die_first() -> None:
    """When memory runs out the kernel shall take the training, not the agent beside it."""
    handle = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(handle, b"500")
    os.close(handle)


def make_job_folder(folder: Workdir, uid: int | None) -> None:
    """The launch's own folder with the places the contract names, owned by whoever runs the launch."""
    for place in (folder.job, *(folder.job / name for name in ("tmp", "home", "checkpoints", "inputs", "code"))):
        place.mkdir(mode=0o700, exist_ok=True)
        if uid is not None and place.name != "inputs":
            os.chown(place, uid, uid)
    (folder.job / "inputs").chmod(0o755)
