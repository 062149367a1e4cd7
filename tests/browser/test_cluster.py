"""The live page of the cluster moves without a reload, the queue beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.window import Window
from tests.flows.client import Client, own
from tests.flows.rig import SLOTS, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
BURN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: sum(range(9999)) and time.sleep(0.01)"


def test_nodes_move_and_the_queue_stands_beside_them(window: Window, ada: Client):
    page = window.page
    window.go("/cluster/")
    window.wait_badge("live")
    loads = window.loads
    cards = page.locator(".node-card")
    expect(cards).to_have_count(2)
    heard = {cards.nth(0).locator("time").get_attribute("datetime")}
    shown = {cards.nth(0).locator(".meters").inner_text()}
    expect(page.locator("#queue")).to_contain_text("Nobody waits.")

    wish = {"roles": [{"nodes": 2, "devices_per_node": SLOTS}], "strategy": "ddp"}
    busy, waiting = (ada.submit(own(BURN, name=name) | wish) for name in ("busy", "patient"))
    expect(cards.nth(0).locator(".device-holder", has_text="busy")).to_have_count(SLOTS)
    queued = page.locator("#queue li", has_text="patient")
    expect(queued).to_be_visible()
    expect(queued.locator(".queue-why")).not_to_be_empty()

    def moved() -> bool:
        heard.add(cards.nth(0).locator("time").get_attribute("datetime"))
        shown.add(cards.nth(0).locator(".meters").inner_text())
        return len(heard) >= 3 and len(shown) >= 3

    wait_for("heartbeats and use move", moved, 40)
    assert window.loads == loads
    for job in (waiting, busy):
        ada.post(f"/jobs/{job}/cancel/")
    expect(page.locator("#queue")).to_contain_text("Nobody waits.")
    expect(cards.nth(0).locator(".device-holder", has_text="free")).to_have_count(SLOTS)
