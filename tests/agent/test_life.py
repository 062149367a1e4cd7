"""A launch from order to close, and what an agent's death changes: nothing."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from nodes.messages import InputFile
from tests.agent.conftest import wait_for

COUNTED = """
import os, sys, time
with open(os.environ["COUNT_FILE"], "a") as file:
    file.write("started\\n")
for number in range(int(os.environ.get("TENTHS", "10"))):
    print("line", number, flush=True)
    time.sleep(0.1)
print("last line", flush=True)
"""


def test_launch_goes_through_all_phases_and_is_removed_when_closed(node, portal):
    launch = node.launch("print('hello'); open('complete.0', 'w')")
    wait_for(lambda: launch.token in portal.closed, what="closed")
    assert portal.phases[launch.token][-1] == "ended"
    report = portal.reports[launch.token]
    assert (report.exit.cause, report.exit.exit_code, report.exit.is_complete) == ("exited", 0, True)
    assert report.exit.processes_gone
    assert portal.text(launch.token) == "hello\n"
    assert report.exit.streams == {"-1/log": 6}
    wait_for(lambda: not node.place(launch.token).exists(), what="the folder is removed")


def test_exit_code_signal_and_missing_program_are_told(node, portal):
    portal.closes = False
    failing = node.launch("raise SystemExit(3)")
    killed = node.launch("import os; os.kill(os.getpid(), 9)")
    missing = node.launch("", argv=["/no/such/program"])
    wait_for(lambda: all(portal.phase(each.token) == "ended" for each in (failing, killed, missing)))
    assert portal.reports[failing.token].exit.exit_code == 3
    assert portal.reports[killed.token].exit.signal == 9
    assert "signal 9" in portal.reports[killed.token].exit.message
    assert portal.reports[missing.token].exit.cause == "launch_failed"
    assert "/no/such/program" in portal.reports[missing.token].exit.message


def test_launch_outlives_its_agent_and_its_end_is_told_until_acknowledged(make_node, portal, tmp_path):
    portal.closes = False
    node = make_node().start()
    count = tmp_path / "count"
    launch = node.launch(COUNTED, env={"COUNT_FILE": str(count), "TENTHS": "25"})
    wait_for(lambda: "line 3" in portal.text(launch.token), what="running")
    node.kill()
    assert node.running(launch.token)
    node.start()
    wait_for(lambda: portal.phase(launch.token) == "ended", what="adopted and ended")
    wait_for(lambda: portal.ends[launch.token] >= 3, what="told again and again")
    assert portal.reports[launch.token].exit.exit_code == 0
    wait_for(lambda: "last line" in portal.text(launch.token))
    assert portal.text(launch.token) == "".join(f"line {n}\n" for n in range(25)) + "last line\n"
    assert count.read_text() == "started\n"
    portal.closes = True
    wait_for(lambda: not node.place(launch.token).exists(), what="acknowledged")
    told = portal.ends[launch.token]
    seen = len(portal.exchanges)
    wait_for(lambda: len(portal.exchanges) > seen + 3)
    assert portal.ends[launch.token] <= told + 1


def test_launch_that_ends_while_no_agent_lives_is_told_by_the_next(make_node, portal, tmp_path):
    node = make_node().start()
    launch = node.launch(COUNTED, env={"COUNT_FILE": str(tmp_path / "count"), "TENTHS": "5"})
    wait_for(lambda: portal.phase(launch.token) == "running")
    node.kill()
    wait_for((node.place(launch.token) / "private" / "exit.json").exists, what="ended alone")
    node.start()
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token).endswith("last line\n")


def test_second_order_starts_nothing(make_node, portal, tmp_path):
    """The portal forgets that it was told: the same order again, also to a new agent, and also while it runs."""
    node = make_node().start()
    count = tmp_path / "count"
    launch = node.launch(COUNTED, env={"COUNT_FILE": str(count), "TENTHS": "15"})
    wait_for(lambda: portal.phase(launch.token) == "running")
    with portal.lock:
        del portal.reports[launch.token]
        portal.reports.pop(launch.token, None)
    node.kill()
    node.start()
    wait_for(lambda: launch.token in portal.closed)
    assert count.read_text() == "started\n"


def test_late_order_after_a_stop_starts_nothing(node, portal, tmp_path):
    portal.closes = False
    count = tmp_path / "count"
    launch = node.launch(COUNTED, order=False, env={"COUNT_FILE": str(count)})
    portal.stop(node.id, launch.token)
    wait_for(lambda: portal.phase(launch.token) == "ended", what="tombstone told")
    assert portal.reports[launch.token].exit.cause == "never_started"
    with portal.lock:
        portal.order((node.id, launch))
        del portal.reports[launch.token]
    seen = len(portal.exchanges)
    wait_for(lambda: len(portal.exchanges) > seen + 5)
    assert portal.phase(launch.token) == "ended"
    assert not count.exists()


def test_conflict_starts_nothing_and_keeps_what_runs(node, portal, tmp_path):
    running = node.launch("import time; print('up', flush=True); time.sleep(30)")
    wait_for(lambda: "up" in portal.text(running.token))
    portal.conflict = "session a at 10.0.0.1 and session b at 10.0.0.2"
    late = node.launch("print('never')")
    seen = len(portal.exchanges)
    wait_for(lambda: len(portal.exchanges) > seen + 5)
    assert not node.place(late.token).exists()
    assert node.running(running.token)
    assert "in use twice" in node.log.read_text()


def test_unknown_token_is_kept(node, portal):
    launch = node.launch("print('hello')")
    portal.closes = False
    wait_for(lambda: portal.phase(launch.token) == "ended")
    portal.quarantined = [launch.token]
    wait_for(lambda: launch.token not in [r.token for r in portal.exchanges[-1].placements], what="no longer told")
    assert node.place(launch.token).exists()


def test_second_agent_on_the_same_state_is_refused(node, make_node, portal):
    import subprocess
    import sys

    wait_for(lambda: portal.exchanges)
    second = subprocess.run(
        [sys.executable, "-m", "nodes.agent", "run", "--state", str(node.state)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 1
    assert f"process {node.process.pid}" in second.stderr


def test_portal_down_is_waited_for(node, portal):
    launch = node.launch("import time\nfor n in range(20): print(n, flush=True); time.sleep(0.1)")
    wait_for(lambda: portal.phase(launch.token) == "running")
    portal.down = True
    wait_for((node.place(launch.token) / "private" / "exit.json").exists)
    portal.down = False
    wait_for(lambda: launch.token in portal.closed, 30)
    assert portal.text(launch.token) == "".join(f"{n}\n" for n in range(20))


def test_facts_devices_usage_and_environment(node, portal):
    script = "import os\nfor k in sorted(os.environ): print(k, '=', os.environ[k])\nprint(os.getcwd())"
    launch = node.launch(script, env={"MINE": "at ${ADDRESS}:${MASTER_PORT} ${HOME}", "OMP_NUM_THREADS": "3"})
    wait_for(lambda: launch.token in portal.closed)
    text = portal.text(launch.token)
    ports = [r.facts.ports for e in portal.exchanges for r in e.placements if r.facts]
    assert f"MINE = at 127.0.0.2:{ports[0][0]} ${{HOME}}" in text
    assert "OMP_NUM_THREADS = 3" in text
    assert "GLOO_SOCKET_IFNAME = lo" in text
    assert f"TRAINYARD_TOKEN = {launch.token}" in text
    assert node.token not in text
    assert Path(text.splitlines()[-1]).name == "job"
    told = portal.exchanges[0]
    assert told.facts.cpu_count >= 1
    assert told.facts.kill in ("cgroup2", "pidns", "group")
    assert [device.kind for device in told.devices] == ["cpu", "cpu"]
    assert all(later.facts is None for later in portal.exchanges[1:])
    wait_for(lambda: any(e.usage for e in portal.exchanges))
    assert portal.exchanges[-1].agent_memory_bytes < 200 * 2**20


def test_path_outside_the_folder_is_refused(node, portal):
    launch = node.launch("", inputs=[InputFile(path="../../token", text="mine")])
    portal.closes = False
    wait_for(lambda: portal.phase(launch.token) == "ended")
    assert portal.reports[launch.token].exit.cause == "bad_input"
    assert "'../../token'" in portal.reports[launch.token].exit.message


def test_a_stop_before_go_never_starts(node, portal):
    portal.closes = False
    launch = node.launch("print('never')", order=False, node_count=2)
    with portal.lock:
        portal.order((node.id, launch), (uuid4(), launch.model_copy(update={"token": uuid4(), "node_rank": 1})))
    wait_for(lambda: portal.phase(launch.token) == "ready")
    portal.stop(node.id, launch.token)
    wait_for(lambda: portal.phase(launch.token) == "ended")
    assert portal.reports[launch.token].exit.cause == "never_started"
