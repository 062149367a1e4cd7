"""`manage.py up`: every process of a small installation on this machine, under one watch, with two local nodes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import psutil
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection

from jobs.models import Leader
from nodes.agent import identity
from nodes.agent.client import Portal, PortalDown, Refused
from nodes.agent.identity import Identity
from nodes.broker_login import CONTROL_QUEUE, WORKER_FLAGS
from nodes.messages import JoinRequest
from nodes.models import Node
from nodes.services.joining import make_join_code
from portal.broker import LocalBroker, answers, write_private
from portal.errors import Conflict
from portal.processes import end_descendants, reap_unknown
from portal.services import Service, Watch

PREFERRED_PORT = 8000
NODE_ADDRESSES = ("127.0.0.2", "127.0.0.3")
START_SECONDS = 60.0
STOP_SECONDS = 8.0
SILENT_SECONDS = 10.0  # a master on SQLite whose beats stand still so long is started anew
LOOK_SECONDS = 0.2
SLOW_LOOK_SECONDS = 2.0  # at what costs a walk through all processes or a query
# Full access to the portal's data is nothing a node process may inherit.
_PORTAL_ONLY = ("REDIS_URL", "DATABASE_URL", "SECRET_KEY", "STORAGE_URL")


class UpError(Exception):
    """Why it cannot start, as a sentence."""


class Stopped(Exception):
    """A signal asked for the end."""


@dataclass
class Options:
    host: str = "127.0.0.1"
    port: int | None = None
    nodes: int = 2
    slots: int = 0  # per node; 0 shares this machine's cores
    say: Callable[[str], None] = print
    ready: Callable[[str], None] = print


class Lock:
    """One `up` per data folder. The lock ends with its holder, however that one ends."""

    def __init__(self, var: Path) -> None:
        var.mkdir(parents=True, exist_ok=True)
        self._file = os.open(var / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            raise UpError(
                f"Trainyard already runs on {var} (process {holder}). Stop it first, or set TRAINYARD_VAR to another"
                " folder to run a second copy."
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())


class Up:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.var = Path(settings.VAR_DIR)
        self.watch = Watch(options.say)
        self.url = ""
        self._looked_at = 0.0
        self._beats, self._moved_at = -1, time.monotonic()
        self._master: Service | None = None
        self._is_ending = False

    # --- life -------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        try:
            self._start()
            self.options.ready(self.url)
            while True:
                self._look()
                time.sleep(LOOK_SECONDS)
        except Stopped:
            return 0
        except UpError as error:
            self.options.say(str(error))
            return 1
        finally:
            self._stop()

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        raise Stopped

    def _stop(self) -> None:
        self._is_ending = True
        self.options.say("stopping")
        self.watch.stop(STOP_SECONDS)
        if not end_descendants(grace_seconds=3.0):
            self.options.say("Some processes did not end; the kernel holds them.")
        with contextlib.suppress(FileNotFoundError):
            (self.var / "up.json").unlink()

    def _start(self) -> None:
        say = self.options.say
        if "REDIS_URL" not in os.environ:
            say("starting the broker")
            self._start_broker()
        elif not answers(settings.REDIS_URL, 3.0):
            raise UpError("The broker at REDIS_URL does not answer. Start it, or unset REDIS_URL to use a bundled one.")
        say("preparing the database")
        call_command("migrate", interactive=False, verbosity=0)
        say("starting web, worker and master")
        worker = [sys.executable, "-m", "celery", "-A", "portal", "worker", "-Q", CONTROL_QUEUE, "-c", "1"]
        self._add("worker", [*worker, *WORKER_FLAGS, "-l", "WARNING"])
        self._start_web()
        # The master counts nodes as silent only while it reaches the portal the way they do.
        environment = {**os.environ, "PUBLIC_URL": os.environ.get("PUBLIC_URL") or self.url}
        self._master = self._add("master", [sys.executable, "manage.py", "master"], environment)
        for number in range(1, self.options.nodes + 1):
            say(f"starting node local-{number}")
            self._start_node(number)
        write_private(self.var / "up.json", json.dumps({"url": self.url, "pid": os.getpid()}))

    def _look(self) -> None:
        self.watch.look()
        if time.monotonic() - self._looked_at < SLOW_LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        reap_unknown({one.process.pid for one in self.watch.services if one.process})
        if self._master is not None and connection.vendor == "sqlite":
            self._look_at_master(self._master)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _start_broker(self) -> None:
        broker = LocalBroker(self.var / "broker")
        settings.REDIS_URL = broker.url
        service = self._add("broker", broker.command)
        broker.wait_ready(process=service.process)

    def _start_web(self) -> None:
        """A port that somebody else takes in the same moment is given up for another."""
        for _ in range(5):
            port = self.options.port or self._choose_port()
            command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--host", self.options.host]
            command += ["--port", str(port), "--no-access-log", "--timeout-graceful-shutdown", "3"]
            service = self._add("web", [*command, "--ws-max-size", "65536"])
            if self._is_listening(service, port):
                self.url = f"http://{_reachable(self.options.host)}:{port}"
                write_private(self.var / "port", str(port))
                return
            self.watch.services.remove(service)
            if self.options.port:
                break
        raise UpError(f"The web process did not start; see {self.var / 'logs' / 'web.log'}.")

    def _choose_port(self) -> int:
        """That of last time where it is free, so that bookmarks keep working."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            last = int((self.var / "port").read_text(encoding="ascii"))
            if _is_free(self.options.host, last):
                return last
        return PREFERRED_PORT if _is_free(self.options.host, PREFERRED_PORT) else _free_port(self.options.host)

    def _is_listening(self, service: Service, port: int) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while service.process is not None and service.is_running and time.monotonic() < deadline:
            with contextlib.suppress(psutil.Error):
                sockets = psutil.Process(service.process.pid).net_connections("tcp")
                if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets):
                    return True
            time.sleep(0.05)
        service.kill()
        return False

    def _start_node(self, number: int) -> None:
        state = self.var / "nodes" / str(number)
        address = NODE_ADDRESSES[(number - 1) % len(NODE_ADDRESSES)]
        identity.prepare(state)
        try:
            known = identity.load(state)
        except identity.NotJoined:
            self._join(state, f"local-{number}", address)
        else:
            identity.save(state, replace(known, portal=self.url))  # the port may be another one today
        slots = self.options.slots or max(1, (os.cpu_count() or 1) // max(1, self.options.nodes))
        agent = [sys.executable, "-m", "nodes.agent", "run", "--state", str(state), "--address", address]
        environment = {name: value for name, value in os.environ.items() if name not in _PORTAL_ONLY}
        self._add(f"node-{number}", [*agent, "--cpu-slots", str(slots)], environment)

    def _join(self, state: Path, name: str, address: str) -> None:
        """What `python -m nodes.agent join` does, over HTTP too, without another start of Python."""
        node_id = identity.node_id_of(state)
        code = make_join_code(None) if Node.objects.filter(pk=node_id).exists() else self._join_code(name)
        request = JoinRequest(code=code, node_id=node_id, hostname=socket.gethostname(), address=address)
        try:
            reply = Portal(self.url).join(request)
        except (PortalDown, Refused) as error:
            raise UpError(f"The node {name} could not join: {error}") from error
        identity.save(state, Identity(reply.node_id, self.url, reply.name, reply.token))

    def _join_code(self, name: str) -> str:
        try:
            return make_join_code(None, node_name=name)
        except Conflict:  # a node of that name, whose folder is gone
            return make_join_code(None, node_name=f"{name}-{secrets.token_hex(2)}")

    def _look_at_master(self, master: Service) -> None:
        try:
            beats = Leader.objects.values_list("beats", flat=True).filter(pk=1).first() or 0
        except DatabaseError:
            return
        now = time.monotonic()
        if beats != self._beats or now - master.started_at < SILENT_SECONDS:
            self._beats, self._moved_at = beats, now
        elif now - self._moved_at > SILENT_SECONDS and master.is_running:
            self.options.say(f"the master has been silent for {SILENT_SECONDS:.0f} s and is started again")
            master.kill()
            self._moved_at = now

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _add(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> Service:
        environment = {**(os.environ if environment is None else environment), "TRAINYARD_VAR": str(self.var)}
        log = self.var / "logs" / f"{name}.log"
        return self.watch.add(Service(name, command, environment, log, Path(settings.BASE_DIR)))


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
