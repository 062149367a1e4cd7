"""Nodes as an admin sees them: one is drained under a running job; two share a host name; two agents share an id."""

from __future__ import annotations

import shutil
import socket

import pytest

from tests.flows.client import Client, own
from tests.flows.conftest import nodes_of
from tests.flows.rig import Node, Rig, wait_for
from tests.flows.scripts import STEPPER

pytestmark = [pytest.mark.flow, pytest.mark.timeout(240)]


def node_named(client: Client, name: str) -> dict:
    return next(node for node in nodes_of(client) if node["name"] == name)


def test_a_drained_node_hands_its_job_on(rig: Rig, ada: Client, admin: Client):
    job = ada.submit(own(STEPPER, env={"STEPS": "100", "PAUSE": "0.15"}))
    ada.wait_step(job, 13)
    drained = ada.node_of(job)
    node = node_named(admin, drained)
    assert ada.http.post(f"/nodes/{node['id']}/drain/").status_code == 403
    admin.post(f"/nodes/{node['id']}/drain/")
    try:
        wait_for("a second attempt", lambda: len(ada.attempts(job)) == 2)
        done = ada.wait_end(job)
    finally:
        admin.post(f"/nodes/{node['id']}/uncordon/")
    assert done["state"] == "succeeded"
    first, second = sorted(ada.attempts(job), key=lambda attempt: attempt["number"])
    assert (first["reason"], first["reason_text"]) == (
        "node_drained",
        "A node of it is being drained; it moves elsewhere.",
    )
    assert second["placements"][0]["node_name"] != drained
    # It was asked to stop and saved where it was: nothing is computed twice.
    stopped_at = second["resume_step"]
    assert stopped_at >= 13
    assert f"step {stopped_at}\nstops: node_drained\n" in ada.log(job, attempt=1)
    assert ada.log(job, attempt=2).startswith(f"goes on after step {stopped_at}\nstep {stopped_at + 1}\n")
    points = ada.points(job, "loss")
    assert sorted(int(float(point["step"])) for point in points) == list(range(1, 101))
    told = [
        (event["kind"], event["text"], event["actor"]) for event in admin.get(f"/nodes/{node['id']}/events/")["results"]
    ]
    assert any(actor == "root" and "drain" in text.lower() for _, text, actor in told), told


def test_two_nodes_may_share_a_host_name(rig: Rig, ada: Client):
    one, two = node_named(ada, "one"), node_named(ada, "two")
    assert one["hostname"] == two["hostname"] == socket.gethostname()
    assert one["id"] != two["id"]
    job = ada.submit(own("import os\nprint('rank', os.environ['RANK'])", nodes=2))
    assert ada.wait_end(job)["state"] == "succeeded"
    (attempt,) = ada.attempts(job)
    assert {placement["node_name"] for placement in attempt["placements"]} == {"one", "two"}
    assert [ada.log(job, rank) for rank in (0, 1)] == ["rank 0\n", "rank 1\n"]


def test_a_copied_id_names_both_and_starts_nothing(rig: Rig, ada: Client, admin: Client):
    """Somebody cloned a machine with its state folder. What runs goes on; nothing new starts until one is ended."""
    running = ada.submit(own(STEPPER, nodes=2, env={"STEPS": "200", "PAUSE": "0.15"}))
    ada.wait_step(running, 3)
    state = rig.var / "machines" / "copy"
    state.mkdir(parents=True)
    for name in ("node.json", "token"):
        shutil.copy2(rig.nodes["two"].state / name, state / name)
    copy = Node(state, "copy", "127.0.0.4", rig.machine_environment())
    copy.start()
    try:
        wait_for("the conflict", lambda: node_named(admin, "two")["state"] == "conflict")
        host = socket.gethostname()
        named = node_named(admin, "two")["conflict"]
        assert named in (
            f"Two agents use this node's id: {host} (127.0.0.4) and {host} (127.0.0.3). End one of them.",
            f"Two agents use this node's id: {host} (127.0.0.3) and {host} (127.0.0.4). End one of them.",
        )
        job = ada.submit(own("print('at last')", nodes=2))
        waiting = wait_for("why it waits", lambda: ada.job(job)["waiting_text"])
        assert waiting == (
            "It needs 1 device on each of 2 nodes and would fit on two, whose id two machines use:"
            " an admin must end one."
        )
        assert ada.job(running)["state"] == "running"
    finally:
        copy.lose()
    assert not list((state / "launches").glob("*-*"))
    ada.wait_state(job, "succeeded", seconds=90)
    assert node_named(admin, "two")["state"] == "online"
    assert ada.wait_end(running)["state"] == "succeeded"
    assert len(ada.attempts(running)) == 1
