"""Checkpoints go to storage before their launch's end is told; damaged ones do not."""

from __future__ import annotations

import pytest

from nodes.agent.checkpoints import Unusable, _chunks
from tests.agent.conftest import ROOT, wait_for

SAVE = """
import trainyard
for step in (1, 2):
    with trainyard.checkpoint(step, metrics={"loss": 0.5}) as folder:
        (folder / "weights").write_bytes(bytes([step]) * 100_000)
"""
LIB = {"PYTHONPATH": str(ROOT / "jobs" / "training" / "lib")}


def test_checkpoints_are_registered_before_the_end_is_told(node, portal):
    launch = node.launch(SAVE, env=LIB)
    wait_for(lambda: launch.token in portal.closed)
    assert {step for token, step in portal.registered if token == launch.token} == {1, 2}
    offer = portal.registered[launch.token, 2]
    assert offer.metrics == {"loss": 0.5}
    assert {file.path for file in offer.files} == {"weights"}
    assert bytes([2]) * 100_000 in portal.blobs.values()


def test_damaged_checkpoint_is_not_offered_and_holds_nothing_up(node, portal):
    script = """
import json, os
os.makedirs("checkpoints/.half")
open("checkpoints/.half/weights", "w").write("short")
weights, outside = "weights", "../../../private/launch.json"
listed = [{"path": path, "sha256": "0" * 64, "size_bytes": 5} for path in (weights, outside)]
json.dump({"step": 7, "saved_at": 1.0, "files": listed, "metrics": {}}, open("checkpoints/.half/manifest.json", "w"))
os.rename("checkpoints/.half", "checkpoints/step_7")
os.mkdir("checkpoints/step_8")
os.symlink("/etc", "checkpoints/step_9")
"""
    launch = node.launch(script)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.reports[launch.token].exit.exit_code == 0
    assert portal.offers == 0


def test_superseded_launch_stops_offering(node, portal):
    script = SAVE.replace("(1, 2)", "range(1, 4)") + "import time; time.sleep(2)\n"
    launch = node.launch(script, env=LIB, order=False)
    portal.superseded.add(launch.token)
    portal.order((node.id, launch))
    wait_for(lambda: launch.token in portal.closed)
    assert portal.offers == 1
    assert not portal.registered


def test_file_longer_than_declared_is_given_up_at_once(tmp_path):
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Unusable, match="longer than was saved"):
        list(_chunks(tmp_path, "weights", 3 << 20))


def test_file_of_the_declared_size_is_read_whole(tmp_path):
    (tmp_path / "weights").write_bytes(b"w" * (2 << 20))
    assert b"".join(_chunks(tmp_path, "weights", 2 << 20)) == b"w" * (2 << 20)
