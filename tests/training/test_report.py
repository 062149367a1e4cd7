"""Points reach the file as they are, and reporting never waits."""

from __future__ import annotations

import math
import os

IMPORT = "import trainyard, time, os, sys\n"


def run(folder, text: str, **env: str):
    done = folder.run("-c", IMPORT + text, **env)
    assert done.returncode == 0, done.stderr
    return done


def test_values_arrive_as_they_are_also_when_not_finite(folder):
    run(folder, "for s, v in enumerate([1, float('nan'), float('inf'), -float('inf'), 2]): trainyard.report(s, loss=v)")
    values = [point["value"] for point in folder.points()]
    assert (values[0], values[4]) == (1.0, 2.0)
    assert math.isnan(values[1])
    assert values[2:4] == [math.inf, -math.inf]
    assert set(folder.points()[0]) == {"step", "name", "value", "time"}


def test_numbers_of_libraries_are_taken(folder):
    text = "import numpy as np\ntrainyard.report(np.int64(7), {'a b': np.float32(0.5)}, c=np.array(2), d=True)"
    run(folder, text)
    assert [(p["step"], p["name"], p["value"]) for p in folder.points()] == [
        (7, "a b", 0.5),
        (7, "c", 2.0),
        (7, "d", 1.0),
    ]


def test_what_is_no_number_is_refused_by_name(folder):
    text = """
for value in ("0.5", None, [1, 2], 1j, object()):
    try:
        trainyard.report(1, accuracy=value)
    except TypeError as error:
        assert "'accuracy'" in str(error), error
    else:
        raise SystemExit(f"took {value!r}")
"""
    run(folder, text)
    assert folder.points() == []


def test_long_names_are_cut_apart_with_one_warning(folder):
    done = run(folder, "for i in range(3): trainyard.report(i, {'x' * 10000 + str(i % 2): 1.0})")
    names = {point["name"] for point in folder.points()}
    assert len(names) == 2
    assert max(map(len, names)) <= 200
    assert done.stderr.count("metric names are cut") == 1


def test_a_point_is_in_the_file_within_a_moment_and_survives_a_hard_exit(folder):
    text = """
trainyard.report(1, loss=0.5)
end = time.monotonic() + 5
while not os.path.exists("metrics.0.jsonl") or not os.path.getsize("metrics.0.jsonl"):
    assert time.monotonic() < end
    time.sleep(0.005)
os._exit(0)
"""
    run(folder, text)
    assert len(folder.points()) == 1


def test_reporting_never_waits_for_a_file_that_takes_nothing(folder):
    os.mkfifo(folder.path / "metrics.0.jsonl")  # opening it for writing waits until somebody reads
    text = """
from trainyard import _points
_points.MAX_PENDING_POINTS = 1000
slowest = 0
for i in range(5000):
    t = time.perf_counter(); trainyard.report(i, loss=1.0); slowest = max(slowest, time.perf_counter() - t)
assert slowest < 0.5, slowest
assert len(_points._pending) <= 1001
assert _points._State.writer.dropped >= 3900, _points._State.writer.dropped
assert not trainyard.flush(0.1)
os._exit(0)
"""
    run(folder, text)


def test_dropped_points_are_counted_in_the_log(folder):
    text = """
from trainyard import _points
_points.MAX_PENDING_POINTS = 10
_points.FLUSH_SECONDS = 1.0
for i in range(100): trainyard.report(i, loss=1.0)
"""
    done = run(folder, text)
    assert "90 points were dropped" in done.stderr
    assert len(folder.points()) == 10


def test_a_forked_worker_reports_its_own_points_only(folder):
    text = """
trainyard.report(1, loss=1.0)
child = os.fork()
if child == 0:
    trainyard.report(2, worker=2.0)
    trainyard.flush()
    os._exit(0)
os.waitpid(child, 0)
"""
    run(folder, text)
    assert sorted((p["step"], p["name"]) for p in folder.points()) == [(1, "loss"), (2, "worker")]


def test_every_rank_has_a_file_of_its_own(folder):
    run(folder, "trainyard.report(1, loss=1.0); trainyard.progress(0.5)", RANK="3", WORLD_SIZE="4")
    assert [point["name"] for point in folder.points(3)] == ["loss", "progress"]


def test_the_same_script_runs_on_a_laptop(folder, tmp_path):
    text = """
os.environ.pop("TRAINYARD_FOLDER"); os.chdir(sys.argv[1])
trainyard.report(1, loss=1.0)
with trainyard.checkpoint(1) as place: (place / "w").write_bytes(b"w")
assert trainyard.should_stop() is None and not trainyard.wants_checkpoint()
assert trainyard.latest_checkpoint().step == 1
assert not trainyard.any_rank(False) and trainyard.any_rank("yes")
open("data.csv", "w").close(); os.environ["TRAINYARD_DATA"] = "data.csv"
assert trainyard.dataset().path.exists()
"""
    done = folder.run("-c", IMPORT + text, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "trainyard" / "metrics.0.jsonl").read_text().count("\n") == 1
