"""A whole checkpoint as one zip, made while it is sent: nothing is kept in memory or on disk."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import closing

from datasets.models import StoredObject
from datasets.services.objects import open_object
from jobs.models import Checkpoint
from jobs.services.checkpoints import members

BLOCK_BYTES = 1 << 20


class _Sink(io.RawIOBase):
    """What a zip is written to: bytes are taken away as they come. It cannot seek, so sizes follow each file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def zip_of(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Stored, not compressed: weights do not shrink. Raises NotFound at once when its objects were given back."""
    return _parts(list(members(checkpoint)))


def _parts(files: list[tuple[str, StoredObject]]) -> Iterator[bytes]:
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for path, stored in files:
            member = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            with archive.open(member, "w", force_zip64=True) as target, closing(open_object(stored)) as source:
                while block := source.read(BLOCK_BYTES):
                    target.write(block)
                    yield sink.take()
    yield sink.take()
