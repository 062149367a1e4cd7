"""A machine goes away in mid-job: its jobs go back to the queue, continue elsewhere, and each step stands once."""

from __future__ import annotations

import pytest

from tests.flows.client import Client, own
from tests.flows.conftest import nodes_of
from tests.flows.rig import Rig, wait_for
from tests.flows.scripts import STEPPER

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]
STEPS = 100


def test_jobs_of_a_lost_machine_continue_from_their_newest_checkpoint(rig: Rig, ada: Client):
    env = {"STEPS": str(STEPS), "PAUSE": "0.15"}
    single = ada.submit(own(STEPPER, name="single", env=env))
    gang = ada.submit(own(STEPPER, name="gang", nodes=2, env=env))
    for job in (single, gang):
        ada.wait_checkpoint(job)
        ada.wait_step(job, 15)
    lost = ada.node_of(single)
    other = next(name for name in rig.nodes if name != lost)
    rig.nodes[lost].lose()

    sentence = f"The node {lost} was lost. It waits for another attempt and keeps its place."
    for job in (single, gang):
        wait_for("it goes back to the queue", lambda job=job: queued_events(ada, job), 60)
        event = queued_events(ada, job)[0]
        assert (event["text"], event["data"]["reason"], event["data"]["to"]) == (sentence, "node_lost", "queued")
    assert [node["state"] for node in nodes_of(ada) if node["name"] == lost] == ["lost"]
    waiting = wait_for("why the gang waits", lambda: ada.job(gang)["waiting_text"])
    assert waiting == (
        "It needs 1 device on each of 2 nodes and would fit on "
        f"{lost}, which does not answer: it starts when it is back."
    )

    ada.wait_state(single, "running", "succeeded")
    assert ada.node_of(single) == other
    check_second_attempt(ada, single)

    rig.nodes[lost].start()
    ada.wait_state(gang, "running", "succeeded", seconds=60)
    check_second_attempt(ada, gang)


def queued_events(ada: Client, job: int) -> list[dict]:
    return [event for event in ada.events(job) if event["kind"] == "state" and event["data"].get("from") != "queued"
            and event["data"].get("to") == "queued"]  # fmt: skip


def check_second_attempt(ada: Client, job: int) -> None:
    done = ada.wait_end(job)
    assert (done["state"], done["reason_text"]) == ("succeeded", "Every rank ended well.")
    first, second = sorted(ada.attempts(job), key=lambda attempt: attempt["number"])
    assert (first["state"], first["reason"], second["state"]) == ("lost", "node_lost", "succeeded")
    resumed = second["resume_step"]
    assert resumed >= 10
    assert resumed % 10 == 0
    assert f"goes on after step {resumed}\n" in ada.log(job, attempt=2)
    shown = ada.get(f"/jobs/{job}/series/", name="loss")["pieces"]
    steps = [step for piece in sorted(shown, key=lambda piece: piece["attempt"]) for step in piece["step"]]
    assert steps == list(range(1, STEPS + 1))
    everything = ada.get(f"/jobs/{job}/series/", name="loss", attempts="all")["pieces"]
    before = next(piece for piece in everything if piece["attempt"] == 1)
    assert max(before["step"]) >= resumed
    assert before["hidden_from"] in (None, resumed)
    told = [event["text"] for event in ada.events(job)]
    assert f"Attempt 2 continues from step {resumed}." in told
