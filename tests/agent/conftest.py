"""A fake portal, real agents as processes of their own, and nothing left running after a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from nodes.agent import identity
from nodes.agent.identity import Identity
from nodes.agent.kill import Cage
from nodes.messages import DeviceSeat, InputFile, JoinRequest, Launch
from tests.agent.portal import FakePortal

ROOT = Path(__file__).resolve().parents[2]


def wait_for(condition: Callable[[], object], seconds: float = 40.0, what: str = "") -> object:
    """The first true answer of `condition`; fails with what was waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds:g} s: {what or condition}")


class Node:
    """An agent process with its state folder; can be killed and started again."""

    def __init__(self, portal: FakePortal, state: Path, address: str) -> None:
        self.portal, self.state, self.address = portal, state, address
        self.state.mkdir(parents=True)
        self.id: UUID = identity.node_id_of(state)
        reply = portal.join(JoinRequest(code="good", node_id=self.id, hostname=address, address=address))
        identity.save(state, Identity(self.id, portal.url, reply.name, reply.token))
        self.token = reply.token
        self.log = state.parent / f"{state.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.tokens: list[UUID] = []

    def start(self, *options: str, **env: str) -> Node:
        line = [sys.executable, "-m", "nodes.agent", "run", "--state", str(self.state), "--address", self.address]
        line += ["--cpu-slots", "2", *(options or ("--no-celery",))]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **env})
        return self

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(15)

    def launch(self, script: str, *, order: bool = True, **changes) -> Launch:
        """A launch that runs `script` with Python, ordered at once unless told otherwise."""
        fields = {
            "token": uuid4(), "job_id": 1, "job_name": "test", "attempt": 1, "node_rank": 0, "node_count": 1,
            "ranks": [0], "argv": ["${PYTHON}", "-u", "${FOLDER}/code/main.py"], "sandboxed": False,
            "inputs": [InputFile(path="code/main.py", text=script)], "grace_seconds": 2.0,
            "devices": [DeviceSeat(index=0, uuid=f"CPU-{self.id}-0", kind="cpu")], **changes,
        }  # fmt: skip
        launch = Launch(**fields)
        self.tokens.append(launch.token)
        if order:
            self.portal.order((self.id, launch))
        return launch

    def place(self, token: UUID) -> Path:
        return self.state / "launches" / str(token)

    def running(self, token: UUID) -> set[int]:
        return Cage(str(token), cgroup=None, uid=None).pids()


@pytest.fixture
def portal() -> Iterator[FakePortal]:
    fake = FakePortal()
    yield fake
    fake.close()


@pytest.fixture
def make_node(portal: FakePortal, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(address: str = "127.0.0.2", *, name: str = "") -> Node:
        node = Node(portal, tmp_path / (name or f"node-{len(made)}"), address)
        made.append(node)
        return node

    yield make
    for node in made:
        if node.process is not None and node.process.poll() is None:
            node.kill()
        for folder in (node.state / "launches").glob("*"):
            supervisor = _supervisor(folder)
            if supervisor:
                os.kill(supervisor, signal.SIGKILL)
            Cage(folder.name, cgroup=None, uid=None).kill_all(seconds=5)
    for base in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        for node in made:
            for token in node.tokens:
                left = base / f"trainyard-{token}"
                if left.is_dir():
                    left.rmdir()


def _supervisor(folder: Path) -> int | None:
    from nodes.agent.workdir import Workdir

    return Workdir(folder).supervisor_pid()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node().start()
