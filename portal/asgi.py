"""One ASGI application: raw parts for bytes, sockets through Channels, everything else Django."""

from __future__ import annotations

import os
from typing import Any, cast
from urllib.parse import urlsplit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.core.asgi import get_asgi_application

django_app = get_asgi_application()  # before anything that imports models

from channels.routing import URLRouter  # noqa: E402
from channels.security.websocket import OriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import re_path  # noqa: E402

from datasets import objects_app  # noqa: E402
from datasets.uploads import app as uploads_app  # noqa: E402
from jobs.routing import websocket_urlpatterns  # noqa: E402
from portal.logs import App, Message, Receive, RequestLog, Scope, Send  # noqa: E402

# Django would spool whole bodies; these parts stream.
RAW_PARTS: dict[str, App] = {"/uploads/": uploads_app.app, "/objects/": objects_app.app}


MAX_BODY_BYTES = 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE
NO_SUCH_SOCKET = 4404


async def refuse_socket(_scope: Scope, receive: Receive, send: Send) -> None:
    """Accepted first: a browser shows a page the code of a close, but not of a handshake that failed."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": NO_SUCH_SOCKET})


class OwnPages(OriginValidator):
    """Sockets are for pages of this site, and for scripts with a token of their own, beside which no cookie counts.

    Channels' own refusal needs the broker; this one does not.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        if b"authorization" in headers or self.valid_origin(urlsplit(origin) if origin else None):
            await self.application(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close"})


socket_routes = URLRouter([*websocket_urlpatterns, re_path(r"", cast("Any", refuse_socket))])
socket_app = OwnPages(socket_routes, settings.ALLOWED_HOSTS)  # who looks is asked by the sockets, at each read


async def route_http(scope: Scope, receive: Receive, send: Send) -> None:
    for prefix, app in RAW_PARTS.items():
        if scope["path"].startswith(prefix):
            await app(scope, receive, send)
            return
    await django_app(cast("dict[str, Any]", scope), bounded(receive, send), cast("Any", send))


def bounded(receive: Receive, send: Send) -> Receive:
    """Django would spool a body of any length to disk before it asks who sends it; whole files come by tus."""
    left = MAX_BODY_BYTES

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left >= 0:
            return message
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-type", b"text/plain")]})
        text = f"A request may have at most {MAX_BODY_BYTES} bytes; whole files go to /uploads/ by tus.\n"
        await send({"type": "http.response.body", "body": text.encode(), "more_body": False})
        return {"type": "http.disconnect"}

    return counted


async def lifespan(receive: Receive, send: Send) -> None:
    """Nothing to prepare or to end: connections and threads are made when they are first needed."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def route(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await socket_app(scope, receive, send)
    else:
        await route_http(scope, receive, send)


application = RequestLog(route)
