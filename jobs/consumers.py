"""The live sockets: a job's page, the list of jobs, the cluster page. What goes over them: `jobs/live_messages.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from jobs.live import JobAsk, LogCursor, job_reader
from jobs.live_lists import ClusterAsk, JobsAsk, cluster_reader, jobs_reader
from jobs.live_messages import MAX_VIEWS, LogAsk, RowsAsk, SeriesAsk
from nodes.consumers import LiveSocket, Scope
from nodes.live import Reader
from portal.accounts.viewers import Credentials


class JobSocket(LiveSocket):
    """`/ws/jobs/<id>/?since=<rev>`: events begin after `since`."""

    def reader(self) -> Reader:
        return job_reader(int(self.scope["url_route"]["kwargs"]["pk"]))

    def first_ask(self, credentials: Credentials) -> JobAsk:
        return JobAsk(credentials, rev=_since(self.scope))

    def next_ask(self, ask: JobAsk, message: dict[str, Any]) -> JobAsk:
        match message.get("type"):
            case "series":
                view = SeriesAsk.model_validate(message)
                others = tuple(other for other in ask.views if other.view != view.view)
                if len(others) >= MAX_VIEWS:
                    raise ValueError("too many views")
                return replace(ask, views=(*others, view))
            case "series.stop":
                return replace(ask, views=tuple(other for other in ask.views if other.view != message.get("view")))
            case "log":
                return replace(ask, log=LogAsk.model_validate(message), log_at=LogCursor())
            case "log.stop":
                return replace(ask, log=None)
        raise ValueError("unknown message")


class JobsSocket(LiveSocket):
    """`/ws/jobs/`: the rows of the list that the viewer has on the page."""

    def reader(self) -> Reader:
        return jobs_reader()

    def first_ask(self, credentials: Credentials) -> JobsAsk:
        return JobsAsk(credentials)

    def next_ask(self, ask: JobsAsk, message: dict[str, Any]) -> JobsAsk:
        if message.get("type") != "jobs":
            raise ValueError("unknown message")
        return replace(ask, ids=RowsAsk.model_validate(message).ids, has=(), newest=-1)


class ClusterSocket(LiveSocket):
    """`/ws/nodes/`: all nodes and devices, who uses each, and the queue beside them."""

    def reader(self) -> Reader:
        return cluster_reader()

    def first_ask(self, credentials: Credentials) -> ClusterAsk:
        return ClusterAsk(credentials)


def _since(scope: Scope) -> int:
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("since", ["0"])[0]
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else 0
