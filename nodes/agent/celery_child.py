"""The agent's side of its Celery worker: started with the login that the portal told, again when it died. No Celery."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from nodes.agent.environment import ROOT
from nodes.messages import BrokerLogin

log = logging.getLogger(__name__)
RESTART_SECONDS = 5.0
URL, QUEUE, WAKE, PARENT = "TRAINYARD_BROKER_URL", "TRAINYARD_QUEUE", "TRAINYARD_WAKE", "TRAINYARD_PARENT"


class CeleryChild:
    """Starts the worker once the portal has told a login, and again when it died; never in the agent's way."""

    def __init__(self, pipe: Path) -> None:
        self._pipe = pipe
        self._login: BrokerLogin | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def use(self, login: BrokerLogin) -> None:
        """A login that changed (the broker lost its users, say) replaces the running worker."""
        if login != self._login:
            self.close()
            self._login, self._started_at = login, 0.0
            self.look_after()

    def look_after(self) -> None:
        if self._login is None or (self._process is not None and self._process.poll() is None):
            return
        if time.monotonic() - self._started_at < RESTART_SECONDS:
            return
        if self._process is not None:
            log.warning("the Celery worker ended with %s and is started again", self._process.returncode)
        self._started_at = time.monotonic()
        told = {URL: self._login.url, QUEUE: self._login.queue, WAKE: str(self._pipe), PARENT: str(os.getpid())}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nodes.agent.worker"],
            cwd=ROOT, env={**os.environ, **told}, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._process = None
