"""Every part of the portal and of a node is killed in mid-job; the training goes on and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from portal.broker import connect
from tests.flows.client import Client, once_each, own
from tests.flows.listener import Listener, copy_of_rest, same
from tests.flows.rig import Rig, processes_with, wait_for
from tests.flows.scripts import STEPPER

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]
STEPS = 90


class Story:
    """A job on both nodes that is in the middle of its training, and a page that listens."""

    def __init__(self, rig: Rig, ada: Client, *, steps: int = STEPS, pause: float = 0.15) -> None:
        self.ada, self.steps = ada, steps
        self.mark = f"flow-{os.urandom(4).hex()}"
        env = {"STEPS": str(steps), "PAUSE": str(pause), "FLOW_MARK": self.mark}
        self.job = ada.submit(own(STEPPER, nodes=2, env=env))
        self.listener = Listener(rig.url, ada.token, self.job, ranks=(0, 1))
        self.listener.start()
        for rank in (0, 1):
            ada.wait_step(self.job, 5, rank=rank)
        wait_for("the page shows both ranks", lambda: len(self.listener.copy) == 2, 30)
        self.pids = self._ranks()
        self.resets = self.listener.resets

    def _ranks(self) -> set[int]:
        return {one.pid for one in processes_with(self.mark)}

    def goes_on(self) -> None:
        """The very same processes still train."""
        self.still_trains()
        assert self.ada.job(self.job)["state"] == "running"

    def still_trains(self) -> None:
        assert self._ranks() == self.pids

    def check_end(self) -> None:
        """One attempt, every step of both ranks once, logs whole, and the page that listened has all of it."""
        ada, job = self.ada, self.job
        done = ada.wait_end(job)
        assert (done["state"], done["reason_text"]) == ("succeeded", "Every rank ended well.")
        assert [attempt["state"] for attempt in ada.attempts(job)] == ["succeeded"]
        for rank in (0, 1):
            once_each(ada.points(job, "loss"), 1, self.steps, rank)
            assert ada.log(job, rank) == "".join(f"step {step}\n" for step in range(1, self.steps + 1))
        kept = ada.checkpoints(job)
        assert [row["step"] for row in kept if not row["is_removed"]] == [self.steps - back for back in (0, 10, 20)]
        page = ada.get(f"/jobs/{job}/series/", rank=[0, 1])
        wait_for("the page has what the database has", lambda: same(self.listener.copy, copy_of_rest(page)), 15)
        self.listener.close()
        ends = [event for event in ada.events(job) if event["data"].get("to") in ("running", "succeeded")]
        assert [event["data"]["to"] for event in ends] == ["running", "succeeded"]


@pytest.fixture
def story(rig: Rig, ada: Client) -> Story:
    return Story(rig, ada)


def test_broker_flushed_then_killed(rig: Rig, ada: Client, story: Story):
    client = connect(rig.broker_url(), 5)
    client.flushall()
    client.close()
    rig.kill_part("-server 127.0.0.1")
    story.goes_on()
    story.check_end()
    assert story.listener.connects == 1
    after = ada.submit(own("print('after')"))
    assert ada.wait_end(after)["state"] == "succeeded"


def test_broker_frozen_while_a_job_is_submitted(rig: Rig, ada: Client):
    broker = rig.part("-server 127.0.0.1")
    broker.suspend()
    try:
        story = Story(rig, ada, steps=30)
        story.check_end()
    finally:
        broker.resume()


def how_agents_stop(rig: Rig) -> None:
    for node in rig.nodes.values():
        node.stop()


def how_agents_die(rig: Rig) -> None:
    for node in rig.nodes.values():
        node.kill()


@pytest.mark.parametrize("end_agents", [how_agents_stop, how_agents_die], ids=["SIGTERM", "kill-9"])
def test_agents_restarted(rig: Rig, story: Story, end_agents: Callable[[Rig], None]):
    end_agents(rig)
    story.goes_on()
    for node in rig.nodes.values():
        node.start()
    story.ada.wait_step(story.job, 50)
    story.goes_on()
    story.check_end()


def test_a_job_that_ends_while_its_agents_are_away(rig: Rig, ada: Client):
    story = Story(rig, ada, steps=30, pause=0.2)
    how_agents_die(rig)
    wait_for("the ranks have ended", lambda: not processes_with(story.mark), 30)
    for node in rig.nodes.values():
        node.start()
    story.check_end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "kill-9"])
def test_web_restarted(rig: Rig, story: Story, number: int):
    rig.end_part("uvicorn", number)
    story.still_trains()
    wait_for("the page has come back", lambda: story.listener.connects >= 2, 30)
    story.check_end()
    assert story.listener.resets == story.resets  # it went on where it was cut off


def test_master_and_worker_restarted(rig: Rig, story: Story):
    rig.kill_part("manage.py master")
    rig.kill_part("celery -A portal")
    story.goes_on()
    story.check_end()
    assert story.listener.connects == 1
