"""The master server: one leader looks at everything that changes by itself, each tick or when a hint says so.

    leading?  ->  inspections, lost nodes, timers, one pass of the scheduler

Each step is safe to repeat and stands alone: one that raises is told in the log and tried again at the next tick, while
the others go on. Everything it knows is in the database, except how long nodes have been silent, which a new leader
counts anew. Work that may take long (unfinished uploads, sweeps) has threads of its own.
"""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from datasets.services.finish import finish_waiting
from jobs.services.inspect import find_orphans, make_inspections
from jobs.services.leader import Candidate, NotLeading
from jobs.services.lost import declare_lost, move_from_lost_nodes
from jobs.services.schedule import run_pass
from jobs.services.timers import (
    conclude_without_tails,
    move_from_draining_nodes,
    stop_late_joiners,
    stop_overdue,
    stop_stragglers,
)
from nodes.broker_login import CONTROL_QUEUE
from nodes.services.silence import Watch, exchanges_of_expected, mark_late
from nodes.services.usage import sweep_usage
from portal.after_commit import subscription
from portal.broker import connect
from portal.celery import app

logger = logging.getLogger(__name__)

LEAST_PAUSE_SECONDS = 0.05  # between two looks, however many hints come
PROBE_SECONDS = 2.0  # how long a probe's answer counts, and may take
TELL_SECONDS = 60.0  # between two warnings that the portal does not answer
UNASKED_SECONDS = 5.0  # nobody is so silent yet that the probe matters
LISTEN_AGAIN_SECONDS = 2.0
MAX_UNREAD_TASKS = 20  # the worker is down or slow: more of the same would not help

# Celery tasks by name and how often, seconds. Their effects are safe to repeat, to come late or to be lost.
PERIODIC = {
    "datasets.finish_uploads": 20.0,
    "datasets.sweep": 3600.0,
    "jobs.compact_series": 10.0,
    "jobs.seal_logs": 30.0,
}

Probe = Callable[[], bool]


class PortalProbe:
    """Does the portal answer those who come from outside? Asked at most every `PROBE_SECONDS`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/healthz" if url else ""
        self._answer, self._asked_at, self._told_at = True, float("-inf"), float("-inf")
        if not url:
            logger.warning(
                "PUBLIC_URL is not set, so the master cannot see whether nodes reach the portal: while the web process"
                " or the proxy is down, nodes may be declared lost and their jobs started again elsewhere."
            )

    def __call__(self) -> bool:
        """Without a known address the database's own answer has to do: the caller has just read from it."""
        if not self._url:
            return True
        if time.monotonic() - self._asked_at >= PROBE_SECONDS:
            self._answer, self._asked_at = self._ask(), time.monotonic()
            self._tell()
        return self._answer

    def _tell(self) -> None:
        if self._answer:
            self._told_at = float("-inf")
        elif self._asked_at - self._told_at >= TELL_SECONDS:
            self._told_at = self._asked_at
            logger.warning("%s does not answer; until it does, the silence of nodes is not counted.", self._url)

    def _ask(self) -> bool:
        try:
            with urllib.request.urlopen(self._url, timeout=PROBE_SECONDS) as answer:  # noqa: S310 - our own address
                return bool(answer.status < 500)
        except urllib.error.HTTPError as error:
            return error.code < 500
        except (OSError, ValueError):
            return False


@dataclass
class Master:
    """`step()` does one look; `run()` looks until `stop` is set."""

    candidate: Candidate = field(default_factory=Candidate.of_this_process)
    probe: Probe = field(default_factory=lambda: PortalProbe(settings.PUBLIC_URL))
    tick_seconds: float = field(default_factory=lambda: settings.MASTER_TICK_SECONDS)
    stop: threading.Event = field(default_factory=threading.Event)
    _news: threading.Event = field(default_factory=threading.Event)
    _watch: Watch | None = None
    _told_epoch: int | None = None

    def run(self) -> None:
        # Storing a large upload takes hours: it has a thread to itself.
        for name, every in (("uploads", {"uploads": 20.0}), ("periodic", {"usage": 600.0, **PERIODIC})):
            threading.Thread(target=self._do_slow_work, args=(every,), name=name, daemon=True).start()
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        while not self.stop.is_set():
            begun = time.monotonic()
            self._step_safely()
            self._news.wait(self.tick_seconds)
            self._news.clear()
            self.stop.wait(max(0.0, LEAST_PAUSE_SECONDS - (time.monotonic() - begun)))
        self._leave()

    def wake(self) -> None:
        self._news.set()

    def quit(self) -> None:
        self.stop.set()
        self._news.set()

    def step(self, *, now: float | None = None) -> bool:
        """One look; False while standing by. Trouble of one step does not keep the others from being done."""
        if not self.candidate.lead(now=now):
            self._watch = None
            return False
        epoch = self._epoch()
        steps: list[Callable[[], object]] = [
            make_inspections,
            find_orphans,
            lambda: self._look_at_nodes(epoch, now),
            lambda: move_from_lost_nodes(epoch),
            move_from_draining_nodes,
            stop_late_joiners,
            stop_overdue,
            stop_stragglers,
            conclude_without_tails,
            lambda: run_pass(epoch),
        ]
        for one in steps:
            try:
                one()
            except NotLeading:
                self.candidate.epoch = None
                return False
            except (DatabaseError, InterfaceError):
                raise
            except Exception:
                logger.exception("A step of the master failed; the others go on and it is tried again.")
        return True

    def _step_safely(self) -> None:
        close_old_connections()
        try:
            self.step()
        except (DatabaseError, InterfaceError):
            logger.exception("The database does not answer as it should; trying again.")
            connection.close()
        except Exception:
            logger.exception("The master's look failed; trying again.")

    def _epoch(self) -> int:
        epoch = self.candidate.epoch
        if epoch is None:
            raise NotLeading
        if epoch != self._told_epoch:
            logger.info("Leading with epoch %d as %s.", epoch, self.candidate.name)
            self._told_epoch, self._watch = epoch, None
        return epoch

    def _look_at_nodes(self, epoch: int, now: float | None) -> None:
        watch = self._watch = self._watch or Watch(settings.NODE_LOST_SECONDS)
        exchanges = exchanges_of_expected()
        probe_ok = watch.longest_silence < min(UNASKED_SECONDS, watch.lost_seconds / 4) or self.probe()
        moment = time.monotonic() if now is None else now
        late, lost = watch.look(exchanges, now=moment, probe_ok=probe_ok)
        for node in late:
            mark_late(node, exchanges[node])
        for node in lost:
            declare_lost(node, exchanges[node], epoch)

    def _leave(self) -> None:
        try:
            self.candidate.resign()
        except (DatabaseError, InterfaceError):
            logger.warning("Could not resign; a standby takes over in some seconds.")
        connection.close()

    # --- threads beside it ------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """A hint makes the next look come at once; without Redis the clock alone does."""
        while not self.stop.is_set():
            try:
                client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2.0, socket_timeout=None)
                with client, client.pubsub(ignore_subscribe_messages=True) as channel:
                    channel.subscribe(subscription("master"))
                    self.wake()
                    while not self.stop.is_set():
                        if channel.get_message(timeout=5.0) is not None:
                            self.wake()
            except (redis.RedisError, OSError):
                self.stop.wait(LISTEN_AGAIN_SECONDS)

    def _do_slow_work(self, every: Mapping[str, float]) -> None:
        due = dict.fromkeys(every, time.monotonic() + 5.0)
        while not self.stop.wait(1.0):
            if self.candidate.epoch is None:
                continue
            now = time.monotonic()
            for name in [name for name, at in due.items() if at <= now]:
                due[name] = now + every[name]
                self._do_slowly(name)

    def _do_slowly(self, name: str) -> None:
        close_old_connections()
        try:
            if name == "uploads":
                finish_waiting()
            elif name == "usage":
                sweep_usage()
            else:
                send_task(name)
        except Exception:
            logger.exception("Periodic work '%s' failed; it is tried again.", name)
        finally:
            close_old_connections()


def send_task(name: str) -> bool:
    """To the control queue, unless the broker is down or the worker has enough to do already."""
    client = connect(settings.REDIS_URL)
    try:
        if int(client.llen(CONTROL_QUEUE)) >= MAX_UNREAD_TASKS:
            return False
    except redis.RedisError:
        return False
    finally:
        client.close()
    app.send_task(name, ignore_result=True, retry=False)
    return True
