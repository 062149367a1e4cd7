"""What holds for every snapshot: no device twice, gangs whole, quotas kept, constraints kept, same in, same out."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.plan import order_of, plan
from jobs.scheduler.use import accounts_of
from jobs.scheduler.values import (
    Ceiling,
    Closed,
    DeviceView,
    Need,
    NodeView,
    Plan,
    RunningJob,
    Snapshot,
    WaitingJob,
)

KINDS = ("cpu", "A100")
limits = st.one_of(st.none(), st.integers(0, 6))


@st.composite
def snapshots(draw) -> Snapshot:
    nodes = tuple(_node(draw, i) for i in range(draw(st.integers(0, 5))))
    waiting = tuple(_job(draw, i, nodes) for i in range(draw(st.integers(0, 8))))
    running = tuple(
        RunningJob(100 + i, draw(st.integers(1, 3)), draw(st.sampled_from((None, 1))), draw(st.integers(0, 3)))
        for i in range(draw(st.integers(0, 3)))
    )
    accounts = [("person", 1), ("person", 2), ("team", 1)]
    ceilings = {account: Ceiling(draw(limits), draw(limits)) for account in accounts}
    return Snapshot(1000.0, nodes, waiting, running, ceilings, hold_after_seconds=500)


def _node(draw, i: int) -> NodeView:
    kind = draw(st.sampled_from(KINDS))
    devices = tuple(
        DeviceView(i * 10 + d, d, kind, draw(st.sampled_from((0, 500, 1000)))) for d in range(draw(st.integers(0, 4)))
    )
    closed = draw(st.sampled_from((None, None, None, *Closed)))
    cpus = draw(st.sampled_from((0, 4)))
    return NodeView(f"n{i}", f"n{i}", devices, cpus=cpus, launches=draw(st.integers(0, 3)), closed=closed)


def _job(draw, i: int, nodes: tuple[NodeView, ...]) -> WaitingJob:
    need = Need(
        draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.sampled_from((None, *KINDS))), draw(st.integers(0, 3))
    )
    avoid = frozenset(draw(st.sets(st.sampled_from([node.id for node in nodes])))) if nodes else frozenset()
    return WaitingJob(
        i, draw(st.integers(1, 2)), draw(st.sampled_from((None, 1))), need, draw(st.floats(0, 1000)),
        draw(st.integers(-1, 1)), avoid, draw(st.booleans()),
    )  # fmt: skip


def _room_left(snapshot: Snapshot, result: Plan) -> Snapshot:
    """The snapshot after the plan was carried out."""
    taken = {device for start in result.starts for seat in start.seats for device in seat.devices}
    jobs = {job.id: job for job in snapshot.waiting}
    cpus = Counter({seat.node: 0 for start in result.starts for seat in start.seats})
    for start in result.starts:
        for seat in start.seats:
            cpus[seat.node] += jobs[start.job].need.cpus
    nodes = tuple(
        replace(
            node,
            devices=tuple(replace(d, free=0) if d.id in taken else d for d in node.devices),
            cpus_used=node.cpus_used + cpus[node.id],
        )
        for node in snapshot.nodes
    )
    begun = {start.job for start in result.starts}
    running = snapshot.running + tuple(
        RunningJob(job.id, job.owner, job.team, job.need.device_count, job.is_counted)
        for job in snapshot.waiting
        if job.id in begun
    )
    waiting = tuple(job for job in snapshot.waiting if job.id not in begun)
    return replace(snapshot, nodes=nodes, waiting=waiting, running=running)


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_devices_gangs_and_constraints(snapshot):
    before = copy.deepcopy(snapshot)
    result = plan(snapshot)
    assert snapshot == before
    devices = {d.id: (node, d) for node in snapshot.nodes for d in node.devices}
    nodes = {node.id: node for node in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.waiting}
    given_out = [device for start in result.starts for seat in start.seats for device in seat.devices]
    assert len(given_out) == len(set(given_out))
    assert len({start.job for start in result.starts}) == len(result.starts)
    for start in result.starts:
        need = jobs[start.job].need
        assert len(start.seats) == need.nodes == len({seat.node for seat in start.seats})
        kinds = set()
        for seat in start.seats:
            assert nodes[seat.node].closed is None
            assert len(seat.devices) == need.devices_per_node
            for device in seat.devices:
                node, view = devices[device]
                assert node.id == seat.node
                assert view.free == 1000
                kinds.add(view.kind)
        assert len(kinds) <= 1
        assert need.kind is None or kinds <= {need.kind}
    for node in _room_left(snapshot, result).nodes:
        assert node.cpus == 0 or node.cpus_used <= node.cpus


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_quotas_are_kept(snapshot):
    after = _room_left(snapshot, plan(snapshot))
    before_use, use = _use(snapshot), _use(after)
    for account, ceiling in snapshot.ceilings.items():
        for which, limit in ((0, ceiling.devices), (1, ceiling.jobs)):
            assert limit is None or use[account, which] <= max(limit, before_use[account, which])


def _use(snapshot: Snapshot) -> Counter:
    use: Counter = Counter()
    for job in snapshot.running:
        if job.is_counted:
            for account in accounts_of(job):
                use[account, 0] += job.device_count
                use[account, 1] += 1
    return use


@settings(max_examples=200, deadline=None)
@given(snapshots(), st.randoms())
def test_order_of_the_tuples_does_not_matter(snapshot, random):
    shuffled = replace(
        snapshot,
        nodes=tuple(random.sample(snapshot.nodes, len(snapshot.nodes))),
        waiting=tuple(random.sample(snapshot.waiting, len(snapshot.waiting))),
    )
    assert plan(shuffled) == plan(snapshot)


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_everybody_is_answered_and_a_second_pass_starts_nothing(snapshot):
    result = plan(snapshot)
    answered = [start.job for start in result.starts] + [item.job for item in result.explanations]
    assert sorted(answered) == sorted(job.id for job in snapshot.waiting)
    positions = [item.position for item in result.explanations if item.position is not None]
    assert positions == list(range(1, len(positions) + 1))
    assert plan(_room_left(snapshot, result)).starts == ()


@settings(max_examples=200, deadline=None)
@given(snapshots())
def test_the_first_in_line_is_not_passed_on_its_nodes_after_the_bound(snapshot):
    """Withdrawing everybody behind the held job leaves it exactly as near to its start."""
    result = plan(snapshot)
    held = {item.held_for for item in result.explanations if item.held_for is not None}
    assert len(held) <= 1
    for id in held:
        order = order_of(snapshot)
        place = next(i for i, job in enumerate(order) if job.id == id)
        alone = plan(replace(snapshot, waiting=tuple(order[: place + 1])))
        assert alone.explanation_of(id).why == result.explanation_of(id).why
