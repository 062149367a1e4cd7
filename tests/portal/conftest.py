"""A real broker of its own for each test that asks for one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.broker import LocalBroker


class RunningBroker:
    """The bundled server, with the ways a broker fails: frozen, killed, restarted, flushed."""

    def __init__(self, folder: Path) -> None:
        self.local = LocalBroker(folder)
        self.url = self.local.url
        self.process = self.local.start()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = self.local.start()


@pytest.fixture
def broker(tmp_path: Path, settings) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path / "broker")
    settings.REDIS_URL = running.url
    yield running
    running.kill()
