"""Objects as files of one folder: `objects/ab/ab12…` for complete ones, `incoming/` for those being written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from datasets.storage.contract import (
    Entry,
    NoSpace,
    ObjectMissing,
    Storage,
    StorageDown,
    StorageError,
    Writer,
    Written,
    file_pieces,
    new_key,
)

_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{32}")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LocalStorage(Storage):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = root / "objects"
        self.incoming = root / "incoming"

    def create(self) -> Writer:
        with _os_errors(self.root):
            self.incoming.mkdir(parents=True, exist_ok=True)
            return _LocalWriter(self)

    def open(self, key: str, start: int = 0, length: int | None = None) -> _Range:
        with _os_errors(self.root, key):
            file = self.path(key).open("rb")
            file.seek(start)
        return _Range(file, length)

    def size(self, key: str) -> int:
        with _os_errors(self.root, key):
            return self.path(key).stat().st_size

    def delete(self, key: str) -> None:
        with _os_errors(self.root, key):
            self.path(key).unlink(missing_ok=True)

    def entries(self) -> Iterator[Entry]:
        for folder in sorted(self.objects.glob("[0-9a-f][0-9a-f]")):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):  # deleted while we walk
                    stat = path.stat()
                    yield Entry(f"{folder.name}/{path.name}", stat.st_size, stat.st_mtime)

    def drop_unfinished(self, older_than_seconds: float) -> int:
        limit = time.time() - older_than_seconds
        dropped = 0
        for path in self.incoming.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime <= limit:
                    path.unlink()
                    dropped += 1
        return dropped

    def put_file(self, path: Path) -> Written:
        """On the same file system a second name for the same bytes; nobody may write to `path` from now on."""
        digest = hashlib.sha256()
        size = 0
        for piece in file_pieces(path):
            digest.update(piece)
            size += len(piece)
        key = new_key()
        try:
            self._link(path, key)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                return super().put_file(path)
            raise _translated(error, self.root) from error
        return Written(key, digest.hexdigest(), size)

    def path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ObjectMissing(f"{key!r} is not a storage key.")
        return self.objects / key

    def _link(self, path: Path, key: str) -> None:
        target = self.path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.utime(path)  # both names share one time: a sweep of lost objects must find it young
        with path.open("rb") as file:
            os.fsync(file.fileno())
        os.link(path, target)
        _sync_folder(target.parent)


class _LocalWriter(Writer):
    def __init__(self, storage: LocalStorage) -> None:
        super().__init__()
        self.storage = storage
        self.temporary = storage.incoming / secrets.token_hex(16)
        self.file: BinaryIO = self.temporary.open("xb", buffering=0)

    def _append(self, piece: bytes) -> None:
        with _os_errors(self.storage.root):
            view = memoryview(piece)
            while view:  # an unbuffered write may take less than it was given
                view = view[self.file.write(view) :]

    def _finish(self) -> str:
        key = new_key()
        target = self.storage.path(key)
        with _os_errors(self.storage.root):
            os.fsync(self.file.fileno())
            self.file.close()
            target.parent.mkdir(parents=True, exist_ok=True)
            self.temporary.replace(target)
            _sync_folder(target.parent)
        return key

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.temporary.unlink(missing_ok=True)


class _Range:
    def __init__(self, file: BinaryIO, length: int | None) -> None:
        self.file = file
        self.left = length

    def read(self, size: int = -1, /) -> bytes:
        if self.left is None:
            return self.file.read(size)
        wanted = self.left if size < 0 else min(size, self.left)
        piece = self.file.read(wanted)
        self.left -= len(piece)
        return piece

    def close(self) -> None:
        self.file.close()


@contextlib.contextmanager
def _os_errors(root: Path, key: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _translated(error, root, key) from error


def _translated(error: OSError, root: Path, key: str = "") -> StorageError:
    if error.errno in _FULL:
        return NoSpace(f"The storage at {root} is full.")
    if isinstance(error, FileNotFoundError) and key:
        return ObjectMissing(f"Storage holds no object {key}.")
    return StorageDown(f"The storage at {root} does not work: {error.strerror or error}.")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
