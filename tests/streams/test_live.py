"""The messages of live pages: what a page had, plus what it was sent, equals what a fresh page gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from knox.settings import CONSTANTS

from jobs.consumers import JobSocket
from jobs.live import JobAsk, LogCursor, look_at_job
from jobs.live_lists import ClusterAsk, JobsAsk, look_at_cluster, look_at_jobs
from jobs.live_messages import LogAsk, SeriesAsk
from jobs.models import Checkpoint, Job, Seat, Stream
from jobs.series import compact
from jobs.series.page import from_bytes
from jobs.services.transition import add_event, move
from jobs.states import JobState
from nodes.models import Device
from portal.accounts.models import ApiToken, User
from portal.accounts.viewers import Credentials, credentials_of

pytestmark = pytest.mark.django_db


def token_for(user: User) -> Credentials:
    return Credentials(token=ApiToken.objects.create(user=user)[1])


def session_for(user: User) -> Credentials:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return Credentials(session=session.session_key)


# --- the page's side -------------------------------------------------------------------------------------------------


class Page:
    """What a browser keeps of a job, by the rules of jobs/live_messages.py."""

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.events: dict[int, Any] = {}
        self.series: dict[tuple[str, int, str], tuple[int, dict[str, np.ndarray]]] = {}
        self.log: dict[int, str] = {}
        self.log_stream = 0

    def take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            return self._take_series(message)
        data = json.loads(message)
        if data["type"] == "events":
            self.events |= {event["id"]: event for event in data["events"]}
        elif data["type"] == "log":
            if data["stream"] != self.log_stream or data["skipped"]:
                self.log, self.log_stream = {}, data["stream"]
            first = data["lines"][0]["offset"] if data["lines"] else data["end"]
            self.log = {offset: text for offset, text in self.log.items() if offset < first}
            self.log |= {line["offset"]: line["text"] for line in data["lines"]}
        else:
            self.parts[data["type"]] = {name: value for name, value in data.items() if name != "rev"}
        return None

    def _take_series(self, message: bytes) -> None:
        head, columns = from_bytes(message)
        if head["reset"]:
            self.series = {key: piece for key, piece in self.series.items() if key[0] != head["view"]}
        for piece, sent in zip(head["pieces"], columns, strict=True):
            key = (head["view"], piece["stream"], piece["name"])
            level, older = self.series.get(key, (piece["level"], {}))
            assert piece["first"] == 0 or level == piece["level"]
            kept = {name: older[name][: piece["first"]] for name in sent} if piece["first"] else {}
            self.series[key] = (
                piece["level"],
                {name: np.concatenate([kept[name], new]) if kept else new for name, new in sent.items()},
            )

    def same_as(self, other: Page) -> None:
        assert self.parts == other.parts
        assert self.events == other.events
        assert self.log == other.log
        assert self.series.keys() == other.series.keys()
        for key, (level, columns) in self.series.items():
            assert level == other.series[key][0]
            for name, column in columns.items():
                np.testing.assert_allclose(column, other.series[key][1][name], rtol=1e-9, err_msg=f"{key} {name}")


def look(job: Job, ask: JobAsk, page: Page) -> JobAsk:
    while True:
        (answer,) = look_at_job(job.pk, [ask])
        assert answer.close == 0
        for message in answer.messages:
            page.take(message)
        ask = answer.ask
        if not answer.is_behind:
            return ask


class Story:
    """Whatever can happen to a job, in any order."""

    def __init__(self, writer: Any, make_writer: Any) -> None:
        self.writer, self.log_writer, self.make_writer = writer, replace(writer), make_writer
        self.job = writer.placement.attempt.job
        self.rng = np.random.default_rng(5)
        self.turn = 0

    def go_on(self) -> None:
        self.turn += 1
        actions = [self.points] * 3 + [self.lines] * 2
        actions += [self.event, self.wait, self.checkpoint, self.compact, self.attempt]
        for place in self.rng.choice(len(actions), 2):
            actions[place]()

    def points(self) -> None:
        n = int(self.rng.integers(1, 200))
        names = self.rng.choice(["loss", "acc"], n).tolist()
        self.writer.send(self.rng.normal(size=n), names, first=self.turn * 100)

    def lines(self) -> None:
        self.log_writer.log("".join(self.rng.choice(["a", "b\n", "\r", "10%\r", "é\n"], 20)).encode())

    def event(self) -> None:
        add_event(self.job, "note", f"turn {self.turn}")

    def wait(self) -> None:
        Job.objects.filter(pk=self.job.pk).update(waiting_text=f"waits {self.turn}", position=self.turn)

    def checkpoint(self) -> None:
        told = {"job": self.job, "files": [], "size_bytes": self.turn}
        Checkpoint.objects.get_or_create(attempt=self.writer.placement.attempt, step=self.turn, defaults=told)

    def compact(self) -> None:
        for stream in Stream.objects.filter(kind="metrics"):
            compact.compact(stream.pk)

    def attempt(self) -> None:
        if self.turn % 5 == 0:
            number, step = self.writer.placement.attempt.number + 1, int(self.rng.integers(0, 5000))
            self.writer = self.make_writer(self.job, attempt=number, resume_step=step)
            self.log_writer = replace(self.writer)


def test_old_page_and_messages_equal_a_fresh_page(make_writer):
    """The replay rule, over every kind of change."""
    story = Story(make_writer(), make_writer)
    views = (SeriesAsk(view="a", points=60), SeriesAsk(view="b", names=("loss",), attempts="all"))
    start = JobAsk(token_for(story.job.owner), views=views, log=LogAsk())
    page, ask = Page(), start
    for _ in range(25):
        story.go_on()
        story.go_on()
        ask = look(story.job, ask, page)
        fresh = Page()
        look(story.job, start, fresh)
        page.same_as(fresh)
    assert page.series
    assert page.events
    assert page.log
    (answer,) = look_at_job(story.job.pk, [ask])
    assert answer.messages == []


# --- who may look ----------------------------------------------------------------------------------------------------


def test_each_look_asks_who_looks(make_job, make_user):
    job, stranger, admin = make_job(), make_user("stranger"), make_user("root", staff=True)
    owner = session_for(job.owner)
    everyone = [owner, token_for(job.owner), session_for(stranger), token_for(stranger), token_for(admin)]
    nobody = [Credentials(), Credentials(session="no such"), Credentials(token="0" * 64)]
    answers = look_at_job(job.pk, [JobAsk(who) for who in everyone + nobody])
    assert [answer.close for answer in answers] == [0, 0, 4404, 4404, 0, 4401, 4401, 4401]
    assert look_at_job(10**9, [JobAsk(owner)])[0].close == 4404


def test_a_page_ends_with_its_session_password_or_user(make_job):
    job = make_job()
    kept, ended = session_for(job.owner), session_for(job.owner)
    SessionStore(ended.session).delete()
    assert [a.close for a in look_at_job(job.pk, [JobAsk(kept), JobAsk(ended)])] == [0, 4401]
    job.owner.set_password("another battery")
    job.owner.save()
    assert look_at_job(job.pk, [JobAsk(kept)])[0].close == 4401
    token = token_for(job.owner)
    User.objects.update(is_active=False)
    assert look_at_job(job.pk, [JobAsk(token)])[0].close == 4401


def test_sockets_that_ask_the_same_share_the_reading(make_writer, django_assert_max_num_queries):
    writer = make_writer()
    writer.send([1.0, 2.0])
    job = writer.placement.attempt.job
    ask = JobAsk(token_for(job.owner), views=(SeriesAsk(),), log=LogAsk())
    with django_assert_max_num_queries(40) as first:
        look_at_job(job.pk, [ask])
    with django_assert_max_num_queries(len(first)):
        look_at_job(job.pk, [replace(ask) for _ in range(50)])


def test_credentials_come_from_the_token_before_the_cookie():
    cookie = (b"cookie", b"a=b; sessionid=abc")
    assert credentials_of({"headers": [cookie]}) == Credentials(session="abc")
    token = (b"authorization", b"Token xyz")
    assert credentials_of({"headers": [cookie, token]}) == Credentials(token="xyz")
    assert credentials_of({"headers": [cookie, (b"authorization", b"Basic x")]}) == Credentials()
    assert CONSTANTS.TOKEN_KEY_LENGTH > 4


# --- lists -----------------------------------------------------------------------------------------------------------


def test_the_list_tells_what_changed_and_only_what_one_may_see(make_job, make_user):
    mine, other = make_job("ada"), make_job("eve")
    ask = JobsAsk(token_for(mine.owner))
    (answer,) = look_at_jobs([ask])
    assert [row["id"] for row in json.loads(answer.messages[0])["changed"]] == [mine.pk]
    assert look_at_jobs([answer.ask])[0].messages == ()
    move(mine, JobState.STARTING)
    move(other, JobState.STARTING)
    (after,) = look_at_jobs([answer.ask])
    told = json.loads(after.messages[0])
    assert [(row["id"], row["state"]) for row in told["changed"]] == [(mine.pk, "starting")]
    (shown,) = look_at_jobs([replace(after.ask, ids=(other.pk,), has=())])
    assert json.loads(shown.messages[0])["changed"] == [] if shown.messages else True
    assert look_at_jobs([JobsAsk(Credentials())])[0].close == 4401


def test_the_cluster_page_hides_names_of_other_peoples_jobs(make_writer, make_job, make_user):
    writer = make_writer(make_job("eve"))
    device = Device.objects.create(node=writer.node, index=0, uuid="cpu-0", kind="cpu")
    Seat.objects.create(placement=writer.placement, device=device)
    waiting = make_job("eve", position=1)
    asks = [ClusterAsk(token_for(make_user("ada"))), ClusterAsk(token_for(waiting.owner))]
    stranger, owner = look_at_cluster(asks)
    for answer, job_id, name in ((stranger, None, ""), (owner, writer.placement.attempt.job_id, "digits")):
        nodes, queue = (json.loads(message) for message in answer.messages)
        (use,) = nodes["changed"][0]["devices"][0]["uses"]
        assert (use["owner"], use["job"], use["job_name"]) == ("eve", job_id, name)
        assert {row["name"] for row in queue["jobs"]} == {name}
    assert look_at_cluster([stranger.ask])[0].messages == []
    device.usage = {"utilisation": 0.5}
    device.save()
    assert [json.loads(m)["type"] for m in look_at_cluster([owner.ask])[0].messages] == ["nodes"]


def test_viewers_messages_are_checked(make_job):
    socket = JobSocket({}, None, None)
    ask = JobAsk(Credentials())
    ask = socket.next_ask(ask, {"type": "series", "view": "x", "names": ["loss"], "points": 10})
    assert ask.views[0].names == ("loss",)
    assert socket.next_ask(ask, {"type": "series.stop", "view": "x"}).views == ()
    assert socket.next_ask(replace(ask, log_at=LogCursor(1, 2, 3)), {"type": "log"}).log_at == LogCursor()
    for wrong in ({}, {"type": "series", "points": 10**9}, {"type": "log", "offset": -1}, {"type": "x"}):
        with pytest.raises(ValueError):
            socket.next_ask(ask, wrong)
