"""`bin/bench series`: the metric store and the live page against their goals, and against MLflow in the same run.

python -m tests.bench.series [--json]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.bench.goal import Goal, report
from tests.bench.series_ingest import TWICE, Ingested, ingest
from tests.bench.series_latency import SUBSCRIBERS, measure_latency
from tests.bench.series_mlflow import MlflowMissing, mlflow_points_per_second
from tests.streams.server import Server, environment, migrate, web

_THIN = """
import json, time
from jobs.models import Job
from jobs.series.read import read_series
job, times = Job.objects.get(pk={job}), []
for _ in range(30):
    began = time.perf_counter()
    page = read_series(job, ["loss"], points=2000)
    size = len(page.to_bytes())
    times.append(time.perf_counter() - began)
print(json.dumps([sorted(times)[15] * 1000, page.pieces[0].total, len(page.pieces[0].data), size]))
"""


def goals() -> list[Goal]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as name:
        folder = Path(name)
        env = environment(folder)
        migrate(env)
        with web(folder, env) as server:
            ingested = ingest(server)
            thinned = _thinning(server, ingested.node.job)
    return [_ingestion(ingested), _against_mlflow(ingested), thinned, *_latency()]


def _ingestion(found: Ingested) -> Goal:
    exact = "none lost or doubled" if found.is_exact else "POINTS LOST OR DOUBLED"
    return Goal(
        "ingestion into SQLite",
        f"≥ 150,000 points/s, {TWICE:.0%} sent twice, exact",
        f"{found.per_second:,.0f} points/s, {found.sent_twice / found.points:.0%} twice, {exact}",
        found.per_second >= 150_000 and found.is_exact,
    )


def _against_mlflow(found: Ingested) -> Goal:
    name, goal = "ingestion against MLflow", "≥ 30 × log_batch(1000)"
    try:
        rate = mlflow_points_per_second()
    except MlflowMissing as error:
        return Goal(name, goal, f"MLflow could not be run: {error}", met=False)
    return Goal(name, goal, f"{found.per_second / rate:,.0f} × ({rate:,.0f} points/s)", found.per_second >= 30 * rate)


def _thinning(server: Server, job: int) -> Goal:
    ms, total, shown, size = json.loads(server.django(_THIN.format(job=job)).splitlines()[-1])
    text = f"{ms:.1f} ms ({total:,} points to {shown:,}, {size / 1024:.0f} KiB)"
    return Goal(
        "a million points for the page", "≤ 30 ms for 1,000,000 to 2,000", text, ms <= 30 and total >= 1_000_000
    )


def _latency() -> list[Goal]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as name:
        found = measure_latency(Path(name))
    text = f"median {found.median_ms:.0f} ms, 99 % {found.p99_ms:.0f} ms, {found.points:,} points, all arrived"
    if not found.is_complete:
        text = f"points are missing; median {found.median_ms:.0f} ms"
    met = found.median_ms <= 500 and found.p99_ms <= 1500 and found.is_complete
    return [Goal(f"point → socket, {SUBSCRIBERS} sockets", "median ≤ 500 ms, 99 % ≤ 1,500 ms", text, met)]


if __name__ == "__main__":
    sys.exit(report(goals(), as_json="--json" in sys.argv[1:]))
