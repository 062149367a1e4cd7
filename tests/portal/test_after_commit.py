"""Hints and wake-ups against a real broker: delivered when it is well, lost without a trace of trouble when not."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable

import pytest
import redis
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import transaction

from nodes.broker_login import LOOK_TASK, node_queue
from portal import after_commit


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _empty_outbox(db):
    after_commit.flush(10)


class Listener:
    """A plain Redis client that collects the hints of some topics."""

    def __init__(self, url: str, *topics: str) -> None:
        self.hints: list[dict] = []
        self._pubsub = redis.Redis.from_url(url).pubsub(ignore_subscribe_messages=True)
        self._pubsub.subscribe(*(after_commit.subscription(topic) for topic in topics))
        assert self._pubsub.get_message(timeout=5) is None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            for item in self._pubsub.listen():
                self.hints.append(after_commit.read_hint(item["data"]))
        except (redis.RedisError, ValueError):
            return


@pytest.mark.django_db(transaction=True)
def test_a_hint_reaches_a_channel_layer_group(broker, settings):
    async def listen_and_hint() -> dict:
        hosts = [{"address": broker.url, "socket_timeout": None}]
        layer = RedisPubSubChannelLayer(hosts=hosts, prefix=settings.CHANNEL_PREFIX)
        channel = await layer.new_channel()
        await layer.group_add("job.7", channel)
        await asyncio.to_thread(after_commit.hint, "job.7", 42, state="running")
        message = await asyncio.wait_for(layer.receive(channel), 5)
        await layer.flush()
        return message

    message = asyncio.run(listen_and_hint())
    assert message == {"type": "hint", "topic": "job.7", "rev": 42, "state": "running"}


@pytest.mark.django_db(transaction=True)
def test_nothing_leaves_before_commit_nor_after_a_rollback(broker):
    listener = Listener(broker.url, "jobs", "nodes")
    with transaction.atomic():
        after_commit.hint("jobs", 1)
        transaction.set_rollback(True)
    with transaction.atomic():
        after_commit.hint("nodes", 2)
        assert after_commit.flush(0.2)
        assert listener.hints == []
    wait_until(lambda: listener.hints)
    assert [hint["topic"] for hint in listener.hints] == ["nodes"]


@pytest.mark.django_db(transaction=True)
def test_equal_hints_are_merged_and_the_newest_revision_wins(broker):
    listener = Listener(broker.url, "job.1")
    broker.freeze()
    for rev in (5, 9, 7):
        after_commit.hint("job.1", rev)
    broker.thaw()
    assert after_commit.flush(10)
    after_commit.hint("job.1", 10)
    wait_until(lambda: listener.hints and listener.hints[-1]["rev"] == 10)
    revs = [hint["rev"] for hint in listener.hints]
    assert revs == sorted(revs)
    assert len(revs) <= 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("trouble", ["freeze", "kill"])
def test_callers_never_wait_nor_fail_while_the_broker_is_away(broker, trouble):
    after_commit.hint("warm", 1)
    after_commit.flush(5)
    getattr(broker, trouble)()
    started = time.monotonic()
    for number in range(after_commit.MAX_WAITING + 2_000):
        after_commit.hint(f"job.{number}", 1)
    after_commit.wake(uuid.uuid4())
    assert time.monotonic() - started < 3
    counts = after_commit.counts()
    assert counts.dropped > 0
    failed = counts.failed
    wait_until(lambda: after_commit.counts().failed > failed, 5)
    broker.thaw() if trouble == "freeze" else broker.restart()
    assert after_commit.flush(10)
    listener = Listener(broker.url, "after")
    after_commit.hint("after", 3)
    wait_until(lambda: listener.hints, 5)


@pytest.mark.django_db(transaction=True)
def test_a_wake_up_is_a_celery_message_in_the_nodes_queue_and_never_piles_up(broker):
    node = uuid.uuid4()
    client = redis.Redis.from_url(broker.url)
    for _ in range(after_commit.MAX_UNREAD_WAKES + 3):
        after_commit.wake(node)
        assert after_commit.flush(5)
    assert client.llen(node_queue(node)) == after_commit.MAX_UNREAD_WAKES
    assert LOOK_TASK.encode() in client.lindex(node_queue(node), 0)
    assert after_commit.LOOK_TASK == LOOK_TASK
    assert after_commit.QUEUE_PREFIX + str(node) == node_queue(node)
    client.flushall()
    after_commit.wake(node)
    assert after_commit.flush(5)
    assert client.llen(node_queue(node)) == 1


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_ten_thousand_publishes_with_a_restart_lose_at_most_the_outage(broker, caplog):
    failed = after_commit.counts().failed
    for number in range(10_000):
        after_commit.hint(f"job.{number % 1000}", number)
        if number % 500 == 499:
            after_commit.wake(uuid.uuid4())
            after_commit.flush(5)
        if number == 5_000:
            broker.restart()
    listener = Listener(broker.url, "last")
    after_commit.hint("last", 1)
    wait_until(lambda: listener.hints, 5)
    assert all(record.levelname != "ERROR" and record.exc_info is None for record in caplog.records)
    assert after_commit.counts().failed - failed < 2_000


@pytest.mark.django_db(transaction=True)
def test_a_forked_child_sends_its_own_hints(broker):
    after_commit.hint("parent", 1)
    assert after_commit.flush(5)
    listener = Listener(broker.url, "child")
    pid = os.fork()
    if pid == 0:
        after_commit.hint("child", 1)
        os._exit(0 if after_commit.flush(5) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    wait_until(lambda: listener.hints, 5)
