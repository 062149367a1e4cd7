"""Live pages: one reader per subject and web process, woken by hints or by its own clock, pushing to all its sockets.

A hint only says 'look'; what is sent is always read from the database, from each socket's own cursor. So a lost hint
costs at most POLL_SECONDS, and a lost message nothing. A socket that is still sending is passed over, and looked at as
soon as it is done: nothing piles up behind a slow viewer, and the last state always arrives.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer
from django.db import close_old_connections

POLL_SECONDS = 1.0
PACE_SECONDS = 0.1  # at most ten pushes a second
STALE_SECONDS = 3.0
LAYER_SECONDS = 2.0  # for one call to the channel layer
MAX_READERS = 4  # threads, and so database connections, that serve all live pages of a process

logger = logging.getLogger(__name__)
T = TypeVar("T")
_pool = ThreadPoolExecutor(MAX_READERS, thread_name_prefix="live")


async def read(work: Callable[..., T], *args: Any) -> T:
    """Run a database read in one of the few threads for live pages; its connection is given back afterwards."""
    return await asyncio.get_running_loop().run_in_executor(_pool, _with_connection, work, args)


def _with_connection(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    close_old_connections()
    try:
        return work(*args)
    finally:
        close_old_connections()


# --- hints ----------------------------------------------------------------------------------------------------------


class HintBoard:
    """Listens to the channel layer for all readers of an event loop, over one channel."""

    def __init__(self) -> None:
        self._wakers: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None
        self._channel = ""
        self._adding: set[asyncio.Task[None]] = set()
        self._warned_at = float("-inf")

    def watch(self, topic: str, event: asyncio.Event) -> None:
        is_new = topic not in self._wakers
        self._wakers.setdefault(topic, set()).add(event)
        if self._task is None or self._task.done() or self._task.cancelling():
            self._task = asyncio.create_task(self._listen())
        elif is_new and self._channel:
            self._spawn(self._join(topic))

    def forget(self, topic: str, event: asyncio.Event) -> None:
        events = self._wakers.get(topic, set())
        events.discard(event)
        if not events and self._wakers.pop(topic, None) is not None and self._channel:
            self._spawn(self._part(topic))
        if not self._wakers and self._task:
            self._task.cancel()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._adding.add(task)
        task.add_done_callback(self._adding.discard)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - without hints the readers go by their own clocks
                self._complain(error)
            self._channel = ""
            await asyncio.sleep(POLL_SECONDS)

    async def _listen_once(self) -> None:
        layer = get_channel_layer()
        async with asyncio.timeout(LAYER_SECONDS):
            self._channel = await layer.new_channel("live")
            for topic in list(self._wakers):
                await layer.group_add(topic, self._channel)
        while True:
            message = await layer.receive(self._channel)
            for event in self._wakers.get(message.get("topic", ""), ()):
                event.set()

    async def _join(self, topic: str) -> None:
        await self._quietly("group_add", topic)

    async def _part(self, topic: str) -> None:
        if topic not in self._wakers:
            await self._quietly("group_discard", topic)

    async def _quietly(self, call: str, topic: str) -> None:
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await getattr(get_channel_layer(), call)(topic, self._channel)
        except Exception as error:  # noqa: BLE001 - whatever the layer's trouble is, polling goes on
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if time.monotonic() - self._warned_at > 60:
            self._warned_at = time.monotonic()
            logger.warning("No hints for live pages: %s: %s", type(error).__name__, error)


_boards: WeakKeyDictionary[asyncio.AbstractEventLoop, HintBoard] = WeakKeyDictionary()


def board() -> HintBoard:
    loop = asyncio.get_running_loop()
    if loop not in _boards:
        _boards[loop] = HintBoard()
    return _boards[loop]


# --- readers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What one look brought a socket: messages (text, or packed bytes) and the ask to come next time.

    `close` is a WebSocket close code when the viewer may not look any longer.
    """

    messages: Sequence[str | bytes] = ()
    ask: Any = None
    is_behind: bool = False  # there is more at once
    close: int = 0


@dataclass(eq=False)
class Subscriber:
    """One socket at a reader. `ask` says who looks, at what and since when; a look is answered by the next ask."""

    ask: Any
    box: asyncio.Queue[Answer] = field(default_factory=lambda: asyncio.Queue(1))
    is_sending: bool = False
    was_passed_over: bool = False
    looked_at: float = field(default_factory=time.monotonic)
    is_behind: bool = True

    @property
    def is_free(self) -> bool:
        return self.box.empty() and not self.is_sending

    def status(self) -> dict[str, Any]:
        """'live', 'catching up', or 'stale' with the seconds since the last look."""
        age = time.monotonic() - self.looked_at
        if age > STALE_SECONDS:
            return {"status": "stale", "stale_seconds": round(age, 1)}
        return {"status": "catching up" if self.is_behind else "live", "stale_seconds": 0}


class Reader:
    """Looks for all its subscribers in one go: when a hint came, when one of them asks anew, or each POLL_SECONDS."""

    def __init__(self, topics: Sequence[str], look: Callable[[list[Any]], list[Answer]], pace: float = PACE_SECONDS):
        self.topics, self.look, self.pace = topics, look, pace
        self.subscribers: set[Subscriber] = set()
        self._event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def join(self, subscriber: Subscriber) -> None:
        self.subscribers.add(subscriber)
        self._event.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def leave(self, subscriber: Subscriber) -> None:
        self.subscribers.discard(subscriber)
        self._event.set()

    def kick(self) -> None:
        self._event.set()

    async def _run(self) -> None:
        for topic in self.topics:
            board().watch(topic, self._event)
        try:
            while self.subscribers:
                self._event.clear()
                await self._look_once()
                await asyncio.sleep(self.pace)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS - self.pace):
                        await self._event.wait()
        finally:
            for topic in self.topics:
                board().forget(topic, self._event)

    async def _look_once(self) -> None:
        free = [item for item in self.subscribers if item.is_free]
        for item in self.subscribers:
            item.was_passed_over = not item.is_free
        if not free:
            return
        asks = [item.ask for item in free]
        try:
            answers = await read(self.look, asks)
        except Exception:
            logger.exception("A look for live pages failed: %s", self.topics)
            return
        for item, ask, answer in zip(free, asks, answers, strict=True):
            item.looked_at, item.is_behind = time.monotonic(), answer.is_behind
            if item.ask is not ask:
                self._event.set()  # it asked something else meanwhile: this answer is not to its question
            elif item in self.subscribers:
                item.ask = answer.ask
                item.box.put_nowait(answer)
        if any(answer.is_behind for answer in answers):
            self._event.set()
