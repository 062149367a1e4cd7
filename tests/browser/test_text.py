"""Scripts in everything that a person or a program may write are shown as text, on every page."""

from __future__ import annotations

import csv
import uuid
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.window import Window
from tests.flows.client import Client, own
from tests.flows.rig import Rig

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}${7*7}"
CELL = "</td><svg onload=alert(3)>"
METRIC = "<img src=x onerror=alert(4)>"
LOG = "</div><iframe src=javascript:alert(5)></iframe>\x1b[31m<b>red</b>\x1b[0m"
TABS = ("curves", "logs", "nodes", "events", "checkpoints", "configuration")
SCRIPT = f"""
import trainyard
for step in range(1, 6):
    trainyard.report(step, **{{{METRIC!r}: 1.0 / step}})
    print({LOG!r}, flush=True)
with trainyard.checkpoint(5, {{{METRIC!r}: 1.0}}) as folder:
    (folder / "<svg onload=alert(6)>").write_text("x")
raise SystemExit({EVIL!r})
"""
# Nothing that the portal itself never makes.
_INJECTED = """() => [...document.querySelectorAll('img, iframe, object, script:not([src]), [onerror], [onload]')]
  .filter((one) => one.type !== 'application/json').map((one) => one.outerHTML)"""


def write_table(path: Path) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["size", CELL, EVIL])
        table.writerows([n, f"{CELL}{n % 3}", EVIL if n % 2 else "plain"] for n in range(60))
    return path


@pytest.fixture
def evil_team(rig: Rig) -> int:
    return int(rig._python("-m", "tests.browser.team", f"{uuid.uuid4().hex[:4]}{EVIL}", "ada"))


def visit(window: Window, path: str, *texts: str) -> None:
    window.go(path)
    for text in texts:
        expect(window.page.get_by_text(text).first).to_be_attached()
    assert window.page.evaluate(_INJECTED) == [], path


def test_payloads_stay_text_on_every_page(window: Window, ada: Client, admin: Client, tmp_path: Path, evil_team: int):
    window.allow("answer: 404")  # the address that is not there
    window.allow("status of 404")
    table = write_table(tmp_path / "<img src=x onerror=alert(0)>.csv")
    version = ada.upload(table, EVIL)["version"]
    found = ada.wait_inspected(version)
    dataset = found["dataset"]
    visit(window, "/datasets/", EVIL)
    visit(window, f"/datasets/{dataset}/", EVIL, CELL, table.name)
    ada.http.patch(f"/versions/{version}/", json={"options": {"header": True, "label": EVIL}})
    ada.wait_inspected(version)
    visit(window, f"/datasets/{dataset}/", f"Classes of “{EVIL}”")

    spec = own(SCRIPT, env={"EVIL": EVIL}, data={"version_id": version, "label": EVIL})
    job = ada.submit({**spec, "name": EVIL, "max_attempts": 1}, team=evil_team)
    ada.wait_end(job)
    for tab in TABS:
        visit(window, f"/jobs/{job}/?tab={tab}")
    expect(window.page.get_by_text(EVIL).first).to_be_attached()
    window.tab("Curves")
    expect(window.page.locator("article.chart h2")).to_have_text(METRIC)
    log = window.tab("Logs").locator("[data-log]")
    expect(log).to_contain_text("</div><iframe src=javascript:alert(5)></iframe><b>red</b>")
    expect(window.tab("Checkpoints")).to_contain_text(METRIC)
    visit(window, f"/jobs/new/?from={job}", EVIL)
    expect(window.page.locator("#plan pre").last).to_contain_text("<script>alert(2)</script>")
    visit(window, "/jobs/?q=%3Cscript%3Ealert(1)%3C/script%3E")
    visit(window, "/jobs/", EVIL)
    for path in ("/", "/account/", "/cluster/", "/datasets/?q=%22%3E%3Cscript%3E", "/nothing/%3Cscript%3E"):
        visit(window, path)
    visit(window, "/usage/", EVIL)
