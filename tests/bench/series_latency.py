"""Point written by a node → received by each of many sockets: real web process and broker, 1,000 points a second."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import websockets

from jobs.series.page import from_bytes
from jobs.series.points import Points
from portal.broker import LocalBroker
from tests.bench.fake_node import FakeNode, make_node
from tests.streams.server import Server, environment, migrate, web

SUBSCRIBERS = 50
PER_SECOND = 1_000
SHIP_SECONDS = 0.1  # what an agent gathers before it sends
SECONDS = 15


@dataclass(frozen=True)
class Latency:
    """Over every point at every socket."""

    median_ms: float
    p99_ms: float
    points: int
    is_complete: bool


def measure_latency(folder: Path) -> Latency:
    broker = LocalBroker(folder / "broker")
    process = broker.start()
    try:
        env = environment(folder, redis_url=broker.url)
        migrate(env)
        with web(folder, env) as server:
            return asyncio.run(_measure(server, make_node(server, "latency")))
    finally:
        process.terminate()
        process.wait(10)


async def _measure(server: Server, node: FakeNode) -> Latency:
    ready = [asyncio.Event() for _ in range(SUBSCRIBERS)]
    total = PER_SECOND * SECONDS
    clients = [asyncio.create_task(_client(server, node, event, total)) for event in ready]
    await asyncio.gather(*(event.wait() for event in ready))
    sender = threading.Thread(target=_send, args=(node, total))
    sender.start()
    done, late = await asyncio.wait(clients, timeout=SECONDS + 20)
    for client in late:
        client.cancel()
    await asyncio.to_thread(sender.join)
    delays = np.concatenate([client.result() for client in done]) if done else np.array([np.inf])
    return Latency(
        float(np.median(delays)) * 1000,
        float(np.percentile(delays, 99)) * 1000,
        total,
        is_complete=len(done) == SUBSCRIBERS and all(len(client.result()) == total for client in done),
    )


def _send(node: FakeNode, total: int) -> None:
    """Points are written evenly; each batch holds those whose time has come."""
    connection = node.connect()
    began, sent = time.time(), 0
    while sent < total:
        time.sleep(max(0.0, SHIP_SECONDS - (time.time() - began) % SHIP_SECONDS))
        upto = min(total, int((time.time() - began) * PER_SECOND))
        steps = np.arange(sent, upto, dtype=float)
        if len(steps):
            points = Points(steps, began + steps / PER_SECOND, np.sin(steps))
            node.post(connection, node.body(["loss"], np.zeros(len(steps)), points))
        sent = upto


async def _client(server: Server, node: FakeNode, ready: asyncio.Event, total: int) -> np.ndarray:
    """The delay of each point: a point is there when a message reaches to its step."""
    headers = {"Authorization": f"Token {node.person}"}
    delays: list[np.ndarray] = []
    seen = 0
    async with websockets.connect(
        f"{server.ws_url}/ws/jobs/{node.job}/", additional_headers=headers, compression=None, max_size=None
    ) as socket:
        await socket.send(json.dumps({"type": "series", "names": ["loss"]}))
        async for message in socket:
            ready.set()
            if isinstance(message, str):
                continue
            head, columns = from_bytes(message)
            if not head["pieces"]:
                continue
            now = time.time()
            upto = head["pieces"][0]["total"]
            newest = columns[0]["time" if head["pieces"][0]["level"] == 0 else "time_last"][-1]
            written = newest - (upto - 1 - np.arange(seen, upto)) / PER_SECOND
            delays.append(now - written)
            seen = upto
            if seen >= total:
                break
    return np.concatenate(delays)
