"""A real training under torchrun loses a machine in mid-job and goes on where its newest good checkpoint stands."""

from __future__ import annotations

import pytest

from tests.flows.client import Client
from tests.flows.rig import ROOT, Rig

pytestmark = [pytest.mark.flow, pytest.mark.timeout(300)]
STEPS = 400


def test_a_recipe_goes_on_from_its_checkpoint_after_a_machine_was_lost(rig: Rig, ada: Client):
    version = ada.wait_inspected(ada.upload(ROOT / "datasets" / "samples" / "digits.csv", "moving digits")["version"])
    job = ada.submit(
        {
            "name": "moving digits",
            "strategy": "ddp",
            "roles": [{"nodes": 2, "devices_per_node": 1}],
            "data": {"version_id": version["id"], "label": "label"},
            "parameters": {"hidden": [1024, 1024], "batch_size": 64, "learning_rate": 1e-3},
            "stop": {"steps": STEPS},
            "checkpoint": {"every_seconds": 1},
            "grace_seconds": 10,
        }
    )
    ada.wait_state(job, "running", seconds=120)
    ada.wait_checkpoint(job, seconds=120)
    rig.nodes["two"].lose()
    ada.wait_state(job, "queued", seconds=60)
    rig.nodes["two"].start()
    done = ada.wait_end(job, seconds=180)
    assert (done["state"], done["reason_text"]) == ("succeeded", "Every rank ended well.")
    first, second = sorted(ada.attempts(job), key=lambda attempt: attempt["number"])
    assert (first["reason"], second["state"]) == ("node_lost", "succeeded")
    assert f"goes on from the checkpoint of step {second['resume_step']}" in ada.log(job, 0, attempt=2)
    for rank in (0, 1):
        shown = ada.get(f"/jobs/{job}/series/", name="loss", rank=rank)["pieces"]
        steps = [step for piece in sorted(shown, key=lambda piece: piece["attempt"]) for step in piece["step"]]
        assert steps == list(range(1, STEPS + 1))
    measured = ada.points(job, "val_accuracy")
    assert float(measured[-1]["value"]) > 0.9
