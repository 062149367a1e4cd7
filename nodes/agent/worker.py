"""The node's Celery worker: a child of the agent whose one task makes the agent exchange at once.

`python -m nodes.agent.worker`, set up by TRAINYARD_BROKER_URL, TRAINYARD_QUEUE and TRAINYARD_WAKE. Training is started
by this wake-up but never lives in it: the task is over before the agent has even opened its connection.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from celery import Celery

from nodes.agent import procs, wake
from nodes.agent.celery_child import PARENT, QUEUE, URL, WAKE
from nodes.broker_login import LOOK_TASK, WORKER_FLAGS, worker_settings


def main() -> None:
    """Consume the node's queue until told to stop or the agent is gone."""
    procs.end_with_parent(signal.SIGTERM)
    if os.getppid() != int(os.environ[PARENT]):
        return  # the agent ended before we could ask to end with it
    app, pipe = make_app(os.environ.pop(URL), os.environ[QUEUE]), Path(os.environ[WAKE])

    @app.task(name=LOOK_TASK)  # type: ignore[untyped-decorator]  # Celery ships no types
    def look() -> None:
        wake.knock(pipe)

    queue = os.environ[QUEUE]
    app.worker_main(
        ["--quiet", "worker", "-P", "solo", "-l", "WARNING", "-n", f"{queue}@agent", "-Q", queue, *WORKER_FLAGS]
    )


def make_app(url: str, queue: str) -> Celery:
    """Without Celery's fix-ups: they would load Django where the environment names its settings."""
    app = Celery("trainyard-node", broker=url, fixups=[])
    app.conf.update(worker_settings(queue))
    return app


if __name__ == "__main__":
    main()
