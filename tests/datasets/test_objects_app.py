"""Stored objects by ticket, over real sockets."""

from __future__ import annotations

import hashlib
import os
import time

import httpx
import pytest

from datasets.models import StoredObject
from datasets.objects_app import attachment, byte_range
from datasets.services.objects import open_object, store_stream
from datasets.tickets import sign_get, sign_put

pytestmark = pytest.mark.django_db(transaction=True)

BODY = os.urandom(1_000_000)


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def stored(server):
    return store_stream([BODY])


def test_download_carries_name_sum_and_harmless_type(http, stored):
    answer = http.get(sign_get(stored, file_name="数据集 (终版) №1.zip"))
    assert (answer.status_code, answer.content) == (200, BODY)
    assert answer.headers["ETag"] == f'"{stored.sha256}"'
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "filename*=UTF-8''%E6%95%B0" in answer.headers["Content-Disposition"]


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=999990-", 999_990, 1_000_000),
        ("bytes=-5", 999_995, 1_000_000),
        ("bytes=5-9999999", 5, 1_000_000),
    ],
)
def test_ranges(http, stored, asked, start, stop):
    answer = http.get(sign_get(stored), headers={"Range": asked})
    assert (answer.status_code, answer.content) == (206, BODY[start:stop])
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/1000000"


def test_conditions(http, stored):
    path, tag = sign_get(stored), f'"{stored.sha256}"'
    assert http.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert http.get(path, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200
    assert http.get(path, headers={"Range": "bytes=0-1", "If-Range": tag}).status_code == 206
    assert http.get(path, headers={"Range": "bytes=1000000-"}).status_code == 416
    head = http.head(path)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, "1000000", b"")


def test_forged_expired_and_misused_tickets_open_nothing(http, stored):
    good = sign_get(stored)
    assert http.get(good[:-1] + ("A" if good[-1] != "A" else "B")).status_code == 404
    assert http.get("/objects/").status_code == 404
    assert http.get(sign_get(stored, seconds=-1)).status_code == 404
    assert http.put(good, content=b"x").status_code == 405
    stored.delete()
    assert http.get(good).status_code == 404


def test_slow_reader_does_not_stop_others(http, stored):
    with http.stream("GET", sign_get(stored)) as slow:
        began = time.monotonic()
        assert http.get(sign_get(stored)).content == BODY
        assert time.monotonic() - began < 10
        assert slow.status_code == 200


def test_put_stores_exactly_what_was_promised(http):
    digest = hashlib.sha256(BODY).hexdigest()
    path = sign_put(sha256=digest, max_bytes=len(BODY), seconds=60)
    for _ in range(2):  # a node that lost the answer sends it again
        assert http.put(path, content=BODY).status_code == 201
    reader = open_object(StoredObject.objects.get(sha256=digest))
    assert reader.read() == BODY
    reader.close()


def test_put_of_anything_else_is_refused(http):
    digest = hashlib.sha256(BODY).hexdigest()
    path = sign_put(sha256=digest, max_bytes=len(BODY), seconds=60)
    assert http.put(path, content=BODY[:-1] + b"x").status_code == 400
    assert http.put(path, content=BODY + b"x").status_code == 413
    assert http.put(path, content=iter([BODY, b"x"])).status_code == 400
    assert http.get(path).status_code == 405
    assert not StoredObject.objects.exists()


def test_names_in_headers():
    assert attachment("a.csv") == 'attachment; filename="a.csv"'
    assert attachment('a"b;c.csv') == "attachment; filename=\"a_b_c.csv\"; filename*=UTF-8''a%22b%3Bc.csv"
    assert "\n" not in attachment("a\r\nSet-Cookie: x")
    assert attachment("数据").startswith('attachment; filename="download"')


def test_odd_ranges_mean_the_whole():
    for odd in ("", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "items=0-1", "bytes=5-2"):
        assert byte_range(odd, 10) is None
