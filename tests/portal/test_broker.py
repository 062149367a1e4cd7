"""A broker of our own, and node logins that a real Celery worker can live with and that reach nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import redis

from nodes.broker_login import WORKER_FLAGS, node_queue
from portal import after_commit
from portal.broker import BrokerUnavailable, LocalBroker, answers, ensure_node_login
from tests.portal.test_after_commit import wait_until

ROOT = Path(__file__).parents[2]


def start_worker(url: str, queue: str, marks: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", "tests.portal.node_worker", "worker", "-P", "solo", "-Q", queue]
    environment = {**os.environ, "NODE_BROKER_URL": url, "NODE_QUEUE": queue, "NODE_MARKS": str(marks)}
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, *WORKER_FLAGS, "-l", "INFO"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_real_worker_runs_wake_ups_with_a_node_login_and_survives_a_broker_restart(broker, tmp_path):
    node = uuid.uuid4()
    url, queue = ensure_node_login(node, "secret-of-the-node")
    marks, log = tmp_path / "marks", tmp_path / "worker.log"
    worker = start_worker(url, queue, marks, log)
    try:
        after_commit.wake(node)
        wait_until(lambda: marks.exists() and marks.read_text() == "x", 30)
        broker.restart()  # its access list file brings the login back

        def woken_again() -> bool:
            after_commit.wake(node)
            after_commit.flush(2)
            return len(marks.read_text()) > 1

        wait_until(woken_again, 30)
    finally:
        worker.terminate()
        worker.wait(15)
    assert worker.returncode == 0
    denied = redis.Redis.from_url(broker.url).execute_command("ACL", "LOG")
    assert denied == []
    assert "NOPERM" not in log.read_text()


@pytest.mark.parametrize(
    "command",
    [
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("FLUSHALL",),
        ("LRANGE", "control", "0", "-1"),
        ("RPOP", "control"),
        ("LPUSH", "control", "{}"),
        ("SUBSCRIBE", "trainyard__group__jobs"),
        ("PUBLISH", "trainyard__group__jobs", "x"),
        ("ACL", "LIST"),
        ("SCAN", "0"),
        ("EVAL", "return 1", "0"),
        ("INFO",),
    ],
    ids=" ".join,
)
def test_a_node_login_reaches_its_queue_only(broker, command):
    url, queue = ensure_node_login(uuid.uuid4(), "one")
    with redis.Redis.from_url(url) as client:
        assert client.lpush(queue, "mine") == 1
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)


def test_a_node_may_not_read_another_nodes_queue(broker):
    url, _ = ensure_node_login(uuid.uuid4(), "one")
    _, other_queue = ensure_node_login(uuid.uuid4(), "two")
    with redis.Redis.from_url(url) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.rpop(other_queue)
    with redis.Redis.from_url(url) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.brpop(other_queue, timeout=1)


def test_a_new_secret_ends_the_old_login(broker):
    node = uuid.uuid4()
    old, _ = ensure_node_login(node, "old")
    new, _ = ensure_node_login(node, "p@ss/w:rd")
    assert answers(new)
    assert not answers(old)


def test_a_dead_broker_is_a_refusal_within_a_second_or_two(broker):
    broker.kill()
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        ensure_node_login(uuid.uuid4(), "x")


def test_the_local_broker_keeps_its_address_and_shows_its_password_to_nobody(broker, tmp_path):
    broker.kill()
    again = LocalBroker(tmp_path / "broker")
    assert again.url == broker.url
    for path in (tmp_path / "broker").glob("*"):
        if path.name in ("url", "users.acl", "broker.conf"):
            assert path.stat().st_mode & 0o077 == 0, path
    assert not any("password" in word or again.url.split(":")[2].split("@")[0] in word for word in again.command)


def test_queue_names_hold_the_node_id():
    node = uuid.uuid4()
    assert node_queue(node) == f"node.{node}"
