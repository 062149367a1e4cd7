"""What `trainyard.report()` costs the training thread, beside a plain JSON line append in the same process.

    python -m tests.bench.report_cost [--json]

Goal: median ≤ 3 µs per point, at a step every 200 µs (a fast small model), with the file's thread at work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.goal import Goal, report

ROOT = Path(__file__).parents[2]
STEPS = 20_000
STEP_SECONDS = 200e-6
GOAL_MICROSECONDS = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["TRAINYARD_FOLDER"] = place
        sys.path.insert(0, str(ROOT / "jobs" / "training" / "lib"))
        import trainyard

        ours = _cost(lambda step: trainyard.report(step, loss=0.5))
        trainyard.flush()
        written = (Path(place) / "metrics.0.jsonl").read_bytes().count(b"\n")
        with (Path(place) / "plain.jsonl").open("a", encoding="utf-8") as file:
            plain = _cost(lambda step: file.write(json.dumps({"step": step, "loss": 0.5}) + "\n"))
    median = statistics.median(ours)
    measured = f"{median:.2f} µs (99 %: {_percentile(ours, 99):.1f}; plain append {statistics.median(plain):.2f})"
    goals = [
        Goal("report() per point", f"median ≤ {GOAL_MICROSECONDS:g} µs", measured, median <= GOAL_MICROSECONDS),
        Goal("points in the file", f"{STEPS}", str(written), written == STEPS),
    ]
    return report(goals, as_json=arguments.json)


def _cost(call: Callable[[int], object]) -> list[float]:
    """Microseconds of every call; between the calls the thread computes, as a training step does."""
    clock, costs = time.perf_counter, []
    for step in range(STEPS):
        started = clock()
        call(step)
        ended = clock()
        costs.append((ended - started) * 1e6)
        while clock() - ended < STEP_SECONDS:
            pass
    return costs


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
