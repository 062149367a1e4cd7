"""Live sockets of a real web process: who gets what, how fast, and what is left when viewers vanish."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest
import websockets
from websockets.asyncio.client import ClientConnection

from jobs.series.page import from_bytes
from jobs.series.points import Points
from tests.bench.fake_node import FakeNode, make_node
from tests.streams.server import Server, environment, migrate, web

SOCKETS = 200
POOL = 8  # threads that may use the database at once


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """A PostgreSQL database of its own where the tests run on PostgreSQL; '' for SQLite."""
    given = os.environ.get("DATABASE_URL", "")
    if not given.startswith("postgres"):
        yield ""
        return
    name = f"trainyard_live_{os.getpid()}"
    with psycopg.connect(given, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield urlsplit(given)._replace(path=f"/{name}").geturl()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def server(tmp_path_factory, database_url):
    """Without a broker: pages live on the readers' own clock alone."""
    folder = tmp_path_factory.mktemp("web")
    env = environment(folder, database_url)
    migrate(env)
    with web(folder, env) as running:
        yield running


@pytest.fixture
def node(server, request) -> FakeNode:
    return make_node(server, request.node.name[:40])


def connect(server: Server, path: str, token: str = "", **headers: str):
    if token:
        headers["Authorization"] = f"Token {token}"
    return websockets.connect(server.ws_url + path, additional_headers=headers, max_size=None, open_timeout=30)


async def until(connection: ClientConnection, wanted: Callable[[object], bool], seconds: float = 30.0) -> object:
    async with asyncio.timeout(seconds):
        async for message in connection:
            data = json.loads(message) if isinstance(message, str) else from_bytes(message)
            if wanted(data):
                return data
    raise AssertionError("closed")


def ship(node: FakeNode, count: int) -> None:
    first = node.offset // 80
    steps = np.arange(first, first + count, dtype=float)
    node.post(node.connect(), node.body(["loss"], np.zeros(count), Points(steps, steps, steps)))


def is_series(data: object) -> bool:
    return isinstance(data, tuple) and bool(data[0]["pieces"])


async def test_a_page_hears_of_points_without_a_broker(server, node):
    async with connect(server, f"/ws/jobs/{node.job}/", node.person) as page:
        state = await until(page, lambda data: isinstance(data, dict) and data["type"] == "job")
        assert state["job"]["state"] == "running"
        await page.send(json.dumps({"type": "series", "view": "v"}))
        await asyncio.to_thread(ship, node, 5)
        head, columns = await until(page, is_series)
        assert (head["view"], columns[0]["value"].tolist()) == ("v", [0, 1, 2, 3, 4])
        await asyncio.to_thread(ship, node, 2)
        head, columns = await until(page, is_series)
        assert (head["pieces"][0]["first"], columns[0]["value"].tolist()) == (5, [5, 6])
        pulse = await until(page, lambda data: isinstance(data, dict) and data["type"] == "pulse", 10)
        assert pulse["status"] in ("live", "catching up")


async def close_code(server: Server, path: str, token: str = "", **headers: str) -> int:
    async with connect(server, path, token, **headers) as page:
        return await closing(page)


async def closing(page: ClientConnection) -> int:
    """Read on until the server closes; its code."""
    async with asyncio.timeout(60):
        await page.wait_closed()
    return page.close_code


async def test_strangers_and_the_signed_out_are_sent_away(server, node):
    other = await asyncio.to_thread(make_node, server, "stranger")
    assert await close_code(server, f"/ws/jobs/{node.job}/", other.person) == 4404
    assert await close_code(server, "/ws/jobs/999999/", node.person) == 4404
    assert await close_code(server, f"/ws/jobs/{node.job}/", "0" * 64) == 4401
    assert await close_code(server, "/ws/nodes/", "0" * 64) == 4401
    assert await close_code(server, f"/ws/jobs/{node.job}/", Origin=server.url) == 4401
    with pytest.raises(websockets.InvalidStatus):
        await close_code(server, f"/ws/jobs/{node.job}/", Origin="http://elsewhere.example")


async def test_a_page_is_closed_when_its_viewer_may_look_no_longer(server, node):
    async with connect(server, f"/ws/jobs/{node.job}/", node.person) as page:
        await until(page, lambda data: isinstance(data, dict) and data["type"] == "job")
        await asyncio.to_thread(
            server.django,
            "from portal.accounts.models import User\n"
            f"from jobs.models import Job; User.objects.filter(jobs={node.job}).update(is_active=False)",
        )
        assert await closing(page) == 4401


async def test_nonsense_closes_the_socket(server, node):
    for text in ("{", "[]", '{"type": "x"}', "[" * 3_000):
        async with connect(server, "/ws/jobs/", node.person) as page:
            await page.send(text)
            assert await closing(page) == 4400


async def test_the_cluster_page_lists_nodes(server, node):
    async with connect(server, "/ws/nodes/", node.person) as page:
        told = await until(page, lambda data: isinstance(data, dict) and data["type"] == "nodes")
        assert node.placement
        assert any(row["name"].startswith("test_the_cluster") for row in told["changed"])


def test_viewers_that_vanish_leave_nothing_behind(server, node, database_url):
    """They are cut off without a close frame; meanwhile the process answers, with few database connections."""
    before = open_files(server)
    ends = [handshake(server, node) for _ in range(SOCKETS)]
    ship(node, 1000)
    began = time.monotonic()
    urllib.request.urlopen(f"{server.url}/healthz", timeout=10).read()
    assert time.monotonic() - began < 5
    assert database_connections(server, database_url) <= POOL
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
    deadline = time.monotonic() + 30
    while open_files(server) > before + 15:
        assert time.monotonic() < deadline, (before, open_files(server))
        time.sleep(0.2)


def handshake(server: Server, node: FakeNode) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    lines = [
        f"GET /ws/jobs/{node.job}/ HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: Token {node.person}",
    ]
    end.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    assert b"101" in end.recv(100)
    return end


def open_files(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))  # noqa: PTH208 - only the count


def database_connections(server: Server, database_url: str) -> int:
    if database_url:
        with psycopg.connect(database_url) as own:
            count = own.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
            return count[0] - 1
    count = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            count += str(link.readlink()).endswith("db.sqlite3")
    return count
