"""One ASGI application: raw parts for bytes, sockets through Channels, everything else Django."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.core.asgi import get_asgi_application

django_app = get_asgi_application()  # before anything that imports models

from datasets import objects_app  # noqa: E402
from datasets.uploads import app as uploads_app  # noqa: E402
from portal.logs import App, Receive, RequestLog, Scope, Send  # noqa: E402

# Django would spool whole bodies; these parts stream.
RAW_PARTS: dict[str, App] = {"/uploads/": uploads_app.app, "/objects/": objects_app.app}


async def route_http(scope: Scope, receive: Receive, send: Send) -> None:
    for prefix, app in RAW_PARTS.items():
        if scope["path"].startswith(prefix):
            await app(scope, receive, send)
            return
    await django_app(scope, receive, send)


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
    else:
        await route_http(scope, receive, send)


application = RequestLog(route)
