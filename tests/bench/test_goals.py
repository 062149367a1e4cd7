"""What `bin/bench` says and how it ends."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.bench.__main__ import BENCHMARKS, main
from tests.bench.goal import Goal, report
from tests.bench.installation import joined
from tests.bench.path_latency import _delays
from tests.bench.path_memory import Memory

MET, MISSED = Goal("a", "≤ 1", "0.5", met=True), Goal("b", "≤ 1", "2", met=False)


def test_a_missed_goal_makes_the_exit_status_one(capsys):
    assert report([MET], as_json=False) == 0
    assert report([MET, MISSED], as_json=False) == 1
    assert capsys.readouterr().out.rstrip().endswith("MISSED")


def test_goals_can_be_read_by_a_program(capsys):
    report([MET, MISSED], as_json=True)
    assert [row["met"] for row in json.loads(capsys.readouterr().out)] == [True, False]


def test_without_a_name_the_benchmarks_are_listed(capsys):
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


def test_a_point_has_come_with_the_first_message_that_reaches_to_it():
    reported = np.array([0.0, 1.0, 2.0, 3.0])
    assert _delays(reported, [(1, 0.5), (3, 2.25), (4, 3.75)]).tolist() == [0.5, 1.25, 0.25, 0.75]


def test_what_a_script_prints_beside_its_figures_is_passed_over():
    assert joined(["warning: slow", '{"began": 1}', '{"step_ms": 2.5}']) == {"began": 1, "step_ms": 2.5}


@pytest.mark.parametrize(("growth", "is_flat"), [(0.0, True), (5.0, False)])
def test_memory_that_grows_misses_its_goal(growth, is_flat):
    minutes = [index / 10 for index in range(30)]
    memory = Memory("web", 250, minutes, [100 + growth * minute for minute in minutes])
    assert [goal.met for goal in memory.goals()] == [True, is_flat]
