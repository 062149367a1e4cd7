"""Jobs that behave badly: each ends with a sentence, keeps its log, and harms nobody else."""

from __future__ import annotations

import os

import pytest

from tests.conftest import DATA
from tests.flows.client import Client, once_each, own
from tests.flows.rig import Rig, processes_with

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]

FAILS = "import sys\nprint('before')\nsys.exit(3)\n"
DIES = "import os, signal\nprint('before', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n"
RAISES = "raise ValueError('no such layer')\n"
BINARY = r"""
import sys
sys.stdout.buffer.write(b"\x00\xff\xfe\x1b[31mred\x1b[0m\r\n" + bytes(range(256)) + b"\nEND\n")
"""
FORKS = """
import os, time
for _ in range(50):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
print("forked", flush=True)
"""
FILLS = """
import os, time
with open("big", "wb") as file:
    for _ in range(64):
        file.write(os.urandom(1 << 20))
        file.flush()
print("filled", flush=True)
time.sleep(600)
"""
LONG_NAME = """
import trainyard
for step in range(1, 4):
    trainyard.report(step, {"x" * 10_240: step, "y\\x00<script>": step, "loss": float("nan") if step == 2 else step})
"""
FULL_DISK = """
import resource, signal, sys
import trainyard

def save(step, mib):
    with trainyard.checkpoint(step) as folder:
        (folder / "weights").write_bytes(bytes([step]) * (mib << 20))
    print("saved", step, flush=True)

save(10, 1)
save(20, 1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    save(30, 1)
except OSError as error:
    print("could not save:", error, flush=True)
    sys.exit(28)
"""
POOL = """
import multiprocessing

def square(value):
    return value * value

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(sum(pool.map(square, range(100))), flush=True)
    queue = multiprocessing.get_context("spawn").Queue()
    queue.put("semaphores work")
    print(queue.get(), flush=True)
"""


@pytest.mark.parametrize(
    ("script", "end"),
    [
        (FAILS, "rank 0 ended with exit code 3"),
        (DIES, "rank 0 was killed by signal 11 (SIGSEGV)"),
        (RAISES, "rank 0 ended with exit code 1"),
    ],
    ids=["exit", "signal", "exception"],
)
def test_a_failing_script_is_told_with_rank_and_code(ada: Client, script: str, end: str):
    job = ada.submit(own(script))
    done = ada.wait_end(job)
    assert (done["state"], done["reason"]) == ("failed", "script_error")
    assert end in done["reason_text"]
    assert len(ada.attempts(job)) == 1
    assert ("no such layer" if script is RAISES else "before\n") in ada.log(job)


def test_of_a_gang_the_rank_that_failed_is_named(ada: Client):
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)\n"
    job = ada.submit(own(script, nodes=2))
    done = ada.wait_end(job)
    assert (done["state"], done["reason"]) == ("failed", "script_error")
    assert f"On {ada.node_of(job, 1)}" in done["reason_text"]
    assert "rank 1 ended with exit code 7" in done["reason_text"]


def test_of_a_torchrun_gang_too(ada: Client):
    script = (
        "import os, sys, time\nprint('up', flush=True)\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)\n"
    )
    job = ada.submit(own(script, nodes=2, framework="pytorch"))
    done = ada.wait_end(job)
    assert (done["state"], done["reason"]) == ("failed", "script_error")
    assert "rank 1 ended with exit code 7" in done["reason_text"]
    assert ada.log(job, 1) == "up\n"


def test_binary_output_is_stored_as_it_came_and_shown_as_text(ada: Client):
    job = ada.submit(own(BINARY))
    assert ada.wait_end(job)["state"] == "succeeded"
    raw = ada.http.get(f"/jobs/{job}/logs/0/download/").content
    assert raw == b"\x00\xff\xfe\x1b[31mred\x1b[0m\r\n" + bytes(range(256)) + b"\nEND\n"
    shown = ada.get(f"/jobs/{job}/logs/0/")["lines"]
    assert shown[-1]["text"] == "END"
    assert not any(char in line["text"] for line in shown for char in "\x00\x1b")


def test_forked_children_do_not_outlive_the_job(rig: Rig, ada: Client):
    mark = f"flow-forks-{os.getpid()}"
    job = ada.submit(own(FORKS, env={"FLOW_MARK": mark}))
    assert ada.wait_end(job)["state"] == "succeeded"
    assert ada.log(job) == "forked\n"
    assert processes_with(mark) == []


def test_a_full_disk_quota_ends_the_job(ada: Client):
    job = ada.submit(own(FILLS, disk_bytes=16 * 2**20, grace_seconds=1))
    done = ada.wait_end(job)
    assert (done["state"], done["reason"]) == ("failed", "disk_quota")
    assert done["reason_text"].startswith(f"On {ada.node_of(job)}: It wrote ")
    assert "its disk quota is 16 MiB" in done["reason_text"]


def test_metrics_with_strange_names_and_values(ada: Client):
    job = ada.submit(own(LONG_NAME))
    assert ada.wait_end(job)["state"] == "succeeded"
    names = {piece["name"] for piece in ada.get(f"/jobs/{job}/series/")["pieces"]}
    assert {len(name) for name in names if name.startswith("x")} == {200}
    assert {"loss", "y␀<script>"} < names
    assert [row["value"].lower() for row in ada.points(job, "loss")] == ["1", "nan", "3"]
    assert "“loss” is not finite since step 2." in [event["text"] for event in ada.events(job)]
    assert "metric names are cut to 200 characters" in ada.log(job)


def test_a_checkpoint_cut_by_a_full_disk_is_never_offered(ada: Client):
    job = ada.submit(own(FULL_DISK))
    done = ada.wait_end(job)
    assert (done["state"], done["reason"]) == ("failed", "script_error")
    assert "rank 0 ended with exit code 28" in done["reason_text"]
    assert [row["step"] for row in ada.checkpoints(job)] == [20, 10]
    assert "could not save: [Errno 27] File too large" in ada.log(job)


def test_a_pool_of_processes_works(ada: Client):
    job = ada.submit(own(POOL))
    assert ada.wait_end(job)["state"] == "succeeded", ada.log(job)
    assert ada.log(job) == "328350\nsemaphores work\n"


def test_a_late_rank_is_waited_for(ada: Client):
    script = (DATA / "jobs" / "late_rendezvous.py").read_text()
    job = ada.submit(own(script, nodes=2, env={"LATE_S": "3"}))
    assert ada.wait_end(job)["state"] == "succeeded", [ada.log(job, rank) for rank in (0, 1)]
    for rank in (0, 1):
        assert ada.log(job, rank) == f"rank {rank} joined\n"


def test_a_metric_of_every_step_stands_though_the_script_dies_at_once(ada: Client):
    script = "import os, signal, trainyard\nfor s in range(1, 501): trainyard.report(s, loss=s)\n"
    script += "trainyard.flush()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    job = ada.submit(own(script))
    done = ada.wait_end(job)
    assert "rank 0 was killed by signal 9 (SIGKILL)" in done["reason_text"]
    once_each(ada.points(job, "loss"), 1, 500)
