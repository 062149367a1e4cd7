"""Processes under watch: started with a log of their own, started again when they end, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portal.processes import die_with_parent

MOST_LOG_BYTES = 20 * 2**20
LONGEST_PAUSE_SECONDS = 10.0
STEADY_SECONDS = 30.0  # who ran this long begins again with the shortest pause


@dataclass
class Service:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0  # monotonic
    starts_again_at: float = 0.0
    pause_seconds: float = field(default=0.5)

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MOST_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                list(self.command),
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread only, and nothing but a system call
            )
        self.started_at = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def terminate(self) -> None:
        if self.process is not None and self.is_running:
            self.process.terminate()

    def kill(self) -> None:
        """At once, with what it has forked; `Watch.look` starts it again."""
        if self.process is not None and self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self, deadline: float) -> None:
        """Until it has ended; killed when the (monotonic) deadline passes."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()


class Watch:
    """Starts services and keeps them running until told to stop."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.services: list[Service] = []
        self._say = say

    def add(self, service: Service) -> Service:
        self.services.append(service)
        service.start()
        return service

    def look(self) -> None:
        """Start again what has ended, each at its own growing pace."""
        now = time.monotonic()
        for service in self.services:
            if service.is_running:
                continue
            if not service.starts_again_at:
                self._note_end(service, now)
            elif now >= service.starts_again_at:
                service.starts_again_at = 0.0
                service.start()

    def _note_end(self, service: Service, now: float) -> None:
        if now - service.started_at > STEADY_SECONDS:
            service.pause_seconds = 0.5
        service.starts_again_at = now + service.pause_seconds
        service.pause_seconds = min(service.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        code = service.process.returncode if service.process else None
        self._say(f"{service.name} ended ({_said(code)}) and is started again; see {service.log}")

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM in the reverse order of starting; the first (the others may still speak to it) goes last."""
        deadline = time.monotonic() + grace_seconds
        for service in reversed(self.services[1:]):
            service.terminate()
        for service in reversed(self.services):
            service.terminate()
            service.wait(deadline)
        self.services.clear()


def _said(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {-code}"
    return f"exit {code}"
