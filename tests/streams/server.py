"""A real web process with a database and, where wanted, a broker of its own, for tests and benchmarks of live pages."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    port: int
    process: subprocess.Popen[bytes]
    env: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def django(self, code: str) -> str:
        """Run Python with Django set up on the server's database; what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", f"import django; django.setup()\n{code}"],
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def environment(folder: Path, database_url: str = "", redis_url: str = "redis://127.0.0.1:1/0") -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    env |= {
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "TRAINYARD_VAR": str(folder),
        "REDIS_URL": redis_url,
        "SECRET_KEY": "k" * 50,
        "PYTHONPATH": str(ROOT),
    }
    return env | ({"DATABASE_URL": database_url} if database_url else {})


def migrate(env: dict[str, str]) -> None:
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True, timeout=120)


@contextmanager
def web(folder: Path, env: dict[str, str]) -> Iterator[Server]:
    """`portal.asgi` under uvicorn, as it runs in production; stopped at the end."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--log-level", "warning", "--no-access-log", "--timeout-graceful-shutdown", "2"]
    with (folder / "web.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
    server = Server(port, process, env)
    try:
        _wait(server, folder / "web.log")
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(server: Server, log: Path) -> None:
    deadline = time.monotonic() + 40
    while True:
        try:
            urllib.request.urlopen(f"{server.url}/healthz", timeout=2).read()
        except OSError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(errors="replace")[-4000:]) from None
            time.sleep(0.1)
        else:
            return
