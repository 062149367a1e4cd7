"""The local storage by its contract."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from datasets.storage.contract import NoSpace, ObjectMissing
from datasets.storage.local import LocalStorage
from datasets.storage.open import open_storage
from datasets.storage.staging import Staging


@pytest.fixture
def storage(tmp_path):
    return open_storage(f"file://{tmp_path}/s")


def files(storage):
    return [path for path in storage.root.rglob("*") if path.is_file()]


def test_what_was_put_is_read_back_in_ranges(storage):
    body = os.urandom(3_000_000)
    written = storage.put([body[:1000], b"", body[1000:]])
    assert (written.sha256, written.size_bytes) == (hashlib.sha256(body).hexdigest(), len(body))
    assert storage.size(written.key) == len(body)
    reader = storage.open(written.key, 100, 50)
    assert reader.read() == body[100:150]
    reader.close()
    assert [entry.key for entry in storage.entries()] == [written.key]
    storage.delete(written.key)
    storage.delete(written.key)
    assert not storage.exists(written.key)


def test_keys_are_generated_and_foreign_ones_refused(storage):
    key = storage.put([b"x"]).key
    assert key.isascii()
    for wrong in ("../secret", "/etc/passwd", "", key + "/x"):
        with pytest.raises(ObjectMissing):
            storage.open(wrong)


def test_writer_that_is_left_leaves_nothing(storage):
    def fail():
        with storage.create() as writer:
            writer.write(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert files(storage) == []


def test_full_disk_is_said_and_leaves_nothing(tmp_path):
    """/dev/full answers every write with ENOSPC, as a full disk does."""
    storage = LocalStorage(tmp_path)
    writer = storage.create()
    writer.file.close()
    writer.file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    with pytest.raises(NoSpace, match="full"), writer:
        writer.write(b"x")
    assert files(storage) == []


def test_a_file_is_taken_over_without_a_copy(storage, tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(b"abc")
    written = storage.put_file(path)
    assert path.stat().st_ino == storage.path(written.key).stat().st_ino
    assert written.sha256 == hashlib.sha256(b"abc").hexdigest()


def test_unfinished_writers_are_swept_by_age(storage):
    storage.create().write(b"x")
    assert storage.drop_unfinished(3600) == 0
    assert storage.drop_unfinished(0) == 1
    assert files(storage) == []


@pytest.mark.parametrize("url", ["ftp://x/y", "/plain/path", "file://host/x"])
def test_unknown_addresses_are_refused_by_name(url):
    with pytest.raises(ValueError, match="STORAGE_URL"):
        open_storage(url)


def test_staged_file_has_one_writer_at_a_time(tmp_path):
    staging = Staging(tmp_path)
    staging.create("a")
    with staging.lock("a") as file:
        file.append(b"123")
        assert staging.lock("a") is None
    assert staging.size("a") == 3
    assert staging.lock("b") is None
    assert list(staging.older_than(3600)) == []
    assert list(staging.older_than(-1)) == ["a"]


def test_concurrent_puts_are_whole(storage):
    bodies = [os.urandom(200_000) for _ in range(8)]
    keys = {}
    threads = [
        threading.Thread(target=lambda body=body: keys.update({storage.put([body]).key: body})) for body in bodies
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert time.monotonic() - began < 30
    assert sorted(keys.values()) == sorted(bodies)
