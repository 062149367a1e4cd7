"""Nothing outlives `up`: neither on a signal, nor when the keeper or its child is killed outright."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from portal.services import Service, Watch
from tests.portal.test_after_commit import wait_until

ROOT = Path(__file__).parents[2]


class Tree:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "pids"
        command = [sys.executable, "-m", "tests.portal.kept_tree", str(folder)]
        self.keeper = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        wait_until(lambda: len(self.pids) == 3, 20)

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self._file.read_text().split()] if self._file.exists() else []

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.pids if psutil.pid_exists(pid) and not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def tree(tmp_path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    for pid in [tree.keeper.pid, *tree.alive]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    tree.keeper.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything_also_what_detached_itself(tree, number):
    tree.keeper.send_signal(number)
    assert tree.keeper.wait(15) == 7
    assert tree.alive == []


def test_a_ctrl_c_of_the_terminal_does_too(tree):
    os.killpg(tree.keeper.pid, signal.SIGINT)
    assert tree.keeper.wait(15) == 7
    assert tree.alive == []


def test_a_killed_keeper_leaves_nothing(tree):
    tree.keeper.kill()
    wait_until(lambda: tree.alive == [], 15)


def test_a_killed_child_leaves_nothing(tree):
    os.kill(tree.pids[0], signal.SIGKILL)
    assert tree.keeper.wait(15) == 128 + signal.SIGKILL
    assert tree.alive == []


def test_what_dies_is_started_again_with_a_growing_pause(tmp_path):
    said: list[str] = []
    watch = Watch(said.append)
    count = tmp_path / "count"
    command = ["sh", "-c", f"echo x >> {count}; exit 3"]
    watch.add(Service("short", command, os.environ, tmp_path / "log", tmp_path))

    def three_starts() -> bool:
        watch.look()
        return count.exists() and len(count.read_text().split()) >= 3

    wait_until(three_starts, 10)
    assert "short ended (exit 3) and is started again" in said[0]
    assert watch.services[0].pause_seconds >= 1
    watch.stop(1)
