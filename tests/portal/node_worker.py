"""A node's Celery worker as the agent runs it, for tests: its one task leaves a mark in a file."""

import os
from pathlib import Path

from celery import Celery

from nodes.broker_login import LOOK_TASK, worker_settings

app = Celery("node", broker=os.environ["NODE_BROKER_URL"])
app.conf.update(worker_settings(os.environ["NODE_QUEUE"]))


@app.task(name=LOOK_TASK)
def look() -> None:
    with Path(os.environ["NODE_MARKS"]).open("a") as marks:
        marks.write("x")
