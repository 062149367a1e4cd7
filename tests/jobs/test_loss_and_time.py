"""Nodes that fall silent, gangs that do not come together, limits, stragglers, drains."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Attempt, Checkpoint, Placement
from jobs.services.lost import declare_lost
from jobs.services.schedule import run_pass
from jobs.services.timers import move_from_draining_nodes, stop_late_joiners, stop_overdue, stop_stragglers
from jobs.states import JobState, PlacementState, StopReason
from nodes.messages import EndCause, ExitReport, Phase, PlacementReport
from nodes.models import Node
from nodes.services.admission import drain, uncordon
from nodes.states import NodeState
from tests.builders import FakeAgent, bring_up, fresh, lead, live_seats, make_job, make_node, make_person, schedule

pytestmark = pytest.mark.django_db


def lose(node: Node) -> bool:
    return declare_lost(node.pk, Node.objects.get(pk=node.pk).exchanges, lead())


# --- nodes that fall silent ----------------------------------------------------------------------------------------


def test_a_lost_nodes_job_moves_at_once_and_resumes_from_its_newest_checkpoint(pair):
    job = make_job()
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    other = next(a for a in pair if a is not agent)
    bring_up(agent)
    attempt = job.attempts.get()
    for step in (10, 20):
        Checkpoint.objects.create(job=job, attempt=attempt, step=step, files=[], size_bytes=1)
    assert lose(agent.node)
    again = fresh(job)
    assert (again.state, again.reason) == (JobState.QUEUED, StopReason.NODE_LOST)
    assert agent.node.name in again.reason_text
    assert live_seats() == 0
    schedule()
    second = job.attempts.get(number=2)
    assert second.resume_step == 20
    assert second.placements.get().node == other.node
    launch = other.exchange().launches[0]
    assert launch.token != agent.token
    assert "inputs/checkpoint/manifest.json" in [file.path for file in launch.inputs]


@pytest.mark.parametrize("cause", [None, EndCause.SUPERVISOR_GONE, EndCause.STOPPED])
def test_a_rank_that_lost_its_peer_is_an_echo_where_a_machine_went_away(pair, cause):
    """Its connection breaks at once; that the other machine is gone is known much later."""
    first, second = pair
    job = make_job(nodes=2)
    schedule()
    bring_up(first, second)
    first.end(exit_code=1, failed_rank=0)
    assert (fresh(job).state, fresh(job).stop_reason) == (JobState.STOPPING, StopReason.SCRIPT_ERROR)
    if cause is None:
        lose(second.node)
    else:
        second.end(cause=cause)
    ended = fresh(job)
    if cause is EndCause.STOPPED:
        assert (ended.state, ended.reason) == (JobState.FAILED, StopReason.SCRIPT_ERROR)
        assert ended.reason_text == f"On {first.node.name} rank 0 ended with exit code 1: its log says why."
    else:
        assert ended.state == JobState.QUEUED
        assert ended.reason == (StopReason.SUPERVISOR_GONE if cause else StopReason.NODE_LOST)
        assert second.node.name in ended.reason_text


def test_the_rest_of_a_broken_gang_is_stopped_first(pair):
    first, second = pair
    job = make_job(nodes=2)
    schedule()
    bring_up(first, second)
    lose(first.node)
    assert fresh(job).state == JobState.STOPPING
    assert second.exchange().stops[0].reason == StopReason.NODE_LOST
    second.end(cause=EndCause.STOPPED)
    assert fresh(job).state == JobState.QUEUED
    assert job.attempts.get().state == "lost"


def test_a_node_that_comes_back_is_told_to_stop_the_old_launch(pair):
    job = make_job()
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    bring_up(agent)
    old = agent.token
    lose(agent.node)
    assert Node.objects.get(pk=agent.node.pk).state == NodeState.LOST
    reply = agent.exchange()
    assert [stop.token for stop in reply.stops] == [old]
    assert Node.objects.get(pk=agent.node.pk).state == NodeState.ONLINE
    agent.end(cause=EndCause.STOPPED)
    assert agent.last.closed == [old]
    assert fresh(job).state == JobState.QUEUED


def test_a_node_that_comes_back_gives_its_devices_away_only_when_the_old_launch_has_ended(pair):
    first, second = pair
    job = make_job(nodes=2, devices=2)
    schedule()
    bring_up(first, second)
    lose(first.node)
    second.end(cause=EndCause.STOPPED)
    first.exchange()
    assert Node.objects.get(pk=first.node.pk).state == NodeState.ONLINE
    assert live_seats() == 0
    assert schedule() == 0
    assert "2 of 4" in fresh(job).waiting_text
    first.end(cause=EndCause.STOPPED)
    assert schedule() == 1


def test_a_late_success_counts_until_the_successor_runs(pair):
    job = make_job()
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    other = next(a for a in pair if a is not agent)
    bring_up(agent)
    lose(agent.node)
    schedule()
    other.exchange()
    agent.end()
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.SUCCEEDED, StopReason.COMPLETED)
    assert other.exchange().stops
    other.end(cause=EndCause.STOPPED)
    assert live_seats() == 0
    assert fresh(job).state == JobState.SUCCEEDED


def test_a_late_success_changes_nothing_once_the_successor_runs(pair):
    job = make_job()
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    other = next(a for a in pair if a is not agent)
    bring_up(agent)
    lose(agent.node)
    schedule()
    bring_up(other)
    agent.end()
    assert fresh(job).state == JobState.RUNNING
    other.end(exit_code=1)
    assert fresh(job).state == JobState.FAILED


def test_a_node_that_spoke_meanwhile_is_not_lost(pair):
    agent = pair[0]
    agent.exchange()
    seen = Node.objects.get(pk=agent.node.pk).exchanges
    agent.exchange()
    assert not declare_lost(agent.node.pk, seen, lead())


def test_unknown_and_foreign_tokens_are_quarantined(pair):
    first, second = pair
    make_job()
    schedule()
    owner = next(agent for agent in pair if agent.exchange().launches)
    other = second if owner is first else first
    other.reports[owner.token] = PlacementReport(token=owner.token, phase=Phase.RUNNING)
    assert other.exchange().quarantined == [owner.token]
    assert Placement.objects.get().state == PlacementState.ORDERED


# --- time ----------------------------------------------------------------------------------------------------------


def test_a_node_that_does_not_get_ready_is_named_and_avoided(pair):
    first, second = pair
    third = FakeAgent(make_node("gpu-3", address="10.0.0.3"))
    job = make_job(nodes=2, spec={"join_timeout_seconds": 5})
    schedule()
    members = [agent for agent in (first, second, third) if agent.exchange().launches]
    quick, slow = members
    spare = next(agent for agent in (first, second, third) if agent not in members)
    quick.say(Phase.READY)
    later = timezone.now() + timedelta(seconds=6)
    assert stop_late_joiners(now=timezone.now()) == 0
    assert stop_late_joiners(now=later) == 1
    assert fresh(job).state == JobState.STOPPING
    assert slow.node.name in fresh(job).reason_text
    assert quick.node.name not in fresh(job).reason_text
    quick.end(cause=EndCause.STOPPED)
    slow.end(cause=EndCause.NEVER_STARTED)
    again = fresh(job)
    assert (again.state, again.reason) == (JobState.QUEUED, StopReason.JOIN_TIMEOUT)
    assert again.avoid_nodes == [str(slow.node.pk)]
    schedule()
    placed = {placement.node for placement in job.attempts.get(number=2).placements.all()}
    assert placed == {quick.node, spare.node}


def test_progress_while_fetching_keeps_the_join_limit_away(pair):
    agent = pair[0]
    make_job(spec={"join_timeout_seconds": 5})
    schedule()
    agent.exchange()
    Placement.objects.update(moved_at=timezone.now() - timedelta(seconds=6))
    agent.reports[agent.token] = PlacementReport(token=agent.token, phase=Phase.ACCEPTED, note="fetching inputs 40 %")
    agent.exchange()
    assert stop_late_joiners() == 0


def test_a_job_past_its_limit_is_stopped_over_all_attempts(pair):
    job = make_job(spec={"stop": {"minutes": 1}})
    schedule()
    bring_up(pair[0])
    launch_limit = pair[0].node.placements.get().attempt.job
    assert launch_limit == job
    assert stop_overdue() == 0
    Attempt.objects.update(running_at=timezone.now() - timedelta(seconds=80))
    assert stop_overdue() == 1
    assert fresh(job).stop_reason == StopReason.TIME_LIMIT
    pair[0].end(cause=EndCause.STOPPED)
    assert (fresh(job).state, fresh(job).reason) == (JobState.FAILED, StopReason.TIME_LIMIT)


def test_stragglers_are_stopped_and_named(pair):
    first, second = pair
    job = make_job(nodes=2, spec={"grace_seconds": 3})
    schedule()
    bring_up(first, second)
    first.end()
    assert stop_stragglers() == 0
    assert stop_stragglers(now=timezone.now() + timedelta(seconds=4)) == 1
    second.end(cause=EndCause.STOPPED)
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.FAILED, StopReason.SCRIPT_ERROR)
    assert "gpu-2" in done.reason_text
    assert live_seats() == 0


def test_draining_moves_running_jobs_and_uncordon_takes_new_ones(pair):
    admin = make_person("root", is_staff=True)
    job = make_job(spec={"max_attempts": 1})
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    bring_up(agent)
    drain(admin, agent.node)
    assert move_from_draining_nodes() == 1
    assert agent.exchange().stops[0].reason == StopReason.NODE_DRAINED
    agent.end(cause=EndCause.STOPPED)
    assert (fresh(job).state, fresh(job).reason) == (JobState.QUEUED, StopReason.NODE_DRAINED)
    schedule()
    assert job.attempts.get(number=2).placements.get().node != agent.node
    uncordon(admin, agent.node)
    assert [event.actor for event in agent.node.events.filter(kind="admission")] == [admin, admin]


def test_the_next_pass_uses_what_an_end_released(pair):
    agent = pair[0]
    Node.objects.filter(pk=pair[1].node.pk).delete()
    running, waiting = make_job(devices=2), make_job(devices=2)
    epoch = lead()
    assert run_pass(epoch) == 1
    assert "full" in fresh(waiting).waiting_text
    assert fresh(waiting).position == 1
    bring_up(agent)
    agent.end()
    assert fresh(running).state == JobState.SUCCEEDED
    assert run_pass(epoch) == 1
    assert fresh(waiting).waiting_text == ""


def test_exit_report_without_exit_counts_as_gone(pair):
    job = make_job()
    schedule()
    bring_up(pair[0])
    pair[0].say(Phase.ENDED)
    assert fresh(job).state == JobState.QUEUED
    assert ExitReport.model_validate(Placement.objects.get().exit).cause is EndCause.SUPERVISOR_GONE
