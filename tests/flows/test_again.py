"""A job is run again with changes, and another one continues from its checkpoint."""

from __future__ import annotations

import pytest
import yaml

from tests.flows.client import Client, once_each, own
from tests.flows.rig import Rig
from tests.flows.scripts import STEPPER

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]


def test_again_with_changes_and_from_a_checkpoint(rig: Rig, ada: Client):
    first = ada.submit(own(STEPPER, name="first", env={"STEPS": "30", "PAUSE": "0"}))
    assert ada.wait_end(first)["state"] == "succeeded"

    body = yaml.safe_load(ada.http.get(f"/jobs/{first}/rerun/", params={"form": "yaml"}).text)
    body["spec"] |= {"name": "again", "env": {"STEPS": "20", "PAUSE": "0"}}
    again = ada.post("/jobs/", body)
    assert (again["origin"], again["name"]) == (first, "again")
    assert ada.wait_end(again["id"])["state"] == "succeeded"
    once_each(ada.points(again["id"], "loss"), 1, 20)

    chosen = next(row for row in ada.checkpoints(first) if row["step"] == 20)
    body = ada.get(f"/jobs/{first}/rerun/")
    body["spec"] |= {"name": "continued", "env": {"STEPS": "45", "PAUSE": "0"}}
    continued = ada.post("/jobs/", {**body, "resume_from": chosen["id"]})
    assert continued["resume_from"] == chosen["id"]
    assert ada.wait_end(continued["id"])["state"] == "succeeded"
    (attempt,) = ada.attempts(continued["id"])
    assert (attempt["resume_step"], attempt["checkpoint"]) == (20, chosen["id"])
    once_each(ada.points(continued["id"], "loss"), 21, 45)
    assert ada.log(continued["id"]).startswith("goes on after step 20\nstep 21\n")
    assert "Attempt 1 continues from step 20." in [event["text"] for event in ada.events(continued["id"])]


def test_a_foreign_checkpoint_is_no_place_to_continue_from(rig: Rig, ada: Client):
    job = ada.submit(own(STEPPER, env={"STEPS": "10", "PAUSE": "0"}))
    assert ada.wait_end(job)["state"] == "succeeded"
    kept = ada.checkpoints(job)[0]["id"]
    bob = Client(rig.url, rig.tokens["bob"])
    answer = bob.http.post("/jobs/", json={"spec": own(STEPPER), "resume_from": kept})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"] == f"There is no checkpoint {kept}."
    assert bob.http.get(f"/jobs/{job}/rerun/").status_code == 404
    bob.close()
