"""A process that survives SIGKILL holds nothing up but its own devices."""

from __future__ import annotations

import subprocess

import psutil

from nodes.agent import watch, workdir
from nodes.agent.kill import Cage
from nodes.agent.lease import Lease
from nodes.agent.procs import boot_seconds
from nodes.agent.start import Started
from nodes.agent.workdir import Launches
from tests.agent.conftest import wait_for


class Powerless(Cage):
    """Stands for a kernel that does not let go."""

    def kill_all(self, **_) -> bool:
        return False


def test_every_wait_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "KILL_SECONDS", 0.3)
    folder = Launches(tmp_path).at("11111111-1111-1111-1111-111111111111")
    folder.create()
    folder.job.mkdir()
    stop = {"reason": "cancelled", "grace_seconds": 0.1, "cause": None, "message": None}
    folder.write(workdir.ORDERS, {**workdir.NO_ORDERS, "stop": stop})
    launch = {"ranks": [0], "disk_bytes": 2**30, "grace_seconds": 1.0}
    with subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"], start_new_session=True) as process:
        started = Started(process.pid, boot_seconds(), is_wrapped=False, oom_kills=0)
        cage = Powerless(folder.token, cgroup=None, uid=None)
        end = watch.Watch(folder, launch, Lease(folder, 900.0), started, cage).until_end()
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
    assert end.cause == "stopped"
    assert "hangs in the kernel" in end.report(folder, launch, processes_gone=False)["message"]


def test_devices_of_a_hanging_process_are_unhealthy_until_it_is_gone(node, portal):
    """The supervisor's last word says that a process stayed; here it is one that carries the launch's mark."""
    launch = node.launch("import time; print('up', flush=True); time.sleep(600)")
    wait_for(lambda: "up" in portal.text(launch.token))
    supervisor = psutil.Process(workdir.Workdir(node.place(launch.token)).supervisor_pid())
    supervisor.suspend()
    report = {"cause": "stopped", "message": "", "processes_gone": False, "is_complete": False}
    workdir.Workdir(node.place(launch.token)).write(workdir.EXIT, report)
    wait_for(lambda: not portal.exchanges[-1].devices[0].is_healthy)
    assert "hangs in the kernel" in portal.exchanges[-1].devices[0].trouble
    assert portal.exchanges[-1].devices[1].is_healthy
    assert node.place(launch.token).exists()
    supervisor.kill()
    for pid in node.running(launch.token):
        psutil.Process(pid).kill()
    wait_for(lambda: portal.exchanges[-1].devices[0].is_healthy)
    wait_for(lambda: not node.place(launch.token).exists())
