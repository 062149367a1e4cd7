"""The whole portal as `manage.py up` runs it, and two nodes whose agents the stories start, kill and start again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

from portal.processes import die_with_parent

ROOT = Path(__file__).parents[2]
SLOTS = 6
# A node that is busy must not look lost on a loaded machine; a launch that outlives the tests must end some day.
TIMES = {"NODE_LOST_SECONDS": "10", "LEASE_SECONDS": "120", "MASTER_TICK_SECONDS": "0.3"}
_HIDDEN = ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "STORAGE_URL", "SECRET_KEY")
Found = TypeVar("Found")


def wait_for(what: str, condition: Callable[[], Found], seconds: float = 60.0) -> Found:
    """What `condition` returns once it is true; AssertionError names what did not come."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for: {what}"
        time.sleep(0.05)
    return found


def processes_with(*marks: str) -> list[psutil.Process]:
    """Live processes, but for this one, that hold one of the texts in arguments, environment or working folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            text = "\0".join([*process.cmdline(), *process.environ().values(), process.cwd()])
        except (psutil.Error, OSError):
            continue
        if any(mark in text for mark in marks):
            found.append(process)
    return found


class Node:
    """A machine of the cluster: its agent, and with it whatever its launches have started."""

    def __init__(self, state: Path, name: str, address: str, environment: dict[str, str]) -> None:
        self.state, self.name, self.address, self._environment = state, name, address, environment
        self._process: subprocess.Popen[bytes] | None = None

    def join(self, url: str, code: str) -> None:
        self._run("join", url, "-", "--state", str(self.state), "--address", self.address, told=f"{code}\n")

    def start(self) -> None:
        command = [sys.executable, "-m", "nodes.agent", "run", "--state", str(self.state)]
        command += ["--address", self.address, "--cpu-slots", str(SLOTS)]
        with (self.state / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing but a system call
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """As systemd does: SIGTERM to the agent; its launches go on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def kill(self) -> None:
        """kill -9 of the agent and its Celery worker; its launches go on."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def lose(self) -> None:
        """The machine is gone: agent, supervisors and ranks at once."""
        self.kill()
        wait_for("the machine is gone", self._kill_all, 20)

    def _kill_all(self) -> bool:
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return not left

    def processes(self) -> list[psutil.Process]:
        return processes_with(f"{self.state}/", f"{self.state}\0")

    def _run(self, *arguments: str, told: str) -> None:
        command = [sys.executable, "-m", "nodes.agent", *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            input=told,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr


class Rig:
    def __init__(self, var: Path) -> None:
        self.var = var
        self.url = ""
        self.tokens: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        self._environment = {**kept, "TRAINYARD_VAR": str(var), "LOG_FORMAT": "json", **TIMES}
        self._up: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.var / "up.out").open("ab") as output:
            self._up = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--nodes", "0"],
                cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing but a system call
            )  # fmt: skip
        wait_for(f"the portal is up, see {self.var}/up.out", (self.var / "up.json").exists, 120)
        self.url = json.loads((self.var / "up.json").read_text())["url"]
        told = json.loads(self._python("-m", "tests.flows.people"))
        self.tokens = told["tokens"]
        for name, address in (("one", "127.0.0.2"), ("two", "127.0.0.3")):
            node = Node(self.var / "machines" / name, name, address, self.machine_environment())
            self.nodes[name] = node
            node.join(self.url, told["codes"][name])
            node.start()

    def machine_environment(self) -> dict[str, str]:
        """What another machine would have: nothing of the portal's."""
        portal_only = ("TRAINYARD_VAR", *TIMES)
        return {name: value for name, value in self._environment.items() if name not in portal_only}

    def stop(self) -> None:
        for node in self.nodes.values():
            node.lose()
        if self._up is not None and self._up.poll() is None:
            self._up.terminate()
            self._up.wait(60)

    def part(self, text: str) -> psutil.Process:
        """A process of the portal: 'uvicorn', 'manage.py master', 'celery', '-server 127.0.0.1' (the broker)."""
        assert self._up is not None

        def find() -> psutil.Process | None:
            below = psutil.Process(self._up.pid).children(recursive=True)
            return next((one for one in below if text in _line(one)), None)

        return wait_for(f"{text} runs", find, 30)

    def kill_part(self, text: str, number: int = signal.SIGKILL) -> None:
        """`up` starts it again; this returns when it has."""
        ended = self.end_part(text, number)
        wait_for(f"{text} runs again", lambda: self.part(text).pid != ended, 30)
        self.wait_ready()

    def end_part(self, text: str, number: int) -> int:
        """The id of the process that has ended now."""
        process = self.part(text)
        process.send_signal(number)
        process.wait(30)
        return process.pid

    def wait_ready(self) -> None:
        def ready() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
            return False

        wait_for("the portal is ready", ready, 60)

    def broker_url(self) -> str:
        return (self.var / "broker" / "url").read_text().strip()

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
