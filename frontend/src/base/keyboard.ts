// g j, g c, g d, g h, n, /, ?, j and k on rows. Never while somebody types, never with a modifier.

const GO: Record<string, string> = { h: "home", j: "jobs", d: "datasets", c: "cluster", u: "usage" };

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

function follow(name: string): void {
  document.querySelector<HTMLAnchorElement>(`a[data-key="${name}"]`)?.click();
}

function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>("[data-rows] a[data-row]")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement as HTMLAnchorElement);
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

export function bindKeyboard(): void {
  let wasG = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const help = document.querySelector<HTMLDialogElement>("#keys");
    if (Date.now() - wasG < 1200 && GO[event.key]) {
      wasG = 0;
      follow(GO[event.key] ?? "");
    } else if (event.key === "g") {
      wasG = Date.now();
      return;
    } else if (event.key === "n") {
      follow("new");
    } else if (event.key === "?") {
      if (help?.open) help.close();
      else help?.showModal();
    } else if (event.key === "/") {
      const search = document.querySelector<HTMLInputElement>("input[data-search]");
      if (!search) return;
      search.focus();
      event.preventDefault();
    } else if (event.key === "j" || event.key === "k") {
      moveRow(event.key === "j" ? 1 : -1);
    }
    wasG = 0;
  });
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const dialog = document.querySelector<HTMLDialogElement>("#keys");
    if (event.target.closest("[data-open-keys]")) dialog?.showModal();
    if (event.target === dialog || event.target.closest("[data-close-keys]")) dialog?.close();
  });
}
