"""The same script under bare torchrun, with the same layout: two nodes on loopback addresses, a process each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.installation import SCRIPTS, BenchError, joined
from tests.streams.server import free_port

ADDRESSES = ("127.0.0.2", "127.0.0.3")


def run_bare(script: str, *arguments: str, seconds: float = 180.0, cores: set[int] | None = None) -> dict[str, Any]:
    """What rank 0 told, and `submitted`: the moment before the first process was started. On `cores` alone if given."""
    with tempfile.TemporaryDirectory(prefix="trainyard-bare-") as name:
        submitted = time.time()
        port = free_port()
        nodes = [_start(Path(name), node, port, [str(SCRIPTS / script), *arguments]) for node in range(len(ADDRESSES))]
        for node in nodes:
            os.sched_setaffinity(node.pid, cores or os.sched_getaffinity(0))
        try:
            codes = [node.wait(seconds) for node in nodes]
        finally:
            for node in nodes:
                node.kill()
        output = (Path(name) / "0.log").read_text(errors="replace")
        if any(codes):
            raise BenchError(f"Bare torchrun ended with {codes}: {output[-500:]}")
        return {**joined(output.splitlines()), "submitted": submitted}


def _start(folder: Path, node: int, port: int, program: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(ADDRESSES)}", "--nproc-per-node=1"]
    command += ["--max-restarts=0", "--rdzv-backend=c10d", f"--rdzv-endpoint={ADDRESSES[0]}:{port}", "--rdzv-id=bare"]
    command += [f"--rdzv-conf=is_host={'false' if node else 'true'},join_timeout=60", f"--local-addr={ADDRESSES[node]}"]
    command += program
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    env = {**kept, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1"}
    with (folder / f"{node}.log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
