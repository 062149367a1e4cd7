"""The one ASGI application: probes, headers, and what it may not import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from portal.asgi import MAX_BODY_BYTES, application

ROOT = Path(__file__).parents[2]


@pytest.fixture
def web():
    transport = httpx.ASGITransport(app=application)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_the_process_answers_without_database_and_broker(web):
    answer = await web.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok")


@pytest.mark.django_db(transaction=True)
async def test_ready_needs_database_and_broker(web, broker):
    answer = await web.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"database": True, "broker": True})
    broker.kill()
    answer = await web.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"database": True, "broker": False})


async def test_answers_carry_the_strict_headers(web):
    answer = await web.get("/healthz")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.django_db(transaction=True)
async def test_only_the_admin_has_the_loose_policy(web):
    answer = await web.get("/admin/login/")
    assert answer.status_code == 200
    assert "'unsafe-inline'" in answer.headers["content-security-policy"]


async def test_a_foreign_host_is_refused(web):
    answer = await web.get("/healthz", headers={"Host": "evil.example"})
    assert answer.status_code == 400


async def test_an_endless_body_is_cut_before_anybody_asks_who_sends_it(web):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1 << 20
            yield b"x" * (1 << 20)

    answer = await web.post("/sign-in/", content=endless())
    assert (answer.status_code, "tus" in answer.text) == (413, True)
    assert sent <= MAX_BODY_BYTES + (2 << 20)


async def test_the_lifespan_is_answered():
    incoming = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent = []

    async def receive():
        return next(incoming)

    async def send(message):
        sent.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("origin", "answer"),
    [
        (b"http://localhost", [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 4404}]),
        (b"http://evil.example", [{"type": "websocket.close"}]),
    ],
)
async def test_sockets_are_for_our_own_pages_and_unknown_ones_say_so(origin, answer):
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append({name: value for name, value in message.items() if name in ("type", "code")})

    headers = [(b"origin", origin), (b"host", b"localhost")]
    scope = {"type": "websocket", "path": "/ws/nonsense/", "headers": headers, "subprotocols": [], "query_string": b""}
    await application(scope, receive, send)

    assert sent == answer


@pytest.mark.parametrize("module", ["portal.asgi", "portal.celery"])
def test_web_and_worker_never_import_torch(tmp_path, module):
    code = (
        f"import sys; sys.modules['torch'] = None; import django; django.setup(); import {module};"
        "import django.urls as urls; urls.get_resolver().url_patterns"
    )
    environment = {**os.environ, "TRAINYARD_VAR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=60)
