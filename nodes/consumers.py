"""The socket under every live page: one way, from the portal to the viewer. A plain ASGI application.

It costs no database connection and no subscription of its own; both are the reader's. A pulse at least every two
seconds says whether what the page shows is live. Closing codes: 4401 not signed in, 4404 no such thing for this viewer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from django.utils import timezone

from nodes.live import Reader, Subscriber
from portal.accounts.viewers import Credentials, credentials_of

PULSE_SECONDS = 2.0
MAX_MESSAGE_BYTES = 64 * 1024
SIGNED_OUT, NOT_FOUND, BAD_MESSAGE = 4401, 4404, 4400

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Closed(Exception):
    """The conversation is over; `code` is what the viewer is told, 0 when the viewer left."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LiveSocket:
    """One connection. Subclasses name their reader and the first ask, and understand what the viewer asks for."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope, self._receive, self._send = scope, receive, send

    @classmethod
    def as_asgi(cls) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await cls(scope, receive, send).run()

        return application

    def reader(self) -> Reader:
        raise NotImplementedError

    def first_ask(self, credentials: Credentials) -> Any:
        raise NotImplementedError

    def next_ask(self, ask: Any, message: dict[str, Any]) -> Any:
        """The ask after a viewer's message. Raises ValueError when it makes no sense."""
        raise ValueError(message)

    async def run(self) -> None:
        await self._receive()
        await self._send({"type": "websocket.accept"})
        self.subscriber = Subscriber(self.first_ask(credentials_of(self.scope)))
        self.source = self.reader()
        self.source.join(self.subscriber)
        tasks = [asyncio.create_task(work()) for work in (self._listen, self._push)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code = next((task.exception().code for task in done if isinstance(task.exception(), Closed)), 0)  # type: ignore[union-attr]
        finally:
            self.source.leave(self.subscriber)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if code:
            with suppress(OSError, RuntimeError):
                await self._send({"type": "websocket.close", "code": code})

    async def _listen(self) -> None:
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                raise Closed(0)
            text = event.get("text") or ""
            try:
                if len(text) > MAX_MESSAGE_BYTES:
                    raise ValueError("too long")
                message = json.loads(text)
                if not isinstance(message, dict):
                    raise TypeError("not an object")
                self.subscriber.ask = self.next_ask(self.subscriber.ask, message)
            except (ValueError, TypeError, RecursionError):
                raise Closed(BAD_MESSAGE) from None
            self.source.kick()

    async def _push(self) -> None:
        box, pulsed_at = self.subscriber.box, 0.0
        loop = asyncio.get_running_loop()
        while True:
            answer = None
            with suppress(TimeoutError):  # not wait_for: until Python 3.12 it can swallow the cancellation of its task
                async with asyncio.timeout(max(0.01, pulsed_at + PULSE_SECONDS - loop.time())):
                    answer = await box.get()
            if answer:
                self.subscriber.is_sending = True
                for message in answer.messages:
                    await self._say(message)
                self.subscriber.is_sending = False
                if answer.close:
                    raise Closed(answer.close)
                if self.subscriber.was_passed_over:
                    self.source.kick()
            if loop.time() >= pulsed_at + PULSE_SECONDS - 0.02:
                pulsed_at = loop.time()
                await self._say(json.dumps(self._pulse()))

    def _pulse(self) -> dict[str, Any]:
        return {"type": "pulse", **self.subscriber.status(), "at": timezone.now().isoformat()}

    async def _say(self, message: str | bytes) -> None:
        key = "text" if isinstance(message, str) else "bytes"
        try:
            await self._send({"type": "websocket.send", key: message})
        except (OSError, RuntimeError) as error:
            raise Closed(0) from error
