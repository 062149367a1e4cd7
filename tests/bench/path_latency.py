"""Point reported by rank 0 → received by each of many sockets: script, agent, portal, broker, sockets, all real."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

import numpy as np
import websockets

from jobs.series.page import from_bytes
from tests.bench.goal import Goal
from tests.bench.installation import BenchError, Installation

SUBSCRIBERS = 50
PER_SECOND = 1_000
MEDIAN_MS, P99_MS = 500, 1_500
LATE_SECONDS = 60.0

Arrivals = list[tuple[int, float]]  # how many points a socket had, and since when (seconds since 1970)


@dataclass(frozen=True)
class Latency:
    """Over every point at every socket, from the time that report() gave the point."""

    median_ms: float
    p99_ms: float
    points: int
    all_arrived: bool

    def goal(self) -> Goal:
        told = f"median {self.median_ms:.0f} ms, 99 % {self.p99_ms:.0f} ms, {self.points:,} points"
        told += ", all arrived" if self.all_arrived else ", POINTS MISSING"
        met = self.all_arrived and self.median_ms <= MEDIAN_MS and self.p99_ms <= P99_MS
        name = f"report() → socket, {SUBSCRIBERS} sockets"
        return Goal(name, f"median ≤ {MEDIAN_MS} ms, 99 % ≤ {P99_MS:,} ms", told, met)


def measure_latency(portal: Installation, seconds: float) -> Latency:
    arguments = ("--per-second", str(PER_SECOND), "--seconds", str(seconds))
    job = portal.submit("pulse.py", *arguments, nodes=1, framework="command")
    arrivals = asyncio.run(_watch(portal, job, seconds))
    portal.wait_end(job)
    rows = portal.rest.points(job, "loss")
    if not rows:
        raise BenchError(f"Job {job} has no points.")
    reported = np.array([float(row["time"]) for row in rows])
    delays = np.concatenate([_delays(reported, seen) for seen in arrivals])
    return Latency(
        float(np.median(delays)) * 1000,
        float(np.percentile(delays, 99)) * 1000,
        len(rows),
        all_arrived=all(seen and seen[-1][0] == len(rows) for seen in arrivals),
    )


def _delays(reported: np.ndarray, seen: Arrivals) -> np.ndarray:
    """Of each point at one socket: it is there with the first message that reaches so far."""
    totals = np.array([total for total, _ in seen])
    moments = np.array([moment for _, moment in seen])
    first = np.searchsorted(totals, np.arange(totals[-1]), side="right")
    return moments[first] - reported[: totals[-1]]


async def _watch(portal: Installation, job: int, seconds: float) -> list[Arrivals]:
    arrivals: list[Arrivals] = [[] for _ in range(SUBSCRIBERS)]
    async with asyncio.timeout(seconds + LATE_SECONDS):
        await asyncio.gather(*(_client(portal, job, seen) for seen in arrivals))
    return arrivals


async def _client(portal: Installation, job: int, seen: Arrivals) -> None:
    """Until the job is over and its last point has come."""
    address = f"{portal.ws_url}/ws/jobs/{job}/"
    login = {"Authorization": f"Token {portal.token}"}
    is_over = False
    async with websockets.connect(address, additional_headers=login, compression=None, max_size=None) as socket:
        await socket.send(json.dumps({"type": "series", "names": ["loss"]}))
        async for message in socket:
            if isinstance(message, bytes):
                pieces = from_bytes(message)[0]["pieces"]
                if pieces and (not seen or pieces[0]["total"] > seen[-1][0]):
                    seen.append((pieces[0]["total"], time.time()))
                continue
            told = json.loads(message)
            if told["type"] == "job":
                is_over = told["job"]["state"] in ("succeeded", "failed", "cancelled")
            if is_over and told["type"] == "pulse":
                return
