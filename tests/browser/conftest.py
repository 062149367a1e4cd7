"""One portal with two nodes and one Chromium for all stories; each story has a window of its own."""

# ruff: noqa: F811 - a fixture that another one asks for is named like its import

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.window import Window
from tests.flows.client import Client
from tests.flows.conftest import ada, admin, rig, whole_rig  # noqa: F401 - the same portal as the flows' stories
from tests.flows.rig import ROOT, Rig

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MAX_SCREENSHOT_BYTES = 300_000
OpenWindow = Callable[..., Window]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A missing Chromium is said before a portal is started for nothing."""
    if chromium():
        return
    why = pytest.mark.skip(
        reason="no Chromium: install it with 'apt-get install chromium', or set CHROMIUM to its path"
    )
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(why)


def chromium() -> str | None:
    given = os.environ.get("CHROMIUM")
    return given or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Without a network of its own, so that nothing but this portal can be what a page loads from.
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_window(rig: Rig, browser: Browser) -> Iterator[OpenWindow]:
    """open_window('ada', width=390): a signed-in window; any error in its console fails the test."""
    windows: list[Window] = []

    def open_one(person: str = "", *, theme: str = "light", width: int = 1440, height: int = 900) -> Window:
        window = Window(browser, rig.url, theme=theme, width=width, height=height)
        windows.append(window)
        if person:
            window.sign_in(person)
        return window

    yield open_one
    errors = [error for window in windows for error in window.errors()]
    for window in windows:
        window.close()
    assert errors == []


@pytest.fixture
def window(open_window: OpenWindow) -> Window:
    """A signed-in researcher's."""
    return open_window("ada")


@pytest.fixture
def digits(ada: Client) -> int:
    """The id of a version that is ready to be trained on, uploaded once for all stories."""
    for found in ada.get("/datasets/", limit=500)["results"]:
        if found["name"] == "known digits":
            return int(found["newest_version"]["id"])
    version = ada.wait_inspected(ada.upload(ROOT / "datasets" / "samples" / "digits.csv", "known digits")["version"])
    ada.http.patch(f"/versions/{version['id']}/", json={"options": {"label": "label"}})
    return int(ada.wait_inspected(version["id"])["id"])


@pytest.fixture(scope="session")
def keep_screenshot(request: pytest.FixtureRequest) -> Callable[[Window, str], None]:
    """Writes frontend/screenshots/<name>.png, but only with --screenshots: a plain run leaves the tree as it is."""

    def keep(window: Window, name: str) -> None:
        if request.config.getoption("--screenshots"):
            folder = ROOT / "frontend" / "screenshots"
            folder.mkdir(exist_ok=True)
            window.page.screenshot(path=folder / f"{name}.png")
            assert (folder / f"{name}.png").stat().st_size <= MAX_SCREENSHOT_BYTES

    return keep
