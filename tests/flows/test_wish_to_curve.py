"""From a file to a curve: upload, inspection, label, a wish as YAML, two nodes, one curve, and all that is left."""

from __future__ import annotations

import io
import zipfile

import pytest
import yaml

from tests.flows.client import Client, once_each
from tests.flows.listener import Listener, copy_of_rest, same
from tests.flows.rig import ROOT, Rig, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]
STEPS = 120


def wish(version: int) -> dict:
    return {
        "name": "digits on two nodes",
        "strategy": "ddp",
        "roles": [{"nodes": 2, "devices_per_node": 1}],
        "data": {"version_id": version},
        "parameters": {"learning_rate": "2e-3", "batch_size": 32},
        "stop": {"steps": STEPS},
        "checkpoint": {"every_seconds": 5},
    }


def use(client: Client) -> dict[str, float]:
    return {row["name"]: row["used"] for row in client.get("/quota/")["user"]["limits"]}


def test_from_a_file_to_a_curve_and_what_is_left_of_it(rig: Rig, ada: Client):
    version = ada.wait_inspected(ada.upload(ROOT / "datasets" / "samples" / "digits.csv", "digits")["version"])
    assert (version["state"], version["facts"]["rows"]) == ("ready", 1797)
    refused = ada.http.post("/jobs/", json={"spec": wish(version["id"])})
    if not version["options"].get("label"):
        assert refused.status_code == 400
        assert refused.json()["errors"][0] == {
            "code": "label", "detail": "Choose the column to be predicted.", "attr": "spec.data.label",
        }  # fmt: skip
    changed = ada.http.patch(f"/versions/{version['id']}/", json={"options": {"label": "label"}})
    assert changed.status_code == 200
    assert ada.wait_inspected(version["id"])["options"]["label"] == "label"

    before = use(ada)
    text = yaml.safe_dump({"spec": wish(version["id"])})
    answer = ada.http.post("/jobs/", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201, answer.text
    job = answer.json()["id"]
    assert answer.headers["Location"].endswith(f"/api/v1/jobs/{job}/")
    listener = Listener(rig.url, ada.token, job, ranks=(0, 1))
    listener.start()
    ada.wait_state(job, "running", seconds=120)
    assert use(ada) | {"storage_bytes": 0} == {"devices": 2, "running_jobs": 1, "queued_jobs": 0, "storage_bytes": 0}

    done = ada.wait_end(job, seconds=120)
    assert (done["state"], done["reason"], done["reason_text"]) == ("succeeded", "completed", "Every rank ended well.")
    for rank in (0, 1):
        once_each(ada.points(job, "loss"), 1, STEPS, rank)
        assert f"rank {rank} of 2 on cpu" in ada.log(job, rank)
        assert f"ends after {STEPS} steps" in ada.log(job, 0)
    page = ada.get(f"/jobs/{job}/series/", rank=[0, 1])
    wait_for("the socket has what REST has", lambda: same(listener.copy, copy_of_rest(page)), 10)
    listener.close()
    assert listener.connects == 1
    assert listener.states[-1] == "succeeded"

    after = use(ada)
    assert (after["devices"], after["running_jobs"]) == (0, 0)
    kept = ada.checkpoints(job)
    assert kept[0]["step"] == STEPS
    assert after["storage_bytes"] - before["storage_bytes"] == sum(row["size_bytes"] for row in kept)
    whole = ada.http.get(f"/jobs/{job}/checkpoints/{kept[0]['id']}/download/")
    assert sorted(zipfile.ZipFile(io.BytesIO(whole.content)).namelist()) == sorted(f["path"] for f in kept[0]["files"])
    told = [(event["kind"], event["text"]) for event in ada.events(job)]
    assert ("state", "Runs.") in told
    assert ("checkpoint", f"Checkpoint at step {STEPS}.") in told
    assert ("state", "Every rank ended well.") in told
    assert any(kind == "state" and text.startswith("Starts on ") for kind, text in told)
    _last_words(ada, job)


def _last_words(ada: Client, job: int) -> None:
    """A point that came over REST, exactly; the usage of both nodes; the body that submits it again."""
    losses = [float(row["value"]) for row in ada.points(job, "loss") if row["rank"] == "0"]
    assert losses[-1] < losses[0]
    assert {row["node_rank"] for row in ada.get(f"/jobs/{job}/usage/")} == {0, 1}
    assert ada.get(f"/jobs/{job}/rerun/")["spec"]["stop"]["steps"] == STEPS
