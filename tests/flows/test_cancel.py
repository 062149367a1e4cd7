"""A cancelled job keeps its last words and leaves no process, however its script behaves."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from tests.conftest import DATA
from tests.flows.client import Client, own
from tests.flows.rig import Rig, processes_with, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]


def cancel(ada: Client, job: int) -> None:
    assert ada.post(f"/jobs/{job}/cancel/")["state"] in ("stopping", "cancelled")


def check_cancelled(done: dict) -> None:
    assert (done["state"], done["reason"], done["reason_text"]) == ("cancelled", "cancelled", "Cancelled by ada.")
    assert done["ended_by"] == "ada"


def test_last_words_are_kept_and_nothing_is_missing(ada: Client):
    job = ada.submit(own((DATA / "jobs" / "tail_on_cancel.py").read_text()))
    ada.wait_log(job, "0000030\n")
    cancel(ada, job)
    check_cancelled(ada.wait_end(job))
    lines = wait_for("the last word", lambda: (t := ada.log(job)).endswith("bye\n") and t, 20).splitlines()
    assert lines[:-1] == [f"{number:07d}" for number in range(len(lines) - 1)]
    assert ada.log_facts(job)["gap_bytes"] == 0
    assert ada.http.post(f"/jobs/{job}/cancel/").status_code == 200  # twice is once


DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(0.1)
"""

ESCAPING = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "MARK"], {})
    os._exit(0)
time.sleep(0.5)
print("escaped", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(("script", "word"), [(DEAF, "deaf"), (ESCAPING, "escaped")], ids=["deaf", "escaping"])
def test_after_the_grace_nobody_is_left(rig: Rig, ada: Client, script: str, word: str):
    mark = f"flow-{word}-{os.getpid()}"
    job = ada.submit(own(script.replace("MARK", mark), env={"FLOW_MARK": mark}, grace_seconds=1))
    ada.wait_log(job, word)
    assert processes_with(mark)
    cancel(ada, job)
    check_cancelled(ada.wait_end(job))
    assert processes_with(mark) == []


def test_a_stopped_rank_is_ended_too(rig: Rig, ada: Client):
    mark = f"flow-stopped-{os.getpid()}"
    script = "import time\nprint('here', flush=True)\nwhile True: time.sleep(0.1)\n"
    job = ada.submit(own(script, nodes=2, env={"FLOW_MARK": mark}, grace_seconds=1))
    for rank in (0, 1):
        ada.wait_log(job, "here", rank)
    rank_processes = [one for one in processes_with(mark) if one.name().startswith("python")]
    os.kill(max(one.pid for one in rank_processes), signal.SIGSTOP)
    assert any(one.status() == psutil.STATUS_STOPPED for one in rank_processes)
    cancel(ada, job)
    check_cancelled(ada.wait_end(job))
    assert processes_with(mark) == []


def test_a_waiting_job_is_cancelled_at_once_and_by_nobody_else(rig: Rig, ada: Client, admin: Client):
    for node in admin.get("/nodes/")["results"]:
        admin.post(f"/nodes/{node['id']}/cordon/")
    try:
        job = ada.submit(own("print('never')"))
        waiting = wait_for("why it waits", lambda: ada.job(job)["waiting_text"])
        assert waiting == (
            "It needs 1 device on one node and would fit on one, two, which takes no new jobs: an admin can reopen it."
        )
        bob = Client(rig.url, rig.tokens["bob"])
        assert bob.http.post(f"/jobs/{job}/cancel/").status_code == 404
        bob.close()
        cancel(ada, job)
        check_cancelled(ada.job(job))
        assert ada.log(job) == ""
    finally:
        for node in admin.get("/nodes/")["results"]:
            admin.post(f"/nodes/{node['id']}/uncordon/")
