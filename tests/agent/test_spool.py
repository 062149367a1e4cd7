"""Pieces of a growing file: held back, masked, skipped, packed. No portal needed."""

from __future__ import annotations

import os
import random
from uuid import uuid4

import numpy
import pytest

from nodes.agent import spool as module
from nodes.agent.masking import held_back, mask_all, needles
from nodes.agent.metrics import pack
from nodes.agent.spool import Flow, Spool
from nodes.messages import POINT_DTYPE


def make(tmp_path, kind="log", secrets=()):
    file = "output.0.log" if kind == "log" else "metrics.0.jsonl"
    (tmp_path / file).touch()
    return Spool(tmp_path, file, token=uuid4(), rank=0, kind=kind, secrets=needles(secrets)), tmp_path / file


def drain(spool, *, has_ended, most_bytes=1 << 20):
    """Everything that can be shipped now, as the portal would store it."""
    payloads = []
    while batch := spool.next_batch(has_ended=has_ended, most_bytes=most_bytes):
        assert batch.head.offset - batch.head.gap == spool.acked
        payloads.append(batch)
        spool.accept(batch.head.offset + batch.head.source_bytes)
    return payloads


def test_only_the_beginning_of_a_secret_is_held_back(tmp_path):
    spool, path = make(tmp_path, secrets=["topsecret"])
    path.write_bytes(b"ready\n")
    assert [b.payload for b in drain(spool, has_ended=False)] == [b"ready\n"]
    path.write_bytes(b"ready\nit is tops")
    assert [b.payload for b in drain(spool, has_ended=False)] == [b"it is "]
    path.write_bytes(b"ready\nit is topsecret!")
    assert [b.payload for b in drain(spool, has_ended=False)] == [b"*********!"]


def test_secrets_are_masked_wherever_the_pieces_are_cut(tmp_path):
    rng = random.Random(1)
    secrets = ["abcab", "cabba", "zz"]
    text = "".join(rng.choice(["abcab", "cabba", "zz", "a", "b", "c", "\n"]) for _ in range(2000)).encode()
    whole = mask_all(text, needles(secrets))
    for most in (1, 3, 7, 64):
        spool, path = make(
            tmp_path / f"cut-{most}" if not (tmp_path / f"cut-{most}").mkdir() else tmp_path, secrets=secrets
        )
        sent = b""
        for end in range(0, len(text) + 50, 50):
            path.write_bytes(text[:end])
            sent += b"".join(b.payload for b in drain(spool, has_ended=end >= len(text), most_bytes=most))
        assert sent == whole


def test_key_file_is_masked_line_by_line():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0B\n-----END KEY-----\n"
    assert b"MIIEvQIBADANBgkq" not in mask_all(b"  MIIEvQIBADANBgkq\r\n", needles([key]))
    assert mask_all(key.encode(), needles([key])) == b"*" * len(key)
    assert held_back(b"x", []) == 0


def test_flow_caps_and_skips_to_a_line_near_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT_TAIL", 1000)
    spool, path = make(tmp_path)
    spool.flow = Flow(rate_bytes=0.0, burst_bytes=5_000, most_unsent_bytes=2_000)
    path.write_bytes(b"".join(b"line %05d\n" % n for n in range(400)))
    first = drain(spool, has_ended=False)
    assert sum(len(b.payload) for b in first) == 4400
    path.write_bytes(b"".join(b"line %05d\n" % n for n in range(1000)))
    (second,) = drain(spool, has_ended=False)
    assert second.head.gap == spool.dropped_bytes > 5000
    assert second.payload.startswith(b"line ")
    assert drain(spool, has_ended=False) == []
    rest = drain(spool, has_ended=True)
    assert rest[-1].payload.endswith(b"line 00999\n")
    assert spool.acked == 11_000


def test_metrics_wait_for_whole_lines_until_the_end(tmp_path):
    spool, path = make(tmp_path, "metrics")
    line = b'{"step": 1, "name": "loss", "value": 0.5, "time": 3.0}'
    path.write_bytes(line[:20])
    assert drain(spool, has_ended=False) == []
    path.write_bytes(line + b"\n" + line[:9])
    (batch,) = drain(spool, has_ended=False)
    assert (batch.head.source_bytes, batch.head.names) == (len(line) + 1, ["loss"])
    (last,) = drain(spool, has_ended=True)
    assert (last.head.bad_lines, last.payload) == (1, b"")


def test_endless_line_is_passed_over_and_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "METRICS_PIECE", 64 * 1024)
    spool, path = make(tmp_path, "metrics")
    good = b'{"step": 1, "name": "loss", "value": 0.5, "time": 3.0}\n'
    path.write_bytes(good + b"x" * 300_000 + b"\n" + good)
    batches = drain(spool, has_ended=True)
    assert sum(b.head.bad_lines for b in batches) == 1
    assert sum(len(b.payload) for b in batches) == 2 * 28
    assert spool.acked == path.stat().st_size


BAD = [
    b'{"step": 1, "name": "loss"',
    b'{"name": "loss", "value": 1}',
    b'{"step": 1, "name": "loss", "value": "1"}',
    b'{"step": 1, "name": "loss", "value": true}',
    b'{"step": true, "name": "loss", "value": 1}',
    b'{"step": 1, "name": {"a": 1}, "value": 1}',
    b'{"step": 1, "name": "loss", "value": {"a": 1}}',
    b'{"step": 1, "name": "", "value": 1}',
    b'{"step": NaN, "name": "loss", "value": 1}',
    b'{"step": 1, "name": "' + b"n" * 201 + b'", "value": 1}',
    b'{"step": 1, "name": "a\\u0000b", "value": 1}',
    b'{"step": 1, "name": "\\ud800", "value": 1}',
    b'{"step": 1, "name": "loss", "value": 1' + b"0" * 400 + b"}",
    b'{"step": 1' + b"0" * 400 + b', "name": "loss", "value": 1, "time": 1}',
    b'{"step": 1, "name": "loss", "value": 1, "time": 1' + b"0" * 400 + b"}",
    b"[1, 2]",
    b"[" * 100_000,
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize("line", BAD)
def test_bad_line_is_counted_and_loses_nothing_else(line):
    good = b'{"step": 1, "name": "loss", "value": 2, "time": 3}\n'
    points = pack(good + line + b"\n" + good, set(), now=0.0)
    assert (points.bad_lines, len(points.bad_samples), len(points.payload)) == (1, 1, 56)


@pytest.mark.parametrize("field", ["step", "time"])
def test_a_number_beyond_floats_is_bad_also_where_all_lines_have_the_usual_shape(field):
    line = '{"step": 1, "name": "loss", "value": 1, "time": 1}\n'.replace(f'"{field}": 1', f'"{field}": {"9" * 400}')
    points = pack(line.encode(), set(), now=0.0)
    assert (points.bad_lines, points.payload) == (1, b"")


def test_odd_but_good_lines():
    lines = b"""{"step": -2, "name": "a", "value": -Infinity, "time": 1}
{"value": 1e-4, "name": "b \\u00e9", "step": 0.5}
{"step": 9007199254740993, "name": "\xc3\xa9", "value": 9007199254740993, "time": 1.5, "rank": 0}

{"step": 3, "name": "a", "value": NaN, "time": 1}
"""
    points = pack(lines, set(), now=7.0)
    rows = numpy.frombuffer(points.payload, dtype=POINT_DTYPE)
    assert points.bad_lines == 0
    assert points.names == ["a", "b é", "é"]
    assert list(rows["step"]) == [-2, 0.5, 2**53, 3]
    assert list(rows["time"]) == [1, 7.0, 1.5, 1]
    assert [str(v) for v in rows["value"]] == ["-inf", "0.0001", "9007199254740992.0", "nan"]


def test_fast_and_slow_way_agree():
    lines = [b'{"step": %d, "name": "m%d", "value": %s, "time": 1.25}\n' % (n, n % 7, v) for n, v in
             enumerate([b"1.0", b"1e-07", b"NaN", b"Infinity", b"-Infinity", b"3", b"-2.5e+30"] * 20)]  # fmt: skip
    fast = pack(b"".join(lines), set(), now=0)
    slow = pack(b"".join(lines) + b"broken\n", set(), now=0)
    assert (fast.payload, fast.names) == (slow.payload, slow.names)


def test_at_most_five_thousand_names():
    lines = b"".join(b'{"step": 0, "name": "n%d", "value": 1, "time": 1}\n' % n for n in range(5001))
    known: set[str] = set()
    points = pack(lines, known, now=0)
    assert (len(points.names), points.bad_lines, len(known)) == (5000, 1, 5000)


def test_truncated_file_ships_nothing(tmp_path):
    spool, path = make(tmp_path)
    path.write_bytes(b"some text\n")
    drain(spool, has_ended=False)
    os.truncate(path, 3)
    assert drain(spool, has_ended=True) == []
