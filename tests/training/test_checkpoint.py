"""Whatever kills a process at whatever moment, the newest checkpoint that is found is good."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

SAVE_FOR_EVER = """
import trainyard, os
newest = trainyard.latest_checkpoint()
step = newest.step if newest else 0
if newest:
    content = (newest.path / "weights").read_bytes()
    assert content == bytes([step % 251]) * len(content), "mixed content"
print(step, flush=True)
while True:
    step += 1
    with trainyard.checkpoint(step, keep=2) as place:
        for part in range(3):
            (place / "deep").mkdir(exist_ok=True)
            (place / "deep" / f"part{part}").write_bytes(os.urandom(20_000))
        (place / "weights").write_bytes(bytes([step % 251]) * 200_000)
"""
KILLS = 50


def test_fifty_kills_leave_a_good_checkpoint_each_time(folder):
    luck = random.Random(7)
    steps = []
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER],
            cwd=folder.path,
            env=folder.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = process.stdout.readline()
        assert first, process.stderr.read()
        steps.append(int(first))
        time.sleep(luck.uniform(0, 0.15))  # the moment is the point here, there is no condition to wait for
        process.kill()
        said = process.communicate()[1]
        assert "is not used" not in said
    assert steps == sorted(steps)
    assert steps[-1] >= 5, "hardly a checkpoint was finished between the kills"
    left = [path.name for path in (folder.path / "checkpoints").iterdir()]
    assert len(left) <= 2 + 2  # two kept, and what the last killed one left behind


def save(folder, *steps: int) -> None:
    text = """
import trainyard, sys
for step in map(int, sys.argv[1:]):
    with trainyard.checkpoint(step, {"loss": 0.5}) as place:
        (place / "w").write_bytes(b"w" * 1000)
"""
    done = folder.run("-c", text, *map(str, steps))
    assert done.returncode == 0, done.stderr


def latest(folder):
    text = "import trainyard; c = trainyard.latest_checkpoint(); print(c.step if c else None, c.path if c else None)"
    done = folder.run("-c", text)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0], done


def test_manifest_lists_every_file(folder):
    save(folder, 3)
    manifest = json.loads((folder.path / "checkpoints" / "step_3" / "manifest.json").read_text())
    assert manifest["step"] == 3
    assert manifest["metrics"] == {"loss": 0.5}
    assert [(item["path"], item["size_bytes"]) for item in manifest["files"]] == [("w", 1000)]


def test_a_damaged_newest_one_is_named_and_the_one_before_is_taken(folder):
    save(folder, 1, 2, 10)
    (folder.path / "checkpoints" / "step_10" / "w").write_bytes(b"w" * 500)
    step, done = latest(folder)
    assert step == "2"
    assert "step_10 is not used" in done.stderr
    assert "500 bytes" in done.stderr
    (folder.path / "checkpoints" / "step_2" / "w").write_bytes(b"x" * 1000)
    assert latest(folder)[0] == "1"
    (folder.path / "checkpoints" / "step_1" / "manifest.json").unlink()
    assert latest(folder)[0] == "None"


def test_only_the_newest_few_are_kept(folder):
    folder.write_spec(checkpoint={"keep": 2})
    save(folder, *range(1, 12))
    assert sorted(path.name for path in (folder.path / "checkpoints").iterdir()) == ["step_10", "step_11"]


def test_what_the_portal_handed_over_is_found(folder):
    save(folder, 5)
    (folder.path / "checkpoints" / "step_5").rename(folder.path / "inputs" / "checkpoint")
    assert latest(folder)[0] == "5"
    save(folder, 6)
    assert latest(folder)[0] == "6"


def test_a_full_disk_leaves_the_older_one(folder):
    save(folder, 1)
    text = """
import trainyard, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with trainyard.checkpoint(2) as place:
        (place / "w").write_bytes(b"w" * 100_000)
except OSError as error:
    print("said:", error)
"""
    assert "said:" in folder.run("-c", text).stdout
    assert latest(folder)[0] == "1"
    assert [path.name for path in (folder.path / "checkpoints").iterdir()] == ["step_1"]


def test_points_reported_before_are_in_the_file_when_the_checkpoint_appears(folder):
    text = """
import trainyard, os
from trainyard import _points
_points.FLUSH_SECONDS = 60
trainyard.report(1, loss=1.0)
with trainyard.checkpoint(1): pass
os._exit(0)
"""
    assert folder.run("-c", text).returncode == 0
    assert len(folder.points()) == 1


def test_a_wish_for_a_checkpoint_is_heard_once(folder):
    folder.tell(checkpoint=1)
    text = """
import trainyard
assert trainyard.wants_checkpoint()
with trainyard.checkpoint(1): pass
assert not trainyard.wants_checkpoint()
"""
    done = folder.run("-c", text)
    assert done.returncode == 0, done.stderr


def test_a_wish_to_stop_and_sigterm_are_heard(folder):
    text = """
import trainyard, time, os, signal, json
assert trainyard.should_stop() is None
os.kill(os.getpid(), signal.SIGTERM)
assert trainyard.should_stop() == "SIGTERM"
print("up", flush=True)
end = time.monotonic() + 10
while trainyard.should_stop() != "cancelled":
    assert time.monotonic() < end
    open("control.json", "w").write(json.dumps({"stop": "cancelled", "checkpoint": 0}))
    time.sleep(0.01)
"""
    done = folder.run("-c", text)
    assert done.returncode == 0, done.stderr
