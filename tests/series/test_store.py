"""Points come in once, are packed, and are read as they were written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jobs.models import JobEvent, SeriesBatch, SeriesChunk, Stream
from jobs.series import compact, pyramid, store
from jobs.series.export import export_csv, export_points
from jobs.series.page import SeriesPage
from jobs.series.points import Points, join
from jobs.series.read import read_series, series_names
from jobs.services.progress import take_batches
from nodes.messages import Batch, pack_batches
from portal.errors import Invalid

pytestmark = pytest.mark.django_db


def job_of(writer):
    return writer.placement.attempt.job


def exported(job, name="loss") -> np.ndarray:
    return join([part.points for part in export_points(job, [name])]).value


def compact_all() -> None:
    for stream in Stream.objects.filter(kind="metrics"):
        while compact.compact(stream.pk):
            pass


def test_a_batch_sent_twice_is_stored_once(make_writer):
    writer = make_writer()
    writer.send([1, 2, 3])
    writer.send([4, 5])
    for batch in writer.sent:
        assert writer.post(batch).acked == 50
    assert exported(job_of(writer)).tolist() == [1, 2, 3, 4, 5]


def test_a_gap_is_refused_and_the_answer_says_where_to_go_on(make_writer):
    writer = make_writer()
    writer.send([1, 2])
    writer.offset = 50
    ack = writer.send([9])
    assert ack.acked == 20
    assert ack.problem.startswith("gap")
    assert exported(job_of(writer)).tolist() == [1, 2]


def test_a_declared_gap_is_counted(make_writer):
    writer = make_writer()
    writer.send([1, 2])
    writer.offset = 50
    late = writer.batch([3])
    ack = writer.post(Batch(late.head.model_copy(update={"gap": 30}), late.payload))
    assert (ack.acked, ack.problem) == (60, "")
    assert Stream.objects.get().gap_bytes == 30


def test_a_batch_that_overlaps_in_part_stores_nothing(make_writer):
    writer = make_writer()
    writer.send([1, 2])
    writer.offset = 10
    ack = writer.send([2, 3])
    assert (ack.acked, ack.problem) == (20, "")
    assert exported(job_of(writer)).tolist() == [1, 2]


def test_unknown_tokens_and_foreign_nodes_are_told_so(make_writer):
    one, other = make_writer(), make_writer()
    batch = one.batch([1])
    ack = take_batches(other.node, pack_batches([batch])).acks[0]
    assert ack.problem == "unknown token"
    assert not Stream.objects.exists()
    with pytest.raises(Invalid):
        take_batches(one.node, b"\x01\x00\x00\x00")


def test_a_superseded_attempt_may_append_to_its_own_streams(make_writer):
    old = make_writer()
    make_writer(job_of(old), attempt=2)
    assert old.send([1]).problem == ""


def test_values_that_are_not_finite_are_kept_and_told_once(make_writer):
    writer = make_writer()
    wanted = [1, math.nan, math.inf, -math.inf, 2]
    writer.send(wanted)
    writer.send([math.nan])
    job = job_of(writer)
    text = b"".join(export_csv(job)).decode()
    assert [line.split(",")[-1] for line in text.split("\r\n")[1:6]] == ["1", "nan", "inf", "-inf", "2"]
    compact_all()
    np.testing.assert_array_equal(exported(job), [*wanted, math.nan])
    page = read_series(job)
    assert page.pieces[0].head()["y"] == (1, 2)
    event = JobEvent.objects.get(kind="warning")
    assert event.data == {"code": "not_finite", "name": "loss", "step": 1.0}


def test_names_that_cannot_be_kept_are_counted(make_writer, monkeypatch):
    monkeypatch.setattr(store, "MAX_NAMES", 3)
    writer = make_writer()
    writer.send(range(6), ["a", "x" * 10_000, "nul\x00", "b", "c", "d"])
    writer.send([1.0], ["e"])
    job = job_of(writer)
    assert series_names(job).names == ["a", "nul␀", "b"]
    stream = Stream.objects.get()
    assert (stream.bad_lines, stream.points) == (4, 3)
    assert stream.bad_samples[1:] == ["c", "d", "e"]
    assert JobEvent.objects.filter(data__code="too_many_names").count() == 1
    assert series_names(job, "nul").total == 1


@pytest.mark.parametrize("budget", [50, 700, 2000])
def test_thinned_pages_hold_what_the_raw_points_hold(make_writer, budget):
    writer = make_writer()
    rng = np.random.default_rng(7)
    values = rng.normal(size=9_000)
    values[[5, 4100]] = math.nan
    for at in range(0, 9_000, 1_500):
        writer.send(values[at : at + 1_500], first=at)
        page = read_series(job_of(writer), points=budget)
        check_page(page, values[: at + 1_500], budget)
    compact_all()
    assert not SeriesBatch.objects.exists()
    assert [c.n for c in SeriesChunk.objects.order_by("ordinal")] == [4096, 4096, 808]
    check_page(read_series(job_of(writer), points=budget), values, budget)
    np.testing.assert_array_equal(exported(job_of(writer)), values)


def check_page(page: SeriesPage, values: np.ndarray, budget: int) -> None:
    (piece,) = page.pieces
    assert (piece.first, piece.total) == (0, len(values))
    assert len(piece.data) <= budget
    steps = np.arange(len(values), dtype=float)
    if isinstance(piece.data, Points):
        np.testing.assert_array_equal(piece.data.value, values)
        return
    wanted = pyramid.from_points(Points(steps, np.full(len(values), 1e9), values), 0, piece.level)
    for name in set(pyramid.BUCKET.names) - {"total"}:
        np.testing.assert_array_equal(piece.data[name], wanted[name], err_msg=name)
    np.testing.assert_allclose(piece.data["total"], wanted["total"], atol=1e-9)


def test_a_reader_with_a_cursor_ends_up_with_the_same_as_a_fresh_one(make_writer):
    """The replay rule: old page + deltas = page fetched afresh, over compaction and changes of width."""
    writer = make_writer()
    job = job_of(writer)
    rng = np.random.default_rng(3)
    copy: dict = {}
    rev, attempt = 0, None
    for turn in range(60):
        n = int(rng.integers(1, 400))
        names = rng.choice(["loss", "acc"], n).tolist()
        writer.send(rng.normal(size=n), names, first=turn * 1000)
        if turn % 7 == 3:
            compact_all()
        if turn % 3 == 0:
            page = read_series(job, points=300, since_rev=rev, since_attempt=attempt)
            apply(copy, page)
            rev, attempt = page.rev, page.attempt
            fresh: dict = {}
            apply(fresh, read_series(job, points=300))
            assert copy.keys() == fresh.keys()
            for key, (level, columns) in fresh.items():
                assert copy[key][0] == level
                for name, column in columns.items():
                    if name != "mean":
                        np.testing.assert_array_equal(copy[key][1][name], column, err_msg=f"{turn} {key} {name}")
    assert read_series(job, points=300, since_rev=job.__class__.objects.get(pk=job.pk).rev).pieces == []


def apply(copy: dict, page: SeriesPage) -> None:
    """What the browser does with a page (see jobs/series/README.md)."""
    if page.reset:
        copy.clear()
    for piece in page.pieces:
        key, columns = (piece.stream, piece.name), piece.columns()
        if piece.first:
            level, older = copy[key]
            assert level == piece.level
            assert piece.first <= len(next(iter(older.values())))
            columns = {name: np.concatenate([older[name][: piece.first], new]) for name, new in columns.items()}
        copy[key] = (piece.level, columns)


def test_a_later_attempt_hides_what_it_repeats(make_writer):
    first = make_writer()
    job = job_of(first)
    first.send(np.arange(5000.0))
    compact_all()
    page = read_series(job)
    second = make_writer(job, attempt=2, resume_step=4199)
    second.send([7.0, 8.0], first=4200)
    again = read_series(job, since_rev=page.rev, since_attempt=page.attempt)
    assert again.reset
    assert [(p.attempt, p.total, p.hidden_from) for p in again.pieces] == [(1, 4200, 4200), (2, 2, None)]
    shown = read_series(job, attempts="all")
    assert [p.total for p in shown.pieces] == [5000, 2]
    assert len(exported(job)) == 5002


def test_a_window_of_steps_is_read_finer(make_writer):
    writer = make_writer()
    writer.send(np.arange(20_000.0))
    compact_all()
    page = read_series(job_of(writer), points=500, window=(5000, 5100))
    (piece,) = page.pieces
    assert piece.level == 0
    assert piece.data.value.tolist() == list(range(5000, 5101))
    wide = read_series(job_of(writer), points=100, window=(5000, 15_000)).pieces[0]
    assert wide.level > 0
    assert wide.data["step_max"][-1] == 15_000
    assert wide.data["step_min"][0] <= 5000


def test_ranks_are_apart(make_writer):
    writer = make_writer()
    other = make_writer(job_of(writer), attempt=2, rank=1)
    writer.send([1.0])
    other.send([2.0])
    job = job_of(writer)
    assert [p.rank for p in read_series(job, attempts="all").pieces] == [0]
    assert [p.rank for p in read_series(job, attempts="all", ranks=()).pieces] == [0, 1]


def test_many_points_reach_the_widest_levels(make_writer):
    writer = make_writer()
    values = np.random.default_rng(1).normal(size=150_000)
    for at in range(0, len(values), 30_000):
        writer.send(values[at : at + 30_000], first=at)
    compact_all()
    check_page(read_series(job_of(writer), points=20), values, 20)
    check_page(read_series(job_of(writer), points=2), values, 2)
    check_page(read_series(job_of(writer), points=2000), values, 2000)
