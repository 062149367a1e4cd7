"""The recipe on real data: alone, on two gloo ranks, stopped, and continued as if nothing had happened."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time

import pytest

from tests.training.conftest import DIGITS, LIB

SHIM = str(LIB / "rank_exec.py")
LIMIT = 170  # a hang is gloo's normal way to fail


def wish(folder, *, world_size: int = 1, stop: dict, data=DIGITS, **spec) -> None:
    shutil.copy(data, folder.path / "inputs" / "data")
    folder.write_spec(
        name="digits",
        strategy="ddp" if world_size > 1 else "single",
        roles=[{"nodes": 1, "devices_per_node": world_size}],
        data={"version_id": 1},
        stop=stop,
        dataset={"label": "label", "options": {}},
        **spec,
    )


def alone(folder) -> subprocess.CompletedProcess[str]:
    return folder.run(SHIM, "-m", "jobs.training.main", RANK="0", WORLD_SIZE="1", timeout=LIMIT)


def one_after_the_other(*folders) -> subprocess.CompletedProcess[str]:
    """Several trainings in one process, to load torch once."""
    text = """
import os, sys
import trainyard
from trainyard import _points
from jobs.training.main import main
for folder in sys.argv[1:]:
    os.environ["TRAINYARD_FOLDER"] = folder
    assert main() == 0
    trainyard.flush()
    _points._State.writer = None
"""
    return folders[0].run("-c", text, *(str(folder.path) for folder in folders), timeout=LIMIT)


def torchrun(count: int, *program: str) -> list[str]:
    return [
        *("-m", "torch.distributed.run", f"--nproc-per-node={count}", "--max-restarts=0", "--rdzv-backend=c10d"),
        *("--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1", SHIM, *program),
    ]


def together(folder, *program: str) -> subprocess.CompletedProcess[str]:
    return folder.run(*torchrun(2, *(program or ("-m", "jobs.training.main"))), GLOO_SOCKET_IFNAME="lo", timeout=LIMIT)


def result(folder) -> dict:
    return json.loads((folder.path / "result.json").read_text())


def markers(folder) -> list[str]:
    return sorted(path.name for path in folder.path.glob("complete.*"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_ranks_make_the_steps_that_one_makes(folder, tmp_path):
    from tests.training.conftest import LaunchFolder

    single = LaunchFolder(tmp_path / "single")
    wish(single, stop={"epochs": 12})
    wish(folder, world_size=2, stop={"epochs": 12})
    assert alone(single).returncode == 0, single.log()
    done = together(folder)
    assert done.returncode == 0, done.stderr
    assert markers(folder) == ["complete.0", "complete.1"]

    assert result(folder)["metrics"]["val_accuracy"] >= 0.95
    assert result(folder)["metrics"]["val_loss"] == pytest.approx(result(single)["metrics"]["val_loss"], rel=1e-3)
    mine, theirs = folder.series("loss", 0), folder.series("loss", 1)
    whole = single.series("loss")
    assert list(mine) == list(theirs) == list(whole) == list(range(1, 12 * 23 + 1))
    assert (mine[1] + theirs[1]) / 2 == pytest.approx(whole[1], rel=1e-4)
    assert folder.series("val_accuracy").keys() == {23 * epoch for epoch in range(1, 13)}
    assert folder.series("rows", 0)[0] + folder.series("rows", 1)[0] == 1438
    assert max(folder.series("samples_per_second").values()) > 100


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_continued_training_equals_an_unbroken_one_step_for_step(folder, tmp_path):
    from tests.training.conftest import LaunchFolder

    first, rest = LaunchFolder(tmp_path / "first"), LaunchFolder(tmp_path / "rest")
    for place, steps in ((folder, 60), (first, 31), (rest, 60)):  # 31: in the middle of the second epoch
        wish(place, stop={"steps": steps})
    done = one_after_the_other(folder, first)
    assert done.returncode == 0, done.stderr
    shutil.copytree(first.path / "checkpoints" / "step_31", rest.path / "inputs" / "checkpoint")
    assert alone(rest).returncode == 0, rest.log()
    assert "goes on from the checkpoint of step 31" in rest.log()
    unbroken, continued = folder.series("loss"), rest.series("loss")
    assert list(continued) == list(range(32, 61))
    assert continued == {step: unbroken[step] for step in continued}
    assert rest.series("val_loss")[46] == folder.series("val_loss")[46]
    assert result(rest)["metrics"] == result(folder)["metrics"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ranks_agree_to_stop_and_leave_a_checkpoint_but_no_completion(folder):
    wish(folder, world_size=2, stop={"epochs": 1_000_000}, checkpoint={"every_seconds": 3600})
    process = subprocess.Popen(
        [sys.executable, *torchrun(2, "-m", "jobs.training.main")],
        cwd=folder.path,
        env=folder.environment(GLOO_SOCKET_IFNAME="lo"),
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(folder.series("loss", 1)) > 20)
        folder.tell(checkpoint=1)
        wait_until(lambda: list((folder.path / "checkpoints").glob("step_*")))
        folder.tell(checkpoint=1, stop="preempted")
        assert process.wait(60) == 0
    finally:
        process.kill()
    last = result(folder)["steps"]
    assert max(folder.series("loss", 0)) == max(folder.series("loss", 1)) == last
    assert (folder.path / "checkpoints" / f"step_{last}").is_dir()
    assert len(list((folder.path / "checkpoints").glob("step_*"))) == 2
    assert "stopped: preempted" in folder.log()
    assert markers(folder) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_own_script_runs_under_torchrun(folder):
    folder.script("""
import sys
import torch, torch.distributed as dist
import trainyard

dist.init_process_group("gloo")
shared = torch.tensor([float(trainyard.rank())])
dist.all_reduce(shared)
trainyard.report(1, total=shared)
assert trainyard.any_rank(trainyard.rank() == 1)
assert not trainyard.any_rank(False)
print("arguments", sys.argv[1:])
""")
    done = together(folder, "main.py", "--lr", "1e-3")
    assert done.returncode == 0, done.stderr
    assert folder.series("total", 0) == folder.series("total", 1) == {1: 1.0}
    assert "arguments ['--lr', '1e-3']" in folder.log(1)
    assert markers(folder) == ["complete.0", "complete.1"]


def test_one_class_is_refused_before_torch_is_loaded(folder, tmp_path):
    data = tmp_path / "one.csv"
    data.write_text("x,label\n" + "".join(f"{i},same\n" for i in range(30)))
    wish(folder, stop={"epochs": 1}, data=data)
    assert alone(folder).returncode == 2
    assert "only one class ('same')" in result(folder)["refused"]
    assert folder.log().startswith("refused: The label 'label' has only one class")
    assert markers(folder) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_loss_that_is_no_number_is_reported_on_and_warned_of_once(folder):
    wish(folder, stop={"steps": 60}, parameters={"optimiser": "sgd", "learning_rate": 100})
    assert alone(folder).returncode == 0, folder.log()
    assert len(folder.series("loss")) == 60
    assert any(map(math.isnan, folder.series("loss").values()))
    assert folder.log().count("warning: the loss is") == 1


def wait_until(condition, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
