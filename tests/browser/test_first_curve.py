"""The main road: a file is dropped, a job is submitted, its curves grow, and what it left is taken home."""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.window import Window
from tests.flows.client import Client
from tests.flows.rig import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
DIGITS = ROOT / "datasets" / "samples" / "digits.csv"
CLICKS = 4


def upload_digits(window: Window) -> None:
    """From a dropped file to a version whose label has been chosen."""
    page = window.page
    window.go("/datasets/")
    window.drop(DIGITS)
    expect(page.locator("[data-uploads] progress")).to_have_count(1)
    expect(page.locator("[data-uploads] [role=status]")).to_contain_text("KiB")
    row = page.locator("#datasets [data-row]", has_text="digits").first
    expect(row).to_be_visible()
    row.click()
    window.see("[data-part-state=ready]")


def test_a_dropped_table_is_looked_at(window: Window):
    upload_digits(window)
    page, version = window.page, window.page.locator("#version")
    expect(version).to_contain_text("1,797 rows")
    expect(version).to_contain_text("65 columns")
    pixel = version.locator("tr", has=page.locator("td", has_text=re.compile(r"^pixel_20$")))
    expect(pixel).to_contain_text("integer")
    page.select_option("[name=label]", "label")
    page.get_by_role("button", name="Save").first.click()
    window.see("[data-part-state=ready]")
    classes = page.locator("section.card", has_text="Classes of “label”")
    expect(classes.locator(".class-row")).to_have_count(10)
    expect(classes.locator(".class-row", has_text=re.compile("^3"))).to_contain_text("183")
    expect(page.locator(".preview tbody tr").first.locator("td")).to_have_count(65)
    page.get_by_role("link", name="Train on this").click()
    expect(page.locator("[name=label]")).to_have_value("label")


def test_the_form_checks_while_somebody_types(window: Window, digits: int):
    page = window.page
    window.go(f"/jobs/new/?version={digits}")
    plan = page.locator("#plan")
    expect(plan).to_contain_text("Could start now, on one, two.")
    expect(plan).to_contain_text("Node 0")
    expect(plan).to_contain_text("torch.distributed.run --nnodes=2")
    page.fill("[name=nodes]", "3")
    beside = page.locator("[data-field=nodes] .field-error")
    expect(beside).to_have_text("Asks for 3 nodes, this cluster has 2.")
    page.fill("[name=nodes]", "2")
    expect(beside).to_be_hidden()
    page.fill("[name=learning_rate]", "fast")
    expect(page.locator("[data-field=learning_rate] .field-error")).to_be_visible()
    expect(page.locator("[name=learning_rate]")).to_have_attribute("aria-invalid", "true")
    page.fill("[name=learning_rate]", "2e-3")
    expect(plan).to_contain_text("Could start now, on one, two.")
    expect(plan).to_contain_text("learning_rate: 0.002")


def test_from_sign_in_to_a_growing_curve_and_home_again(
    window: Window, ada: Client, digits: int, tmp_path: Path, keep_screenshot
):
    page = window.page
    assert window.clicks == 0
    window.click(page.get_by_role("link", name="Train on this").first)
    page.fill("[name=name]", "digits on two nodes")  # typing is no click
    page.fill("[name=epochs]", "60")
    page.fill("[name=learning_rate]", "4e-4")
    window.click(page.get_by_role("button", name="Submit"))
    page.wait_for_url(re.compile(r"/jobs/\d+/"))
    window.wait_state("starting", "running", "succeeded")
    first = window.wait_points("loss", 1, seconds=120)
    assert window.clicks <= CLICKS
    loads = window.loads
    more = window.wait_points("loss", first + 20)
    window.wait_points("val_accuracy", 3)
    window.wait_badge("live")
    assert more > first
    assert window.loads == loads, "the page was loaded again"
    job = int(page.url.split("/jobs/")[1].split("/")[0])
    look_around(window)
    window.wait_state("succeeded", seconds=120)
    keep_screenshot(window, "job")
    assert window.loads == loads
    take_home(window, ada, job, tmp_path)


def look_around(window: Window) -> None:
    """Log of each rank, usage along the same time, events; all without another load."""
    page = window.page
    panel = window.tab("Logs")
    for rank in ("0", "1"):
        panel.locator("[data-log-rank]").select_option(rank)
        expect(panel.locator("[data-log]")).to_contain_text(f"rank {rank} of 2 on cpu")
    panel = window.tab("Curves")
    panel.locator("[data-curve-axis]").select_option("time")
    usage = panel.locator("[data-usage-below]")
    expect(usage.locator("[data-kind=cpu] canvas")).to_be_visible()
    expect(usage.locator("[data-kind=cpu]")).to_contain_text("one")
    expect(usage.locator("[data-kind=cpu]")).to_contain_text("two")
    panel.locator("[data-curve-axis]").select_option("step")
    panel = window.tab("Nodes")
    expect(panel.locator("#job-placements tbody tr")).to_have_count(2)
    panel = window.tab("Events")
    expect(panel).to_contain_text("Starts on ")
    expect(panel).to_contain_text("Runs.")
    window.tab("Curves")
    assert "tab=curves" in page.url


def take_home(window: Window, ada: Client, job: int, folder: Path) -> None:
    with window.page.expect_download() as told:
        window.page.get_by_role("link", name="CSV").click()
    told.value.save_as(folder / "series.csv")
    with (folder / "series.csv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["name"] == "loss" and row["rank"] == "0"]
    assert len(rows) == len([row for row in ada.points(job, "loss") if row["rank"] == "0"])
    panel = window.tab("Checkpoints")
    with window.page.expect_download() as told:
        panel.get_by_role("link", name="Download").first.click()
    told.value.save_as(folder / "checkpoint.zip")
    names = zipfile.ZipFile(folder / "checkpoint.zip").namelist()
    assert "model.safetensors" in names or len(names) > 1, names
