import type { Columns, Page, Piece } from "./decode";

// The browser's copy of a view: pieces by (stream, name). What comes replaces, nothing is ever added up; a copy that
// cannot take a message says so, and the view is asked for anew.

export class SeriesStore {
  readonly pieces = new Map<string, Piece>();
  rev = 0;
  attempt: number | null = null;
  namesTotal = 0;

  clear(): void {
    this.pieces.clear();
    this.rev = 0;
    this.attempt = null;
  }

  /** Names that changed, or undefined when a message was lost and everything must be asked for again. */
  apply(page: Page): Set<string> | undefined {
    const changed = new Set<string>();
    if (page.head.reset) {
      for (const piece of this.pieces.values()) changed.add(piece.head.name);
      this.pieces.clear();
    }
    for (const piece of page.pieces) {
      const key = `${piece.head.stream}/${piece.head.name}`;
      const merged = merge(this.pieces.get(key), piece);
      if (!merged) return undefined;
      this.pieces.set(key, merged);
      changed.add(piece.head.name);
    }
    this.rev = Math.max(this.rev, page.head.rev);
    this.attempt = page.head.attempt;
    this.namesTotal = Math.max(page.head.names_total, this.names().length);
    return changed;
  }

  names(): string[] {
    return [...new Set([...this.pieces.values()].map((piece) => piece.head.name))];
  }

  /** Plain values, as the REST answer has them. */
  copy(): { [key: string]: unknown }[] {
    return [...this.pieces.values()].map(({ head, columns }) => ({
      ...head,
      ...Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, [...values]])),
    }));
  }

  of(name: string): Piece[] {
    return [...this.pieces.values()]
      .filter((piece) => piece.head.name === name)
      .sort((a, b) => a.head.rank - b.head.rank || a.head.attempt - b.head.attempt);
  }
}

function merge(old: Piece | undefined, news: Piece): Piece | undefined {
  const first = news.head.first;
  if (first === 0) return news;
  if (!old || old.head.level !== news.head.level) return undefined;
  const kept = first - old.head.first;
  if (kept < 0 || kept > old.head.n) return undefined;
  const columns: Columns = {};
  for (const [name, tail] of Object.entries(news.columns)) {
    const before = old.columns[name];
    if (!before) return undefined;
    const whole =
      tail instanceof Float64Array ? new Float64Array(kept + tail.length) : new Uint32Array(kept + tail.length);
    whole.set(before.subarray(0, kept));
    whole.set(tail, kept);
    columns[name] = whole;
  }
  return { head: { ...news.head, first: old.head.first, n: kept + news.head.n }, columns };
}
