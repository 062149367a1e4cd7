"""The readers of the live pages: a job, the list of jobs, the cluster with its queue.

A look takes the asks of all sockets and answers each: who may still look, and what changed since what it has. Sockets
that ask the same share one read. A *digest* stands for what a socket has of a part that is replaced as a whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from jobs.live_messages import (
    CheckpointsMessage,
    EventsMessage,
    JobMessage,
    LogAsk,
    SeriesAsk,
    UsageMessage,
)
from jobs.models import Job
from jobs.series.read import read_series
from jobs.services.live_state import checkpoints_of, events_since, job_state, mark_watched, usage_of
from jobs.services.log_read import WINDOW_BYTES, find_stream, read_log
from nodes.consumers import NOT_FOUND, SIGNED_OUT
from nodes.live import Answer, Reader
from portal.accounts.models import User
from portal.accounts.viewers import Credentials, users_of
from portal.db import read_snapshot
from portal.errors import DomainError

FOLLOW_BYTES = WINDOW_BYTES // 2  # a follower further behind skips to the tail

_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Reader]] = WeakKeyDictionary()


def reader_for(key: Any, make: Callable[[], Reader]) -> Reader:
    """The reader of a subject in this event loop; readers without sockets are forgotten."""
    readers = _readers.setdefault(asyncio.get_running_loop(), {})
    for other in [known for known, reader in readers.items() if not reader.subscribers and known != key]:
        del readers[other]
    if key not in readers:
        readers[key] = make()
    return readers[key]


def job_reader(job_id: int) -> Reader:
    return reader_for(("job", job_id), lambda: Reader([f"job.{job_id}"], partial(look_at_job, job_id)))


# --- one job ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogCursor:
    """Which log a socket follows, where it goes on, and how long the log was when it had all of it (else -1)."""

    stream: int = 0
    offset: int = 0
    size: int = -1


@dataclass(frozen=True)
class JobAsk:
    """Where one socket stands: `rev` for events, digests for what is replaced, a cursor in each view and in the log."""

    who: Credentials
    rev: int = 0
    job: str = ""
    checkpoints: str = ""
    usage: str = ""
    views: tuple[SeriesAsk, ...] = ()
    log: LogAsk | None = None
    log_at: LogCursor = LogCursor()


def look_at_job(job_id: int, asks: list[JobAsk]) -> list[Answer]:
    with read_snapshot():
        users = users_of(ask.who for ask in asks)
        job = Job.objects.select_related("owner", "team").filter(pk=job_id).first()
        allowed = {user.pk for user in set(users.values()) if Job.objects.visible_to(user).filter(pk=job_id).exists()}
        look = _JobLook(job) if job and allowed else None
        answers = [_answer(ask, users.get(ask.who), allowed, look) for ask in asks]
    if job and look:
        mark_watched(job)
    return answers


def _answer(ask: JobAsk, user: User | None, allowed: set[int], look: _JobLook | None) -> Answer:
    if user is None:
        return Answer(close=SIGNED_OUT, ask=ask)
    if look is None or user.pk not in allowed:
        return Answer(close=NOT_FOUND, ask=ask)
    return look.answer(ask)


class _JobLook:
    """What one look has read already, so that sockets which ask the same share it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._known: dict[Any, Any] = {}

    def answer(self, ask: JobAsk) -> Answer:
        messages: list[str | bytes] = []
        rev = self.job.rev
        for name, make in (("job", self._job), ("checkpoints", self._checkpoints), ("usage", self._usage)):
            text, digest = self._once(name, make)
            if digest != getattr(ask, name):
                messages.append(text)
                ask = replace(ask, **{name: digest})
        if rev > ask.rev:
            text = self._once(("events", ask.rev), lambda: self._events(ask.rev))
            messages += [text] if text else []
        views, behind = [], False
        for view in ask.views:
            packed, after = self._once(("series", view), partial(self._series, view))
            messages += [packed] if packed else []
            views.append(after)
        ask = replace(ask, rev=rev, views=tuple(views))
        if ask.log:
            key = ("log", ask.log, ask.log_at)
            text, cursor, behind = self._once(key, partial(self._log, ask.log, ask.log_at))
            messages += [text] if text else []
            ask = replace(ask, log_at=cursor)
        return Answer(messages, ask, is_behind=behind)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _job(self) -> tuple[str, str]:
        state = job_state(self.job)
        return JobMessage(rev=self.job.rev, job=state).model_dump_json(), digest_of(state)

    def _checkpoints(self) -> tuple[str, str]:
        found = checkpoints_of(self.job)
        return CheckpointsMessage(checkpoints=found).model_dump_json(), digest_of(found)

    def _usage(self) -> tuple[str, str]:
        found = usage_of(self.job)
        return UsageMessage(nodes=found).model_dump_json(), digest_of(found)

    def _events(self, since: int) -> str:
        events = events_since(self.job, since)
        return EventsMessage(rev=self.job.rev, events=events).model_dump_json() if events else ""

    def _series(self, view: SeriesAsk) -> tuple[bytes | None, SeriesAsk]:
        if view.since >= self.job.rev and view.attempt is not None:
            return None, view
        page = read_series(
            self.job,
            view.names,
            ranks=view.ranks,
            points=view.points,
            since_rev=view.since,
            since_attempt=view.attempt,
            attempts=view.attempts,
        )
        after = view.model_copy(update={"since": page.rev, "attempt": page.attempt})
        is_news = page.pieces or page.reset or view.since == 0
        return (page.to_bytes(view.view) if is_news else None), after

    def _log(self, wanted: LogAsk, known: LogCursor) -> tuple[str, LogCursor, bool]:
        """New lines, the cursor after them, whether there are more at once. A new attempt's log begins at its tail."""
        try:
            stream = find_stream(self.job, wanted.rank, wanted.attempt, wanted.node_rank)
            if known.stream == stream.pk and known.size == stream.acked:
                return "", known, False
            at = known.offset if known.stream == stream.pk else (None if known.stream else wanted.offset)
            is_late = at is None or stream.acked - at > FOLLOW_BYTES
            page = read_log(stream) if is_late else read_log(stream, offset=at)
        except DomainError:  # no log yet, or its storage is down: the next look tries again
            return "", known, False
        skipped = max(0, page.start - at) if at is not None else 0
        text = json.dumps({**page.to_json(), "skipped": skipped}, ensure_ascii=False)
        after = LogCursor(stream.pk, page.end, page.size if page.is_end else -1)
        return text, after, not page.is_end


def digest_of(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value, default=str).encode(), digest_size=12).hexdigest()
