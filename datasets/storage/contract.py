"""What every storage offers, and how it refuses. Ring: no Django here.

An object is written once under a generated ASCII key and never changed. It exists completely or not at all.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

PIECE_BYTES = 1 << 20


class StorageError(Exception):
    """Something went wrong in storage; the message names the key or the place."""


class ObjectMissing(StorageError):
    """There is no object under this key."""


class NoSpace(StorageError):
    """The storage has no room for these bytes; nothing of the object was left behind."""


class StorageDown(StorageError):
    """The storage cannot be reached or refuses to work at the moment."""


@dataclass(frozen=True)
class Written:
    key: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Entry:
    key: str
    size_bytes: int
    modified_at: float  # seconds since the epoch, by the storage's clock


class Reader(Protocol):
    """A range of an object, read forward; close it."""

    def read(self, size: int = -1, /) -> bytes: ...
    def close(self) -> None: ...


class Writer(ABC):
    """Takes an object's bytes; `commit` makes it exist, leaving the block without it removes every trace."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.size_bytes = 0
        self._is_open = True

    def write(self, piece: bytes) -> None:
        """Raises `NoSpace` or `StorageDown`; the writer is then of no more use."""
        self._append(piece)
        self.hash.update(piece)
        self.size_bytes += len(piece)

    def commit(self) -> Written:
        """The bytes are on stable storage when this returns."""
        key = self._finish()
        self._is_open = False
        return Written(key, self.hash.hexdigest(), self.size_bytes)

    def abort(self) -> None:
        if self._is_open:
            self._is_open = False
            self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.abort()

    @abstractmethod
    def _append(self, piece: bytes) -> None: ...

    @abstractmethod
    def _finish(self) -> str: ...

    @abstractmethod
    def _discard(self) -> None: ...


class Storage(ABC):
    @abstractmethod
    def create(self) -> Writer:
        """A writer for a new object; use it as a context manager."""

    @abstractmethod
    def open(self, key: str, start: int = 0, length: int | None = None) -> Reader:
        """Bytes `start` to `start + length` (all the rest when None). Raises `ObjectMissing`."""

    @abstractmethod
    def size(self, key: str) -> int:
        """Bytes of the object. Raises `ObjectMissing`."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Gone afterwards; deleting what is not there is no error."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Every complete object, in no promised order."""

    @abstractmethod
    def drop_unfinished(self, older_than_seconds: float) -> int:
        """Remove what writers that died left behind (temporary files, open multipart uploads); how many."""

    def exists(self, key: str) -> bool:
        try:
            self.size(key)
        except ObjectMissing:
            return False
        return True

    def put(self, pieces: Iterable[bytes]) -> Written:
        with self.create() as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.commit()

    def put_file(self, path: Path) -> Written:
        """Store a local file's bytes; the file itself stays."""
        return self.put(file_pieces(path))


def new_key() -> str:
    """Generated, so that no user's file name ever reaches a storage's own naming rules."""
    name = secrets.token_hex(16)
    return f"{name[:2]}/{name}"


def file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
