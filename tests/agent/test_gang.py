"""Two nodes: ready, then go; each pair connects once; the ports are the launcher's afterwards."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from nodes.agent import gang
from tests.agent.conftest import wait_for

MEET = """
import os, socket
address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["NODE_RANK"] == "0":
    server = socket.create_server((address, port))
    peer, where = server.accept()
    print("met", where[0], flush=True)
else:
    import time
    for _ in range(100):
        try:
            socket.create_connection((address, port), 5, (os.environ["TRAINYARD_ADDRESS"], 0)); break
        except OSError: time.sleep(0.05)
    print("reached", address, flush=True)
"""


def order_pair(portal, nodes, script, **changes):
    env = {"MASTER_ADDR": "${MASTER_ADDR}", "MASTER_PORT": "${MASTER_PORT}"}
    launches = []
    for rank, node in enumerate(nodes):
        place = {"node_rank": rank, "node_count": 2, "ranks": [rank], "env": {**env, "NODE_RANK": str(rank)}}
        launches.append(node.launch(script, order=False, **place, **changes))
    portal.order(*((node.id, launch) for node, launch in zip(nodes, launches, strict=True)))
    return launches


def test_pair_meets_on_the_reserved_port(make_node, portal):
    nodes = [make_node("127.0.0.2").start(), make_node("127.0.0.3").start()]
    first, second = order_pair(portal, nodes, MEET)
    wait_for(lambda: {first.token, second.token} <= portal.closed)
    assert portal.text(first.token) == "met 127.0.0.3\n"
    assert portal.text(second.token) == "reached 127.0.0.2\n"
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for report in (r for e in portal.exchanges for r in e.placements if r.facts):
        assert all(not low <= port <= high for port in report.facts.ports)


def test_late_node_is_waited_for(make_node, portal):
    early, late = make_node("127.0.0.2").start(), make_node("127.0.0.3")
    first, second = order_pair(portal, [early, late], MEET)
    wait_for(lambda: portal.phase(first.token) == "ready")
    late.start()
    wait_for(lambda: {first.token, second.token} <= portal.closed)
    assert portal.phases[first.token][-1] == "ended"
    assert portal.text(second.token) == "reached 127.0.0.2\n"


def test_peer_that_cannot_be_reached_is_named(monkeypatch):
    (listener,) = gang.reserve_ports("127.0.0.2", 1)
    with listener, socket.create_server(("127.0.0.9", 0)) as gone:
        port = gone.getsockname()[1]
    check = gang.PairCheck(listener, "trainyard 1.1", 0)
    check.peers = [{"address": "127.0.0.2", "ports": [1]}, {"address": "127.0.0.9", "ports": [port]}]
    check.step()
    assert not check.is_done()
    assert f"could not connect to node 1 (127.0.0.9:{port})" in check.complaint()


def test_greetings_of_strangers_do_not_count():
    (listener,) = gang.reserve_ports("127.0.0.2", 1)
    check = gang.PairCheck(listener, "trainyard 1.1", 0)
    port = listener.getsockname()[1]
    for words in (b"GET / HTTP/1.0\r\n\r\n", b"trainyard 1.2 1\n", b"", b"trainyard 1.1 x\n", b"trainyard 1.1 1\n"):
        with socket.create_connection(("127.0.0.2", port)) as peer:
            peer.sendall(words)
    check.answer()
    assert check.greeted_us == {1}
    listener.close()


def test_port_is_free_for_the_launcher_right_after():
    (listener,) = gang.reserve_ports("127.0.0.2", 1)
    port = listener.getsockname()[1]
    check = gang.PairCheck(listener, "g", 0)
    with socket.create_connection(("127.0.0.2", port)) as peer:
        peer.sendall(b"g 1\n")
    check.answer()
    listener.close()
    with socket.socket() as plain:
        plain.bind(("127.0.0.2", port))


@pytest.mark.slow
def test_torchrun_on_two_nodes_reduces_over_gloo(make_node, portal):
    pytest.importorskip("torch")
    script = """
import os, torch, torch.distributed as dist, datetime
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("sum", value.item(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
    nodes = [make_node("127.0.0.2").start(), make_node("127.0.0.3").start()]
    rendezvous = str(uuid4())
    launches = []
    for rank, node in enumerate(nodes):
        argv = ["${PYTHON}", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=0",
                f"--rdzv-id={rendezvous}", "--rdzv-backend=c10d", "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}",
                f"--rdzv-conf=is_host={'true' if rank == 0 else 'false'},join_timeout=40", "--local-addr=${ADDRESS}",
                "${ROOT}/jobs/training/lib/rank_exec.py", "${FOLDER}/code/main.py"]  # fmt: skip
        launches.append(
            node.launch(script, order=False, node_rank=rank, node_count=2, ranks=[rank], argv=argv, sandboxed=True)
        )
    portal.order(*((node.id, launch) for node, launch in zip(nodes, launches, strict=True)))
    wait_for(lambda: {launch.token for launch in launches} <= portal.closed, 90)
    for rank, launch in enumerate(launches):
        assert "sum 3.0 of 2" in portal.text(launch.token, rank), portal.text(launch.token)
        assert portal.reports[launch.token].exit.is_complete


def test_greeting_that_drips_in_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(gang, "GREETING_SECONDS", 0.3)
    ours, theirs = socket.socketpair()
    is_over = threading.Event()

    def drip():
        while not is_over.wait(0.1):
            theirs.send(b"x")

    dripping = threading.Thread(target=drip)
    with ours, theirs:
        dripping.start()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            gang._read_line(ours)
        assert time.monotonic() - began < 2.0
        is_over.set()
        dripping.join()
