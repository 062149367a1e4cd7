"""Structured logs with a request id, and without secrets: JSON lines, or readable ones on a terminal."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:  # settings import this module
    from django.http import HttpRequest, HttpResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADER = "X-Request-ID"
MASK = "•••"
_SANE_ID = re.compile(r"^[A-Za-z0-9._-]{8,64}$")
_SECRET_NAME = re.compile(r"pass(word|wd)?$|secret|token|authorization|cookie|api_?key|credential", re.IGNORECASE)
# A login in an address, a ticket (itself the credential of a download), a token in a header or a pair.
_SECRET_TEXT = [
    (re.compile(r"(\w+://[^\s:/@]*):[^\s@/]+@"), rf"\1:{MASK}@"),
    (re.compile(r"(/objects/)[^\s?#\"']+"), rf"\1{MASK}"),
    (re.compile(r"\b(Bearer|Token|Node|Basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    (
        re.compile(r"\b(\w*(?:password|passwd|secret|token|api_key)\"?'?\s*[=:]\s*\"?'?)[^\s\"'&,;]+", re.IGNORECASE),
        rf"\1{MASK}",
    ),
]
access = structlog.stdlib.get_logger("portal.access")


def masked(text: str) -> str:
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def _mask_event(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if name.startswith("_"):
            continue
        if name != "event" and _SECRET_NAME.search(name):
            event[name] = MASK
        elif isinstance(value, str):
            event[name] = masked(value)
    return event


def _mask_traceback(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if isinstance(event.get("exception"), str):
        event["exception"] = masked(event["exception"])
    return event


def logging_config(*, style: str, level: str) -> dict[str, Any]:
    """For settings.LOGGING; `style` is 'json' or 'console'."""
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    renderer: Any = structlog.processors.JSONRenderer(ensure_ascii=False)
    if style == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": shared,
        "processors": [
            *shared[1:3],
            shared[4],
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _mask_event,
            _mask_traceback,
            renderer,
        ],
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": "INFO", "propagate": True, "handlers": []},
            # Each answer is a line of our own (below), with the id and the time it took.
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.error": {"handlers": [], "propagate": True},
            "uvicorn.access": {"handlers": [], "propagate": False, "level": "CRITICAL"},
            "django.request": {"level": "ERROR"},
            "httpx": {"level": "WARNING"},
        },
    }


def choose_id(given: str | None) -> str:
    """The caller's id when it is a plain token, else a new one."""
    return given if given and _SANE_ID.match(given) else uuid.uuid4().hex[:16]


class RequestIdMiddleware:
    """Gives every Django request its id and returns it as X-Request-ID."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        scope: Scope = getattr(request, "scope", {})
        known = scope.get("request_id") or choose_id(request.headers.get(HEADER))
        request.request_id = known  # type: ignore[attr-defined]
        with structlog.contextvars.bound_contextvars(request_id=known):
            response = self.get_response(request)
        response.headers[HEADER] = known
        return response


class RequestLog:
    """ASGI: an id for every request and socket of any part, and one line when it has been answered."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"").decode("latin-1")
        known = scope["request_id"] = choose_id(given)
        with structlog.contextvars.bound_contextvars(request_id=known):
            if scope["type"] == "websocket":
                await self.app(scope, receive, send)
            else:
                await self._http(scope, receive, send, known)

    async def _http(self, scope: Scope, receive: Receive, send: Send, known: str) -> None:
        status = 0
        began = time.monotonic()

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.setdefault("headers", [])
                if all(name.lower() != HEADER.lower().encode() for name, _ in headers):
                    message["headers"] = [*headers, (HEADER.lower().encode(), known.encode())]
            await send(message)

        try:
            await self.app(scope, receive, note)
        finally:
            took = round((time.monotonic() - began) * 1000)
            # The node exchange and probes come every second: they are news only when they fail.
            quiet = status < 400 and scope["path"].startswith(("/api/v1/agent/", "/healthz", "/readyz", "/static/"))
            log = access.debug if quiet else access.info
            log("answered", method=scope["method"], path=scope["path"], status=status, milliseconds=took)
