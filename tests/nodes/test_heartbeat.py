"""What an exchange says of the node itself: sessions, conflicts, devices, usage."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from jobs.models import Job
from jobs.services.stop import cancel_job
from nodes.messages import DeviceReport, EndCause, UsageSample
from nodes.models import Device, Node, UsageBatch
from nodes.services.usage import keep_usage, read_usage, sweep_usage
from nodes.states import NodeState
from tests.builders import FakeAgent, bring_up, make_job, make_node, schedule

pytestmark = pytest.mark.django_db


def fresh(node: Node) -> Node:
    return Node.objects.get(pk=node.pk)


def fresh_job(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def test_the_first_exchange_makes_a_node_online():
    node = make_node(state=NodeState.NEW, facts={})
    agent = FakeAgent(node)
    assert agent.exchange(facts=None).resend_facts
    assert not agent.exchange().resend_facts
    now = fresh(node)
    assert (now.state, now.exchanges, now.counter) == (NodeState.ONLINE, 2, 2)
    assert now.facts["cpu_count"] == 8
    assert now.hostname == "gpu-1"
    assert [event.kind for event in node.events.all()] == ["state"]


def test_clock_skew_is_noted_and_not_used():
    node = make_node()
    FakeAgent(node).exchange(sent_at=timezone.now().timestamp() + 3600)
    assert 3590 < fresh(node).clock_skew_seconds < 3610


def test_a_restarted_agent_is_no_conflict():
    node = make_node()
    before, after = FakeAgent(node), FakeAgent(node)
    before.exchange()
    after.exchange()
    before.exchange()  # was on its way when the agent was started anew
    assert after.exchange().conflict is None
    assert fresh(node).state == NodeState.ONLINE


def test_two_agents_with_one_id_are_both_named_and_nothing_starts():
    node = make_node()
    first, second = FakeAgent(node, address="10.0.0.1"), FakeAgent(node, address="10.0.0.2")
    make_job()
    for agent in (first, second, first):
        agent.exchange()
    reply = first.exchange()
    assert fresh(node).state == NodeState.CONFLICT
    assert "10.0.0.1" in reply.conflict
    assert "10.0.0.2" in reply.conflict
    assert second.exchange().conflict == reply.conflict
    assert schedule() == 0


def test_orders_wait_while_a_conflict_lasts_and_it_ends_by_silence():
    node = make_node()
    first, second = FakeAgent(node), FakeAgent(node)
    for agent in (first, second):
        agent.exchange()
    make_job()
    schedule()
    first.exchange()
    first.exchange()
    assert second.exchange().launches == []
    assert schedule() == 0
    Node.objects.filter(pk=node.pk).update(former_at=timezone.now() - timedelta(seconds=50))
    reply = second.exchange()
    assert reply.conflict is None
    assert reply.launches
    assert fresh(node).state == NodeState.ONLINE


def test_when_the_newer_agent_is_ended_the_former_one_counts_again():
    """A machine was copied with its id and the copy is switched off: what runs on the first one was never lost."""
    node = make_node()
    first, copy = FakeAgent(node, address="10.0.0.1"), FakeAgent(node, address="10.0.0.2")
    job = make_job()
    schedule()
    bring_up(first)
    copy.exchange()
    first.exchange()
    assert first.exchange().conflict
    before = fresh(node).exchanges
    assert first.exchange().conflict
    assert fresh(node).exchanges == before + 1  # somebody lives there
    Node.objects.filter(pk=node.pk).update(exchanged_at=timezone.now() - timedelta(seconds=50))
    assert first.exchange().conflict is None
    now = fresh(node)
    assert (now.state, now.address, now.session) == (NodeState.ONLINE, "10.0.0.1", first.session)
    first.end()
    assert fresh_job(job).state == "succeeded"


def test_what_runs_in_a_conflict_can_be_stopped_and_its_end_is_taken():
    node = make_node()
    first, copy = FakeAgent(node), FakeAgent(node)
    job = make_job()
    schedule()
    bring_up(first)
    copy.exchange()
    first.exchange()
    first.exchange()
    assert fresh(node).state == NodeState.CONFLICT
    cancel_job(job.owner, job)
    assert [stop.token for stop in first.exchange().stops] == [first.token]
    first.end(cause=EndCause.STOPPED)
    assert fresh_job(job).state == "cancelled"


def test_devices_follow_the_reports():
    node = make_node(devices=0)
    agent = FakeAgent(node)
    sick = DeviceReport(index=1, uuid="b", kind="A100", is_healthy=False, trouble="fell off the bus", utilisation=0.5)
    agent.exchange(devices=[DeviceReport(index=0, uuid="a", kind="A100"), sick])
    assert list(Device.objects.values_list("uuid", "is_healthy")) == [("a", True), ("b", False)]
    assert Device.objects.get(uuid="b").usage["utilisation"] == 0.5
    agent.exchange(devices=[DeviceReport(index=0, uuid="b", kind="A100")])
    gone, well = Device.objects.get(uuid="a"), Device.objects.get(uuid="b")
    assert (gone.is_present, well.is_present, well.is_healthy, well.index) == (False, True, True, 0)
    assert "well again" in node.events.filter(kind="device").first().text


def sample(age: float, cpu: float, devices=(0.5, None)) -> UsageSample:
    return UsageSample(age_seconds=age, cpu=cpu, memory_used_bytes=100, devices=list(devices))


def test_usage_is_packed_and_read_in_order():
    node = make_node()
    now = timezone.now()
    keep_usage(node, [sample(1, 0.2), sample(3, 0.1)], now)
    keep_usage(node, [sample(0, 0.3)], now)
    assert UsageBatch.objects.count() == 1
    rows = read_usage(node, now - timedelta(seconds=10))
    assert rows[:, 1].tolist() == [0.1, 0.2, 0.3]
    assert rows[0, 3] == 0.5
    assert rows[0, 4] != rows[0, 4], "what is not known is NaN"
    assert len(read_usage(node, now - timedelta(seconds=2))) == 2


def test_another_number_of_devices_begins_another_batch_and_old_ones_are_swept():
    node = make_node()
    now = timezone.now()
    keep_usage(node, [sample(0, 0.2)], now - timedelta(hours=50))
    keep_usage(node, [sample(0, 0.2, devices=[1.0])], now)
    assert read_usage(node, now - timedelta(hours=60)).shape == (2, 5)
    assert sweep_usage() == 1
    assert UsageBatch.objects.count() == 1


def test_a_foreign_session_in_the_token_is_refused():
    from portal.errors import Forbidden

    agent = FakeAgent(make_node())
    with pytest.raises(Forbidden):
        agent.exchange(node_id=uuid4())


def test_no_devices_count_only_from_an_agent_started_anew():
    node = make_node(devices=2)
    agent = FakeAgent(node)
    agent.exchange(devices=[])
    assert not node.devices.filter(is_present=True).exists()
    again = make_node(devices=2)
    agent = FakeAgent(again)
    agent.exchange()
    agent.exchange(devices=[], facts=None)
    assert again.devices.filter(is_present=True).count() == 2
