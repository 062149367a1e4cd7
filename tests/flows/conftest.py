"""One portal with two nodes for all stories; each story finds both nodes online and nothing running."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.client import Client
from tests.flows.rig import Rig, wait_for


@pytest.fixture(scope="session")
def whole_rig() -> Iterator[Rig]:
    var = Path(tempfile.mkdtemp(prefix="trainyard-flows-"))
    var.chmod(0o755)  # launches may run as another user below it
    rig = Rig(var)
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()
        shutil.rmtree(var, ignore_errors=True)


@pytest.fixture
def rig(whole_rig: Rig) -> Iterator[Rig]:
    admin = Client(whole_rig.url, whole_rig.tokens["root"])
    _settle(whole_rig, admin)
    yield whole_rig
    for job in admin.get("/jobs/", limit=500)["results"]:
        if job["ended_at"] is None:
            with contextlib.suppress(AssertionError):  # it ended meanwhile
                admin.post(f"/jobs/{job['id']}/cancel/")
    admin.close()


def _settle(rig: Rig, admin: Client) -> None:
    rig.wait_ready()
    for node in rig.nodes.values():
        if not node.is_running:
            node.start()
    wait_for("both nodes are online", lambda: [n["state"] for n in nodes_of(admin)] == ["online"] * 2, 90)
    wait_for("nothing runs", lambda: all(job["ended_at"] for job in admin.get("/jobs/", limit=500)["results"]), 60)


def nodes_of(client: Client) -> list[dict]:
    return list(client.get("/nodes/")["results"])


@pytest.fixture
def ada(rig: Rig) -> Iterator[Client]:
    client = Client(rig.url, rig.tokens["ada"])
    yield client
    client.close()


@pytest.fixture
def admin(rig: Rig) -> Iterator[Client]:
    client = Client(rig.url, rig.tokens["root"])
    yield client
    client.close()
