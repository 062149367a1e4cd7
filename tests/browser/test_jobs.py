"""A job is cancelled, run again with changes, and continued from its checkpoint, all from its page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.window import Window
from tests.flows.client import Client, own
from tests.flows.rig import Rig
from tests.flows.scripts import STEPPER

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]


def test_cancel_then_again_with_changes_then_on_from_a_checkpoint(window: Window, ada: Client):
    page = window.page
    job = ada.submit(own(STEPPER, name="long way", env={"STEPS": "900", "PAUSE": "0.05"}))
    window.go(f"/jobs/{job}/")
    name = page.locator("h1").inner_text()
    window.wait_state("running")
    window.wait_points("loss", 30)
    expect(window.tab("Checkpoints").locator("tbody tr").first).to_be_visible()
    before = window.loads
    page.locator("#job-actions").get_by_role("button", name="Cancel").click()
    asked = page.locator("#job-actions form button")
    expect(asked).to_have_text(f"Cancel “{name}” for good")
    assert window.loads == before, "it did not ask"
    asked.click()
    window.wait_state("cancelled")
    expect(page.locator("#job-head")).to_contain_text("ada")

    page.get_by_role("link", name="Run again with changes").first.click()
    expect(page.locator(".note", has_text="Filled in as in")).to_contain_text(name)
    assert "trainyard.report" in page.locator("[name=script]").input_value()
    page.locator("summary", has_text="Environment").click()
    page.fill("[name=env]", "STEPS=15\nPAUSE=0.05")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$|/jobs/\d+/\?"))
    window.wait_state("succeeded")
    window.wait_points("loss", 15)

    panel = window.tab("Checkpoints")
    panel.get_by_role("link", name="Continue from here").first.click()
    expect(page.locator(".note", has_text="Continues from the checkpoint at step")).to_be_visible()
    page.locator("summary", has_text="Environment").click()
    page.fill("[name=env]", "STEPS=25\nPAUSE=0.05")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$|/jobs/\d+/\?"))
    window.wait_state("succeeded")
    expect(window.tab("Logs").locator("[data-log]")).to_contain_text("goes on after step")


def test_the_page_equals_the_database_after_the_web_process_was_killed(rig: Rig, window: Window, ada: Client):
    """kill -9 of the web process in mid-job: the badge says so, then it is live; no reload, no point missing."""
    window.allow("net::ERR_", "WebSocket connection", "Failed to fetch", "answer: 503")
    job = ada.submit(own(STEPPER, name="restart", nodes=2, env={"STEPS": "150", "PAUSE": "0.1"}))
    window.go(f"/jobs/{job}/")
    window.page.locator("[data-curve-ranks]").select_option("all", force=True)
    window.wait_points("loss", 20)
    window.wait_badge("live")
    loads = window.loads
    window.note_badges()
    rig.kill_part("uvicorn")
    window.wait_badge("live")
    window.wait_state("succeeded")
    ada.wait_end(job)
    window.wait_points("loss", 300)
    assert window.loads == loads
    assert "stale" in window.badges()
    page = {(piece["stream"], piece["name"]): piece for piece in window.series()}
    kept = ada.get(f"/jobs/{job}/series/", rank=[0, 1])["pieces"]
    assert len(kept) == len(page) == 2
    for piece in kept:
        for column in ("step", "time", "value"):
            assert page[piece["stream"], piece["name"]][column] == piece[column]
