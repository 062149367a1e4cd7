// Tabs after the WAI-ARIA pattern; the chosen one stands in the address, so a reload and a link come back to it.

export function bindTabs(root: HTMLElement, onOpen: (name: string) => void): void {
  const tabs = [...root.querySelectorAll<HTMLAnchorElement>('[role="tab"]')];
  const nameOf = (tab: HTMLElement): string => tab.id.replace("tab-", "");

  function open(chosen: HTMLElement): void {
    for (const tab of tabs) {
      const isChosen = tab === chosen;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      const panel = root.querySelector<HTMLElement>(`#${tab.getAttribute("aria-controls") ?? ""}`);
      if (panel) panel.hidden = !isChosen;
    }
    const url = new URL(location.href);
    url.searchParams.set("tab", nameOf(chosen));
    history.replaceState(history.state, "", url);
    onOpen(nameOf(chosen));
  }

  for (const [i, tab] of tabs.entries()) {
    tab.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(tab);
    });
    tab.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const next = tabs[(i + by + tabs.length) % tabs.length];
      if (by === 0 || !next) return;
      event.preventDefault();
      next.focus();
      open(next);
    });
  }
  root.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>('a[href^="?tab="]') : null;
    const tab = tabs.find((one) => one.getAttribute("href") === link?.getAttribute("href"));
    if (!link || !tab || link === tab) return;
    event.preventDefault();
    open(tab);
  });
  const first = tabs.find((tab) => tab.getAttribute("aria-selected") === "true") ?? tabs[0];
  for (const tab of tabs) tab.tabIndex = tab === first ? 0 : -1;
  if (first) onOpen(nameOf(first));
}
