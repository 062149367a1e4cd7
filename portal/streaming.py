"""Long answers made part by part. A slow reader costs memory for one part and a thread only while one is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from django.db import close_old_connections, connections
from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

_pool = ThreadPoolExecutor(8, thread_name_prefix="download")  # its own: downloads never fill the pool of short answers


class Download(StreamingHttpResponse):
    """Parts from a plain iterator, sent as an attachment. Django would gather them all before the first is sent.

    Each part may be made in another thread, so the iterator must hold no transaction between two parts.
    """

    def __init__(self, parts: Iterator[bytes], *, file_name: str, content_type: str) -> None:
        headers = {
            "Content-Disposition": content_disposition_header(True, file_name) or "attachment",
            "Cache-Control": "private, no-store",
            "X-Content-Type-Options": "nosniff",
        }
        super().__init__(parts, content_type=content_type, headers=headers)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = iter(cast("Iterator[bytes]", self.streaming_content))
        loop = asyncio.get_running_loop()
        while (part := await loop.run_in_executor(_pool, _next, parts)) is not None:
            yield part


def _next(parts: Iterator[bytes]) -> bytes | None:
    close_old_connections()
    try:
        return next(parts, None)
    finally:
        connections.close_all()
