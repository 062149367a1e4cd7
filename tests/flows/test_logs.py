"""What scripts print: soon there, whole unless it is a flood, and without secrets."""

from __future__ import annotations

import re
import time

import pytest

from tests.conftest import DATA
from tests.flows.client import Client, own
from tests.flows.rig import Rig, wait_for

pytestmark = [pytest.mark.flow, pytest.mark.timeout(180)]
SOON_SECONDS = 3.0

SHOUTED_MIB = 256
SHOUTS = """
import os, time
piece = (b"x" * 1023 + b"\\n") * 1024
for _ in range(int(os.environ["MIB"])):
    os.write(1, piece)
    time.sleep(0.03)
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
    wait_for("END", lambda: last_line(ada, job) == "END", 30)
    lines = ada.log(job).splitlines()
    assert len(lines) == 400_001
    assert lines[399_999] == "line 399999 of the flood, with some text to make it longer"
    assert ada.log_facts(job)["gap_bytes"] == 0


def test_who_shouts_is_capped_and_the_gap_is_told(ada: Client):
    """About 30 MB a second; a burst goes through, then what is too much is left out, and others are heard meanwhile."""
    job = ada.submit(own(SHOUTS, env={"MIB": str(SHOUTED_MIB)}))
    other = ada.submit(own("import time\nfor i in range(20): print(i, flush=True); time.sleep(0.1)"))
    assert ada.wait_end(other)["state"] == "succeeded"
    assert ada.wait_end(job)["state"] == "succeeded"
    wait_for("END", lambda: last_line(ada, job) == "END", 30)
    facts = ada.log_facts(job)
    placement = ada.attempts(job)[0]["placements"][0]
    assert facts["size"] == SHOUTED_MIB * 2**20 + len("END\n")
    assert facts["gap_bytes"] == placement["dropped_bytes"] > 0
    log = ada.log(job)
    told = re.findall(r"\n\[(\d+) bytes were dropped on the node\]\n", log)
    assert sum(map(int, told)) == facts["gap_bytes"]
    assert len(log) - sum(len(f"\n[{gap} bytes were dropped on the node]\n") for gap in told) == (
        facts["size"] - facts["gap_bytes"]
    )
    assert ada.log(other) == "".join(f"{number}\n" for number in range(20))


def last_line(ada: Client, job: int) -> str:
    return str(ada.get(f"/jobs/{job}/logs/0/", tail=1)["lines"][-1]["text"])


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
