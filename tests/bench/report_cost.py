"""What `trainyard.report()` costs the training thread, beside a plain JSON line append, and when nothing is written.

There is no portal and no agent here at all: the module knows none, so a portal that is down cannot make it wait.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.goal import Goal

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "bench" / "scripts" / "report_calls.py"
STEPS = 20_000
MEDIAN_MICROSECONDS = 3.0
# A call that waited for the disk would take for ever here. Between two switches of threads Python lets 5 ms pass.
STUCK_MOST_MILLISECONDS = 50.0

Costs = dict[str, float]


def goals() -> list[Goal]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, plain = _measure(folder), _measure(folder, str(folder / "plain.jsonl"))
        written = (folder / "metrics.0.jsonl").read_bytes().count(b"\n")
    with _stopped_reader() as folder:
        stuck = _measure(folder)
    cost = f"{ours['median']:.2f} µs (99 %: {ours['p99']:.1f}; plain append {plain['median']:.2f})"
    stuck_cost = f"median {stuck['median']:.2f} µs, slowest {stuck['most'] / 1000:.1f} ms"
    limit = f"median ≤ {MEDIAN_MICROSECONDS:g} µs"
    return [
        Goal("report() per point, no portal", limit, cost, ours["median"] <= MEDIAN_MICROSECONDS),
        Goal("points in the file", f"{STEPS:,}", f"{written:,}", written == STEPS),
        Goal(
            "report() while the disk takes nothing",
            f"{limit}, slowest ≤ {STUCK_MOST_MILLISECONDS:g} ms",
            stuck_cost,
            stuck["median"] <= MEDIAN_MICROSECONDS and stuck["most"] <= STUCK_MOST_MILLISECONDS * 1000,
        ),
    ]


def _measure(folder: Path, *arguments: str) -> Costs:
    env = {**os.environ, "TRAINYARD_FOLDER": str(folder), "PYTHONPATH": str(ROOT / "jobs" / "training" / "lib")}
    with subprocess.Popen([sys.executable, str(SCRIPT), *arguments], env=env, stdout=subprocess.PIPE) as process:
        try:
            line = process.stdout.readline() if process.stdout else b""
        finally:
            process.kill() if folder.joinpath("metrics.0.jsonl").is_fifo() else process.wait(60)
    costs: Costs = json.loads(line)
    return costs


@contextmanager
def _stopped_reader() -> Iterator[Path]:
    """A folder whose metrics file is a pipe that a stopped process holds open: 64 KiB fit in, then writing waits."""
    with tempfile.TemporaryDirectory() as name:
        pipe = Path(name) / "metrics.0.jsonl"
        os.mkfifo(pipe)
        with subprocess.Popen(["sh", "-c", 'exec 3<"$0"; kill -STOP $$; cat <&3', str(pipe)]) as reader:
            try:
                yield Path(name)
            finally:
                reader.send_signal(signal.SIGKILL)
