"""What a job can reach on its node, and what wrong, expired or foreign tokens get."""

from __future__ import annotations

import json
import os

import pytest

from tests.flows.client import Client, own
from tests.flows.conftest import nodes_of
from tests.flows.rig import Rig, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

PRIES = """
import glob, json, os
found = {}
for name, path in json.loads(os.environ["PATHS"]).items():
    try:
        names = glob.glob(path)
        found[name] = [open(each, "rb").read(20).decode("latin-1") if os.path.isfile(each) else os.listdir(each)
                       for each in names] if names else "nothing there"
    except OSError as error:
        found[name] = "refused: " + type(error).__name__
try:
    os.kill(int(os.environ["AGENT"]), 0)
    found["agent"] = "reached"
except OSError as error:
    found["agent"] = "refused: " + type(error).__name__
found["own"] = sorted(os.listdir(os.environ["TRAINYARD_FOLDER"]))
print(json.dumps(found), flush=True)
"""
PROMISED = {
    "bubblewrap": {"token", "orders", "others", "database", "secret_key", "broker", "agent"},
    "uid": {"token", "orders", "others", "secret_key", "broker", "agent"},
    "none": set(),
}


def test_a_job_reaches_nothing_that_the_shown_level_promises_to_hide(rig: Rig, ada: Client):
    other = ada.submit(own("print('mine', flush=True)\nimport time\ntime.sleep(600)", name="victim"))
    ada.wait_log(other, "mine")
    node = rig.nodes[ada.node_of(other)]
    state = str(node.state)
    paths = {
        "token": f"{state}/token",
        "orders": f"{state}/launches/*/private/launch.json",
        "others": f"{state}/launches/*/job/output.0.log",
        "database": f"{rig.var}/db.sqlite3",
        "secret_key": f"{rig.var}/secret_key",
        "broker": f"{rig.var}/broker/url",
    }
    agent = next(one for one in node.processes() if "run" in one.cmdline() and "nodes.agent" in one.cmdline())
    jobs = []
    for _ in rig.nodes:  # one lands beside the victim, whichever node that is
        jobs.append(ada.submit(own(PRIES, nodes=2, env={"PATHS": json.dumps(paths), "AGENT": str(agent.pid)})))
    for job in jobs[:1]:
        assert ada.wait_end(job)["state"] == "succeeded", ada.log(job)
        placements = ada.attempts(job)[0]["placements"]
        rank = next(each["node_rank"] for each in placements if each["node_name"] == node.name)
        found = json.loads(ada.log(job, rank))
        level = next(each["facts"]["sandbox"] for each in nodes_of(ada) if each["name"] == node.name)
        for name in PROMISED[level]:
            mine = name == "others" and found[name] != "nothing there"
            assert mine or str(found[name]).startswith(("refused", "nothing there")), (level, name, found[name])
        if PROMISED[level]:
            assert "mine" not in str(found["others"])
        assert "output.0.log" in found["own"]


def test_the_same_submit_twice_is_one_job(ada: Client):
    spec = own("print('once')")
    key = f"key-{os.urandom(4).hex()}"
    headers = {"Idempotency-Key": key}
    first = ada.http.post("/jobs/", json={"spec": spec}, headers=headers)
    second = ada.http.post("/jobs/", json={"spec": spec}, headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    third = ada.http.post("/jobs/", json={"spec": {**spec, "name": "other"}}, headers=headers)
    assert third.status_code == 409
    assert "This idempotency key came with another job before" in third.json()["errors"][0]["detail"]
    ada.wait_end(first.json()["id"])
    assert len([job for job in ada.get("/jobs/", limit=500)["results"] if job["name"] == spec["name"]]) == 1


def test_wrong_tokens_get_a_sentence(rig: Rig, ada: Client):
    job = ada.submit(own("print('mine')"))
    ada.wait_end(job)

    def ask(token: str, method: str = "GET") -> tuple[int, str]:
        client = Client(rig.url, token)
        path = f"/jobs/{job}/" if method == "GET" else f"/jobs/{job}/cancel/"
        answer = client.http.request(method, path)
        client.close()
        return answer.status_code, answer.json()["errors"][0]["detail"] if answer.is_error else ""

    assert ask("nonsense")[0] == 401
    assert ask(rig.tokens["ada-expired"])[0] == 401
    assert ask(rig.tokens["bob"]) == (404, "There is no such job.")
    assert ask(rig.tokens["ada-read"]) == (200, "")
    assert ask(rig.tokens["ada-read"], "POST")[0] == 403
    node_token = (rig.nodes["one"].state / "token").read_text().strip()
    assert ask(node_token)[0] == 401
    wrong = ada.http.post("/agent/exchange", content=b"{}", headers={"Authorization": f"Node {ada.token}"})
    assert wrong.status_code == 401
    assert wait_for("a sentence", lambda: wrong.json()["errors"][0]["detail"], 1)
