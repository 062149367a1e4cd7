"""Request ids, and logs that hold no secret."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from typing import Any

import pytest

from portal.logs import RequestLog, choose_id, logging_config, masked


@pytest.fixture
def lines(settings):
    """What the root logger wrote, as JSON objects."""
    stream = io.StringIO()
    logging.config.dictConfig(logging_config(style="json", level="INFO"))
    logging.getLogger().handlers[0].setStream(stream)  # type: ignore[attr-defined]
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logging.config.dictConfig(settings.LOGGING)


@pytest.mark.parametrize(
    "secret",
    [
        "redis://:hunter2hunter2@127.0.0.1:6379/0 refused",
        "postgres://app:hunter2hunter2@db/app",
        "GET /objects/hunter2hunter2.abc answered",
        "Authorization: Token hunter2hunter2",
        "Authorization: Node hunter2hunter2",
        'body {"password": "hunter2hunter2"}',
        "url?token=hunter2hunter2&x=1",
    ],
)
def test_secrets_in_texts_are_masked(lines, secret):
    assert "hunter2hunter2" not in masked(secret)
    logging.getLogger("x").warning("failed: %s", secret, extra={"api_token": "hunter2hunter2"})
    assert "hunter2hunter2" not in json.dumps(lines())


def test_a_traceback_is_kept_and_masked(lines):
    try:
        raise ConnectionError("redis://:hunter2hunter2@h:1/0")
    except ConnectionError:
        logging.getLogger("x").exception("no broker")
    (line,) = lines()
    assert "ConnectionError" in line["exception"]
    assert "hunter2" not in line["exception"]
    assert line["level"] == "error"
    assert line["logger"] == "x"


def test_words_about_secrets_are_left_alone():
    assert masked("the token was refused; password too short") == "the token was refused; password too short"


@pytest.mark.parametrize("given", ["", "short", "a" * 65, "new\nline12", "<script>1", None])
def test_an_odd_request_id_is_replaced(given):
    assert choose_id(given) != given


def test_a_sane_request_id_comes_back(client, db):
    answer = client.get("/healthz", headers={"X-Request-ID": "from-proxy-0001"})
    assert answer.headers["X-Request-ID"] == "from-proxy-0001"
    assert client.get("/healthz").headers["X-Request-ID"]


async def test_raw_parts_get_an_id_and_a_line_too(lines):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/objects/hunter2hunter2", "headers": []}
    await RequestLog(app)(scope, None, send)  # type: ignore[arg-type]
    (line,) = lines()
    assert dict(sent[0]["headers"])[b"x-request-id"].decode() == line["request_id"]
    assert (line["status"], line["path"]) == (404, "/objects/•••")
