"""`bin/bench NAME`: runs a benchmark and ends with one line per goal. Without a name it lists them."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench import path, report_cost, series
from tests.bench.goal import Goal, report
from tests.bench.machine import machine


@dataclass(frozen=True)
class Benchmark:
    about: str
    goals: Callable[[argparse.Namespace], list[Goal]]
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None


BENCHMARKS = {
    "path": Benchmark(
        "a job's whole way against bare torchrun: start, speed, points, memory", path.goals, path.options
    ),
    "series": Benchmark("the metric store and the live page, against MLflow", lambda _: series.goals()),
    "report": Benchmark("what trainyard.report() costs the training thread", lambda _: report_cost.goals()),
}


def main(arguments: list[str]) -> int:
    if not arguments:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:<8} {benchmark.about}")
        return 0
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, benchmark in BENCHMARKS.items():
        own = names.add_parser(name, help=benchmark.about, description=benchmark.about)
        own.add_argument("--json", action="store_true", help="the goals as JSON on standard output")
        benchmark.options(own)
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    print(machine(), file=sys.stderr, flush=True)
    return report(BENCHMARKS[asked.name].goals(asked), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
