"""Logs come in once, are read by window before and after sealing, and never break a page."""

from __future__ import annotations

import pytest

from jobs.models import LogObject, LogPart, Stream
from jobs.services import logs
from jobs.services.log_read import find_stream, log_bytes, log_streams, read_log, search_log
from jobs.services.log_text import clean_line
from portal.errors import NotFound

pytestmark = pytest.mark.django_db


def stream_of(writer) -> Stream:
    return find_stream(writer.placement.attempt.job, writer.rank)


def texts(page) -> list[str]:
    return [line.text for line in page.lines]


def test_bytes_come_in_once_and_lines_stay_whole(make_writer):
    writer = make_writer()
    for piece in (b"one\ntw", b"o\nthr", b"ee"):
        before = writer.offset
        writer.log(piece)
        writer.offset = before
        writer.log(piece)
    stream = stream_of(writer)
    page = read_log(stream)
    assert texts(page) == ["one", "two", "three"]
    assert [line.is_open for line in page.lines] == [False, False, True]
    assert LogPart.objects.count() == 1
    writer.log(b"!\nfour\n")
    stream = stream_of(writer)
    again = read_log(stream, offset=page.end)
    assert texts(again) == ["three!", "four"]
    assert again.lines[0].offset == page.lines[2].offset


def test_an_overlap_is_cut_at_what_is_known(make_writer):
    writer = make_writer()
    writer.log(b"abc")
    writer.offset = 1
    assert writer.log(b"bcdef\n").acked == 7
    assert b"".join(log_bytes(stream_of(writer))) == b"abcdef\n"


def test_a_gap_shows_where_it_was(make_writer):
    writer = make_writer()
    writer.log(b"one\n")
    writer.log(b"two\n", gap=1000)
    writer.log(b"", gap=50)
    writer.log(b"three\n")
    stream = stream_of(writer)
    page = read_log(stream)
    assert [(line.gap, line.text) for line in page.lines] == [(0, "one"), (1000, "two"), (50, "three")]
    assert b"1000 bytes were dropped" in b"".join(log_bytes(stream))
    assert stream.gap_bytes == 1050
    assert log_streams(writer.placement.attempt.job)[0]["gap_bytes"] == 1050


@pytest.fixture
def storage(settings, tmp_path):
    settings.STORAGE_URL = f"file://{tmp_path}/storage"


def test_a_sealed_log_reads_like_an_open_one(make_writer, storage, monkeypatch):
    monkeypatch.setattr(logs, "OBJECT_BYTES", 60_000)
    writer = make_writer()
    lines = [f"line {number} {'x' * (number % 90)}" for number in range(5_000)]
    data = "".join(line + "\n" for line in lines).encode()
    for at in range(0, len(data), 30_000):
        writer.log(data[at : at + 30_000])
    stream = stream_of(writer)
    before = read_log(stream, line=3_456, limit=10)
    while logs.seal(stream.pk):
        pass
    assert LogObject.objects.count() > 3
    stream.refresh_from_db()
    assert read_log(stream, line=3_456, limit=10) == before
    assert texts(before) == lines[3_456:3_466]
    assert before.first_line == 3_456
    assert texts(read_log(stream, tail=7)) == lines[-7:]
    assert b"".join(log_bytes(stream)) == data
    assert texts(read_log(stream, line=10**9))[-1:] in ([], lines[-1:])
    found = search_log(stream, "LINE 4321 ")
    assert texts(found) == [lines[4321]]
    first = search_log(stream, "line", limit=3)
    assert texts(first) == lines[:3]
    assert texts(search_log(stream, "line", offset=first.next_offset, limit=2)) == lines[3:5]


def test_sealing_stops_at_a_gap_and_keeps_it(make_writer, storage, monkeypatch):
    monkeypatch.setattr(logs, "OBJECT_BYTES", 50)
    writer = make_writer()
    writer.log(b"a" * 30 + b"\n")
    writer.log(b"b" * 30 + b"\n", gap=9)
    stream = stream_of(writer)
    assert logs.seal(stream.pk)
    page = read_log(stream_of(writer))
    assert [(line.gap, line.text) for line in page.lines] == [(0, "a" * 30), (9, "b" * 30)]


def test_a_reader_of_a_very_long_line_gets_on(make_writer):
    writer = make_writer()
    for _ in range(20):
        writer.log(b"z" * 60_000)
    writer.log(b"\nend\n")
    stream = stream_of(writer)
    at, seen = 0, []
    while at < stream.acked:
        page = read_log(stream, offset=at)
        assert page.end > at
        at, seen = page.end, seen + texts(page)
    assert seen[-1] == "end"


def test_no_log_is_not_found(make_writer):
    with pytest.raises(NotFound):
        stream_of(make_writer())


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b" 10%|#   \r 50%|##  \r100%|####", "100%|####"),
        (b"windows line\r", "windows line"),
        (b"done\r   \r", "done"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"\x1b[2K\x1b[1Aup\x1b]0;title\x07!\x1b(B", "up!"),
        (b"a\x00b\x07", "a␀b␇"),
        (b"\xff\xfe ok", "\ufffd\ufffd ok"),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31m".encode(), "\ufffd31m"),
    ],
)
def test_display_text(raw, shown):
    assert clean_line(raw) == shown
    assert "\x1b" not in clean_line(raw, colours=False)
