"""A job's life through the exchange, without any process: order, ready, go, run, end, failures, stops."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.models import Job, Placement, Stream
from jobs.services.limit import remaining_seconds
from jobs.services.placements import ask_to_stop
from jobs.services.stop import cancel_job
from jobs.services.timers import conclude_without_tails
from jobs.states import JobState, PlacementState, StopReason
from nodes.messages import EndCause, Phase
from portal.errors import Conflict, Forbidden, NotFound
from tests.builders import bring_up, fresh, live_seats, make_job, make_person, schedule

pytestmark = pytest.mark.django_db


# --- the good way --------------------------------------------------------------------------------------------------


def test_a_gang_is_ordered_made_ready_started_together_and_succeeds(pair):
    first, second = pair
    job = make_job(nodes=2)
    assert schedule() == 1
    assert fresh(job).state == JobState.STARTING
    assert live_seats() == 2
    launch = first.exchange().launches[0]
    assert launch.node_rank == 0
    assert launch.ranks == [0]
    assert "--rdzv-conf=is_host=true,join_timeout=60" in launch.argv
    second.exchange()
    assert first.say(Phase.READY).gos == []
    reply = second.say(Phase.READY)
    assert [peer.address for peer in reply.gos[0].peers] == ["10.0.0.1", "10.0.0.2"]
    assert first.exchange().gos
    first.say(Phase.RUNNING)
    assert fresh(job).state == JobState.STARTING
    second.say(Phase.RUNNING)
    assert fresh(job).state == JobState.RUNNING
    first.end()
    assert fresh(job).state == JobState.RUNNING
    second.end()
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.SUCCEEDED, StopReason.COMPLETED)
    assert live_seats() == 0
    assert done.started_at
    assert done.ended_at


def test_launch_is_repeated_until_accepted_and_go_until_running(pair):
    make_job()
    schedule()
    agent = pair[0]
    assert agent.exchange().launches
    agent.reports.clear()  # the reply was lost on its way
    again = agent.exchange()
    assert len(again.launches) == 1
    assert agent.exchange().launches == []
    assert agent.say(Phase.READY).gos
    assert agent.exchange().gos
    assert agent.say(Phase.RUNNING).gos == []


def test_end_is_closed_only_when_streams_are_complete(pair):
    agent = pair[0]
    make_job()
    schedule()
    bring_up(agent)
    token = agent.token
    assert agent.end(streams={"0/log": 10}).closed == []
    Stream.objects.create(placement=Placement.objects.get(token=token), rank=0, kind="log", acked=9)
    assert agent.exchange().closed == []
    Stream.objects.update(acked=10)
    assert agent.exchange().closed == [token]
    assert agent.exchange().launches == []


def test_the_end_is_told_when_the_tails_are_stored_and_the_devices_are_free_before(pair):
    agent, job = pair[0], make_job()
    schedule()
    bring_up(agent)
    stream = Stream.objects.create(placement=Placement.objects.get(token=agent.token), rank=0, kind="log", acked=9)
    agent.end(streams={"0/log": 10})
    assert (fresh(job).state, live_seats()) == (JobState.RUNNING, 0)
    conclude_without_tails()
    assert fresh(job).state == JobState.RUNNING
    Stream.objects.filter(pk=stream.pk).update(acked=10)
    agent.exchange()
    assert fresh(job).state == JobState.SUCCEEDED


def test_a_tail_that_never_comes_is_waited_for_no_longer_than_its_time(pair):
    agent, job = pair[0], make_job()
    schedule()
    bring_up(agent)
    agent.end(streams={"0/log": 10})
    Placement.objects.update(ended_at=timezone.now() - timedelta(seconds=31))
    conclude_without_tails()
    assert fresh(job).state == JobState.SUCCEEDED


def test_marker_decides_over_the_exit_code(pair):
    job = make_job()
    schedule()
    bring_up(pair[0])
    pair[0].end(exit_code=None, signal=6, is_complete=True)
    assert fresh(job).state == JobState.SUCCEEDED


def test_reports_repeated_or_late_change_nothing(pair):
    agent = pair[0]
    job = make_job()
    schedule()
    bring_up(agent)
    before = job.events.count()
    agent.say(Phase.ACCEPTED)
    agent.say(Phase.READY)
    assert fresh(job).state == JobState.RUNNING
    assert Placement.objects.get().state == PlacementState.RUNNING
    assert job.events.count() == before


def test_next_exchange_is_soon_while_phases_change_and_slow_when_idle(pair):
    agent = pair[0]
    assert agent.exchange().next_after_seconds == 5.0
    job = make_job()
    schedule()
    assert agent.exchange().next_after_seconds == 0.2
    bring_up(agent)
    assert agent.exchange().next_after_seconds == 1.0
    Job.objects.filter(pk=job.pk).update(watched_at=timezone.now())
    assert agent.exchange().next_after_seconds == 0.2


# --- errors have a sentence ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "reason", "said"),
    [
        ({"exit_code": 3}, StopReason.SCRIPT_ERROR, "exit code 3"),
        ({"exit_code": None, "signal": 9}, StopReason.SCRIPT_ERROR, "signal 9 (SIGKILL)"),
        ({"cause": EndCause.OUT_OF_MEMORY}, StopReason.OUT_OF_MEMORY, "memory"),
        ({"cause": EndCause.DISK_QUOTA}, StopReason.DISK_QUOTA, "disk quota"),
        ({"cause": EndCause.TIME_LIMIT}, StopReason.TIME_LIMIT, "time limit"),
    ],
)
def test_a_failure_names_node_and_cause(pair, end, reason, said):
    job = make_job()
    schedule()
    bring_up(pair[0])
    pair[0].end(**end)
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.FAILED, reason)
    assert said in done.reason_text
    assert Placement.objects.get().node.name in done.reason_text
    assert live_seats() == 0


def test_a_failing_rank_stops_the_others(pair):
    first, second = pair
    job = make_job(nodes=2)
    schedule()
    bring_up(first, second)
    first.end(exit_code=1)
    assert fresh(job).state == JobState.STOPPING
    stop = second.exchange().stops[0]
    assert (stop.token, stop.reason) == (second.token, StopReason.SCRIPT_ERROR)
    second.end(cause=EndCause.STOPPED)
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.FAILED, StopReason.SCRIPT_ERROR)
    assert "gpu-1" in done.reason_text


@pytest.mark.parametrize(
    "cause", [EndCause.LAUNCH_FAILED, EndCause.INPUT_UNAVAILABLE, EndCause.SUPERVISOR_GONE, EndCause.LEASE_EXPIRED]
)
def test_what_is_not_the_scripts_fault_is_tried_again_elsewhere(pair, cause):
    job = make_job()
    queued_at = job.queued_at
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    agent.end(cause=cause)
    again = fresh(job)
    assert again.state == JobState.QUEUED
    assert again.queued_at == queued_at
    assert agent.node.name in again.reason_text
    schedule()
    other = fresh(job).attempts.get(number=2).placements.get().node
    assert (other != agent.node) == (cause is not EndCause.LEASE_EXPIRED)


def test_attempts_come_to_an_end(pair):
    job = make_job(spec={"max_attempts": 2})
    for _ in range(2):
        schedule()
        agent = next(agent for agent in pair if agent.exchange().launches)
        agent.end(cause=EndCause.LAUNCH_FAILED, message="no such program")
        agent.exchange()
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.FAILED, StopReason.TOO_MANY_ATTEMPTS)
    assert "2 attempts" in done.reason_text
    assert "no such program" in done.reason_text


def test_devices_stay_taken_until_processes_are_gone(pair):
    agent = pair[0]
    job = make_job()
    schedule()
    bring_up(agent)
    agent.end(cause=EndCause.EXITED, exit_code=1, processes_gone=False)
    assert fresh(job).state == JobState.FAILED
    assert live_seats() == 1
    assert agent.exchange().closed == []
    agent.end(exit_code=1)
    assert live_seats() == 0


def test_a_reboot_frees_devices_of_unkillable_processes(pair):
    agent = pair[0]
    make_job()
    schedule()
    bring_up(agent)
    agent.end(exit_code=1, processes_gone=False)
    agent.boot_id = "boot-2"
    agent.reports.clear()
    agent.exchange()
    assert live_seats() == 0


def test_a_launch_that_its_node_forgot_is_ended(pair):
    agent = pair[0]
    job = make_job()
    schedule()
    bring_up(agent)
    agent.reports.clear()
    agent.exchange()
    assert fresh(job).state == JobState.RUNNING
    Placement.objects.update(missing_since=timezone.now() - timedelta(seconds=16))
    agent.exchange()
    assert fresh(job).state == JobState.QUEUED
    assert fresh(job).reason == StopReason.SUPERVISOR_GONE


def test_an_end_whose_rest_of_the_log_is_gone_with_its_folder_is_closed_too(pair):
    agent = pair[0]
    make_job()
    schedule()
    bring_up(agent)
    agent.end(streams={"0/log": 10})
    agent.reports.clear()
    assert agent.exchange().next_after_seconds == 1.0
    Placement.objects.update(missing_since=timezone.now() - timedelta(seconds=16))
    assert agent.exchange().next_after_seconds == 5.0
    assert Placement.objects.get().is_closed


def test_a_recipe_may_end_by_itself_before_it_is_ended():
    own, recipe = make_job(spec={"stop": {"minutes": 1}}), make_job(spec={"stop": {"minutes": 1}})
    recipe.spec["code"] = {"kind": "recipe"}
    assert remaining_seconds(own) == 60
    assert remaining_seconds(recipe) == 180


# --- stopping ------------------------------------------------------------------------------------------------------


def test_cancelling_a_waiting_job_is_immediate():
    job = make_job()
    cancel_job(job.owner, job)
    done = fresh(job)
    assert (done.state, done.reason, done.ended_by) == (JobState.CANCELLED, StopReason.CANCELLED, job.owner)
    assert cancel_job(job.owner, job).state == JobState.CANCELLED


def test_cancelling_a_running_job_stops_it_first(pair):
    agent = pair[0]
    job = make_job(spec={"grace_seconds": 7})
    schedule()
    bring_up(agent)
    cancel_job(job.owner, job)
    assert fresh(job).state == JobState.STOPPING
    stop = agent.exchange().stops[0]
    assert (stop.reason, stop.grace_seconds) == ("cancelled", 7.0)
    assert agent.exchange().stops, "repeated until ended"
    agent.end(cause=EndCause.STOPPED)
    done = fresh(job)
    assert (done.state, done.reason, done.ended_by) == (JobState.CANCELLED, StopReason.CANCELLED, job.owner)


def test_cancelling_before_the_order_arrived_starts_nothing(pair):
    job = make_job()
    schedule()
    cancel_job(job.owner, job)
    agent = next(agent for agent in pair if agent.exchange().stops)
    assert agent.last.launches == []
    agent.end(agent.last.stops[0].token, cause=EndCause.NEVER_STARTED)
    assert fresh(job).state == JobState.CANCELLED
    assert live_seats() == 0


def test_all_ended_well_beats_the_cancellation(pair):
    job = make_job()
    schedule()
    bring_up(pair[0])
    cancel_job(job.owner, job)
    pair[0].end()
    assert fresh(job).state == JobState.SUCCEEDED
    assert fresh(job).ended_by is None


def test_a_reason_only_rises_while_stopping(pair):
    job = make_job()
    schedule()
    bring_up(pair[0])
    ask_to_stop(fresh(job), StopReason.PREEMPTED, "preempted")
    cancel_job(job.owner, job)
    ask_to_stop(fresh(job), StopReason.NODE_DRAINED, "drained")
    assert fresh(job).stop_reason == StopReason.CANCELLED
    pair[0].end(cause=EndCause.STOPPED)
    assert fresh(job).state == JobState.CANCELLED


def test_only_those_who_may_cancel_do():
    job = make_job()
    with pytest.raises(NotFound):
        cancel_job(make_person("eve"), job)
    assert cancel_job(make_person("root", is_staff=True), job).state == JobState.CANCELLED
    done = make_job()
    Job.objects.filter(pk=done.pk).update(state=JobState.SUCCEEDED)
    with pytest.raises(Conflict):
        cancel_job(done.owner, done)


def test_members_see_but_do_not_cancel():
    from portal.accounts.models import Membership, Team

    team = Team.objects.create(name="vision")
    mate = make_person("bob")
    Membership.objects.create(user=mate, team=team)
    job = make_job(team=team)
    with pytest.raises(Forbidden):
        cancel_job(mate, job)


def test_input_that_no_node_can_use_is_final(pair):
    job = make_job()
    schedule()
    agent = next(agent for agent in pair if agent.exchange().launches)
    agent.end(cause=EndCause.BAD_INPUT, message="An input cannot be used: the bundle is no readable zip file")
    done = fresh(job)
    assert (done.state, done.reason) == (JobState.FAILED, StopReason.IMPOSSIBLE)
    assert "no readable zip" in done.reason_text
