"""An upload whose line is cut goes on by itself, and after a reload with the same file from where it stopped."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from playwright.sync_api import CDPSession, Request, expect

from tests.browser.window import Window
from tests.flows.client import Client
from tests.flows.rig import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
ROWS = 400_000
BYTES_PER_SECOND = 4_000_000


@pytest.fixture
def big_table(tmp_path: Path) -> Path:
    """About 30 MB: two pieces of an upload."""
    generator = random.Random(2)
    block = "".join(f"{generator.random():.9f},{generator.random():.9f},{n % 7}\n" for n in range(1000))
    path = tmp_path / "long.csv"
    path.write_text("left,right,label\n" + block * (ROWS // 1000) * 3)
    return path


class Line:
    """The window's connection: slow, so that there is time to cut it, and cut."""

    def __init__(self, window: Window) -> None:
        self._session: CDPSession = window.context.new_cdp_session(window.page)
        self._session.send("Network.enable")

    def set(self, *, offline: bool = False, bytes_per_second: float = -1) -> None:
        self._session.send(
            "Network.emulateNetworkConditions",
            {"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_per_second},
        )


def test_a_cut_line_and_a_reload_cost_nothing(window: Window, ada: Client, big_table: Path):
    page = window.page
    window.allow("net::ERR_", "WebSocket connection", "Failed to fetch")
    offsets: list[int] = []

    def sent(request: Request) -> None:
        if request.method == "PATCH" and "/uploads/" in request.url:
            offsets.append(int(request.headers["upload-offset"]))

    page.on("request", sent)
    window.go("/datasets/")
    line = Line(window)
    line.set(bytes_per_second=BYTES_PER_SECOND)
    page.set_input_files("[data-files]", big_table)
    status = page.locator("[data-uploads] [role=status]")
    expect(status).to_contain_text("MiB/s")
    shares(window, above=0.1)

    line.set(offline=True)
    reached = wait_for("the portal kept what had come", lambda: offset(ada), 20)
    line.set(bytes_per_second=BYTES_PER_SECOND)
    shares(window, above=0.6)
    assert offsets[1] >= reached > 0, "it began again"

    page.reload()
    kept = wait_for("the portal kept more", lambda: offset(ada), 20)
    assert kept > reached
    window.see("[data-unfinished]", "Choose the same file to go on")
    line.set()
    count = len(offsets)
    page.wait_for_load_state("networkidle")
    page.set_input_files("[data-files]", big_table)
    window.see("#datasets tr", "long")
    assert min(offsets[count:]) >= kept, "it began again"
    version = next(row for row in ada.get("/datasets/")["results"] if row["name"] == "long")["newest_version"]
    assert version["size_bytes"] == big_table.stat().st_size
    ada.wait_inspected(version["id"])


def shares(window: Window, *, above: float) -> None:
    expected = "(least) => document.querySelector('[data-uploads] progress').value > least"
    window.wait_for(expected, above)


def offset(ada: Client) -> int:
    """Bytes of the one upload that is under way, as the portal counts them."""
    return int(next(row["offset_bytes"] for row in ada.get("/uploads/")["results"] if row["file_name"] == "long.csv"))


def test_a_file_that_is_refused_says_why(window: Window, tmp_path: Path):
    window.go("/datasets/")
    empty = tmp_path / "nothing.csv"
    empty.write_bytes(b"a,b\n")
    window.drop(empty)
    window.see("#datasets tr", "nothing")
    window.page.get_by_role("link", name="nothing").click()
    window.see("[data-part-state=refused]")
    expect(window.page.locator("#version")).to_contain_text("This file cannot be trained on.")
    expect(window.page.locator(".findings li").first).to_be_visible()
