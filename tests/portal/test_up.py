"""`manage.py up` with real processes: starts, restarts what dies, refuses a second copy, leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.portal.test_after_commit import wait_until

ROOT = Path(__file__).parents[2]
START_SECONDS = 90
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Running:
    def __init__(self, var: Path, *arguments: str) -> None:
        self.var = var
        var.mkdir(exist_ok=True)
        hidden = ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"TRAINYARD_VAR": str(var), "LOG_FORMAT": "json"}
        self.output = (var / "up.out").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )

    def wait_ready(self) -> str:
        facts = self.var / "up.json"
        wait_until(lambda: facts.exists() or self.process.poll() is not None, START_SECONDS)
        assert facts.exists(), self.said
        return str(json.loads(facts.read_text())["url"])

    @property
    def said(self) -> str:
        return (self.var / "up.out").read_text()

    def processes(self) -> list[psutil.Process]:
        """All that carry this copy's folder in their arguments, environment or working folder."""
        found = []
        for process in psutil.process_iter():
            try:
                marks = " ".join([*process.cmdline(), process.environ().get("TRAINYARD_VAR", ""), process.cwd()])
            except psutil.Error:
                continue
            if str(self.var) in marks and process.pid != os.getpid():
                found.append(process)
        return found

    def find(self, text: str) -> psutil.Process:
        return next(one for one in self.processes() if text in " ".join(one.cmdline()))

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(40)
        self.output.close()


@pytest.fixture
def start(tmp_path) -> Iterator:
    started: list[Running] = []

    def start_one(name: str, *arguments: str) -> Running:
        running = Running(tmp_path / name, *arguments)
        started.append(running)
        return running

    yield start_one
    for running in started:
        running.stop()


def get(url: str, path: str) -> int:
    try:
        return httpx.get(url + path, timeout=5).status_code
    except httpx.TransportError:
        return 0


def nodes_online(running: Running) -> int:
    with sqlite3.connect(f"file:{running.var / 'db.sqlite3'}?mode=ro", uri=True, timeout=20) as database:
        return int(database.execute("SELECT count(*) FROM nodes_node WHERE state = 'online'").fetchone()[0])


def test_it_starts_restarts_what_dies_and_stops_without_a_trace(start):
    running = start("one")
    url = running.wait_ready()
    wait_until(lambda: get(url, "/readyz") == 200, 20)
    wait_until(lambda: nodes_online(running) == 2, 60)

    second = start("one")
    assert second.process.wait(60) != 0
    assert "already runs" in running.said

    for name in ("uvicorn", "valkey-server", "nodes/1"):
        running.find(name).kill()
    wait_until(lambda: "web ended (signal 9)" in running.said and "broker ended" in running.said, 30)
    wait_until(lambda: get(url, "/readyz") == 200, 60)
    wait_until(lambda: any("nodes/1" in " ".join(one.cmdline()) for one in running.processes()), 30)

    os.killpg(running.process.pid, signal.SIGINT)
    assert running.process.wait(40) == 0
    assert running.processes() == []

    again = start("one")
    assert again.wait_ready() == url
    wait_until(lambda: get(url, "/readyz") == 200, 20)
    assert nodes_online(again) <= 2


def test_a_silent_master_is_started_again(start):
    running = start("one", "--nodes", "0")
    running.wait_ready()
    master = running.find("manage.py master")
    wait_until(lambda: beats(running) > 2, 60)
    master.suspend()
    wait_until(lambda: "the master has been silent" in running.said, 60)
    before = beats(running)
    wait_until(lambda: beats(running) > before, 60)


def beats(running: Running) -> int:
    with sqlite3.connect(f"file:{running.var / 'db.sqlite3'}?mode=ro", uri=True, timeout=20) as database:
        row = database.execute("SELECT beats FROM jobs_leader WHERE id = 1").fetchone()
        return int(row[0]) if row else 0


def test_two_copies_live_side_by_side_and_kill_9_leaves_nothing(start):
    first, second = start("one"), start("two", "--nodes", "1")
    one, two = first.wait_ready(), second.wait_ready()
    assert one != two
    wait_until(lambda: get(one, "/readyz") == get(two, "/readyz") == 200, 30)
    first.process.kill()
    wait_until(lambda: first.processes() == [], 40)
    assert get(two, "/readyz") == 200
