"""A browser window as a person has it: clicks are counted, and every error it meets is kept."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Response, expect

from tests.flows.rig import wait_for

PASSWORD = "correct horse battery"
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

# Runs before any script of a page: keeps what the policy refused, and whatever an injected script would call.
_WATCH = """
window.__refused = [];
document.addEventListener('securitypolicyviolation', (event) =>
  window.__refused.push(`${event.violatedDirective} refused ${event.blockedURI} on ${location.pathname}`));
"""
# A file that is dropped where the pointer is, as the browser gives it to the page.
_DROP = """([text, name, type]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], name, { type, lastModified: 1700000000000 }));
  for (const kind of ['dragenter', 'dragover', 'drop'])
    document.querySelector('main').dispatchEvent(
      new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: files }));
}"""
_BADGES = """() => {
  const badge = document.querySelector('#live-badge');
  window.__badges = [badge.dataset.state];
  new MutationObserver(() => window.__badges.push(badge.dataset.state))
    .observe(badge, { attributeFilter: ['data-state'] });
}"""
_SERIES = """() => {
  const detail = { pieces: [] };
  document.querySelector('[data-curves]').dispatchEvent(new CustomEvent('trainyard:copy', { detail }));
  return detail.pieces;
}"""


class Window:
    def __init__(self, browser: Browser, url: str, *, theme: str, width: int, height: int) -> None:
        self.url = url
        size: Any = {"width": width, "height": height}
        scheme: Any = theme
        self.context = browser.new_context(base_url=url, viewport=size, color_scheme=scheme, locale="en-GB")
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(_WATCH)
        self.page: Page = self.context.new_page()
        self.clicks = 0
        self.loads = 0
        self._errors: list[str] = []
        self._allowed: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self._errors.append(f"script error: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("response", self._answered)
        self.page.on("load", self._loaded)

    # --- what went wrong --------------------------------------------------------------------------------------------

    def allow(self, *texts: str) -> None:
        """Errors that the story itself makes, such as a refused form or a cut line."""
        self._allowed += texts

    def errors(self) -> list[str]:
        """What the console, the policy, a failed answer or a dialog told, but for what the story allows."""
        if not self.page.is_closed():
            self._errors += self.page.evaluate("window.__refused ?? []")
        found = dict.fromkeys(error for error in self._errors if not any(text in error for text in self._allowed))
        return list(found)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(f"console: {message.text} ({self.page.url})")

    def _asked(self, dialog: Dialog) -> None:
        if dialog.type != "beforeunload":  # this one is the browser's own, while an upload runs
            self._errors.append(f"dialog: {dialog.message}")
        dialog.accept()

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self._errors.append(f"answer: {response.status} {response.request.method} {response.url}")

    def _loaded(self, _page: Page) -> None:
        self.loads += 1

    def close(self) -> None:
        self.context.close()

    # --- what a person does -----------------------------------------------------------------------------------------

    def go(self, path: str) -> None:
        """Until its modules have been loaded, too."""
        self.page.goto(path, wait_until="networkidle")

    def sign_in(self, name: str, at: str = "/") -> None:
        self.go(f"/sign-in/?next={at}")
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", PASSWORD)
        self.page.click("button:has-text('Sign in')")
        self.page.wait_for_url(f"{self.url}{at}")
        self.clicks = 0

    def click(self, what: str | Locator) -> None:
        self.clicks += 1
        (self.page.locator(what) if isinstance(what, str) else what).click()

    def confirm(self, text: str) -> None:
        """A button that asks once, naming the thing, and does it when it is pressed again."""
        button = self.page.get_by_role("button", name=text, exact=True)
        form = button.locator("xpath=ancestor::form")
        button.click()
        expect(form).to_have_attribute("data-asked", "1")
        form.get_by_role("button").click()

    def drop(self, path: Path, kind: str = "text/csv") -> None:
        self.page.evaluate(_DROP, [base64.b64encode(path.read_bytes()).decode(), path.name, kind])

    def tab(self, name: str) -> Locator:
        """Opens a tab of a job's page; its panel."""
        self.page.get_by_role("tab", name=name, exact=True).click()
        return self.page.get_by_role("tabpanel", name=name, exact=True)

    # --- what a person sees -----------------------------------------------------------------------------------------

    def see(self, selector: str, text: str | None = None) -> Locator:
        found = self.page.locator(selector)
        if text is not None:
            found = found.filter(has_text=text)
        expect(found.first).to_be_visible()
        return found.first

    def chart(self, name: str) -> Locator:
        return self.page.locator(f"article.chart[data-name={name!r}]")

    def points(self, name: str) -> int:
        """Points that the chart of a metric draws; 0 while there is no chart."""
        chart = self.chart(name)
        return int(chart.get_attribute("data-points") or 0) if chart.count() else 0

    def wait_for(self, expression: str, argument: Any = None, seconds: float = 60) -> None:
        """Until the page itself answers true; asked from here, as the policy forbids evaluation in the page."""
        wait_for(f"{expression} ({argument})", lambda: self.page.evaluate(expression, argument), seconds)

    def wait_points(self, name: str, least: int, seconds: float = 60) -> int:
        return wait_for(f"{least} points of {name}", lambda: (now := self.points(name)) >= least and now, seconds)

    def wait_badge(self, *states: str, seconds: float = 30) -> None:
        self.wait_for(
            "(all) => all.includes(document.querySelector('#live-badge').dataset.state)", list(states), seconds
        )

    def wait_state(self, *states: str, seconds: float = 90) -> None:
        """The job's page says so by itself."""
        shown = "(all) => all.includes(document.querySelector('[data-job-state]').dataset.jobState)"
        self.wait_for(shown, list(states), seconds)

    def note_badges(self) -> None:
        """From now on every state of the live badge is kept."""
        self.page.evaluate(_BADGES)

    def badges(self) -> list[str]:
        return list(self.page.evaluate("window.__badges"))

    def series(self) -> list[dict[str, Any]]:
        """The page's own copy of the series it draws."""
        return list(self.page.evaluate(_SERIES))
