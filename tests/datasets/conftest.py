"""A real uvicorn on a free port with the test database, and a small tus client."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


def wait_for(condition, seconds=20.0, what="the condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {seconds} s")


@dataclass
class Server:
    folder: Path
    database_url: str
    port: int = 0
    process: subprocess.Popen | None = None
    content_types: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        env = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "STORAGE_URL": f"file://{self.folder / 'storage'}",
            "STAGING_DIR": str(self.folder / "staging"),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--port", str(self.port)]
        log = (self.folder / "web.log").open("ab")
        self.process = subprocess.Popen([*command, "--log-level", "warning"], cwd=ROOT, env=env, stdout=log, stderr=log)
        wait_for(self._answers, START_SECONDS, f"an answer of {self.url}")
        return self

    def _answers(self):
        assert self.process.poll() is None, (self.folder / "web.log").read_text()[-4000:]
        try:
            return httpx.options(f"{self.url}/uploads/", timeout=5, trust_env=False).status_code == 204
        except httpx.TransportError:
            return False

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def _database_url():
    from django.db import connection

    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    login = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    return f"postgres://{login}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"


@pytest.fixture(scope="session")
def web_process(tmp_path_factory):
    """At most one server runs; it is started by the first test that needs it."""
    server = Server(tmp_path_factory.mktemp("web"), "")
    yield server
    if server.process is not None:
        server.stop()


@pytest.fixture
def places(settings, tmp_path):
    """Storage and staging of this test's own."""
    settings.STORAGE_URL = f"file://{tmp_path / 'storage'}"
    settings.STAGING_DIR = tmp_path / "staging"
    return tmp_path


@pytest.fixture
def server(transactional_db, web_process, settings):
    """The shared server; storage and staging of this process are the server's."""
    from django.contrib.contenttypes.models import ContentType

    if web_process.process is None:
        web_process.database_url = _database_url()
        web_process.content_types = list(ContentType.objects.all())
        web_process.start()
    # Each transactional test ends with a flush that gives content types new ids, of which the server knows nothing.
    ContentType.objects.all().delete()
    ContentType.objects.bulk_create(web_process.content_types)
    settings.STORAGE_URL = f"file://{web_process.folder / 'storage'}"
    settings.STAGING_DIR = web_process.folder / "staging"
    return web_process


@pytest.fixture
def own_server(transactional_db, settings, tmp_path):
    """A server that the test may kill."""
    settings.STORAGE_URL = f"file://{tmp_path / 'storage'}"
    settings.STAGING_DIR = tmp_path / "staging"
    server = Server(tmp_path, _database_url()).start()
    yield server
    server.stop()


@pytest.fixture
def make_token():
    def make(user, scope="write"):
        from portal.accounts.services import create_token

        return create_token(user, name="test", scope=scope)[1]

    return make


def encoded(**values):
    return ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())


class Tus:
    """Speaks tus 1.0 as a browser does; every method answers with the httpx response."""

    def __init__(self, url, token="", **client):
        headers = {"Authorization": f"Token {token}"} if token else {}
        self.http = httpx.Client(
            base_url=url, headers={"Tus-Resumable": "1.0.0", **headers}, timeout=30, trust_env=False, **client
        )

    def create(self, size, filename="数据 1.csv", body=None, extra=None, **metadata):
        headers = {"Upload-Length": str(size), "Upload-Metadata": encoded(filename=filename, **metadata)}
        if body is not None:
            headers["Content-Type"] = "application/offset+octet-stream"
        return self.http.post("/uploads/", headers={**headers, **(extra or {})}, content=body)

    def patch(self, address, offset, body, **extra):
        headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        return self.http.patch(address, headers={**headers, **extra}, content=body)

    def head(self, address):
        return self.http.head(address)

    def offset(self, address):
        answer = self.head(address)
        assert answer.status_code == 200, answer.status_code
        return int(answer.headers["Upload-Offset"])

    def cut(self, address, offset, body, announced, headers=()):
        """PATCH over a socket that is closed after `body` although `announced` bytes were promised."""
        host = self.http.base_url.host, self.http.base_url.port
        lines = [
            f"PATCH {address} HTTP/1.1",
            f"Host: {host[0]}:{host[1]}",
            "Tus-Resumable: 1.0.0",
            f"Authorization: {self.http.headers['Authorization']}",
            f"Upload-Offset: {offset}",
            "Content-Type: application/offset+octet-stream",
            f"Content-Length: {announced}",
            *headers,
        ]
        link = socket.create_connection(host, timeout=20)
        link.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return link


@pytest.fixture
def tus(server, make_user, make_token):
    return Tus(server.url, make_token(make_user("ada")))
