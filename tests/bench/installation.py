"""A whole installation for benchmarks: `manage.py up` with two nodes in a temporary folder, and a person's token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from portal.demo_client import Rest
from portal.processes import die_with_parent
from tests.streams.server import free_port

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
START_SECONDS = 120.0
ENDS = ("succeeded", "failed", "cancelled")
T = TypeVar("T")

_PERSON = """
from portal.accounts import services
user = services.create_user(None, username="bench", password="not-used-anywhere", superuser=True)
print(services.create_token(user, name="bench")[1])
"""


class BenchError(Exception):
    """Why there is no figure, as a sentence."""


@dataclass
class Installation:
    var: Path
    url: str
    token: str
    up: psutil.Process
    rest: Rest = field(init=False)

    def __post_init__(self) -> None:
        self.rest = Rest(self.url, self.token)

    @property
    def ws_url(self) -> str:
        return self.url.replace("http://", "ws://", 1)

    def submit(self, script: str, *arguments: str, nodes: int = 2, framework: str = "pytorch") -> int:
        """One of our scripts on so many nodes, a process each; the job's id."""
        return int(
            self.rest.post("/jobs/", {"spec": spec_of(script, *arguments, nodes=nodes, framework=framework)})["id"]
        )

    def wait_end(self, job: int, seconds: float = 180.0) -> None:
        """BenchError unless it succeeds in time."""

        def ended() -> dict[str, Any] | None:
            row: dict[str, Any] = self.rest.get(f"/jobs/{job}/")
            return row if row["state"] in ENDS else None

        row = wait_for(ended, seconds, f"Job {job} did not end.", pause=0.5)
        if row["state"] != "succeeded":
            raise BenchError(f"Job {job} ended as {row['state']}: {row.get('reason_text')}")

    def told_by(self, job: int, rank: int = 0) -> dict[str, Any]:
        """What a rank's script said of itself: its lines of JSON, joined."""
        page = self.rest.get(f"/jobs/{job}/logs/{rank}/", tail=100)
        return joined(line["text"] for line in page["lines"])

    @contextmanager
    def nodes_on_cores(self) -> Iterator[set[int]]:
        """All cores but one for the nodes and their launches, that one for the portal: as on machines of their own."""
        everything = os.sched_getaffinity(0)
        last = max(everything)
        nodes = everything - {last} or everything
        agents = {agent.pid for agent in self.processes("nodes.agent")}
        try:
            for process in self.up.children(recursive=True):
                _pin(process, nodes if process.pid in agents else {last})
            yield nodes
        finally:
            for process in self.up.children(recursive=True):
                _pin(process, everything)

    def processes(self, *words: str) -> list[psutil.Process]:
        """Those below `up` whose command line holds all the words."""
        found = []
        for process in self.up.children(recursive=True):
            try:
                line = process.cmdline()
            except psutil.Error:
                continue
            if all(word in " ".join(line) for word in words):
                found.append(process)
        return found


def spec_of(script: str, *arguments: str, nodes: int, framework: str) -> dict[str, Any]:
    return {
        "name": f"bench {script}",
        "framework": framework,
        "strategy": "ddp" if framework == "pytorch" else "single",
        "roles": [{"nodes": nodes, "devices_per_node": 1}],
        "code": {"kind": "script", "script": (SCRIPTS / script).read_text(encoding="utf-8"), "args": list(arguments)},
        "max_attempts": 1,
    }


def _pin(process: psutil.Process, cores: set[int]) -> None:
    """All its threads; what it starts later inherits them."""
    with suppress(psutil.Error, ProcessLookupError):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cores)


def joined(lines: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        if line.startswith("{"):
            found |= json.loads(line)
    return found


@contextmanager
def installation() -> Iterator[Installation]:
    """Two nodes with one slot each, as `bin/demo` has them; nothing of it is left at the end."""
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as name:
        var = Path(name)
        env = {
            key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL", "PUBLIC_URL")
        }
        env |= {"TRAINYARD_VAR": name, "DJANGO_SETTINGS_MODULE": "portal.settings"}
        with (var / "up.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--slots", "1", "--port", str(free_port())],
                cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread only, and nothing but a system call
            )  # fmt: skip
        try:
            yield _ready(var, env, process)
        finally:
            process.terminate()
            process.wait(60)


def _ready(var: Path, env: dict[str, str], process: subprocess.Popen[bytes]) -> Installation:
    def ready() -> bool:
        if process.poll() is not None:
            raise BenchError(f"The portal ended: {(var / 'up.log').read_text(errors='replace')[-2000:]}")
        return (var / "up.json").exists()

    wait_for(ready, START_SECONDS, "The portal did not start.", pause=0.2)
    url = str(json.loads((var / "up.json").read_text(encoding="utf-8"))["url"])
    command = [sys.executable, "-c", f"import django; django.setup()\n{_PERSON}"]
    told = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    made = Installation(var, url, told.stdout.split()[-1], psutil.Process(process.pid))
    wait_for(lambda: _are_online(made.rest), START_SECONDS, "The nodes did not come.", pause=0.2)
    wait_for(lambda: len(made.processes("nodes.agent.worker")) == 2, START_SECONDS, "No Celery children.", pause=0.2)
    time.sleep(3.0)  # of their start-up work
    return made


def _are_online(rest: Rest) -> bool:
    rows = rest.get("/nodes/")["results"]
    return len(rows) == 2 and all(row["state"] == "online" for row in rows)


def wait_for(look: Callable[[], T | None], seconds: float, complaint: str, *, pause: float) -> T:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise BenchError(f"{complaint} (waited {seconds:.0f} s)")
        time.sleep(pause)
    return found
