"""The policy by literals: order, gangs, kinds, avoided nodes, quotas, holds, and the five texts."""

from __future__ import annotations

import pytest

from jobs.scheduler.plan import plan
from jobs.scheduler.values import (
    Ceiling,
    Closed,
    DeviceView,
    Need,
    NodeView,
    RunningJob,
    Snapshot,
    WaitingJob,
    Why,
)


def node(name: str, devices: int = 2, *, busy: int = 0, kind: str = "cpu", **more) -> NodeView:
    base = (ord(name[0]) - ord("a")) * 100
    views = tuple(DeviceView(base + i, i, kind, 0 if i < busy else 1000) for i in range(devices))
    return NodeView(id=name, name=f"node-{name}", devices=views, address=f"10.0.0.{base}", **more)


def job(id: int, nodes: int = 1, devices: int = 1, *, queued_at: float = 0.0, priority: int = 0, **more) -> WaitingJob:
    need_names = ("kind", "cpus", "memory_bytes")
    need = Need(nodes, devices, **{name: more.pop(name) for name in need_names if name in more})
    return WaitingJob(id, more.pop("owner", 1), more.pop("team", None), need, queued_at, priority, **more)


def started(snapshot: Snapshot) -> list[int]:
    return [start.job for start in plan(snapshot).starts]


def why(snapshot: Snapshot, id: int):
    explanation = plan(snapshot).explanation_of(id)
    assert explanation is not None
    return explanation


def test_gang_takes_the_lowest_free_devices_of_each_node():
    result = plan(Snapshot(0, (node("b"), node("a")), (job(1, 2, 1),)))
    assert [(seat.node, seat.devices) for seat in result.starts[0].seats] == [("a", (0,)), ("b", (100,))]


def test_ranks_follow_addresses_as_text():
    nodes = (NodeView("a", "a", (DeviceView(1, 0, "cpu"),), address="10.0.0.9"),)
    nodes += (NodeView("b", "b", (DeviceView(2, 0, "cpu"),), address="10.0.0.10"),)
    result = plan(Snapshot(0, nodes, (job(1, 2, 1),)))
    assert [seat.node for seat in result.starts[0].seats] == ["b", "a"]


def test_priority_then_age_then_id():
    waiting = (job(3, queued_at=5), job(2, queued_at=5), job(1, queued_at=9), job(4, queued_at=99, priority=1))
    assert started(Snapshot(100, (node("a", 3),), waiting)) == [4, 2, 3]


def test_gang_is_placed_whole_or_not_at_all():
    snapshot = Snapshot(0, (node("a"), node("b", busy=2)), (job(1, 2, 1),))
    assert started(snapshot) == []
    assert why(snapshot, 1).why is Why.FULL or why(snapshot, 1).why is Why.FRAGMENTED


def test_best_fit_leaves_the_big_hole():
    result = plan(Snapshot(0, (node("a", 4), node("b", 4, busy=3)), (job(1, 1, 1),)))
    assert result.starts[0].seats[0].node == "b"


def test_job_without_devices_goes_to_the_least_loaded_node():
    result = plan(Snapshot(0, (node("a", launches=2), node("b", launches=1)), (job(1, 1, 0), job(2, 1, 0))))
    assert [start.seats[0].node for start in result.starts] == ["b", "a"]


def test_avoided_nodes_help_out_only_when_needed():
    one = plan(Snapshot(0, (node("a"), node("b")), (job(1, 1, 1, avoid=frozenset({"a"})),)))
    two = plan(Snapshot(0, (node("a"), node("b")), (job(1, 2, 1, avoid=frozenset({"a"})),)))
    assert one.starts[0].seats[0].node == "b"
    assert len(two.starts[0].seats) == 2


@pytest.mark.parametrize("closed", list(Closed))
def test_closed_nodes_get_nothing(closed):
    assert started(Snapshot(0, (node("a", closed=closed),), (job(1), job(2, 1, 0)))) == []


def test_a_gang_is_of_one_kind_and_accelerators_come_first():
    nodes = (node("a", 2), node("b", 2, kind="A100"), node("c", 2))
    assert plan(Snapshot(0, nodes, (job(1),))).starts[0].seats[0].node == "b"
    pair = plan(Snapshot(0, nodes, (job(1, 2, 1),)))
    assert [seat.node for seat in pair.starts[0].seats] == ["a", "c"]


def test_cpu_and_memory_count():
    nodes = (node("a", 4, cpus=8, cpus_used=6, memory_bytes=100, memory_used_bytes=10),)
    assert started(Snapshot(0, nodes, (job(1, cpus=2), job(2, cpus=1)))) == [1]
    assert why(Snapshot(0, nodes, (job(1, memory_bytes=95),)), 1).why is Why.CPU_OR_MEMORY


def test_team_and_person_both_need_room():
    ceilings = {("team", 7): Ceiling(devices=3), ("person", 1): Ceiling(jobs=2)}
    waiting = (job(1, 1, 2, team=7), job(2, 1, 2, team=7), job(3, 1, 1, team=7), job(4))
    snapshot = Snapshot(0, (node("a", 8),), waiting, ceilings=ceilings)
    assert started(snapshot) == [1, 3]
    blocked = why(snapshot, 2)
    assert (blocked.why, blocked.account, blocked.limit, blocked.used) == (Why.QUOTA_DEVICES, ("team", 7), 3, 2)
    assert why(snapshot, 4).why is Why.QUOTA_JOBS


def test_running_jobs_count_against_the_ceiling():
    snapshot = Snapshot(
        0, (node("a", 8),), (job(2),), (RunningJob(1, 1, None, 4),), ceilings={("person", 1): Ceiling(devices=4)}
    )
    assert why(snapshot, 2).used == 4


def test_own_work_is_outside_quotas_and_positions():
    ceilings = {("person", 1): Ceiling(devices=0, jobs=0)}
    snapshot = Snapshot(
        0, (node("a", 1, busy=1),), (job(2), job(1, 1, 0, is_counted=False, queued_at=9)), ceilings=ceilings
    )
    assert started(snapshot) == [1]
    assert why(snapshot, 2).position == 1


# --- the first in line is not overtaken for ever ----------------------------------------------------------------------


def test_small_jobs_pass_a_blocked_gang_before_the_bound():
    nodes = (node("a", 2, busy=1), node("b", 2))
    assert started(Snapshot(100, nodes, (job(1, 2, 2), job(2, queued_at=50)))) == [2]


def test_after_the_bound_its_devices_are_held():
    nodes = (node("a", 2, busy=1), node("b", 2))
    snapshot = Snapshot(700, nodes, (job(1, 2, 2), job(2, queued_at=50)))
    assert started(snapshot) == []
    assert (why(snapshot, 2).why, why(snapshot, 2).held_for) == (Why.HELD, 1)


def test_what_it_would_not_need_stays_free():
    nodes = (node("a", 2, busy=1), node("b", 2), node("c", 2, busy=1))
    snapshot = Snapshot(700, nodes, (job(1, 2, 2), job(2, queued_at=50), job(3, queued_at=60)))
    result = plan(snapshot)
    assert [(start.job, start.seats[0].node) for start in result.starts] == [(2, "c")]


def test_a_job_blocked_by_its_own_ceiling_holds_nothing():
    snapshot = Snapshot(
        9999, (node("a", 2, busy=1),), (job(1, owner=5), job(2)), ceilings={("person", 5): Ceiling(devices=0)}
    )
    assert started(snapshot) == [2]


# --- each reason on its own (five of them are the ones people ask for) ------------------------------------------------


def test_over_quota_full_fragmented_drained_and_missing_kind_are_five_reasons():
    quota = Snapshot(0, (node("a"),), (job(1),), ceilings={("person", 1): Ceiling(devices=0)})
    full = Snapshot(0, (node("a", busy=2), node("b", busy=2)), (job(1),))
    fragmented = Snapshot(0, (node("a", 4, busy=2), node("b", 4, busy=2)), (job(1, 1, 4),))
    drained = Snapshot(0, (node("a", busy=2), node("b", closed=Closed.DRAINING)), (job(1),))
    missing = Snapshot(0, (node("a"),), (job(1, kind="A100"),))
    found = [why(snapshot, 1).why for snapshot in (quota, full, fragmented, drained, missing)]
    assert found == [Why.QUOTA_DEVICES, Why.FULL, Why.FRAGMENTED, Why.NODES_CLOSED, Why.NO_SUCH_KIND]
    assert why(fragmented, 1).free == 4
    assert why(fragmented, 1).largest == 2
    assert why(drained, 1).names == ("node-b",)
    assert why(missing, 1).names == ("cpu",)


def test_what_started_in_the_same_pass_is_taken():
    snapshot = Snapshot(0, (node("a"),), (job(1, 1, 2), job(2, 1, 2)))
    assert why(snapshot, 2).why is Why.FULL


def test_a_shrunken_cluster_says_so():
    snapshot = Snapshot(0, (node("a"), node("b")), (job(1, 3, 1), job(2, 1, 9)))
    assert why(snapshot, 1).why is Why.NEVER_FITS
    assert why(snapshot, 2).largest == 2
    assert why(Snapshot(0, (), (job(1),)), 1).why is Why.NO_NODES
