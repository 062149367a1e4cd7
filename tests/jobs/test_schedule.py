"""Plans meet the database: epochs, ceilings that changed meanwhile, sentences that do not flicker."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from jobs.models import Attempt, Job, Leader, Placement, Seat
from jobs.scheduler.plan import plan
from jobs.services.leader import Candidate, NotLeading, hold_leadership
from jobs.services.schedule import apply_plan, run_pass
from jobs.services.snapshot import load_snapshot
from jobs.states import JobState
from nodes.models import Device, Node
from nodes.services.admission import cordon
from nodes.states import Admission, NodeState
from portal.accounts.models import Quota, Team
from tests.builders import FakeAgent, bring_up, lead, make_job, make_node, make_person, schedule

pytestmark = pytest.mark.django_db


def states() -> list[str]:
    return list(Job.objects.order_by("pk").values_list("state", flat=True))


def text_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).waiting_text


def test_ranks_follow_addresses_as_torchrun_numbers_them():
    make_node("a", address="10.0.0.9")
    make_node("b", address="10.0.0.10")
    make_job(nodes=2, devices=2)
    schedule()
    placed = Placement.objects.order_by("node_rank").values_list("node__name", "ranks")
    assert list(placed) == [("b", [0, 1]), ("a", [2, 3])]


def test_an_old_leader_applies_nothing():
    make_node()
    make_job()
    old = lead()
    decided = plan(load_snapshot())
    Leader.objects.update(epoch=old + 1)
    with pytest.raises(NotLeading):
        apply_plan(decided, old)
    assert states() == [JobState.QUEUED]
    assert Attempt.objects.count() == 0


def test_a_quota_lowered_after_planning_is_kept():
    ada = make_person()
    make_node()
    make_job(ada)
    make_job(ada)
    decided = plan(load_snapshot())
    assert len(decided.starts) == 2
    Quota.objects.create(user=ada, max_devices=1)
    assert apply_plan(decided, lead()) == 1
    assert Seat.objects.count() == 1


@pytest.mark.parametrize("change", [{"state": NodeState.LATE}, {"admission": Admission.CORDONED}])
def test_a_node_that_closed_after_planning_gets_nothing(change):
    node = make_node()
    make_job()
    decided = plan(load_snapshot())
    Node.objects.filter(pk=node.pk).update(**change)
    assert apply_plan(decided, lead()) == 0
    assert states() == [JobState.QUEUED]


def test_a_device_that_failed_after_planning_is_given_to_nobody():
    make_node(devices=1)
    make_job()
    decided = plan(load_snapshot())
    Device.objects.update(is_healthy=False)
    assert apply_plan(decided, lead()) == 0
    assert Attempt.objects.count() == 0


def test_the_same_plan_twice_starts_once():
    make_node()
    make_job()
    decided = plan(load_snapshot())
    epoch = lead()
    assert apply_plan(decided, epoch) == 1
    assert apply_plan(decided, epoch) == 0
    assert Placement.objects.count() == 1


def test_no_device_has_two_seats():
    make_node()
    make_job()
    schedule()
    seat = Seat.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Seat.objects.create(placement=seat.placement, device=seat.device)


def test_more_than_one_batch():
    make_node(devices=60)
    for _ in range(60):
        make_job()
    assert schedule() == 60


def test_limits_count_live_placements_of_person_and_team():
    ada, team = make_person(), Team.objects.create(name="vision")
    agent = FakeAgent(make_node(devices=8))
    Quota.objects.create(team=team, max_devices=2)
    Quota.objects.create(user=ada, max_running_jobs=2)
    jobs = [make_job(ada, team=team, devices=2), make_job(ada, team=team), make_job(ada), make_job(ada)]
    schedule()
    assert states() == ["starting", "queued", "starting", "queued"]
    assert "the team vision may use 2 devices at once and uses 2; this job needs 1" in text_of(jobs[1])
    assert "ada may run 2 jobs at once" in text_of(jobs[3])
    agent.exchange()
    for token in list(agent.reports):
        agent.end(token)
    schedule()
    assert states() == ["succeeded", "starting", "succeeded", "starting"]


def test_five_waits_have_five_texts():
    """Over quota, cluster full, scattered, drained, no such kind: each says what would help."""
    admin = make_person("root", is_staff=True)
    small = [make_node(f"s{i}", devices=4) for i in range(2)]
    closed = make_node("big", devices=8)
    Quota.objects.create(user=make_person("poor"), max_devices=0)
    for _ in range(2):
        make_job(nodes=2, devices=1)
    schedule()  # 2 + 2 of the small nodes' devices are free
    cordon(admin, closed)
    quota = make_job(make_person("poor"))
    scattered = make_job(devices=4)
    Node.objects.filter(pk=closed.pk).update(state=NodeState.NEW)
    kind = {"roles": [{"nodes": 1, "devices_per_node": 1, "device_kind": "A100"}]}
    missing = make_job(spec=kind)
    schedule()
    seen = [text_of(quota), text_of(scattered), text_of(missing)]
    Node.objects.filter(pk=closed.pk).update(state=NodeState.ONLINE)
    drained = make_job(devices=8)
    for _ in range(4):
        make_job()
    schedule()
    seen.append(text_of(drained))
    Node.objects.filter(pk=closed.pk).update(state=NodeState.NEW)
    full = make_job()
    schedule()
    seen.append(text_of(full))
    assert len(set(seen)) == 5
    for text, said in zip(seen, ("quota", "scattered", "A100", "big, which takes no new jobs", "full"), strict=True):
        assert said in text
    assert "an admin raises the quota" in seen[0]
    assert "4 are free" in seen[1]
    assert "most on one node is 2" in seen[1]
    assert "There are: cpu" in seen[2]
    assert "reopen" in seen[3]
    assert "0 of 8" in seen[4]
    assert small


def test_unchanged_sentences_are_not_written_again(django_assert_num_queries):
    make_node(devices=1)
    make_job()
    waiting = make_job()
    epoch = lead()
    run_pass(epoch)
    before = Job.objects.get(pk=waiting.pk)
    assert before.position == 1
    events = waiting.events.count()
    Job.objects.filter(pk=waiting.pk).update(watched_at=None)
    run_pass(epoch)
    after = Job.objects.get(pk=waiting.pk)
    assert (after.rev, after.waiting_text) == (before.rev, before.waiting_text)
    assert waiting.events.count() == events


def test_a_shrunken_cluster_is_said_and_stop_works():
    from jobs.services.stop import cancel_job

    make_node(devices=1)
    big = make_node(devices=8)
    job = make_job(devices=8)
    Device.objects.filter(node=big).update(is_present=False)
    schedule()
    assert "too small" in text_of(job)
    assert cancel_job(job.owner, job).state == JobState.CANCELLED


def test_only_open_and_healthy_devices_are_used():
    node = make_node(devices=2)
    Device.objects.filter(node=node, index=0).update(is_healthy=False)
    make_job()
    schedule()
    assert Seat.objects.get().device.index == 1


# --- leadership -------------------------------------------------------------------------------------------------------


def test_a_standby_takes_over_when_beats_stop():
    first, second = Candidate("a:1"), Candidate("b:2")
    assert first.lead(now=0.0)
    assert not second.lead(now=0.0)
    assert first.lead(now=5.0)
    assert not second.lead(now=9.0)
    assert not second.lead(now=18.9)
    assert second.lead(now=19.1)
    assert second.epoch == 2
    with pytest.raises(NotLeading), transaction.atomic():
        hold_leadership(1)
    assert not first.lead(now=19.2)


def test_a_clean_end_hands_over_at_once():
    first, second = Candidate("a:1"), Candidate("b:2")
    assert first.lead(now=0.0)
    first.resign()
    assert second.lead(now=0.1)


def test_a_dead_process_of_this_machine_is_not_waited_for():
    import socket
    import subprocess
    import sys

    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert Candidate(f"{socket.gethostname()}:{done.pid}").lead(now=0.0)
    assert Candidate("b:2").lead(now=0.1)


def test_bring_up_reaches_running():
    agent = FakeAgent(make_node())
    job = make_job()
    schedule()
    bring_up(agent)
    assert Job.objects.get(pk=job.pk).state == JobState.RUNNING
