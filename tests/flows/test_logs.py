"""What scripts print: soon there, whole unless it is a flood, and without secrets."""

from __future__ import annotations

import time

import pytest

from tests.conftest import DATA
from tests.flows.client import Client, own
from tests.flows.rig import Rig, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]
SOON_SECONDS = 3.0

SHOUTS = """
import os, time
line = b"x" * 1023 + b"\\n"
end = time.monotonic() + float(os.environ["SECONDS"])
sent = 0
while time.monotonic() < end:
    os.write(1, line * 1024)
    sent += 1
    time.sleep(max(0, sent * 0.1 - (time.monotonic() - end + float(os.environ["SECONDS"]))))
os.write(1, b"END\\n")
"""
TELLS = """
import os, sys
secret = os.environ["API_KEY"]
print("key:", secret)
sys.stderr.write("split " + secret[:4]); sys.stderr.flush()
sys.stderr.write(secret[4:] + " here\\n")
print("other", os.environ["OTHER"])
"""


def test_each_line_shows_within_three_seconds_though_nobody_flushes(ada: Client):
    """Measured from when a line could first have been printed: one a second after the first was seen."""
    job = ada.submit(own((DATA / "jobs" / "prints_without_flush.py").read_text()))
    ada.wait_log(job, "tick 0\n")
    began = time.monotonic()
    for number in range(1, 6):
        ada.wait_log(job, f"tick {number}\n", seconds=20)
        behind = time.monotonic() - began - number
        assert behind < SOON_SECONDS, f"tick {number} came {behind:.1f} s late"
    ada.post(f"/jobs/{job}/cancel/")


def test_a_flood_of_lines_is_stored_whole(ada: Client):
    job = ada.submit(own((DATA / "jobs" / "log_flood.py").read_text()))
    assert ada.wait_end(job)["state"] == "succeeded"
    wait_for("END", lambda: ada.get(f"/jobs/{job}/logs/0/", tail=1)["lines"][-1]["text"] == "END", 30)
    lines = ada.log(job).splitlines()
    assert len(lines) == 400_001
    assert lines[399_999] == "line 399999 of the flood, with some text to make it longer"
    assert ada.log_facts(job)["gap_bytes"] == 0


def test_ten_megabytes_a_second_are_capped_and_the_gap_is_told(ada: Client):
    job = ada.submit(own(SHOUTS, env={"SECONDS": "12"}))
    other = ada.submit(own("import time\nfor i in range(20): print(i, flush=True); time.sleep(0.1)"))
    assert ada.wait_end(other)["state"] == "succeeded"
    assert ada.wait_end(job)["state"] == "succeeded"
    wait_for("END", lambda: ada.get(f"/jobs/{job}/logs/0/", tail=1)["lines"][-1]["text"] == "END", 30)
    facts = ada.log_facts(job)
    placement = ada.attempts(job)[0]["placements"][0]
    assert facts["gap_bytes"] == placement["dropped_bytes"] > 0
    assert facts["size"] > 100 * 2**20
    assert facts["size"] - facts["gap_bytes"] < 100 * 2**20
    told = f"[{facts['gap_bytes']}"
    assert told[1:] in ada.log(job).replace(",", "") or "were left out" in ada.log(job)
    assert ada.log(other) == "".join(f"{number}\n" for number in range(20))


def test_secrets_never_show(rig: Rig, ada: Client):
    secret = "sk-5f1d0c9b7a3e"
    job = ada.submit(own(TELLS, env={"OTHER": "plain"}), secrets={"API_KEY": secret})
    assert secret not in str(ada.job(job))
    assert ada.wait_end(job)["state"] == "succeeded"
    log = ada.log(job)
    assert secret not in log
    assert secret[4:] not in log
    assert "key: " + "*" * len(secret) in log
    assert "other plain" in log
    assert secret not in str(ada.get(f"/jobs/{job}/rerun/"))
    assert secret.encode() not in (rig.var / "db.sqlite3").read_bytes()
