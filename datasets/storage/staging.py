"""Files of uploads on their way: one per upload, appended to by one writer at a time. Ring: no Django here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from datasets.storage.contract import NoSpace, StorageDown, StorageError


class Staging:
    """A folder of its own. Ids are hexadecimal UUIDs, so no name a user chose reaches the file system."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, upload_id: object) -> Path:
        return self.root / str(upload_id)

    def create(self, upload_id: object) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.path(upload_id).open("xb").close()
        except OSError as error:
            raise _translated(error, self.root) from error

    def size(self, upload_id: object) -> int | None:
        """Bytes written so far; None when the file is gone."""
        try:
            return self.path(upload_id).stat().st_size
        except FileNotFoundError:
            return None

    def free_bytes(self) -> int:
        folder = self.root
        while not folder.exists():
            folder = folder.parent
        return shutil.disk_usage(folder).free

    def lock(self, upload_id: object) -> StagedFile | None:
        """The file, held alone across processes until closed; None while somebody else holds it or it is gone."""
        try:
            handle = os.open(self.path(upload_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return StagedFile(handle, self.root)

    def remove(self, upload_id: object) -> None:
        self.path(upload_id).unlink(missing_ok=True)

    def older_than(self, seconds: float) -> Iterator[str]:
        """Ids whose file nobody has written to for so long."""
        limit = time.time() - seconds
        for path in self.root.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime <= limit:
                    yield path.name


class StagedFile:
    """Open and locked. Every method blocks: call it from a thread that may."""

    def __init__(self, handle: int, root: Path) -> None:
        self.handle = handle
        self.root = root
        self.size = os.lseek(handle, 0, os.SEEK_END)

    def append(self, piece: bytes | bytearray) -> None:
        """Raises `NoSpace`; what fitted is counted in `size`."""
        view = memoryview(piece)
        try:
            while view:
                count = os.pwrite(self.handle, view, self.size)
                self.size += count
                view = view[count:]
        except OSError as error:
            raise _translated(error, self.root) from error
        finally:
            view.release()

    def truncate(self, size: int) -> None:
        os.ftruncate(self.handle, size)
        self.size = size

    def sync(self) -> None:
        try:
            os.fdatasync(self.handle)
        except OSError as error:
            raise _translated(error, self.root) from error

    def close(self) -> None:
        os.close(self.handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _translated(error: OSError, root: Path) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return NoSpace(f"The disk of {root} is full.")
    return StorageDown(f"The folder {root} does not work: {error.strerror or error}.")
