"""MLflow's tracking server with SQLite, written to by its own client with log_batch of 1,000; in a venv of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.streams.server import free_port

FOLDER = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainyard-bench" / "mlflow"
INSTALL_SECONDS = 900
CALLS = 20

_CLIENT = """
import sys, time
from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
run = client.create_run(client.create_experiment("bench")).info.run_id
batches = [[Metric("loss", float(i), 1_700_000_000_000 + i, c * 1000 + i) for i in range(1000)] for c in range(CALLS)]
client.log_batch(run, [Metric("warm", 1.0, 1_700_000_000_000, 0)])
began = time.perf_counter()
for batch in batches:
    client.log_batch(run, batch)
print(len(batches) * 1000 / (time.perf_counter() - began))
""".replace("CALLS", str(CALLS))


class MlflowMissing(Exception):
    """It could not be installed or started; says why."""


def mlflow_points_per_second() -> float:
    python = _install()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="trainyard-mlflow-") as name, (Path(name) / "log").open("wb") as log:
        command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{name}/mlflow.db", "--artifacts-destination", f"{name}/files"]
        env = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # four processes that take no part in this
        server = subprocess.Popen(command, cwd=name, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait(port, server, Path(name) / "log")
            return _measure(python, port)
        finally:
            _stop(server)


def _measure(python: str, port: int) -> float:
    done = subprocess.run(
        [python, "-c", _CLIENT, f"http://127.0.0.1:{port}"], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise MlflowMissing(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.strip().splitlines()[-1])


def _install() -> str:
    python = FOLDER / "bin" / "python"
    if (FOLDER / "complete").exists():
        return str(python)
    print(f"Installing MLflow into {FOLDER} ...", file=sys.stderr)
    steps = [
        [sys.executable, "-m", "venv", "--without-pip", "--clear", str(FOLDER)],
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "mlflow"],
    ]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise MlflowMissing(f"installing took more than {INSTALL_SECONDS} s") from error
        if done.returncode:
            raise MlflowMissing((done.stderr.strip().splitlines() or ["the installation failed"])[-1])
    (FOLDER / "complete").touch()
    return str(python)


def _stop(server: subprocess.Popen[bytes]) -> None:
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(10)


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise MlflowMissing(f"its server did not start: {log.read_text(errors='replace')[-300:]}") from None
            time.sleep(0.2)
        else:
            return
