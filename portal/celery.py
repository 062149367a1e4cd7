"""The portal's own Celery application: `celery -A portal worker -Q control`. Short control work only."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from celery import Celery
from celery.signals import setup_logging
from django.conf import settings

from nodes.broker_login import CONTROL_QUEUE, direct_queue, shared_settings

app = Celery("trainyard", broker=settings.REDIS_URL)
app.conf.update(
    **shared_settings(),
    task_queues=[direct_queue(CONTROL_QUEUE)],
    task_default_queue=CONTROL_QUEUE,
    task_create_missing_queues=False,
    broker_transport_options={"priority_steps": [0], "visibility_timeout": 300},
    timezone=settings.TIME_ZONE,
)
app.autodiscover_tasks()


@setup_logging.connect
def _keep_our_logging(**_: object) -> None:
    """Django has configured logging already; a receiver here keeps Celery from doing it again."""
