"""An admin's day: a user and a quota, a node cordoned, a job cancelled, and the rows that tell of it."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenWindow
from tests.browser.window import PASSWORD, Window
from tests.flows.client import Client, own
from tests.flows.rig import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
SLEEPER = "import time\nprint('here', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def desk(open_window: OpenWindow) -> Window:
    window = open_window()
    window.go("/admin/")
    page = window.page
    page.fill("[name=username]", "root")
    page.fill("[name=password]", PASSWORD)
    page.locator("button[type=submit], input[type=submit]").first.click()
    expect(page.locator("body")).to_contain_text("Users")
    return window


def save(window: Window) -> None:
    window.page.locator("[name=_save]").first.click()
    expect(window.page.locator("body")).to_contain_text("successfully")


def act(window: Window, row: str, action: str) -> None:
    """A list's action on one row."""
    page = window.page
    page.locator("tr", has_text=row).locator("input.action-select").first.check()
    page.select_option("select[name=action]", action)
    page.locator("button[name=index]").first.click()


def audit(window: Window, *texts: str) -> None:
    window.go("/admin/auditlog/logentry/")
    for text in texts:
        expect(window.page.locator("#result_list")).to_contain_text(text)


def test_a_user_with_a_quota_signs_in(desk: Window, open_window: OpenWindow):
    page, name = desk.page, f"eve-{uuid.uuid4().hex[:4]}"
    desk.go("/admin/accounts/user/add/")
    page.fill("[name=username]", name)
    page.fill("[name=password1]", PASSWORD)
    page.fill("[name=password2]", PASSWORD)
    save(desk)
    page.fill("[name=quota-0-max_devices]", "3")
    save(desk)
    desk.go(f"/admin/accounts/user/?q={name}")
    expect(page.locator("#result_list tr", has_text=name)).to_contain_text("0 / 3")
    audit(desk, name)
    eve = open_window(name)
    eve.go("/usage/")
    expect(eve.page.locator("main")).to_contain_text(re.compile(r"0\s+of\s+3"))


def test_a_node_is_cordoned_and_opened_again(desk: Window, admin: Client):
    page = desk.page
    desk.go("/admin/nodes/node/")
    try:
        act(desk, "one", "cordon")
        expect(page.locator("body")).to_contain_text("1 node is changed.")
        expect(page.locator("#result_list tr", has_text="one").first).to_contain_text(re.compile("cordoned", re.I))
        desk.go("/cluster/")
        expect(page.locator(".node-card", has_text="one").first).to_contain_text("Cordoned")
        audit(desk, "one")
    finally:
        desk.go("/admin/nodes/node/")
        act(desk, "one", "uncordon")
    row = next(node for node in admin.get("/nodes/")["results"] if node["name"] == "one")
    assert row["admission"] == "open"


def test_a_job_is_cancelled_from_the_admin(desk: Window, ada: Client):
    page = desk.page
    job = ada.submit(own(SLEEPER, name="to be ended"))
    ada.wait_state(job, "running")
    name = ada.job(job)["name"]
    desk.go("/admin/jobs/job/")
    act(desk, name, "cancel")
    expect(page.locator("body")).to_contain_text("1 job is cancelled or stopping.")
    ended = ada.wait_end(job)
    assert (ended["state"], ended["ended_by"]) == ("cancelled", "root")
    audit(desk, name)
    desk.go(f"/admin/jobs/job/{job}/change/")
    wait_for("the event is told", lambda: "root" in page.locator("main, #content").first.inner_text(), 5)
