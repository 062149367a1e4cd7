"""Submit → first step, against bare torchrun's start of the same script; and where the time goes, leg by leg."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench.bare import run_bare
from tests.bench.goal import Goal
from tests.bench.installation import BenchError, Installation, wait_for

SCRIPT, ARGUMENTS = "steady.py", ("--seconds", "2", "--warm-up", "0")
MOST_EXTRA_SECONDS = 1.5
# What ends each leg. `began` is the first line of rank 0's script; all files are rank 0's and its node's.
LEGS = (
    "submitted",
    "placed",
    "ordered at the node",
    "supervisor there",
    "ready",
    "go at the node",
    "launcher started",
    "rank started",
    "first step",
)


@dataclass(frozen=True)
class Starts:
    """Medians over the repeats, in seconds. `legs` are of the portal's starts, by what ends them."""

    portal: float
    bare: float
    extra: float  # median of the differences within pairs
    legs: dict[str, float]

    def goal(self) -> Goal:
        text = f"{self.extra:+.2f} s (portal {self.portal:.2f}, bare {self.bare:.2f})"
        limit = f"≤ {MOST_EXTRA_SECONDS:g} s more than bare torchrun"
        return Goal("submit → first step", limit, text, self.extra <= MOST_EXTRA_SECONDS)


def measure_starts(portal: Installation, pairs: int, say: Callable[[str], None]) -> Starts:
    bare, ours = [], []
    for number in range(pairs):
        told = run_bare(SCRIPT, *ARGUMENTS)
        bare.append(told["first_step"] - told["submitted"])
        ours.append(_start(portal))
        say(f"start {number + 1} of {pairs}: bare {bare[-1]:.2f} s, portal {ours[-1]['first step']:.2f} s")
    totals = [moments["first step"] for moments in ours]
    extra = statistics.median(mine - other for mine, other in zip(totals, bare, strict=True))
    legs = {end: statistics.median(moments[end] - moments[begin] for moments in ours) for begin, end in pairwise(LEGS)}
    return Starts(statistics.median(totals), statistics.median(bare), extra, legs)


def _start(portal: Installation) -> dict[str, float]:
    """Seconds from the submit to the end of each leg."""
    submitted = time.time()
    job = portal.submit(SCRIPT, *ARGUMENTS)
    # While the job runs its folder is there; afterwards the node forgets it.
    folder = wait_for(lambda: _folder(portal), 60.0, "No order came to the first node.", pause=0.1)
    wait_for((folder / "job" / "metrics.0.jsonl").exists, 120.0, f"Job {job} made no step.", pause=0.2)
    private = folder / "private"
    moments = {
        "ordered at the node": _written(private / "launch.json"),
        "supervisor there": _written(private / "supervisor.pid"),
        "ready": _written(private / "ready.json"),
        "go at the node": _written(private / "orders.json"),
        "launcher started": _written(private / "started.json"),
    }
    portal.wait_end(job)
    events = portal.rest.get(f"/jobs/{job}/events/")["results"]
    placed = next((event for event in events if event["data"].get("to") == "starting"), None)
    if placed is None:
        raise BenchError(f"Job {job} has no event of its start: {events}")
    moments["placed"] = datetime.fromisoformat(placed["at"]).timestamp()
    told: dict[str, Any] = portal.told_by(job)
    moments |= {"submitted": submitted, "rank started": told["began"], "first step": told["first_step"]}
    return {name: moment - submitted for name, moment in moments.items()}


def _folder(portal: Installation) -> Path | None:
    journals = (portal.var / "nodes" / "1" / "launches").glob("*/private/launch.json")
    return next((journal.parent.parent for journal in journals if not (journal.parent / "exit.json").exists()), None)


def _written(path: Path) -> float:
    return path.stat().st_mtime
