import "uplot/dist/uPlot.min.css";
import { t } from "../base/texts";
import { Chart, type ChartOptions } from "../series/chart";
import { decodePage } from "../series/decode";
import { type Axis, lineOf } from "../series/lines";
import { SeriesStore } from "../series/store";

// The curves of a job: the view it asks the socket for, the browser's copy, and a chart per metric. Charts are made
// when they come into sight, and drawn at most four times a second.

const VIEW = "main";
const POINTS = 1000;
const FIRST_NAMES = 12; // more are searched
const PACE_MS = 250;
const HEIGHT = 200;
const PROGRESS = "progress"; // stands in the header as a bar

export class Curves {
  private readonly store = new SeriesStore();
  private readonly charts = new Map<string, Chart>();
  private readonly dirty = new Set<string>();
  private readonly visible = new Set<string>();
  private readonly list: HTMLElement;
  private readonly empty: HTMLElement | null;
  private readonly tools: HTMLElement | null;
  private timer = 0;
  private ranks: number[] = [0];
  private shown = FIRST_NAMES;
  private hasAsked = false;

  private readonly sight = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const name = (entry.target as HTMLElement).dataset.name ?? "";
        if (entry.isIntersecting) {
          this.visible.add(name);
          this.dirty.add(name);
        } else this.visible.delete(name);
      }
      this.plan();
    },
    { rootMargin: "200px" },
  );
  private readonly themes = new MutationObserver(() => this.redraw());

  constructor(
    private readonly root: HTMLElement,
    private readonly send: (message: object) => void,
  ) {
    this.list = root.querySelector<HTMLElement>("[data-curves]") ?? root;
    this.empty = root.querySelector<HTMLElement>("[data-curves-empty]");
    this.tools = root.querySelector<HTMLElement>("[data-curve-tools]");
    this.bindTools();
    // A copy of what is drawn, for whoever asks: a console, a test, an extension.
    this.list.addEventListener("trainyard:copy", (event) => {
      (event as CustomEvent<{ pieces: unknown[] }>).detail.pieces.push(...this.store.copy());
    });
    this.themes.observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  /** On each connection: everything since the cursor. */
  ask(): void {
    this.hasAsked = true;
    const { rev, attempt } = this.store;
    this.send({ type: "series", view: VIEW, names: null, ranks: this.ranks, points: POINTS, since: rev, attempt });
  }

  take(bytes: ArrayBuffer): void {
    const page = decodePage(bytes);
    if (page.head.view !== VIEW) return;
    const changed = this.store.apply(page);
    if (!changed) {
      this.store.clear();
      this.ask();
      return;
    }
    for (const name of changed) this.dirty.add(name);
    this.layOut();
    this.plan();
  }

  say(text: string): void {
    const place = this.empty?.querySelector("[data-curves-empty-text]");
    if (place && place.textContent !== text) place.textContent = text;
  }

  redraw(): void {
    for (const name of this.charts.keys()) this.dirty.add(name);
    this.plan();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.sight.disconnect();
    this.themes.disconnect();
    for (const chart of this.charts.values()) chart.remove();
  }

  private tool<T extends HTMLElement>(name: string): T | null {
    return this.root.querySelector<T>(`[data-curve-${name}]`);
  }

  private bindTools(): void {
    for (const name of ["smoothing", "axis", "log"]) {
      this.tool(name)?.addEventListener("input", () => this.redraw());
    }
    this.tool<HTMLSelectElement>("ranks")?.addEventListener("change", (event) => {
      const value = (event.target as HTMLSelectElement).value;
      this.ranks = value === "all" ? [] : [Number(value)];
      this.store.clear();
      for (const chart of this.charts.values()) chart.remove();
      this.charts.clear();
      this.visible.clear();
      if (this.hasAsked) this.ask();
    });
    this.tool("search")?.addEventListener("input", () => this.layOut());
  }

  get axis(): Axis {
    return this.tool<HTMLSelectElement>("axis")?.value === "time" ? "time" : "step";
  }

  private options(): ChartOptions & { smoothing: number } {
    return {
      axis: this.axis,
      isLog: this.tool<HTMLInputElement>("log")?.checked ?? false,
      smoothing: Number(this.tool<HTMLInputElement>("smoothing")?.value ?? 0),
      height: HEIGHT,
    };
  }

  /** Which charts there are: names that the search lets through, the first dozen until more are asked for. */
  private layOut(): void {
    const names = byWeight(this.store.names().filter((name) => name !== PROGRESS));
    const search = this.tool<HTMLInputElement>("search");
    const wanted = (search?.value ?? "").trim().toLowerCase();
    if (search) search.hidden = this.store.namesTotal <= FIRST_NAMES;
    if (this.tools) this.tools.hidden = names.length === 0;
    if (this.empty) this.empty.hidden = names.length > 0;
    const found = names.filter((name) => name.toLowerCase().includes(wanted));
    const now = new Set(found.slice(0, this.shown));
    for (const [name, chart] of this.charts) {
      if (now.has(name)) continue;
      this.sight.unobserve(chart.element);
      chart.remove();
      this.charts.delete(name);
      this.visible.delete(name);
    }
    for (const name of now) {
      if (this.charts.has(name)) continue;
      const chart = new Chart(name, this.options());
      chart.element.dataset.name = name;
      this.charts.set(name, chart);
      this.sight.observe(chart.element);
    }
    this.order(now);
    this.offerMore(found.length, names.length);
  }

  private order(names: Iterable<string>): void {
    let before: Element | null = null;
    for (const name of names) {
      const element = this.charts.get(name)?.element;
      if (!element) continue;
      if (element.parentElement !== this.list || element.previousElementSibling !== before) {
        if (before) before.after(element);
        else this.list.prepend(element);
      }
      before = element;
    }
  }

  private offerMore(found: number, known: number): void {
    this.list.querySelector("[data-more]")?.remove();
    const beyond =
      this.store.namesTotal > known ? t("{n} more names are in the CSV.", { n: this.store.namesTotal - known }) : "";
    if (found <= this.shown && !beyond) return;
    const more = document.createElement("p");
    more.dataset.more = "";
    more.className = "quiet chart-more";
    if (found > this.shown) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn";
      button.textContent = t("Show {n} more", { n: Math.min(FIRST_NAMES, found - this.shown) });
      button.addEventListener("click", () => {
        this.shown += FIRST_NAMES;
        this.layOut();
      });
      more.append(button);
    }
    more.append(beyond);
    this.list.append(more);
  }

  private plan(): void {
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      requestAnimationFrame(() => this.draw());
    }, PACE_MS);
  }

  private draw(): void {
    const options = this.options();
    for (const name of [...this.dirty]) {
      if (!this.visible.has(name)) continue;
      this.dirty.delete(name);
      const lines = this.store.of(name).map((piece) => lineOf(piece, options.axis, options.smoothing));
      this.charts.get(name)?.show(lines, { axis: options.axis, isLog: options.isLog, height: options.height });
    }
  }
}

/** What people look for first stands first: losses, then accuracies; the rest as the portal names it. */
function byWeight(names: string[]): string[] {
  const weight = (name: string): number => (/loss/i.test(name) ? 0 : /acc/i.test(name) ? 1 : 2);
  return names.sort((a, b) => weight(a) - weight(b));
}
