// The lines of a log that the browser holds: a window of the whole, bounded, in order of their offsets.

export interface LogLine {
  offset: number;
  text: string;
  gap: number;
  is_open: boolean;
}

export interface LogPage {
  stream: number;
  attempt: number;
  rank: number;
  start: number;
  end: number;
  size: number;
  lines: LogLine[];
  skipped?: number;
}

export const MAX_LINES = 20_000;

export class LogLines {
  lines: LogLine[] = [];
  stream = 0;
  attempt = 0;
  start = 0;
  end = 0;
  size = 0;

  clear(): void {
    this.lines = [];
    this.stream = this.start = this.end = this.size = 0;
  }

  /** News at the end: what begins at or after the first new offset is replaced, an open line by its longer self. */
  append(page: LogPage): void {
    const isOther = page.stream !== this.stream;
    const isJump = (page.skipped ?? 0) > 0 || page.start > this.end || page.start < this.start;
    if (isOther || isJump) {
      this.lines = [];
      this.start = page.start;
    }
    this.stream = page.stream;
    this.attempt = page.attempt;
    const first = page.lines[0]?.offset ?? page.end;
    while ((this.lines.at(-1)?.offset ?? -1) >= first) this.lines.pop();
    this.lines.push(...page.lines);
    this.end = page.end;
    this.size = page.size;
    if (this.lines.length > MAX_LINES) {
      this.lines = this.lines.slice(-MAX_LINES);
      this.start = this.lines[0]?.offset ?? this.start;
    }
  }

  /** Earlier lines; how many came. At the limit the end is let go, and following fetches it again. */
  prepend(page: LogPage): number {
    if (page.stream !== this.stream) return 0;
    const older = page.lines.filter((line) => line.offset < this.start && line.offset >= page.start);
    this.lines = [...older, ...this.lines].slice(0, MAX_LINES);
    this.start = Math.min(this.start, older[0]?.offset ?? page.start);
    return older.length;
  }
}
