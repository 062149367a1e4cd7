"""The only two ways out of a transaction: hints to live pages and wake-ups to nodes. Both may be lost.

`hint` and `wake` fill one bounded queue after commit; a daemon thread per process sends what lies there. Equal hints
are merged, a full queue drops, and nobody who calls them ever waits for Redis or hears of its troubles.

A hint arrives as a channel-layer group message `{"type": "hint", "topic": ..., "rev": ..., **small}` of the group
named like its topic. `subscription` and `read_hint` serve processes that listen with a plain Redis client.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast
from uuid import UUID

import msgpack
import redis
from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu import Exchange, Queue
from redis.backoff import NoBackoff
from redis.retry import Retry

SEND_SECONDS = 0.8  # one attempt at the broker
LINGER_SECONDS = 0.05  # between batches: what comes meanwhile is merged
PAUSE_SECONDS = 0.5  # after a failure
MAX_WAITING = 5_000  # different topics and nodes
MAX_BATCH = 500
MAX_UNREAD_WAKES = 3  # a wake-up says 'look': a node that has not read three needs no fourth
GOODBYE_SECONDS = 1.0  # how long a short command waits at its end for what it left

# What a node's worker listens for (`nodes.broker_login` says the same from the other side; a leaf imports no app).
LOOK_TASK = "nodes.look"
QUEUE_PREFIX = "node."

logger = logging.getLogger(__name__)

Key = tuple[str, str]


@dataclass
class Counts:
    """Since the process began. `failed` were taken from the queue and could not be sent."""

    sent: int = 0
    merged: int = 0
    dropped: int = 0
    failed: int = 0


def hint(topic: str, rev: int = 0, **small: Any) -> None:
    """After commit, tell whoever watches `topic` to look again; `rev` is the newest revision there is."""
    message = {**small, "type": "hint", "topic": topic, "rev": rev}
    transaction.on_commit(lambda: _outbox.put(("hint", topic), message), robust=True)


def wake(node_id: UUID | str) -> None:
    """After commit, make the node's agent exchange at once."""
    transaction.on_commit(lambda: _outbox.put(("wake", str(node_id)), {"rev": 0}), robust=True)


def counts() -> Counts:
    return _outbox.counts


def flush(timeout_seconds: float = GOODBYE_SECONDS) -> bool:
    """Wait until nothing is left to send; False when it did not come to that in time."""
    return _outbox.wait_empty(timeout_seconds)


def subscription(topic: str) -> str:
    """The Redis channel that carries a topic's hints."""
    return f"{settings.CHANNEL_PREFIX}__group__{topic}"


def read_hint(data: bytes) -> dict[str, Any]:
    return cast("dict[str, Any]", msgpack.unpackb(data))


class _Outbox:
    """The queue of one process and the thread that empties it."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Key, dict[str, Any]] = {}
        self._is_sending = False
        self._thread: threading.Thread | None = None

    def after_fork(self) -> None:
        """A child has neither the parent's thread nor its unsent messages."""
        self.counts = Counts()
        self._reset()

    def put(self, key: Key, message: dict[str, Any]) -> None:
        with self._changed:
            older = self._waiting.get(key)
            if older is not None:
                self.counts.merged += 1
                if message["rev"] >= older["rev"]:
                    self._waiting[key] = message
                return
            if len(self._waiting) >= MAX_WAITING or not self._has_thread():
                self.counts.dropped += 1
                return
            self._waiting[key] = message
            self._changed.notify_all()

    def _has_thread(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._run, name="after-commit", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                return False
            self._thread = thread
        return True

    def wait_empty(self, timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_sending, timeout_seconds)

    def _run(self) -> None:
        sender = _Sender()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                batch = dict(islice(self._waiting.items(), MAX_BATCH))
                for key in batch:
                    del self._waiting[key]
                self._is_sending = True
            failed = sender.send(batch)
            with self._changed:
                self.counts.failed += failed
                self.counts.sent += len(batch) - failed
                self._is_sending = False
                self._changed.notify_all()
            time.sleep(PAUSE_SECONDS if failed else LINGER_SECONDS)


class _Sender:
    """Lives in the sending thread. Each call to the broker ends within a second, whatever state it is in."""

    def __init__(self) -> None:
        self._url = ""
        self._warned_at = float("-inf")

    def send(self, batch: dict[Key, dict[str, Any]]) -> int:
        """How many of the batch were lost."""
        hints = [message for (kind, _), message in batch.items() if kind == "hint"]
        nodes = [name for kind, name in batch if kind == "wake"]
        lost = 0
        try:
            self._connect()
            lost += self._try(self._publish, hints) if hints else 0
            for at, node in enumerate(nodes):
                if self._try(self._wake, [node]):
                    lost += len(nodes) - at  # the broker is not well: the others would wait for nothing
                    break
        except Exception as error:  # noqa: BLE001 - a thread that dies would silence every live page
            self._complain(error)
            return len(batch)
        return lost

    def _connect(self) -> None:
        url = settings.REDIS_URL
        if url == self._url:
            return
        # One more try at once when an idle connection proves closed; none after a timeout.
        once_more = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
        self._redis = redis.Redis.from_url(
            url, socket_timeout=SEND_SECONDS, socket_connect_timeout=SEND_SECONDS, retry=once_more
        )
        options = {
            "priority_steps": [0],
            "socket_timeout": SEND_SECONDS,
            "socket_connect_timeout": SEND_SECONDS,
            "max_connections": 2,
        }
        self._celery = Celery("trainyard-wake", broker=url, set_as_current=False)
        self._celery.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            task_publish_retry=False,
            broker_pool_limit=1,
            broker_transport_options=options,
        )
        self._url = url

    def _try(self, action: Any, items: list[Any]) -> int:
        """Run it; on trouble count all items as lost and forget connections that may be broken."""
        try:
            action(items)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the thread
            self._complain(error)
            self._redis.close()
            self._celery.pool.force_close_all()
            return len(items)
        return 0

    def _publish(self, messages: list[dict[str, Any]]) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for message in messages:
                pipe.publish(subscription(message["topic"]), msgpack.packb(message, default=str))
            pipe.execute()

    def _wake(self, nodes: list[str]) -> None:
        for node in nodes:
            name = QUEUE_PREFIX + node
            if cast("int", self._redis.llen(name)) >= MAX_UNREAD_WAKES:
                continue
            queue = Queue(name, Exchange(""), routing_key=name)
            self._celery.send_task(LOOK_TASK, queue=queue, ignore_result=True, retry=False)

    def _complain(self, error: Exception) -> None:
        """At most one line a minute: an outage of Redis is one event, not thousands."""
        now = time.monotonic()
        if now - self._warned_at >= 60:
            self._warned_at = now
            logger.warning("Hints and wake-ups are not getting out: %s: %s", type(error).__name__, error)


_outbox = _Outbox()
os.register_at_fork(after_in_child=_outbox.after_fork)
atexit.register(flush)
