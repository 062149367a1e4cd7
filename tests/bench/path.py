"""`bin/bench path`: a job's whole way through a running portal, against bare torchrun and the numbers promised.

python -m tests.bench path [--parts start,speed,...] [--minutes 15] [--pairs 5] [--json]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from tests.bench import report_cost
from tests.bench.goal import Goal
from tests.bench.installation import Installation, installation
from tests.bench.path_latency import measure_latency
from tests.bench.path_memory import measure_memory
from tests.bench.path_speed import measure_speed
from tests.bench.path_start import measure_starts

Part = Callable[[Installation, argparse.Namespace], list[Goal]]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--pairs", type=int, default=5, help="repeats of each comparison with bare torchrun")
    parser.add_argument("--minutes", type=float, default=3.0, help="of steady work for the slope of memory")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measured training, and of points")


def goals(arguments: argparse.Namespace) -> list[Goal]:
    chosen = [PARTS[name] for name in arguments.parts.split(",")]
    with installation() as portal:
        return [told(goal) for part in chosen for goal in part(portal, arguments)]


def told(goal: Goal) -> Goal:
    """At once too: a run that is cut short has said what it knew."""
    say(f"{goal.name}: {goal.measured}")
    return goal


def _speed(portal: Installation, arguments: argparse.Namespace) -> list[Goal]:
    """The goal is about what a node loses. A portal on the same cores is told beside it: it takes what it needs."""
    with portal.nodes_on_cores() as cores:
        say(f"nodes on {len(cores)} of {os.cpu_count()} cores, the portal on the other one")
        speed = measure_speed(portal, arguments.pairs, arguments.seconds, say, cores=cores)
    shared = measure_speed(portal, arguments.pairs, arguments.seconds, lambda _: None)
    say(f"with portal and nodes on the same cores: {shared.share:.3f} of bare torchrun's samples/s")
    return [speed.goal()]


def _start(portal: Installation, arguments: argparse.Namespace) -> list[Goal]:
    starts = measure_starts(portal, arguments.pairs, say)
    for name, seconds in starts.legs.items():
        say(f"    → {name:<20} {seconds:6.2f} s")
    return [starts.goal()]


def _report(_portal: Installation, _arguments: argparse.Namespace) -> list[Goal]:
    return report_cost.goals()


def _latency(portal: Installation, arguments: argparse.Namespace) -> list[Goal]:
    return [measure_latency(portal, arguments.seconds).goal()]


def _memory(portal: Installation, arguments: argparse.Namespace) -> list[Goal]:
    return [goal for memory in measure_memory(portal, arguments.minutes, say) for goal in memory.goals()]


PARTS: dict[str, Part] = {
    "start": _start,
    "speed": _speed,
    "report": _report,
    "latency": _latency,
    "memory": _memory,
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
