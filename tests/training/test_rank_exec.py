"""The shim between launcher and script: logs, exit codes, signals and the completion marker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.conftest import LIB

SHIM = str(LIB / "rank_exec.py")


def shim(folder, text: str, *args: str, rank: str = "1"):
    folder.script(text)
    return folder.run(SHIM, "main.py", *args, RANK=rank)


def has_marker(folder, rank: int = 1) -> bool:
    return (folder.path / f"complete.{rank}").exists()


def failure(folder, rank: int = 1) -> tuple[int | None, int | None] | None:
    """(exit code, signal) as noted for whoever asks which rank was first."""
    path = folder.path / f"failed.{rank}"
    told = json.loads(path.read_text()) if path.exists() else None
    return (told["exit_code"], told["signal"]) if told else None


def test_a_script_runs_as_under_python(folder):
    text = "import sys, os\nprint(sys.argv, __name__, os.path.basename(os.getcwd()), os.path.basename(sys.path[0]))"
    done = shim(folder, text, "--epochs", "3")
    assert (done.returncode, done.stdout) == (0, "")
    assert folder.log(1) == "['main.py', '--epochs', '3'] __main__ code code\n"
    assert has_marker(folder)


def test_both_streams_reach_the_log_at_once_and_are_appended(folder):
    (folder.path / "output.1.log").write_text("before\n")
    shim(folder, "import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nos._exit(0)")
    assert folder.log(1) == "before\nout\nerr\n"
    assert has_marker(folder)  # os._exit(0) is a good end too


@pytest.mark.parametrize("end", ["sys.exit(3)", "os._exit(3)"])
def test_exit_codes_survive(folder, end):
    assert shim(folder, f"import sys, os\n{end}").returncode == 3
    assert not has_marker(folder)
    assert failure(folder) == (3, None)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_death_by_signal_stays_one(folder, number):
    done = shim(folder, f"import os\nos.kill(os.getpid(), {int(number)})")
    assert done.returncode == -number
    assert f"signal {int(number)}" in folder.log(1)
    assert not has_marker(folder)
    assert failure(folder) == (None, int(number))


def test_work_said_to_be_complete_outlives_an_abort_at_exit(folder):
    done = shim(folder, "import trainyard, os\ntrainyard.complete()\nos.abort()")
    assert done.returncode == -signal.SIGABRT
    assert has_marker(folder)


def test_sigterm_reaches_the_script_whose_goodbye_is_no_completion(folder):
    folder.script("""
import signal, sys
def bye(*_):
    print("bye")
    sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("up")
while True: signal.pause()
""")
    process = subprocess.Popen([sys.executable, SHIM, "main.py"], cwd=folder.path, env=folder.environment(RANK="1"))
    wait_for_log(folder, "up")
    process.terminate()
    assert process.wait(10) == 0
    assert folder.log(1) == "up\nbye\n"
    assert not has_marker(folder)
    assert failure(folder) is None


def test_leaving_because_the_portal_asked_is_no_completion(folder):
    folder.tell(stop="preempted")
    assert shim(folder, "import trainyard\nassert trainyard.should_stop() == 'preempted'").returncode == 0
    assert not has_marker(folder)


def test_the_script_dies_with_the_shim(folder):
    folder.script("import os, time\nprint(os.getpid())\ntime.sleep(60)")
    process = subprocess.Popen([sys.executable, SHIM, "main.py"], cwd=folder.path, env=folder.environment(RANK="1"))
    wait_for_log(folder, "\n")
    script = int(folder.log(1))
    process.kill()
    process.wait(10)
    wait_until(lambda: not is_alive(script))


def test_modules_and_other_programs_run_too(folder):
    done = folder.run(SHIM, "-m", "platform", RANK="0")
    assert done.returncode == 0
    program = folder.script('#!/bin/sh\necho "$1 in $(basename $PWD)"\nexit 4\n', "train.sh")
    program.chmod(0o755)
    assert folder.run(SHIM, "--exec", "./train.sh", "it runs", RANK="1").returncode == 4
    assert folder.log(1) == "it runs in code\n"
    assert folder.run(SHIM, "--exec", "./missing", RANK="1").returncode == 127
    assert "cannot start ./missing" in folder.log(1)


def wait_for_log(folder, text: str) -> None:
    wait_until(lambda: (folder.path / "output.1.log").exists() and text in folder.log(1))


def wait_until(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"  # a zombie only waits for an init that reaps
