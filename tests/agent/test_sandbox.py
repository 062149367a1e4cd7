"""A job tries to read what it must not; it fails wherever the level that the node shows promises it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.agent import sandbox
from nodes.agent.environment import ROOT
from tests.agent.conftest import wait_for

THIEF = """
import json, os
found = {}
for path in json.loads(os.environ["WANTED"]):
    try:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            open(path, "rb").read(1)
        found[path] = "read"
    except OSError as error:
        found[path] = type(error).__name__
for path in json.loads(os.environ["WANTED_TO_CHANGE"]):
    try:
        open(path, "ab").close()
        found["change " + path] = "done"
    except OSError as error:
        found["change " + path] = type(error).__name__
try:
    os.setuid(0); found["root"] = "yes"
except OSError:
    found["root"] = "no"
found["processes"] = sum(name.isdigit() for name in os.listdir("/proc"))
found["uid"] = os.getuid()
json.dump(found, open("result.json", "w"))
open("mine", "w").write("own folder is writable")
"""


def rob(node, portal, secret_file: Path) -> tuple[dict, str]:
    """What a sandboxed script could read, and the level that the node shows."""
    other = node.launch(
        "import time; print('up', flush=True); time.sleep(60)", secrets={"KEY": "hidden"}, sandboxed=True
    )
    wait_for(lambda: "up" in portal.text(other.token))
    place = node.place(other.token)
    wanted = [node.state / "token", node.state / "node.json", place / "private" / "launch.json", place / "job",
              place / "job" / "code" / "main.py", secret_file, node.state / "launches"]  # fmt: skip
    change = [ROOT / "nodes" / "messages.py", "inputs/data", Path(os.__file__)]
    from nodes.messages import InputFile

    thief = node.launch(
        THIEF,
        sandboxed=True,
        env={"WANTED": json.dumps([str(p) for p in wanted]), "WANTED_TO_CHANGE": json.dumps([str(p) for p in change])},
        inputs=[InputFile(path="code/main.py", text=THIEF), InputFile(path="inputs/data", text="1,2")],
    )
    wait_for(lambda: thief.token in portal.closed)
    assert portal.reports[thief.token].exit.result is not None, portal.text(thief.token)
    return portal.reports[thief.token].exit.result, portal.exchanges[0].facts.sandbox


def test_job_reads_nothing_that_the_level_denies(node, portal, tmp_path):
    var = tmp_path / "var"
    var.mkdir(mode=0o700)
    secret = var / "secret-key"
    secret.write_text("x")
    found, level = rob(node, portal, secret)
    if level == "none":
        pytest.skip(f"this machine allows no sandbox: {portal.exchanges[0].facts.sandbox_note}")
    changed = {key: value for key, value in found.items() if key.startswith("change ")}
    read = {key: value for key, value in found.items() if key.startswith("/")}
    assert "read" not in {value for path, value in read.items() if not path.endswith("/launches")}, found
    assert found["root"] == "no"
    if os.geteuid() == 0:
        assert found["uid"] >= sandbox.FIRST_UID
        assert "done" not in changed.values(), found
    if level == "bubblewrap":
        assert found["processes"] < 10
        assert set(read.values()) <= {"FileNotFoundError", "read"}


def test_two_launches_have_two_users(node, portal):
    if os.geteuid() != 0:
        pytest.skip("only root gives launches users of their own")
    script = "import os, time; print(os.getuid(), flush=True); time.sleep(3)"
    first, second = (node.launch(script, sandboxed=True) for _ in range(2))
    wait_for(lambda: {first.token, second.token} <= portal.closed)
    assert portal.text(first.token) != portal.text(second.token)


def test_stop_reaches_the_program_inside(node, portal):
    script = """
import signal, sys, time
def bye(*a):
    print("bye", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, bye)
print("up", flush=True)
while True: time.sleep(0.1)
"""
    launch = node.launch(script, sandboxed=True)
    wait_for(lambda: "up" in portal.text(launch.token))
    portal.stop(node.id, launch.token, grace=20.0)
    wait_for(lambda: launch.token in portal.closed, 10)
    assert portal.text(launch.token) == "up\nbye\n"


def test_signal_inside_is_told_as_a_signal(node, portal):
    launch = node.launch("import os; os.kill(os.getpid(), 11)", sandboxed=True)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.reports[launch.token].exit.signal == 11


def test_level_is_probed_and_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    found = sandbox.probe(tmp_path)
    assert found.level in ("none", "uid")
    assert "bubblewrap is not installed" in found.note


def test_what_lies_below_a_system_folder_is_hidden_all_the_same(tmp_path, monkeypatch):
    """A clone in /opt: the folder is shown for its programs, and run by its own user the agent has no other walls."""
    if sandbox.probe(tmp_path / "probed").level != "bubblewrap":
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    opt = tmp_path / "opt"
    var, state = opt / "trainyard" / "var", opt / "state"
    job = state / "launches" / "11111111-1111-1111-1111-111111111111" / "job"
    for secret in (var / "secret_key", state / "token", job / "tmp" / "x"):
        secret.parent.mkdir(parents=True)
        secret.write_text("secret")
    (opt / "program").write_text("shown")
    monkeypatch.setattr(sandbox, "SYSTEM_FOLDERS", (*sandbox.SYSTEM_FOLDERS, str(opt)))
    monkeypatch.setenv("TRAINYARD_VAR", str(var))
    look = "import pathlib, sys; print([pathlib.Path(path).exists() for path in sys.argv[1:]])"
    paths = [opt / "program", job / "tmp" / "x", var / "secret_key", state / "token"]
    argv = sandbox.bubblewrap_argv(job, uid=None, argv=[sys.executable, "-c", look, *map(str, paths)])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, True, False, False]"
