"""Stops, limits and deaths: whatever the launch does, none of its processes remains."""

from __future__ import annotations

import os
import signal
import time

import pytest

from nodes.agent.verdict import End
from nodes.agent.workdir import Workdir
from nodes.messages import ExitReport
from tests.agent.conftest import wait_for

STUBBORN = {
    "ignores SIGTERM": """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
""",
    "setsid child": """
import subprocess, time
subprocess.Popen(["setsid", "sleep", "600"])
print("up", flush=True)
time.sleep(600)
""",
    "double fork without environment": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
time.sleep(0.3)
print("up", flush=True)
time.sleep(600)
""",
    "stopped": """
import os, signal
print("up", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "forks for ever": """
import os, time
print("up", flush=True)
while True:
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
    time.sleep(0.02)
""",
}


@pytest.mark.parametrize("kind", STUBBORN)
def test_stop_leaves_no_process(node, portal, kind):
    portal.closes = False
    launch = node.launch(STUBBORN[kind], sandboxed=False)
    wait_for(lambda: "up" in portal.text(launch.token))
    supervisor = Workdir(node.place(launch.token)).supervisor_pid()
    sleepers = _below(supervisor)
    assert sleepers
    portal.stop(node.id, launch.token, grace=1.0)
    wait_for(lambda: portal.phase(launch.token) == "ended", 15)
    report = portal.reports[launch.token].exit
    assert (report.cause, report.processes_gone) == ("stopped", True)
    wait_for(lambda: not [pid for pid in sleepers if _lives(pid)], 2, "all gone")
    assert not node.running(launch.token)


def test_left_overs_of_a_launch_that_ended_by_itself_are_swept(node, portal):
    script = "import subprocess\nchild = subprocess.Popen(['setsid', 'sleep', '600'])\nprint(child.pid, flush=True)"
    launch = node.launch(script)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.reports[launch.token].exit.exit_code == 0
    assert not _lives(int(portal.text(launch.token)))


def test_sigterm_comes_first_and_the_last_words_arrive(node, portal):
    script = """
import signal, sys, time
def bye(*a):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("up", flush=True)
while True: time.sleep(0.1)
"""
    launch = node.launch(script)
    wait_for(lambda: "up" in portal.text(launch.token))
    began = time.monotonic()
    portal.stop(node.id, launch.token, grace=20.0)
    wait_for(lambda: launch.token in portal.closed)
    assert time.monotonic() - began < 5
    assert portal.text(launch.token) == "up\nbye\n"
    assert portal.reports[launch.token].exit.cause == "stopped"


def test_supervisor_killed_is_told_and_swept(node, portal):
    portal.closes = False
    launch = node.launch(STUBBORN["setsid child"])
    wait_for(lambda: "up" in portal.text(launch.token))
    folder = Workdir(node.place(launch.token))
    os.kill(folder.supervisor_pid(), signal.SIGKILL)
    wait_for(lambda: portal.phase(launch.token) == "ended")
    assert portal.reports[launch.token].exit.cause == "supervisor_gone"
    assert not node.running(launch.token)


def test_supervisor_killed_while_the_agent_was_dead(make_node, portal):
    portal.closes = False
    node = make_node().start()
    launch = node.launch(STUBBORN["setsid child"])
    wait_for(lambda: "up" in portal.text(launch.token))
    node.kill()
    os.kill(Workdir(node.place(launch.token)).supervisor_pid(), signal.SIGKILL)
    node.start()
    wait_for(lambda: portal.phase(launch.token) == "ended")
    assert portal.reports[launch.token].exit.cause == "supervisor_gone"
    assert not node.running(launch.token)


def test_lease_half_over_asks_for_a_checkpoint_and_all_over_stops(node, portal):
    script = """
import json, os, time
path = os.environ["TRAINYARD_FOLDER"] + "/control.json"
told = None
while True:
    now = json.load(open(path))["checkpoint"]
    if now != told:
        print("checkpoint", now, flush=True)
        told = now
    time.sleep(0.05)
"""
    launch = node.launch(script, lease_seconds=3.0)
    wait_for(lambda: "checkpoint 0" in portal.text(launch.token))
    portal.down = True
    place = node.place(launch.token)
    wait_for((place / "private" / "exit.json").exists, 15, "the lease runs out")
    assert not node.running(launch.token)
    portal.down = False
    wait_for(lambda: launch.token in portal.closed, 30)
    assert portal.text(launch.token) == "checkpoint 0\ncheckpoint 1\n"
    assert portal.reports[launch.token].exit.cause == "lease_expired"


def test_lease_ends_a_launch_whose_agent_is_gone(node, portal):
    launch = node.launch("import time; print('up', flush=True); time.sleep(600)", lease_seconds=2.0)
    wait_for(lambda: "up" in portal.text(launch.token))
    node.kill()
    wait_for((node.place(launch.token) / "private" / "exit.json").exists, 15)
    assert not node.running(launch.token)


def test_disk_quota(node, portal):
    script = """
with open("big", "wb") as file:
    while True:
        file.write(b"x" * 2**20)
        file.flush()
        import time; time.sleep(0.05)
"""
    launch = node.launch(script, disk_bytes=5 * 2**20)
    wait_for(lambda: launch.token in portal.closed, 30)
    report = portal.reports[launch.token].exit
    assert report.cause == "disk_quota"
    assert "5 MiB" in report.message


def test_time_limit(node, portal):
    launch = node.launch("import time; time.sleep(600)", limit_seconds=1.0)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.reports[launch.token].exit.cause == "time_limit"


def test_a_rank_that_goes_on_after_the_others_is_stopped_and_named(node, portal):
    script = "import time; open('complete.0', 'w').close(); time.sleep(600)"
    launch = node.launch(script, ranks=[0, 1], grace_seconds=1.0)
    wait_for(lambda: launch.token in portal.closed)
    report = portal.reports[launch.token].exit
    assert "Rank 1 still ran" in report.message
    assert report.cause == "exited"
    assert report.exit_code != 0


def test_checkpoint_order_and_stop_reason_reach_the_job(node, portal):
    script = """
import json, os, time
path = os.environ["TRAINYARD_FOLDER"] + "/control.json"
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    told = json.load(open(path))
    print(told["checkpoint"], told["stop"], flush=True)
    if told["stop"]: break
    time.sleep(0.05)
"""
    launch = node.launch(script)
    wait_for(lambda: "0 None" in portal.text(launch.token))
    portal.checkpoint_asks = [launch.token]
    wait_for(lambda: "1 None" in portal.text(launch.token))
    portal.stop(node.id, launch.token, reason="preempted", grace=10)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token).endswith("1 preempted\n")


def test_result_is_told_and_a_huge_one_is_left_out(node, portal):
    good = node.launch("import json; json.dump({'kind': 'table', 'rows': 3}, open('result.json', 'w'))")
    huge = node.launch("open('result.json', 'w').write('\"' + 'x' * 300_000 + '\"')")
    link = node.launch("import os; os.symlink('../private/launch.json', 'result.json')")
    wait_for(lambda: {good.token, huge.token, link.token} <= portal.closed)
    assert portal.reports[good.token].exit.result == {"kind": "table", "rows": 3}
    assert portal.reports[huge.token].exit.result is None
    assert "256 KiB" in portal.reports[huge.token].exit.message
    assert portal.reports[link.token].exit.result is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": "\\ud800"}', None),
        ('{"a": "\\u0000"}', None),
        ('{"a": ' + "[" * 90 + "]" * 90 + "}", None),
        ('{"a": ' + "[" * 100_000, None),
        ('{"a": 1e999}', None),
        ('{"a": NaN, "b": 1}', {"a": None, "b": 1}),
    ],
    ids=["surrogate", "NUL", "deep", "very deep", "overflow", "NaN"],
)
def test_a_result_that_could_not_be_told_or_stored_silences_no_node(tmp_path, text, told):
    """On its way are pydantic, whose JSON knows no lone surrogates or depth, and databases without NUL and NaN."""
    folder = Workdir(tmp_path)
    folder.job.mkdir()
    (folder.job / "result.json").write_text(text)
    report = End("exited", exit_code=0).report(folder, {"ranks": []}, processes_gone=True)
    assert report["result"] == told
    assert told or "result.json" in report["message"]
    ExitReport.model_validate(report).model_dump_json()


def _below(pid: int) -> set[int]:
    from nodes.agent.procs import descendants_of

    return descendants_of(pid)


def _lives(pid: int) -> bool:
    from nodes.agent.procs import start_ticks

    return start_ticks(pid) is not None
