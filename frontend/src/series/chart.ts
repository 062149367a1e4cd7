import uPlot from "uplot";
import { clock, value as shown } from "../base/format";
import { t } from "../base/texts";
import { cssColour, seriesColour } from "./colours";
import { type Axis, type Line, paddedRange } from "./lines";

// One metric: raw lines behind smoothed ones, a table of values instead of a legend, red ticks where a value was not
// finite, a dashed rule where training resumed. The cursor is shared with every other chart of the page.

export interface ChartOptions {
  axis: Axis;
  isLog: boolean;
  height: number;
}

const SYNC = uPlot.sync("job");
const MAX_TABLE_ROWS = 6;

/** Full times of day: the library's own labels keep the minutes in a second line, for which there is no room. */
export const CLOCK_AXIS: uPlot.Axis = { space: 90, values: (_plot, splits) => splits.map((x) => clock(x)) };

export class Chart {
  readonly element = document.createElement("article");
  private readonly head = document.createElement("div");
  private readonly table = document.createElement("div");
  private readonly place = document.createElement("div");
  private plot: uPlot | undefined;
  private lines: Line[] = [];
  private shape = "";
  private readonly resize = new ResizeObserver(() => this.fit());

  constructor(
    readonly name: string,
    private options: ChartOptions,
  ) {
    this.element.className = "card chart";
    const title = document.createElement("h2");
    title.textContent = name;
    title.title = name;
    this.head.className = "chart-head";
    this.table.className = "chart-table";
    this.place.className = "chart-place";
    this.place.setAttribute("role", "img");
    this.head.append(title, this.table);
    this.element.append(this.head, this.place);
    this.resize.observe(this.place);
  }

  show(lines: Line[], options: ChartOptions): void {
    this.lines = lines;
    this.options = options;
    const theme = document.documentElement.dataset.bsTheme;
    const shape = JSON.stringify([lines.map((line) => [line.rank, line.attempt]), options, theme]);
    if (this.plot && shape === this.shape) this.plot.setData(this.data());
    else this.build(shape);
    this.fillTable(null);
    this.describe();
  }

  /** A canvas says nothing to a screen reader; these words do. */
  private describe(): void {
    const points = this.lines.reduce((sum, line) => sum + line.smoothX.length, 0);
    this.element.dataset.points = String(points);
    const last = shown(this.lines[0]?.last, 4);
    this.place.setAttribute(
      "aria-label",
      t("{name}: {n} points, the newest {value}", { name: this.name, n: points, value: last }),
    );
  }

  remove(): void {
    this.resize.disconnect();
    this.plot?.destroy();
    this.plot = undefined;
    this.element.remove();
  }

  private build(shape: string): void {
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(this.settings(), this.data(), this.place);
  }

  private fit(): void {
    const width = this.place.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.options.height });
  }

  private data(): uPlot.AlignedData {
    const keep = (y: number | null): number | null => (this.options.isLog && y !== null && y <= 0 ? null : y);
    const tables = this.lines.flatMap((line) => [
      [line.rawX, line.rawY.map(keep)] as uPlot.AlignedData,
      [line.smoothX, line.smoothY.map(keep)] as uPlot.AlignedData,
    ]);
    return tables.length > 0 ? uPlot.join(tables) : [[], []];
  }

  private settings(): uPlot.Options {
    const ink = cssColour("--ink-3");
    const grid = { stroke: cssColour("--line-soft"), width: 1 };
    const font = "11px system-ui, sans-serif";
    const isTime = this.options.axis === "time";
    return {
      width: Math.max(120, this.place.clientWidth),
      height: this.options.height,
      padding: [8, 60, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: SYNC.key, scales: ["x", null], setSeries: false },
        points: { size: 5 },
        drag: { x: true, y: false },
      },
      scales: {
        x: { time: isTime },
        y: this.options.isLog ? { distr: 3 } : { range: (_plot, low, high) => paddedRange(low ?? 0, high ?? 1) },
      },
      axes: [
        { stroke: ink, grid, ticks: grid, font, size: 26, ...(isTime ? CLOCK_AXIS : {}) },
        { stroke: ink, grid, ticks: grid, font, size: 58, values: (_plot, splits) => splits.map((y) => shown(y)) },
      ],
      series: [{}, ...this.lines.flatMap((_line, i) => this.pair(i))],
      hooks: {
        setCursor: [(plot) => this.fillTable(plot.cursor.idx ?? null)],
        draw: [(plot) => this.drawExtras(plot)],
      },
    };
  }

  private pair(index: number): uPlot.Series[] {
    const colour = seriesColour(index);
    const isPoint = (this.lines[index]?.smoothX.length ?? 0) < 2;
    return [
      { stroke: `${colour}40`, width: 1, spanGaps: true, points: { show: false } },
      { stroke: colour, width: 1.5, spanGaps: true, points: { show: isPoint, size: 5, fill: colour } },
    ];
  }

  private drawExtras(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const taken: number[] = [];
    this.lines.forEach((line, i) => {
      this.drawMarks(plot, line, ratio);
      this.drawResume(plot, line, ratio);
      const last = line.smoothY.findLast((y) => y !== null);
      if (last === undefined || last === null || taken.length >= MAX_TABLE_ROWS) return;
      const y = plot.valToPos(last, "y", true);
      if (!Number.isFinite(y) || taken.some((other) => Math.abs(other - y) < 11 * ratio)) return;
      taken.push(y);
      ctx.fillStyle = seriesColour(i);
      ctx.fillText(shown(last, 4), bbox.left + bbox.width + 4 * ratio, y);
    });
    ctx.restore();
  }

  private drawMarks(plot: uPlot, line: Line, ratio: number): void {
    const { ctx, bbox } = plot;
    ctx.fillStyle = cssColour("--bad");
    for (const mark of line.marks.slice(0, 2000)) {
      const x = plot.valToPos(mark, "x", true);
      if (x >= bbox.left && x <= bbox.left + bbox.width) {
        ctx.fillRect(x - ratio, bbox.top + bbox.height - 7 * ratio, 2 * ratio, 7 * ratio);
      }
    }
  }

  private drawResume(plot: uPlot, line: Line, ratio: number): void {
    if (line.attempt < 2 || line.rawX.length === 0) return;
    const { ctx, bbox } = plot;
    const x = plot.valToPos(line.rawX[0] ?? 0, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.strokeStyle = cssColour("--ink-3");
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** Values under the cursor, or the newest ones. */
  private fillTable(index: number | null): void {
    const data = this.plot?.data;
    const x = index === null ? undefined : data?.[0][index];
    const rows = this.lines.slice(0, MAX_TABLE_ROWS).map((line, i) => {
      const at = x === undefined ? line.last : nearest(line, x);
      return this.row(seriesColour(i), this.labelOf(line), shown(at));
    });
    if (this.lines.length > MAX_TABLE_ROWS) {
      rows.push(this.row("transparent", t("and {n} more", { n: this.lines.length - MAX_TABLE_ROWS }), ""));
    }
    const where = x === undefined ? "" : this.options.axis === "time" ? clock(x) : t("step {n}", { n: Math.round(x) });
    const marks = this.lines.reduce((sum, line) => sum + line.marks.length, 0);
    const notes = [where, marks > 0 ? t("{n} not finite", { n: marks }) : ""].filter(Boolean).join(" · ");
    if (notes) rows.push(this.row("transparent", notes, "", marks > 0 && where === ""));
    this.table.replaceChildren(...rows);
  }

  private labelOf(line: Line): string {
    const parts = [];
    if (new Set(this.lines.map((one) => one.rank)).size > 1) parts.push(t("rank {n}", { n: line.rank }));
    if (new Set(this.lines.map((one) => one.attempt)).size > 1) parts.push(t("attempt {n}", { n: line.attempt }));
    return parts.join(" · ");
  }

  private row(colour: string, label: string, text: string, isBad = false): HTMLElement {
    const row = document.createElement("span");
    const key = document.createElement("i");
    key.style.backgroundColor = colour;
    const words = document.createElement("span");
    words.textContent = label;
    words.className = isBad ? "bad" : "quiet";
    const number = document.createElement("b");
    number.textContent = text;
    if (colour !== "transparent") row.append(key);
    row.append(words, number);
    return row;
  }
}

function nearest(line: Line, x: number): number | null {
  let low = 0;
  let high = line.smoothX.length - 1;
  if (high < 0 || x < (line.smoothX[0] ?? 0) - 1e-9) return null;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((line.smoothX[middle] ?? 0) <= x) low = middle;
    else high = middle - 1;
  }
  return line.smoothY[low] ?? null;
}
