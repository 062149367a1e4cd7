"""Becoming a node: a one-time code, an id made once, a token that only its owner reads."""

from __future__ import annotations

import stat
import subprocess
import sys

from nodes.agent import identity
from tests.agent.conftest import ROOT


def agent(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "nodes.agent", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def test_join_keeps_id_and_token(portal, tmp_path):
    state = tmp_path / "state"
    done = agent("join", portal.url, "good", "--state", str(state))
    assert done.returncode == 0, done.stderr
    me = identity.load(state)
    assert portal.tokens[me.token] == me.node_id
    assert stat.S_IMODE((state / "token").stat().st_mode) == 0o600
    assert agent("join", portal.url, "good", "--state", str(state)).returncode == 0
    assert identity.load(state).node_id == me.node_id
    assert identity.load(state).token != me.token


def test_used_code_wrong_address_and_no_join_are_sentences(portal, tmp_path):
    refused = agent("join", portal.url, "used", "--state", str(tmp_path / "a"))
    assert (refused.returncode, "used or has run out" in refused.stderr) == (1, True)
    wrong = agent("join", "portal.example", "good", "--state", str(tmp_path / "b"))
    assert (wrong.returncode, "no portal's address" in wrong.stderr) == (2, True)
    unreachable = agent("join", "http://127.0.0.1:1", "good", "--state", str(tmp_path / "c"))
    assert (unreachable.returncode, "Traceback" in unreachable.stderr) == (1, False)
    alone = agent("run", "--state", str(tmp_path / "d"))
    assert (alone.returncode, "manage.py join-code" in alone.stderr) == (1, True)
    odd = agent("run", "--address", "not-an-ip", "--cpu-slots", "-3")
    assert (odd.returncode, "no IP address" in odd.stderr) == (2, True)


def test_foreign_token_keeps_asking_and_says_so(make_node, portal):
    from tests.agent.conftest import wait_for

    node = make_node()
    portal.tokens.clear()
    node.start()
    wait_for(lambda: "HTTP 401: unknown token" in node.log.read_text())
    assert node.process.poll() is None
