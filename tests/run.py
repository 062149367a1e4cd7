"""Every check, fast ones first; what CI runs.

bin/test                 everything
bin/test lint types      only these steps            bin/test --list names them
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import private_server

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
FRONTEND = ROOT / "frontend"
PROGRAMS = {"chromium": "chromium", "bwrap": "bubblewrap", "gcc": "gcc"}
UNIT = ["-m", "not flow and not browser"]


@dataclass(frozen=True)
class Step:
    name: str
    what: str
    run: Callable[[], int]


def call(*command: str, cwd: Path = ROOT, **env: str) -> int:
    print(f"$ {' '.join(command)}", flush=True)
    return subprocess.run(command, cwd=cwd, env={**os.environ, **env}, check=False).returncode


def first_failure(*calls: Callable[[], int]) -> int:
    """Run all, so that one answer names everything that is wrong; 0 only when all were."""
    return next((code for code in [run() for run in calls] if code), 0)


def lint() -> int:
    return first_failure(
        lambda: call(f"{BIN}/ruff", "check", "."),
        lambda: call(f"{BIN}/ruff", "format", "--check", "."),
        lambda: call(f"{BIN}/djlint", "frontend/templates", "--lint", "--quiet"),
    )


def types() -> int:
    return call(f"{BIN}/mypy", ".")


def front() -> int:
    scripts = ("check", "types", "test")
    build = [sys.executable, "bin/build_frontend", "npm"]
    return first_failure(*[lambda script=script: call(*build, "run", "--silent", script) for script in scripts])


def django() -> int:
    return first_failure(
        lambda: call(sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"),
        lambda: call(sys.executable, "manage.py", "check", "--fail-level", "WARNING"),
        lambda: call(sys.executable, "manage.py", "spectacular", "--validate", "--fail-on-warn", "--file", "/dev/null"),
    )


def pytest(*args: str, **env: str) -> int:
    return call(sys.executable, "-m", "pytest", "--durations=10", *args, **env)


def unit_sqlite() -> int:
    return pytest(*UNIT, "-n", "2", "--dist", "loadfile")


def unit_postgres() -> int:
    with private_server() as url:
        return pytest(*UNIT, "--database-only", "-n", "2", "--dist", "loadfile", DATABASE_URL=url)


def flows() -> int:
    return pytest("-m", "flow")


def browser() -> int:
    return pytest("-m", "browser")


def ensure_programs() -> None:
    """Debian's packages of the programs that tests need, when we are root; else those tests say what to install."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if not missing or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    call("apt-get", "update", "-qq")
    call("apt-get", "install", "-y", "-qq", *missing, DEBIAN_FRONTEND="noninteractive")


STEPS = [
    Step("lint", "ruff, djlint", lint),
    Step("types", "mypy", types),
    Step("front", "biome, tsc, vitest", front),
    Step("django", "migrations, checks, OpenAPI", django),
    Step("sqlite", "tests on SQLite", unit_sqlite),
    Step("postgres", "those that use the database, on PostgreSQL", unit_postgres),
    Step("flows", "whole stories with real processes", flows),
    Step("browser", "a real Chromium", browser),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="only these")
    parser.add_argument("--list", action="store_true", help="name the steps")
    args = parser.parse_args()
    if args.list:
        for step in STEPS:
            print(f"{step.name:10} {step.what}")
        return 0
    unknown = sorted(set(args.steps) - {step.name for step in STEPS})
    if unknown:
        parser.error(f"no such step: {', '.join(unknown)}; there are {', '.join(step.name for step in STEPS)}")
    ensure_programs()
    rows = [timed(step) for step in STEPS if not args.steps or step.name in args.steps]
    print(
        "\n"
        + "\n".join(
            f"{name:10} {'ok' if code == 0 else f'FAILED ({code})':12} {took:6.0f} s" for name, code, took in rows
        )
    )
    return 1 if any(code for _, code, _ in rows) else 0


def timed(step: Step) -> tuple[str, int, float]:
    print(f"\n== {step.name}: {step.what}", flush=True)
    start = time.monotonic()
    code = step.run()
    return step.name, code, time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
