"""A few lines over bare ASGI for what must never be buffered: pieces of uploads, stored objects.

Blocking work goes to executors of their own, so that a hundred slow transfers leave Django's threads alone.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.core.exceptions import DisallowedHost, ObjectDoesNotExist
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, close_old_connections
from django.utils.translation import gettext as _

from datasets.storage.contract import StorageError
from portal.errors import DomainError, Invalid, NotFound, Unavailable
from portal.rest import error_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Iterable[tuple[str, str]]
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Vanished(Exception):
    """The client closed the connection, or stood still for too long."""


class Blocking:
    """A bounded executor whose threads may use the database."""

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Goes on to its end even when the waiting request is cancelled."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(
            loop.run_in_executor(self._executor, partial(_with_database, function, *args, **kwargs))
        )

    def start(self, function: Callable[..., object], *args: Any) -> None:
        """In the background; its end is logged when it is an accident."""
        self._executor.submit(_with_database, function, *args).add_done_callback(_log_accident)


class Exchange:
    """One request and its reply."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.path: str = scope["path"]
        self.is_answered = False
        self.request = ASGIRequest(dict(scope), io.BytesIO())  # headers, cookies and host, as Django reads them
        self.method: str = self.request.method or ""
        self._pending: asyncio.Future[MutableMapping[str, Any]] | None = None
        self._is_read = False

    def header(self, name: str) -> str:
        return str(self.request.headers.get(name, ""))

    def check_host(self) -> None:
        try:
            self.request.get_host()
        except DisallowedHost:
            raise Invalid("unknown_host", _("The portal is not known under this host name.")) from None

    async def piece(self, wait_seconds: float) -> bytes | None:
        """The next bytes of the body, b'' when none came in time, None at its end. Raises `Vanished`."""
        if self._is_read:
            return None
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._receive())
        done, _waiting = await asyncio.wait({self._pending}, timeout=wait_seconds)
        if not done:
            return b""
        message = self._pending.result()
        self._pending = None
        if message["type"] == "http.disconnect":
            raise Vanished
        self._is_read = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body if body or not self._is_read else None

    async def begin(self, status: int, headers: Headers) -> None:
        self.is_answered = True
        encoded = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def send(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def reply(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        length = [] if status in (204, 304) or self.method == "HEAD" else [("Content-Length", str(len(body)))]
        await self.begin(status, [*headers, *length])
        await self.send(b"" if self.method == "HEAD" else body, more=False)

    async def refuse(self, error: DomainError, headers: Headers = (), status: int | None = None) -> None:
        body = json.dumps(error_body(error)).encode()
        await self.reply(status or error.http_status, [*headers, ("Content-Type", "application/json")], body)

    def close(self) -> None:
        if self._pending is not None:
            self._pending.cancel()


async def answer(exchange: Exchange, handle: Callable[[Exchange], Awaitable[None]], headers: Headers = ()) -> None:
    """Run `handle` and turn whatever it raises into one reply; nothing escapes to the server."""
    try:
        exchange.check_host()
        await handle(exchange)
    except Vanished:
        return
    except DomainError as error:
        await _refuse_late(exchange, error, headers)
    except ObjectDoesNotExist:  # a row went while its bytes were on their way
        await _refuse_late(exchange, NotFound("not_found", _("This was deleted in the meantime.")), headers)
    except (DatabaseError, StorageError, OSError):
        logger.exception("%s %s failed", exchange.method, exchange.path.split("/", 2)[1])
        text = _("The portal cannot reach its database or disk at the moment. Try again in a minute.")
        await _refuse_late(exchange, Unavailable("unavailable", text), headers)
    finally:
        exchange.close()


async def _refuse_late(exchange: Exchange, error: DomainError, headers: Headers) -> None:
    if not exchange.is_answered:
        await exchange.refuse(error, headers)


def _with_database(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    close_old_connections()
    try:
        return function(*args, **kwargs)
    finally:
        close_old_connections()


def _log_accident(future: Any) -> None:
    error = future.exception()
    if error is not None and not isinstance(error, DomainError):
        logger.error("Background work failed", exc_info=error)
