"""Devices: no driver, untold figures, a lost card and one that somebody else uses are answers, not errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from nodes.agent.devices.base import Devices
from nodes.agent.devices.cpu import CpuSlots
from nodes.agent.devices.nvidia import Nvidia, mark_foreign_use
from nodes.messages import DeviceReport, DeviceSeat

HERE = Path(__file__).parent
ASK = """
import json, pathlib, sys
from nodes.agent.devices.nvidia import Nvidia
driver, mode = Nvidia(), pathlib.Path(sys.argv[1])
answers = []
for word in sys.argv[2:]:
    mode.write_text(word)
    answers.append([device.model_dump() for device in driver.report()])
print(json.dumps(answers))
"""


@pytest.fixture
def ask(tmp_path):
    """ask('good', 'lost'): what the unmodified binding says with the stand-in library in these modes."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc to build the stand-in for NVIDIA's library: apt-get install gcc")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", HERE / "fake_nvml.c"], check=True, timeout=60
    )

    def ask(*modes: str) -> list[list[dict]]:
        env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML": str(tmp_path / "mode")}
        done = subprocess.run(
            [sys.executable, "-c", ASK, tmp_path / "mode", *modes],
            env=env, cwd=HERE.parents[1], capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    return ask


def test_two_gpus_with_all_figures(ask):
    ((first, second),) = ask("good")
    assert (first["uuid"], second["uuid"]) == ("GPU-fake-1", "GPU-fake-2")
    assert first["kind"] == "A100-SXM4-80GB"
    assert first["memory_bytes"] == 80 * 2**30
    assert (first["utilisation"], first["temperature_celsius"], first["power_watts"]) == (0.5, 61.0, 300.5)
    assert first["is_healthy"]


def test_a_figure_that_is_not_supported_takes_no_other_along(ask):
    ((first, _),) = ask("na")
    assert (first["utilisation"], first["power_watts"]) == (None, None)
    assert (first["temperature_celsius"], first["is_healthy"]) == (61.0, True)


def test_lost_gpu_is_unhealthy_and_comes_back(ask):
    good, lost, again = ask("good", "lost", "good")
    assert [device["is_healthy"] for device in lost] == [True, False]
    assert "lost" in lost[1]["trouble"].lower()
    assert [device["is_healthy"] for device in again] == [True, True]
    assert good == again


def test_gpus_that_are_not_named_any_more_are_told_as_lost(ask):
    _, one, broken, again = ask("good", "one", "broken", "good")
    assert [(d["uuid"], d["is_healthy"]) for d in one] == [("GPU-fake-1", True), ("GPU-fake-2", False)]
    assert [d["is_healthy"] for d in broken] == [False, False]
    assert [d["is_healthy"] for d in again] == [True, True]


def test_no_driver_is_no_gpu():
    assert [device for device in Nvidia().report() if not device.uuid.startswith(("GPU-", "MIG-"))] == []


def test_launch_sees_its_gpus_by_uuid_and_no_others():
    devices = Devices([Nvidia(), CpuSlots(uuid4(), 1)])
    seats = [DeviceSeat(index=1, uuid="GPU-b", kind="A100"), DeviceSeat(index=0, uuid="GPU-a", kind="A100")]
    assert devices.environment(seats) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}
    assert devices.environment([])["CUDA_VISIBLE_DEVICES"] == ""


def test_indexes_run_over_all_drivers():
    node = uuid4()
    devices = Devices([CpuSlots(node, 2), CpuSlots(uuid4(), 1)]).report()
    assert [device.index for device in devices] == [0, 1, 2]
    assert Devices([CpuSlots(node, 2)]).report()[0].uuid == devices[0].uuid


def test_gpu_that_somebody_else_uses_is_not_given_away():
    busy = DeviceReport(index=0, uuid="GPU-a", kind="A100", memory_bytes=80 * 2**30, memory_used_bytes=20 * 2**30)
    (told,) = mark_foreign_use([busy], set())
    assert (told.is_healthy, "busy outside: 20.0 GiB" in told.trouble) == (False, True)
    assert mark_foreign_use([busy], {"GPU-a"}) == [busy]
