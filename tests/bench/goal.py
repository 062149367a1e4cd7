"""A goal of a benchmark: what was promised, what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Goal:
    name: str
    goal: str
    measured: str
    met: bool


def report(goals: Iterable[Goal], *, as_json: bool) -> int:
    """Print one line per goal; the exit status: 1 when one was missed."""
    goals = list(goals)
    if as_json:
        print(json.dumps([asdict(goal) for goal in goals], indent=2))
    else:
        wide = max(len(goal.name) for goal in goals)
        for goal in goals:
            print(f"{goal.name:<{wide}}  {goal.goal:<34}  {goal.measured:<44}  {'met' if goal.met else 'MISSED'}")
    return 0 if all(goal.met for goal in goals) else 1
