"""The program of an inspection launch: looks at inputs/data as spec.json says and writes result.json.

    python -m datasets.formats.inspect_main          (in the launch's folder)

A refused file is an answer, so the exit code is 0; another one means that the inspection itself failed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

from datasets.formats.facts import fit_json
from datasets.formats.options import TableOptions
from datasets.formats.table import Progress, decision, inspect

MEMORY_BYTES = 2 * 2**30


def main() -> int:
    folder = Path(os.environ.get("TRAINYARD_FOLDER") or Path.cwd())
    _limit_memory()
    spec = json.loads((folder / "spec.json").read_text("utf-8"))
    _say(f"reading {spec.get('file_name', 'the file')!r}")
    facts = inspect(folder / "inputs" / "data", TableOptions.model_validate(spec.get("options") or {}), _progress())
    result = {"kind": "table", "decision": decision(facts), "facts": fit_json(facts)}
    _write(folder / "result.json", json.dumps(result, allow_nan=False, ensure_ascii=False).encode())
    _say(f"{result['decision']}: {facts.rows} rows, {len(facts.columns)} columns")
    for finding in [*facts.problems, *facts.warnings]:
        _say(finding.text)
    return 0


def _limit_memory() -> None:
    """A file made to exhaust the node meets this limit first."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _progress() -> Progress:
    said_at = time.monotonic()

    def progress(rows: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= 1.0:
            said_at = time.monotonic()
            _say(f"{rows} rows so far")

    return progress


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def _say(text: str) -> None:
    print(text.encode("utf-8", "replace").decode(), flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
