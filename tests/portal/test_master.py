"""The master: one look does everything that is due, a failing step spoils nothing, and the process ends cleanly."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading

import pytest
from django.core.management import CommandError, call_command

from datasets.models import Dataset, StoredObject, Version
from datasets.states import VersionState
from jobs.models import Job, Leader
from jobs.services.leader import Candidate
from jobs.states import JobState, StopReason
from nodes.messages import EndCause
from nodes.models import JoinCode, Node
from nodes.services.joining import join
from nodes.states import NodeState
from portal import master as module
from portal.accounts.models import ApiToken
from portal.env import ROOT
from portal.master import Master, PortalProbe
from tests.builders import FakeAgent, bring_up, make_job, make_node, make_person

pytestmark = pytest.mark.django_db


def make_master(**fields) -> Master:
    return Master(candidate=Candidate("test:0"), probe=fields.pop("probe", lambda: True), **fields)


def test_one_look_starts_what_waits():
    make_node()
    job = make_job()
    assert make_master().step(now=0.0)
    assert Job.objects.get(pk=job.pk).state == JobState.STARTING


def test_a_standby_does_nothing():
    make_node()
    Candidate("other:0").lead(now=0.0)
    make_job()
    assert not make_master().step(now=0.0)
    assert Job.objects.get().state == JobState.QUEUED


def test_a_silent_node_is_late_then_lost_and_its_job_runs_elsewhere(settings):
    settings.NODE_LOST_SECONDS = 45
    agents = [FakeAgent(make_node()), FakeAgent(make_node())]
    job = make_job()
    master = make_master()
    master.step(now=0.0)
    for now in (1.0, 16.0):
        agents[1].exchange()
        master.step(now=now)
    assert [node.state for node in Node.objects.order_by("pk")] == [NodeState.LATE, NodeState.ONLINE]
    agents[1].exchange()
    master.step(now=46.0)
    assert Node.objects.get(pk=agents[0].node.pk).state == NodeState.LOST
    again = Job.objects.get(pk=job.pk)
    assert again.state == JobState.STARTING, "back in the queue and started again in the same look"
    assert again.attempts.get(number=1).reason == StopReason.NODE_LOST
    assert again.attempts.get(number=2).placements.get().node == agents[1].node
    bring_up(agents[1])
    agents[1].end()
    assert Job.objects.get(pk=job.pk).state == JobState.SUCCEEDED


def test_nobody_is_lost_while_the_portal_cannot_be_reached():
    node = make_node()
    answers = [False]
    master = make_master(probe=lambda: answers[0])
    for now in (0.0, 10.0, 100.0, 1000.0):
        master.step(now=now)
    assert Node.objects.get(pk=node.pk).state == NodeState.ONLINE
    answers[0] = True
    master.step(now=1010.0)
    assert Node.objects.get(pk=node.pk).state != NodeState.LOST


def test_a_failing_step_does_not_keep_the_others(monkeypatch, caplog):
    make_node()
    make_job()

    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(module, "stop_overdue", fail)
    assert make_master().step(now=0.0)
    assert Job.objects.get().state == JobState.STARTING


def test_versions_that_wait_are_inspected_and_answered():
    owner = make_person()
    agent = FakeAgent(make_node(devices=0))
    stored = StoredObject.objects.create(sha256="1" * 64, key="k", size_bytes=5)
    dataset = Dataset.objects.create(owner=owner, name="digits")
    version = Version.objects.create(dataset=dataset, number=1, stored=stored, file_name="d.csv", created_by=owner)
    master = make_master()
    master.step(now=0.0)
    assert Version.objects.get().state == VersionState.INSPECTING
    job = Job.objects.get()
    assert not Job.objects.of_people().exists()
    launch = agent.exchange().launches[0]
    assert launch.spec["file_name"] == "d.csv"
    assert launch.inputs[0].sha256 == "1" * 64
    agent.end(result={"kind": "table", "decision": "accept", "facts": {"rows": 3}})
    version.refresh_from_db()
    assert (version.state, version.facts, version.kind) == (VersionState.READY, {"rows": 3}, "table")
    assert Job.objects.get(pk=job.pk).state == JobState.SUCCEEDED


def test_an_inspection_that_fails_says_so_on_the_version():
    owner = make_person()
    agent = FakeAgent(make_node())
    stored = StoredObject.objects.create(sha256="1" * 64, key="k", size_bytes=5)
    dataset = Dataset.objects.create(owner=owner, name="digits")
    version = Version.objects.create(dataset=dataset, number=1, stored=stored, file_name="d.csv", created_by=owner)
    make_master().step(now=0.0)
    agent.exchange()
    agent.end(cause=EndCause.OUT_OF_MEMORY)
    version.refresh_from_db()
    assert version.state == VersionState.REFUSED
    assert "memory" in version.facts["problems"][0]["text"]


def test_probe_takes_any_answer_but_a_servers_own_trouble():
    class Answer(http.server.BaseHTTPRequestHandler):
        status = 200

        def do_GET(self):
            self.send_response(self.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert PortalProbe(url)()
        Answer.status = 404
        assert PortalProbe(url)()
        Answer.status = 503
        assert not PortalProbe(url)()
        server.shutdown()
    assert not PortalProbe(url)()
    assert PortalProbe("")()


def test_a_probe_that_fails_or_cannot_ask_is_told_in_the_log(caplog, monkeypatch):
    PortalProbe("")
    assert caplog.text.count("PUBLIC_URL is not set") == 1
    probe = PortalProbe("http://127.0.0.1:9")
    now, answers = [100.0], [False]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(probe, "_ask", lambda: answers[0])
    for moment, told in ((100.0, 1), (103.0, 1), (159.0, 1), (161.0, 2), (164.0, 2)):
        now[0] = moment
        assert not probe()
        assert caplog.text.count("does not answer") == told, moment


# --- commands ---------------------------------------------------------------------------------------------------------


def test_join_code_prints_a_code_that_works(capsys):
    from tests.nodes.test_joining import request

    call_command("join-code", name="first")
    assert join(request(capsys.readouterr().out.strip())).name == "first"
    assert JoinCode.objects.get().used_at
    with pytest.raises(CommandError, match="already"):
        call_command("join-code", name="first")


def test_token_prints_a_token_of_the_scope_asked_for(capsys):
    make_person("ada")
    call_command("token", "ada", read=True, name="laptop")
    assert len(capsys.readouterr().out.strip()) > 20
    assert list(ApiToken.objects.values_list("name", "scope")) == [("laptop", "read")]
    with pytest.raises(CommandError, match="no active user 'eve'"):
        call_command("token", "eve")


@pytest.mark.slow
def test_the_process_works_without_redis_and_ends_cleanly(tmp_path):
    environment = {**os.environ, "TRAINYARD_VAR": str(tmp_path), "REDIS_URL": "redis://127.0.0.1:1/0"}
    environment.pop("DATABASE_URL", None)
    environment["DJANGO_SETTINGS_MODULE"] = "portal.settings"
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "-v", "0"], cwd=ROOT, env=environment, check=True, timeout=100)
    process = subprocess.Popen(
        [*manage, "master"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any("Leading with epoch 1" in line for line in lines)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert Leader.objects.count() == 0, "it used its own database"
