"""Logs and points arrive whole, once, masked and in bounds."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import cast
from uuid import uuid4

from nodes.agent.client import Portal
from nodes.agent.registry import Registry
from nodes.agent.spool import Spool
from nodes.agent.streams import Shipper
from nodes.messages import StreamAnswer
from tests.agent.conftest import wait_for


def test_binary_output_arrives_byte_for_byte(node, portal):
    script = "import os, sys\nfor n in range(50): sys.stdout.buffer.write(bytes(range(256)) * 40)\n"
    launch = node.launch(script)
    wait_for(lambda: launch.token in portal.closed)
    assert bytes(portal.data[launch.token, -1, "log"]) == bytes(range(256)) * 2000


def test_every_rank_has_its_own_log_and_points(node, portal):
    script = """
import json, os
for rank in (0, 1):
    with open(f"output.{rank}.log", "w") as log, open(f"metrics.{rank}.jsonl", "w") as points:
        log.write(f"rank {rank}\\n")
        for step, value in enumerate([1.0, float("nan"), float("inf"), float("-inf"), 2.0]):
            points.write(json.dumps({"step": step, "name": "loss", "value": value, "time": 1.5}) + "\\n")
        points.write('{"step": 9, "name": "loss", "val')
"""
    launch = node.launch(script, ranks=[0, 1])
    wait_for(lambda: launch.token in portal.closed)
    for rank in (0, 1):
        assert portal.text(launch.token, rank) == f"rank {rank}\n"
        steps, names, values = zip(*portal.points[launch.token, rank], strict=True)
        assert (steps, set(names)) == ((0, 1, 2, 3, 4), {"loss"})
        assert math.isnan(values[1])
        assert values[2:4] == (math.inf, -math.inf)
        assert portal.bad_lines[launch.token, rank] == 1


def test_points_arrive_once_while_the_portal_comes_and_goes(node, portal):
    script = """
import time
with open("metrics.0.jsonl", "w") as file:
    for step in range(3000):
        file.write('{"step": %d, "name": "loss", "value": %r, "time": 1.0}\\n' % (step, step / 7))
        if step % 100 == 0:
            file.flush(); time.sleep(0.05)
"""
    launch = node.launch(script)
    wait_for(lambda: portal.points.get((launch.token, 0)))
    portal.streams_down = True
    wait_for(lambda: portal.phase(launch.token) == "ended")
    portal.streams_down = False
    wait_for(lambda: launch.token in portal.closed, 30)
    assert portal.points[launch.token, 0] == [(float(n), "loss", n / 7) for n in range(3000)]


def test_answered_offset_rules_even_backwards(make_node, portal):
    node = make_node().start()
    launch = node.launch("import time\nfor n in range(40): print(n, flush=True); time.sleep(0.1)")
    wait_for(lambda: "5\n" in portal.text(launch.token))
    key = (launch.token, -1, "log")
    with portal.lock:  # a database restored from a backup
        del portal.data[key][4:]
        portal.acked[key] = 4
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token) == "".join(f"{n}\n" for n in range(40))


def test_secret_split_across_writes_never_leaves_the_node(node, portal):
    script = """
import os, sys, time
secret = os.environ["API_KEY"]
for cut in range(1, len(secret), 4):
    sys.stdout.write("key=" + secret[:cut]); sys.stdout.flush(); time.sleep(0.25)
    sys.stdout.write(secret[cut:] + "\\n"); sys.stdout.flush()
with open("metrics.0.jsonl", "w") as file:
    file.write('{"step": 1, "name": "%s", "value": 1, "time": 1.0}\\n' % secret)
print("ends with", secret[:5], end="")
"""
    secret = "sk-0123456789abcdef"
    launch = node.launch(script, secrets={"API_KEY": secret})
    wait_for(lambda: launch.token in portal.closed)
    text = portal.text(launch.token)
    assert text == f"key={'*' * len(secret)}\n" * 5 + "ends with sk-01"
    assert secret not in json.dumps(portal.points[launch.token, 0])
    assert portal.reports[launch.token].exit.streams["-1/log"] == len(text)


def test_flood_is_capped_and_its_tail_arrives(node, portal):
    """About 110 MB as fast as it can: the burst goes through, the rest is skipped with its size told."""
    script = "line = 'x' * 99\nfor n in range(1_100_000): print(line)\nprint('END')"
    launch = node.launch(script, argv=["${PYTHON}", "${FOLDER}/code/main.py"], env={"PYTHONUNBUFFERED": ""})
    wait_for(lambda: launch.token in portal.closed, 60)
    key = (launch.token, -1, "log")
    assert portal.text(launch.token).endswith("x\nEND\n")
    assert portal.gaps[key] > 0
    assert len(portal.data[key]) + portal.gaps[key] == 110_000_004 == portal.acked[key]
    assert portal.reports[launch.token].dropped_bytes == portal.gaps[key]
    assert max(e.agent_memory_bytes for e in portal.exchanges) < 200 * 2**20


def test_control_does_not_wait_behind_data(node, portal):
    launch = node.launch("import sys\nwhile True: sys.stdout.write('y' * 10_000)")
    wait_for(lambda: len(portal.text(launch.token)) > 10**6)
    portal.stop(node.id, launch.token, grace=1.0)
    wait_for(lambda: portal.phase(launch.token) == "ended", 8)


def test_output_that_is_a_link_is_not_read(node, portal):
    launch = node.launch("import os; os.symlink('../../../token', 'output.0.log'); print('tried')")
    wait_for(lambda: launch.token in portal.closed)
    assert node.token not in portal.text(launch.token, 0)
    assert node.token not in str(portal.data)


def test_secret_that_looks_like_a_placeholder_is_given_and_masked_as_it_is(node, portal):
    secret = "k-${ROOT}-${FOLDER}"
    launch = node.launch("import os; k = os.environ['API_KEY']; print(len(k), k)", secrets={"API_KEY": secret})
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token) == f"{len(secret)} {'*' * len(secret)}\n"


def test_bad_lines_that_send_nothing_are_read_without_a_pause(tmp_path):
    """What a sparse metrics file is made of: many bytes read, no points to send."""
    (tmp_path / "metrics.0.jsonl").write_bytes((b"x" * 999 + b"\n") * 2000)
    spool = Spool(tmp_path, "metrics.0.jsonl", token=uuid4(), rank=0, kind="metrics", secrets=[])
    placement = SimpleNamespace(
        token=spool.token,
        spools={spool.key: spool},
        is_quarantined=False,
        has_ended=lambda: True,
        note_shipped=lambda: None,
    )
    registry = cast(Registry, SimpleNamespace(all=lambda: [placement]))
    portal = cast(Portal, SimpleNamespace(streams=lambda _body: StreamAnswer(acks=[])))
    shipper = Shipper(registry, portal)
    assert shipper._round() == 0.0
