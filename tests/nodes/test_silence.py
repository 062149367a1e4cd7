"""Late and lost, counted by one monotonic clock, only while the portal itself can be reached."""

from __future__ import annotations

from uuid import UUID

import pytest

from nodes.models import Node
from nodes.services.silence import Watch, exchanges_of_expected, mark_late, mark_lost
from nodes.states import NodeState
from tests.builders import make_node

A, B = UUID(int=1), UUID(int=2)


def test_silence_makes_late_then_lost():
    watch = Watch(lost_seconds=45)
    assert watch.look({A: 1}, now=100, probe_ok=True) == (set(), set())
    assert watch.look({A: 1}, now=114, probe_ok=True) == (set(), set())
    assert watch.look({A: 1}, now=115, probe_ok=True) == ({A}, set())
    assert watch.look({A: 1}, now=144, probe_ok=True) == ({A}, set())
    assert watch.look({A: 1}, now=145, probe_ok=True) == (set(), {A})


def test_a_word_begins_it_anew():
    watch = Watch(lost_seconds=45)
    watch.look({A: 1, B: 1}, now=0, probe_ok=True)
    watch.look({A: 1, B: 1}, now=44, probe_ok=True)
    assert watch.look({A: 2, B: 1}, now=46, probe_ok=True) == (set(), {B})
    assert watch.look({A: 2, B: 1}, now=60, probe_ok=True) == (set(), {B})
    assert watch.look({A: 2, B: 1}, now=61, probe_ok=True) == ({A}, {B})


def test_the_clock_stands_while_the_portal_cannot_be_reached():
    watch = Watch(lost_seconds=45)
    watch.look({A: 1}, now=0, probe_ok=True)
    watch.look({A: 1}, now=40, probe_ok=True)
    assert watch.look({A: 1}, now=1000, probe_ok=False) == ({A}, set())
    assert watch.look({A: 1}, now=1004, probe_ok=True) == ({A}, set())
    assert watch.look({A: 1}, now=1005, probe_ok=True) == (set(), {A})


def test_a_node_seen_for_the_first_time_is_not_silent():
    watch = Watch(lost_seconds=45)
    watch.look({A: 1}, now=0, probe_ok=True)
    assert watch.look({A: 2, B: 1}, now=100, probe_ok=True) == (set(), set())


def test_a_short_loss_limit_shortens_lateness():
    watch = Watch(lost_seconds=4)
    watch.look({A: 1}, now=0, probe_ok=True)
    assert watch.look({A: 1}, now=2, probe_ok=True) == ({A}, set())
    assert watch.look({A: 1}, now=4, probe_ok=True) == (set(), {A})


@pytest.mark.django_db
def test_who_spoke_meanwhile_is_neither_late_nor_lost():
    node = make_node()
    Node.objects.update(exchanges=5)
    assert not mark_late(node.pk, 4)
    assert not mark_lost(node.pk, 4)
    assert mark_late(node.pk, 5)
    assert mark_lost(node.pk, 5)
    assert not mark_lost(node.pk, 5)
    assert [event.text for event in node.events.all()] == [
        "Is lost: its jobs are moved.",
        "Is late: no exchange for a while.",
    ]


@pytest.mark.django_db
def test_only_nodes_that_have_spoken_are_expected_to():
    expected = make_node(state=NodeState.LATE)
    make_node(state=NodeState.NEW)
    make_node(state=NodeState.LOST)
    assert exchanges_of_expected() == {expected.pk: 0}
