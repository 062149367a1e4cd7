"""The frame of the node's endpoints: who speaks, how much, on which threads, and one shape of refusal.

Work runs on threads of this module's own, so that slow pages and nodes never wait for each other; beyond what they can
take, nodes are told to come again (they do, and nothing is lost).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.core.exceptions import RequestDataTooBig
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from pydantic import BaseModel, ValidationError

from nodes.models import Node
from nodes.services.tokens import node_of_header
from portal.errors import DomainError, Invalid, Unavailable

logger = logging.getLogger(__name__)

View = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]
NodeHandler = Callable[[Node, bytes], BaseModel]
OpenHandler = Callable[[bytes], BaseModel]
Message = TypeVar("Message", bound=BaseModel)


class TooLarge(DomainError):
    http_status = 413


class WrongMethod(DomainError):
    http_status = 405


class Crew:
    """A bounded executor: `threads` at work, `waiting` in line, everybody else is refused at once."""

    def __init__(self, name: str, *, threads: int, waiting: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + waiting
        self._count = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], HttpResponse]) -> HttpResponse:
        with self._lock:
            if self._count >= self._most:
                raise Unavailable("busy", _("The portal is busy: come again in a moment."))
            self._count += 1
        future = self._executor.submit(_with_database, work)
        future.add_done_callback(self._leave)  # also when the caller went away before it began
        return await asyncio.wrap_future(future)

    def _leave(self, _: object) -> None:
        with self._lock:
            self._count -= 1


def _with_database(work: Callable[[], HttpResponse]) -> HttpResponse:
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()


def node_view(handle: NodeHandler, *, crew: Crew, most_bytes: int) -> View:
    """POST with `Authorization: Node <token>`; `handle` gets the node and the body, and raises refusals."""

    def work(request: HttpRequest) -> BaseModel:
        node = node_of_header(request.headers.get("Authorization", ""))
        return handle(node, _body(request, most_bytes))

    return _view(work, crew=crew, most_bytes=most_bytes)


def open_view(handle: OpenHandler, *, crew: Crew, most_bytes: int) -> View:
    """POST without a token: the body itself holds the credential."""
    return _view(lambda request: handle(_body(request, most_bytes)), crew=crew, most_bytes=most_bytes)


def parse(kind: type[Message], body: bytes) -> Message:
    """Raises Invalid with the first thing that is wrong, by name."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        text = _("The message is not understood: %(where)s: %(what)s.") % {"where": where or "?", "what": first["msg"]}
        raise Invalid("message", text, field=where or None) from error


def _view(work: Callable[[HttpRequest], BaseModel], *, crew: Crew, most_bytes: int) -> View:
    @csrf_exempt
    async def view(request: HttpRequest) -> HttpResponse:
        try:
            _check_frame(request, most_bytes)
            return await crew.run(lambda: _answer(work(request)))
        except DomainError as error:
            return refusal(error)

    return view


def _check_frame(request: HttpRequest, most_bytes: int) -> None:
    if request.method != "POST":
        raise WrongMethod("method", _("Only POST is answered here."))
    length = request.headers.get("Content-Length", "0")
    if not length.isdigit() or int(length) > most_bytes:
        raise _too_large(most_bytes)


def _body(request: HttpRequest, most_bytes: int) -> bytes:
    try:
        body = request.body
    except RequestDataTooBig as error:
        raise _too_large(most_bytes) from error
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    return body


def _too_large(most_bytes: int) -> TooLarge:
    return TooLarge("too_large", _("A message may have at most %(most)d bytes.") % {"most": most_bytes})


def _answer(message: BaseModel) -> HttpResponse:
    return HttpResponse(message.model_dump_json(), content_type="application/json")


def refusal(error: DomainError) -> JsonResponse:
    """The shape that the whole API has."""
    kind = "client_error" if error.http_status < 500 else "server_error"
    body = {"type": kind, "errors": [{"code": error.code, "detail": error.message, "attr": error.field}]}
    answer = JsonResponse(body, status=error.http_status)
    if error.http_status == 401:
        answer.headers["WWW-Authenticate"] = "Node"
    return answer
