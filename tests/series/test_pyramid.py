"""The pure part of the metric store: thinned envelope = raw envelope, counts kept, closed buckets never change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.series import points as pts
from jobs.series import pyramid, thin
from jobs.series.page import Piece, SeriesPage, from_bytes

values = st.lists(
    st.one_of(st.floats(width=64), st.sampled_from([math.nan, math.inf, -math.inf, 0.0])), min_size=1, max_size=300
)


def make(raw: list[float]) -> pts.Points:
    n = len(raw)
    return pts.Points(np.arange(n, dtype=float), 1e9 + np.arange(n), np.array(raw, dtype=float))


@given(values, st.integers(0, 9), st.integers(0, 5000))
@settings(deadline=None)
def test_thinned_envelope_equals_raw_envelope_and_counts_are_kept(raw, bits, first):
    made = pyramid.from_points(make(raw), first, bits)
    array = np.array(raw)
    finite = array[np.isfinite(array)]
    has = made["finite"] > 0
    if len(finite):
        assert made["low"][has].min() == finite.min()
        assert made["high"][has].max() == finite.max()
        assert made["first"][has][0] == finite[0]
        assert made["last"][has][-1] == finite[-1]
    assert not has.any() or np.isfinite(made["low"][has]).all()
    assert np.isnan(made["low"][~has]).all()
    assert made["finite"].sum() == len(finite)
    assert made["nan"].sum() == np.isnan(array).sum()
    assert made["pos"].sum() == np.isposinf(array).sum()
    assert made["neg"].sum() == np.isneginf(array).sum()
    assert made["step_min"][0] == 0
    assert made["step_max"][-1] == len(raw) - 1
    assert len(made) == ((first + len(raw) - 1) >> bits) - (first >> bits) + 1


@given(values, st.integers(0, 4), st.integers(0, 5))
@settings(deadline=None)
def test_buckets_merged_twice_equal_buckets_merged_once(raw, narrow, more):
    source = make(raw)
    once = pyramid.from_points(source, 0, narrow + more)
    small = pyramid.from_points(source, 0, narrow)
    twice = pyramid.merge(small, np.arange(len(small), dtype=np.int64) << narrow, narrow + more)
    for name in set(pyramid.BUCKET.names) - {"total"}:
        np.testing.assert_array_equal(once[name], twice[name])


@given(values, values, st.integers(0, 6))
@settings(deadline=None)
def test_appending_never_changes_closed_buckets(raw, more, bits):
    before = pyramid.from_points(make(raw), 0, bits)
    after = pyramid.from_points(make(raw + more), 0, bits)
    closed = len(raw) >> bits
    assert before[:closed].tobytes() == after[:closed].tobytes()


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.integers(2, 5000))
def test_level_is_the_smallest_that_fits(start, length, most):
    level = thin.level_for(start, start + length, most)

    def count(bits: int) -> int:
        return ((start + length - 1) >> bits) - (start >> bits) + 1

    assert count(level) <= most
    assert level == 0 or count(level - 1) > most


def test_not_finite_values_leave_the_axis_alone():
    source = make([1, math.nan, math.inf, -math.inf, 2])
    assert thin.finite_range(source) == (1, 2)
    assert thin.finite_range(pyramid.from_points(source, 0, 3)) == (1, 2)
    assert thin.finite_range(make([math.nan])) is None
    assert thin.y_range(None, None) is None
    assert thin.y_range(1, 2) == (0.95, 2.05)
    assert thin.y_range(3, 3) == (2.85, 3.15)
    low, high = thin.y_range(-1.7e308, 1.7e308) or (0, 0)
    assert math.isfinite(low)
    assert math.isfinite(high)


@given(values, st.integers(1, 5))
def test_records_and_chunks_come_back_exactly(raw, names):
    source = make(raw)
    index = np.arange(len(raw), dtype=np.uint32) % names
    records = pts.unpack_records(pts.pack_records(index, source))
    split = pts.places_by_name(records["name"])
    assert sorted(split) == sorted(set(index.tolist()))
    for name, places in split.items():
        again = pts.unpack_chunk(pts.pack_chunk(pts.columns(records[places])))
        assert again.value.tobytes() == source.value[index == name].tobytes()
        np.testing.assert_array_equal(again.step, source.step[index == name])


def test_a_cut_record_is_refused():
    with pytest.raises(ValueError, match="no whole number"):
        pts.unpack_records(b"x" * 29)


def test_a_page_survives_the_wire():
    source = make([1.0, math.nan, math.inf, 4.0])
    pieces = [
        Piece(5, 1, 0, "损失", 0, 0, 4, None, source),
        Piece(5, 1, 0, "b", 1, 7, 18, 3, pyramid.from_points(source, 14, 1)),
    ]
    page = SeriesPage(job=7, rev=3, attempt=1, attempts="current", reset=False, names_total=2, pieces=pieces)
    head, columns = from_bytes(page.to_bytes("v"))
    assert (head["rev"], head["view"], [p["name"] for p in head["pieces"]]) == (3, "v", ["损失", "b"])
    np.testing.assert_array_equal(columns[0]["value"], source.value)
    np.testing.assert_array_equal(columns[1]["mean"], [1.0, 4.0])
    assert columns[1]["nan"].tolist() == [1, 0]
    assert columns[1]["pos"].tolist() == [0, 1]
    assert page.to_json()["pieces"][0]["value"] == [1.0, "NaN", "Infinity", 4.0]
