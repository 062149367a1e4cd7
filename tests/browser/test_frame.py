"""What every page has: keys, focus that is seen, two languages, a theme that stays, and the API's own page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.window import Window

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def test_keys(window: Window):
    page = window.page
    window.go("/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("n")
    page.wait_for_url("**/jobs/new/")
    page.wait_for_load_state("networkidle")
    page.fill("[name=name]", "g j stays in a field")
    page.keyboard.type("gj")
    assert page.url.endswith("/jobs/new/")


def test_focus_is_seen_wherever_tab_goes(window: Window):
    page = window.page
    window.go("/datasets/")
    seen = set()
    for _ in range(16):
        page.keyboard.press("Tab")
        focus = page.evaluate(
            "() => { const one = document.activeElement, style = getComputedStyle(one);"
            " const box = one.getBoundingClientRect();"
            " return [one.outerHTML.slice(0, 80), style.outlineStyle !== 'none' || style.boxShadow !== 'none',"
            " box.width > 0 && box.height > 0]; }"
        )
        assert focus[1:] == [True, True], focus[0]
        seen.add(focus[0])
    assert len(seen) > 10


def test_language_there_and_back(window: Window):
    page = window.page
    window.go("/jobs/")
    page.get_by_role("button", name="简体中文").click()
    expect(page.locator("h1")).to_have_text("作业")
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    assert page.url.endswith("/jobs/")
    for path in ("/", "/jobs/new/", "/cluster/", "/usage/", "/account/", "/datasets/"):
        window.go(path)
        expect(page.locator("h1")).to_have_text(re.compile(r"[\u4e00-\u9fff]"))
    page.get_by_role("button", name="English").click()
    expect(page.locator("h1")).to_have_text("Datasets")


def test_a_chosen_theme_stays(window: Window):
    page = window.page
    window.go("/")
    root = page.locator("html")
    expect(root).to_have_attribute("data-bs-theme", "light")
    for _ in range(3):
        if root.get_attribute("data-bs-theme") == "dark":
            break
        page.get_by_role("button", name="Theme").click()
    expect(root).to_have_attribute("data-bs-theme", "dark")
    window.go("/jobs/")
    expect(root).to_have_attribute("data-bs-theme", "dark")


def test_the_pages_of_the_api_obey_the_policy(window: Window):
    window.go("/api/docs/")
    expect(window.page.locator(".swagger-ui .info .title")).to_contain_text("Trainyard")
    jobs = window.page.locator("[id^='operations-']", has_text="/api/v1/jobs/").first
    expect(jobs).to_be_visible()
    jobs.locator("button").first.click()
    expect(jobs).to_contain_text("Responses")
