import { csrfToken } from "../base/csrf";
import { t } from "../base/texts";
import { sendFile } from "../upload/send";

// The job form: shows what belongs to the chosen kind of code, checks while somebody types, fills the right column.
// An error stands beside its field once that field was touched, or after the first try to submit.

interface Checked {
  errors: Record<string, string>;
  plan: string;
  is_valid: boolean;
}

const PAUSE_MS = 350;

export function mount(root: HTMLElement): () => void {
  const form = root as HTMLFormElement;
  const plan = form.querySelector<HTMLElement>("#plan");
  const whole = form.querySelector<HTMLElement>("[data-whole-error]");
  const touched = new Set<string>();
  let showsAll = form.querySelector(".has-error") !== null;
  let timer = 0;
  let running: AbortController | undefined;

  const value = (name: string): string => String(new FormData(form).get(name) ?? "");

  function showWhatBelongs(): void {
    for (const part of form.querySelectorAll<HTMLElement>("[data-when]")) {
      const [name = "", values = ""] = (part.dataset.when ?? "").split("=");
      part.hidden = !values.split(",").includes(value(name));
    }
  }

  function showErrors(errors: Record<string, string>): void {
    for (const field of form.querySelectorAll<HTMLElement>("[data-field]")) {
      const name = field.dataset.field ?? "";
      const text = showsAll || touched.has(name) ? (errors[name] ?? "") : "";
      const place = field.querySelector<HTMLElement>(".field-error");
      field.classList.toggle("has-error", text !== "");
      field.querySelector("input, select, textarea")?.setAttribute("aria-invalid", String(text !== ""));
      if (place) {
        place.textContent = text;
        place.hidden = text === "";
      }
      if (text !== "") field.closest("details")?.setAttribute("open", "");
    }
    const rest = [errors[""] ?? "", errors.code_kind ?? ""].filter(Boolean).join(" ");
    const place = whole?.querySelector("span");
    if (whole && place) {
      place.textContent = rest;
      whole.hidden = rest === "";
    }
  }

  async function check(): Promise<void> {
    running?.abort();
    running = new AbortController();
    try {
      const answer = await fetch(form.dataset.check ?? "", {
        method: "POST",
        body: new FormData(form),
        headers: { "X-CSRFToken": csrfToken(), Accept: "application/json" },
        signal: running.signal,
      });
      if (!answer.ok) return;
      const checked = (await answer.json()) as Checked;
      showErrors(checked.errors);
      // The fragment is the portal's own template; every value in it was escaped there.
      if (plan) replaceKeepingOpen(plan, checked.plan);
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return;
      // A lost connection changes nothing on the page; the next key tries again.
    }
  }

  function checkSoon(delay = PAUSE_MS): void {
    clearTimeout(timer);
    timer = window.setTimeout(() => void check(), delay);
  }

  async function offerColumns(): Promise<void> {
    const version = value("version");
    const list = document.querySelector("#label-columns");
    const label = form.querySelector<HTMLInputElement>("[name=label]");
    if (!list || !label) return;
    list.replaceChildren();
    if (!/^\d+$/.test(version)) return;
    const answer = await fetch((form.dataset.columns ?? "").replace("/0/", `/${version}/`));
    if (!answer.ok) return;
    const { columns, label: chosen } = (await answer.json()) as { columns: string[]; label: string };
    list.replaceChildren(...columns.map((name) => Object.assign(document.createElement("option"), { value: name })));
    if (!columns.includes(label.value)) label.value = chosen;
    checkSoon(0);
  }

  /** A second node or device needs a strategy for several processes; one process needs none. */
  function keepStrategyPossible(changed: string): void {
    if (changed !== "nodes" && changed !== "devices") return;
    const strategy = form.querySelector<HTMLSelectElement>("[name=strategy]");
    const processes = Number(value("nodes")) * Math.max(1, Number(value("devices")));
    if (strategy && strategy.value === "single" && processes > 1) strategy.value = "ddp";
  }

  async function sendZip(input: HTMLInputElement): Promise<void> {
    const file = input.files?.[0];
    const state = form.querySelector<HTMLElement>("[data-zip-state]");
    if (!file || !state) return;
    const say = (text: string): void => {
      state.textContent = text;
    };
    try {
      const address = await sendFile(file, { purpose: "code" }, (share) =>
        say(t("{share} % sent", { share: Math.floor(share * 100) })),
      );
      const body = new FormData();
      body.set("upload", address.split("/").filter(Boolean).pop() ?? "");
      const answer = await fetch(form.dataset.bundles ?? "", {
        method: "POST",
        body,
        headers: { "X-CSRFToken": csrfToken(), Accept: "application/json" },
      });
      const told = (await answer.json()) as { sha256?: string; name?: string; message?: string };
      if (!answer.ok || !told.sha256) throw new Error(told.message);
      const select = form.querySelector<HTMLSelectElement>("[name=bundle]");
      select?.append(new Option(`${told.name} (${told.sha256.slice(0, 8)})`, told.sha256, true, true));
      say(t("Sent and chosen."));
      checkSoon(0);
    } catch (error) {
      say(error instanceof Error && error.message ? error.message : t("The file could not be sent. Try again."));
    }
  }

  form.addEventListener("input", (event) => {
    if (!(event.target instanceof HTMLElement)) return;
    const name = event.target.getAttribute("name") ?? "";
    touched.add(name);
    keepStrategyPossible(name);
    showWhatBelongs();
    checkSoon();
  });
  form.addEventListener("change", (event) => {
    const target = event.target;
    if (target instanceof HTMLInputElement && target.matches("[data-zip]")) void sendZip(target);
    else if (target instanceof HTMLSelectElement && target.name === "version") void offerColumns();
  });
  form.addEventListener("submit", () => {
    showsAll = true;
    form.querySelector("button.submit")?.setAttribute("aria-busy", "true");
  });
  form.querySelector("textarea[name=script]")?.addEventListener("keydown", (event) => keepTab(event as KeyboardEvent));
  window.addEventListener("pageshow", () => form.querySelector("button.submit")?.removeAttribute("aria-busy"));
  showWhatBelongs();
  checkSoon(0);
  return () => {
    clearTimeout(timer);
    running?.abort();
  };
}

/** Tab indents in the script; Escape lets the next Tab leave it. */
function keepTab(event: KeyboardEvent): void {
  const area = event.currentTarget as HTMLTextAreaElement;
  if (event.key === "Escape") area.dataset.leaves = "1";
  if (event.key !== "Tab" || event.shiftKey || area.dataset.leaves) return;
  event.preventDefault();
  area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

/** What was unfolded stays so. */
function replaceKeepingOpen(place: HTMLElement, html: string): void {
  const before = [...place.querySelectorAll("details")].map((one) => one.open);
  place.innerHTML = html;
  for (const [i, one] of [...place.querySelectorAll("details")].entries()) one.open = before[i] ?? false;
}
