"""A launch's folder, and scripts that run in it as they would on a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIB = ROOT / "jobs" / "training" / "lib"
DIGITS = ROOT / "datasets" / "samples" / "digits.csv"
sys.path.insert(0, str(LIB))


class LaunchFolder:
    """What the agent makes for a launch, and what the job left in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "code").mkdir(parents=True)
        (path / "inputs").mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        own = {"TRAINYARD_FOLDER": str(self.path), "PYTHONPATH": f"{ROOT}:{LIB}", "OMP_NUM_THREADS": "1"}
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RANK", "TRAINYARD_", "WORLD"))
        }
        return kept | own | more

    def script(self, text: str, name: str = "main.py") -> Path:
        path = self.path / "code" / name
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *argv: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *argv],
            cwd=self.path,
            env=self.environment(**env),
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )

    def write_spec(self, **spec: object) -> None:
        (self.path / "spec.json").write_text(json.dumps(spec), encoding="utf-8")

    def tell(self, *, stop: str | None = None, checkpoint: int = 0) -> None:
        unfinished = self.path / ".control"
        unfinished.write_text(json.dumps({"stop": stop, "checkpoint": checkpoint, "exchanged_at_boot": 1.0}))
        unfinished.rename(self.path / "control.json")

    def points(self, rank: int = 0) -> list[dict]:
        path = self.path / f"metrics.{rank}.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def series(self, name: str, rank: int = 0) -> dict[int, float]:
        return {point["step"]: point["value"] for point in self.points(rank) if point["name"] == name}

    def log(self, rank: int = 0) -> str:
        return (self.path / f"output.{rank}.log").read_text("utf-8")


@pytest.fixture
def folder(tmp_path) -> LaunchFolder:
    return LaunchFolder(tmp_path / "launch")
