"""The node's Celery worker: a child of the agent whose one task makes the agent exchange at once.

`python -m nodes.agent.worker`, set up by TRAINYARD_BROKER_URL, TRAINYARD_QUEUE and TRAINYARD_WAKE. Training is started
by this wake-up but never lives in it: the task is over before the agent has even opened its connection.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from celery import Celery

from nodes.agent import procs, wake
from nodes.agent.environment import ROOT
from nodes.broker_login import LOOK_TASK, WORKER_FLAGS, worker_settings
from nodes.messages import BrokerLogin

log = logging.getLogger(__name__)
RESTART_SECONDS = 5.0
URL, QUEUE, WAKE, PARENT = "TRAINYARD_BROKER_URL", "TRAINYARD_QUEUE", "TRAINYARD_WAKE", "TRAINYARD_PARENT"


def main() -> None:
    """Consume the node's queue until told to stop or the agent is gone."""
    procs.end_with_parent(signal.SIGTERM)
    if os.getppid() != int(os.environ[PARENT]):
        return  # the agent ended before we could ask to end with it
    app, pipe = make_app(os.environ.pop(URL), os.environ[QUEUE]), Path(os.environ[WAKE])

    @app.task(name=LOOK_TASK)
    def look() -> None:
        wake.knock(pipe)

    app.worker_main(
        [
            "worker",
            "-P",
            "solo",
            "-l",
            "WARNING",
            "-n",
            f"{os.environ[QUEUE]}@agent",
            "-Q",
            os.environ[QUEUE],
            *WORKER_FLAGS,
        ]
    )


def make_app(url: str, queue: str) -> Celery:
    app = Celery("trainyard-node", broker=url)
    app.conf.update(worker_settings(queue))
    return app


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


if __name__ == "__main__":
    main()
