"""`bin/demo` from a file to a curve, judged by itself; and stopped in the middle of a training."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections
from django.utils import timezone

from portal.accounts.models import ApiToken
from portal.demo import make_people
from portal.demo_client import once_each
from tests.portal.test_after_commit import wait_until
from tests.portal.test_up import Running

ROOT = Path(__file__).parents[2]


def point(step: int, rank: int = 0) -> dict[str, str]:
    return {"step": str(step), "rank": str(rank), "value": "1"}


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([point(1), point(2)], None),
        ([point(2), point(1)], None),
        ([point(1)], "rank 0: 1 points missing, the first at step 2"),
        ([point(1), point(2), point(2)], "rank 0: 1 points doubled, the first at step 2"),
        ([point(1), point(2), point(3)], "rank 0: 1 points out of range, the first at step 3"),
    ],
)
def test_every_step_must_have_come_once(points, problem):
    assert once_each(points, 2, 1) == ([problem] if problem else [])


def environment(**more: str) -> dict[str, str]:
    hidden = ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "TRAINYARD_VAR")
    return {**{name: value for name, value in os.environ.items() if name not in hidden}, **more}


@pytest.mark.django_db
def test_the_token_is_the_researchers_ends_in_a_day_and_replaces_the_last(monkeypatch):
    monkeypatch.setattr(connections, "close_all", lambda: None)  # the test's transaction lives on
    _passwords, first = make_people()
    passwords, second = make_people()
    assert first != second
    assert set(passwords) == {"admin", "researcher"}
    token = ApiToken.objects.get()
    assert (token.user.username, token.token_key) == ("researcher", second[: len(token.token_key)])
    assert timedelta(hours=23) < token.expiry - timezone.now() <= timedelta(hours=24)


@pytest.mark.slow
@pytest.mark.flow
@pytest.mark.timeout(420)
def test_check_walks_the_whole_path_and_prints_its_timings(tmp_path):
    facts = tmp_path / "demo.json"
    command = [sys.executable, "-m", "portal.demo", "--check", "--facts", str(facts)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("set-up", "start", "submit → first step", "submit → first point in a WebSocket client", "total"):
        assert re.search(rf"{re.escape(name)} +[0-9.]+ s", done.stdout), name
    assert facts.stat().st_mode & 0o777 == 0o600
    told = json.loads(facts.read_text())
    assert set(told) == {"url", "users", "token", "dataset", "job"}
    assert told["token"] not in done.stdout


@pytest.mark.slow
@pytest.mark.flow
@pytest.mark.timeout(420)
def test_ctrl_c_in_the_middle_of_a_training_leaves_no_process(tmp_path):
    var = tmp_path / "var"
    var.mkdir()
    log = tmp_path / "demo.out"
    command = [sys.executable, "-m", "portal.demo", "--facts", str(tmp_path / "demo.json")]
    with log.open("wb") as output:
        demo = subprocess.Popen(
            command, cwd=ROOT, env=environment(TRAINYARD_VAR=str(var)), stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    copy = Running.__new__(Running)
    copy.var = var
    try:
        wait_until(lambda: "is running" in log.read_text() or demo.poll() is not None, 300)
        assert demo.poll() is None, log.read_text()
        assert any("torch" in " ".join(one.cmdline()) for one in copy.processes())
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 0
        wait_until(lambda: copy.processes() == [], 5)
    finally:
        demo.kill()
        demo.wait()
