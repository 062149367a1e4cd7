"""Points through the nodes' endpoint into SQLite: a real web process, real HTTP, a fifth of the batches sent twice."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass

import numpy as np

from jobs.series.points import Points
from tests.bench.fake_node import FakeNode, make_node
from tests.streams.server import Server

NAMES = ["loss", "accuracy"]
POINTS = 2_000_000
BATCH = 36_000  # points: just under a MiB
TWICE = 0.2

_CHECK = """
import json, numpy as np
from jobs.models import Job
from jobs.series.export import export_points
found = dict()
for part in export_points(Job.objects.get(pk={job})):
    found.setdefault(part.name, []).append(np.stack([part.points.step, part.points.value]))
found = {{name: np.concatenate(parts, 1) for name, parts in found.items()}}
steps_right = all((rows[0] == np.arange(rows.shape[1])).all() for rows in found.values())
count = sum(rows.shape[1] for rows in found.values())
print(json.dumps([count, bool(steps_right), float(sum(rows[1].sum() for rows in found.values()))]))
"""


@dataclass(frozen=True)
class Ingested:
    node: FakeNode
    points: int
    sent_twice: int
    seconds: float
    is_exact: bool

    @property
    def per_second(self) -> float:
        return self.points / self.seconds


def ingest(server: Server) -> Ingested:
    """Post POINTS points of two names; then read all of them back and compare."""
    node = make_node(server, "ingest")
    bodies, total = _bodies(node)
    shuffler, twice = random.Random(1), 0
    connection = node.connect()
    began = time.perf_counter()
    for body, count in bodies:
        ack = node.post(connection, body)
        assert not ack["problem"], ack
        if shuffler.random() < TWICE:
            twice += count
            assert node.post(connection, body)["acked"] == ack["acked"]
    seconds = time.perf_counter() - began
    stored, steps_right, found = json.loads(server.django(_CHECK.format(job=node.job)).splitlines()[-1])
    is_exact = stored == POINTS and steps_right and abs(found - total) < 1e-6 * POINTS
    return Ingested(node, POINTS, twice, seconds, is_exact)


def _bodies(node: FakeNode) -> tuple[list[tuple[bytes, int]], float]:
    """Every frame with its number of points, and the sum of all values."""
    rng = np.random.default_rng(0)
    bodies, total = [], 0.0
    for first in range(0, POINTS, BATCH):
        count = min(BATCH, POINTS - first)
        place = first + np.arange(count)
        values = rng.normal(size=count)
        total += float(values.sum())
        points = Points((place // 2).astype(float), 1.7e9 + place * 1e-3, values)
        bodies.append((node.body(NAMES, place % 2, points), count))
    return bodies, total
