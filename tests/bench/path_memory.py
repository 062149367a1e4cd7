"""Resident memory of the web process and of an agent with its Celery child over steady work, and its slope."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import psutil
import websockets

from tests.bench.goal import Goal
from tests.bench.installation import Installation

WEB_MB, AGENT_MB = 250, 200
FLAT_MB = 10.0  # growth over FLAT_MINUTES that counts as none: arenas fill, caches settle
FLAT_MINUTES = 15.0
SAMPLE_SECONDS = 1.0
VIEWERS = 5
WARM_UP_SHARE = 1 / 3


@dataclass
class Memory:
    """Of one part: megabytes (10^6) by minute since the work began."""

    name: str
    most_mb: int
    minutes: list[float] = field(default_factory=list)
    mb: list[float] = field(default_factory=list)

    def slope(self) -> float:
        """MB per minute, without the first third: there caches fill."""
        first = int(len(self.mb) * WARM_UP_SHARE)
        return float(np.polyfit(self.minutes[first:], self.mb[first:], 1)[0])

    def goals(self) -> list[Goal]:
        top, slope = max(self.mb), self.slope()
        growth = slope * FLAT_MINUTES
        grown = f"{slope:+.2f} MB/min over {self.minutes[-1]:.0f} min ({self.mb[0]:.0f} → {self.mb[-1]:.0f} MB)"
        flat = f"flat: ≤ {FLAT_MB:g} MB in {FLAT_MINUTES:g} min"
        return [
            Goal(f"memory, {self.name}", f"≤ {self.most_mb} MB", f"{top:.0f} MB at most", top <= self.most_mb),
            Goal(f"memory over time, {self.name}", flat, grown, growth <= FLAT_MB),
        ]


def measure_memory(portal: Installation, minutes: float, say: Callable[[str], None]) -> list[Memory]:
    """Two nodes run a job that reports 100 points and 20 lines a second; people look at it, list jobs, and leave."""
    web, agent = Memory("web", WEB_MB), Memory("agent with Celery child", AGENT_MB)
    seconds = minutes * 60
    pulse = ("--per-second", "100", "--lines", "20", "--seconds", str(seconds + 10))
    job = portal.submit("pulse.py", *pulse, nodes=1, framework="command")
    with _people(portal, job):
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            _sample(web, portal.processes("uvicorn", "portal.asgi"), passed)
            node = next(
                one
                for one in portal.processes("nodes.agent", "run")
                if str(portal.var / "nodes" / "1") in one.cmdline()
            )
            children = [one for one in node.children() if "nodes.agent.worker" in one.cmdline()]
            _sample(agent, [node, *children], passed)
            if int(passed / 60) > int((passed - SAMPLE_SECONDS) / 60):
                say(f"minute {passed / 60:.0f} of {minutes:g}: web {web.mb[-1]:.0f} MB, agent {agent.mb[-1]:.0f} MB")
            time.sleep(SAMPLE_SECONDS)
    portal.rest.post(f"/jobs/{job}/cancel/", {})
    return [web, agent]


def _sample(memory: Memory, processes: list[psutil.Process], passed: float) -> None:
    with contextlib.suppress(psutil.Error):
        resident = sum(one.memory_info().rss for one in processes)
        memory.minutes.append(passed / 60)
        memory.mb.append(resident / 1e6)


@contextlib.contextmanager
def _people(portal: Installation, job: int) -> Iterator[None]:
    """Viewers of the job's page that come and go, and a script that asks over REST, until the block ends."""
    ended = threading.Event()
    threads = [
        threading.Thread(target=lambda: asyncio.run(_viewers(portal, job, ended))),
        threading.Thread(target=_ask, args=(portal, job, ended)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


async def _viewers(portal: Installation, job: int, ended: threading.Event) -> None:
    await asyncio.gather(*(_viewer(portal, job, 5.0 + number, ended) for number in range(VIEWERS)))


async def _viewer(portal: Installation, job: int, stay_seconds: float, ended: threading.Event) -> None:
    login = {"Authorization": f"Token {portal.token}"}
    while not ended.is_set():
        async with websockets.connect(
            f"{portal.ws_url}/ws/jobs/{job}/", additional_headers=login, max_size=None
        ) as socket:
            await socket.send(json.dumps({"type": "series"}))
            await socket.send(json.dumps({"type": "log", "rank": 0}))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(stay_seconds):
                    async for _message in socket:
                        if ended.is_set():
                            break


def _ask(portal: Installation, job: int, ended: threading.Event) -> None:
    while not ended.wait(1.0):
        for path in ("/jobs/", f"/jobs/{job}/", f"/jobs/{job}/series/", f"/jobs/{job}/events/", "/nodes/"):
            portal.rest.get(path)
