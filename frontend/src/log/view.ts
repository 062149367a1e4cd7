import { bytes } from "../base/format";
import { t } from "../base/texts";
import { fillLine } from "./ansi";
import { type LogLine, LogLines, type LogPage } from "./lines";

// The log of one rank: a windowed list (only lines in sight are in the page), that follows its end, reads on upwards when
// scrolled there, and searches the whole log on the server.

const LINE_PX = 18;
const OVERSCAN = 20;
const STEP_BYTES = 200_000;

interface Found {
  lines: LogLine[];
  next_offset: number | null;
}

export class LogView {
  private readonly log = new LogLines();
  private readonly box: HTMLElement;
  private readonly spacer = document.createElement("div");
  private readonly window = document.createElement("div");
  private found: LogLine[] | undefined;
  private isWanted = false;
  private isLoading = false;
  private frame = 0;
  private timer = 0;

  constructor(
    private readonly root: HTMLElement,
    private readonly api: string,
    private readonly send: (message: object) => void,
  ) {
    this.box = root.querySelector<HTMLElement>("[data-log]") ?? root;
    this.spacer.className = "log-spacer";
    this.window.className = "log-window";
    this.spacer.append(this.window);
    this.box.append(this.spacer);
    this.say(t("Nothing has been printed yet."));
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.select("rank")?.addEventListener("change", () => this.begin());
    this.select("follow")?.addEventListener("change", () => this.follow());
    this.select("search")?.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.search(), 350);
    });
    this.pointDownload();
  }

  /** The tab is open: from now on lines are wanted. */
  open(): void {
    if (this.isWanted) {
      this.render();
      return;
    }
    this.isWanted = true;
    this.ask();
  }

  ask(): void {
    if (!this.isWanted) return;
    const offset = this.log.stream ? this.log.end : null;
    this.send({ type: "log", rank: this.rank, offset });
  }

  take(page: LogPage): void {
    if (page.rank !== this.rank) return;
    this.log.append(page);
    if (!this.found) this.render();
    if (this.isFollowing) this.toEnd();
  }

  stop(): void {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }

  private get rank(): number {
    return Number((this.select("rank") as HTMLSelectElement | null)?.value ?? 0);
  }

  private get isFollowing(): boolean {
    return ((this.select("follow") as HTMLInputElement | null)?.checked ?? false) && !this.found;
  }

  private select(name: string): HTMLElement | null {
    return this.root.querySelector<HTMLElement>(`[data-log-${name}]`);
  }

  private begin(): void {
    this.log.clear();
    this.found = undefined;
    this.say(t("Nothing has been printed yet."));
    this.pointDownload();
    this.render();
    this.send({ type: "log", rank: this.rank, offset: null });
    void this.search();
  }

  private pointDownload(): void {
    this.select("download")?.setAttribute("href", `${this.api}logs/${this.rank}/download/`);
  }

  private follow(): void {
    if (this.isFollowing) this.toEnd();
  }

  private toEnd(): void {
    this.box.scrollTop = this.box.scrollHeight;
  }

  private scrolled(): void {
    const isAtEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - LINE_PX;
    const follow = this.select("follow") as HTMLInputElement | null;
    if (follow && !this.found) follow.checked = isAtEnd;
    if (this.box.scrollTop < LINE_PX * OVERSCAN && this.log.start > 0 && !this.found) void this.loadEarlier();
    this.plan();
  }

  private async loadEarlier(): Promise<void> {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      const stop = this.log.start;
      let at = Math.max(0, stop - STEP_BYTES);
      let isPartial = at > 0; // the first line begins in the middle
      let older: LogLine[] = [];
      while (at < stop) {
        const page = await this.fetch(`logs/${this.rank}/?offset=${at}&attempt=${this.log.attempt}`);
        if (!page || page.lines.length === 0 || page.end <= at) break;
        older.push(...(isPartial ? page.lines.slice(1) : page.lines));
        isPartial = false;
        at = page.end;
      }
      older = older.filter((line) => line.offset < stop);
      if (stop !== this.log.start || older.length === 0) return;
      const page = { stream: this.log.stream, start: older[0]?.offset ?? 0, lines: older } as LogPage;
      const count = this.log.prepend(page);
      this.render();
      this.box.scrollTop += count * LINE_PX;
    } finally {
      this.isLoading = false;
    }
  }

  private async fetch<T = LogPage>(path: string): Promise<T | undefined> {
    try {
      const answer = await fetch(this.api + path, { headers: { Accept: "application/json" } });
      return answer.ok ? ((await answer.json()) as T) : undefined;
    } catch {
      return undefined;
    }
  }

  private async search(): Promise<void> {
    const text = ((this.select("search") as HTMLInputElement | null)?.value ?? "").trim();
    const told = this.select("found");
    if (!text) {
      this.found = undefined;
      if (told) told.textContent = "";
      this.render();
      if (this.isFollowing) this.toEnd();
      return;
    }
    const page = await this.fetch<Found>(`logs/${this.rank}/search/?text=${encodeURIComponent(text)}&limit=500`);
    this.found = page?.lines ?? [];
    if (told) {
      const count = this.found.length;
      told.textContent = page?.next_offset ? t("the first {n} lines", { n: count }) : t("{n} lines", { n: count });
    }
    this.box.scrollTop = 0;
    this.render();
  }

  private plan(): void {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.render();
      });
    }
  }

  private say(text: string): void {
    this.box.dataset.empty = text;
  }

  private render(): void {
    const lines = this.found ?? this.log.lines;
    this.box.toggleAttribute("data-is-empty", lines.length === 0);
    this.spacer.style.height = `${lines.length * LINE_PX}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE_PX) - OVERSCAN);
    const count = Math.ceil(this.box.clientHeight / LINE_PX) + 2 * OVERSCAN;
    this.window.style.transform = `translateY(${first * LINE_PX}px)`;
    this.window.replaceChildren(...lines.slice(first, first + count).map((line) => drawLine(line)));
  }
}

function drawLine(line: LogLine): HTMLElement {
  const row = document.createElement("div");
  row.className = "log-line";
  if (line.gap > 0) {
    const gap = document.createElement("span");
    gap.className = "log-gap";
    gap.textContent = `[${t("{size} were not kept", { size: bytes(line.gap) })}] `;
    row.append(gap);
  }
  const text = document.createElement("span");
  fillLine(text, line.text);
  row.append(text);
  return row;
}
