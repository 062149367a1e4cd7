import uPlot from "uplot";
import { bytes } from "../base/format";
import { t } from "../base/texts";
import { portalNow } from "../base/times";
import { cssColour, seriesColour } from "../series/colours";

// CPU, memory and devices of the job's nodes on one axis of time, shared with the curves' cursor. History comes once by
// REST; the newest samples by the socket.

interface NodeUsage {
  id: string;
  name: string;
  usage: { cpu?: number; memory_used_bytes?: number };
  devices: { index: number; kind: string; usage: { utilisation?: number | null } }[];
}

interface Track {
  label: string;
  values: (number | null)[];
}

const KEPT = 3600;

export class UsageCharts {
  private readonly times: number[] = [];
  private readonly tracks = new Map<string, Track>();
  private readonly plots = new Map<string, uPlot>();
  private readonly resize = new ResizeObserver(() => this.fit());

  constructor(private readonly root: HTMLElement) {
    this.resize.observe(root);
  }

  take(nodes: NodeUsage[]): void {
    if (nodes.length === 0) return;
    this.times.push(portalNow());
    const seen = new Set<string>();
    for (const node of nodes) {
      this.note(seen, `cpu/${node.id}`, node.name, node.usage.cpu);
      this.note(seen, `memory/${node.id}`, node.name, node.usage.memory_used_bytes);
      for (const device of node.devices) {
        const label = `${node.name} · ${device.kind} ${device.index}`;
        this.note(seen, `devices/${node.id}/${device.index}`, label, device.usage.utilisation ?? undefined);
      }
    }
    for (const [key, track] of this.tracks) if (!seen.has(key)) track.values.push(null);
    if (this.times.length > KEPT) {
      this.times.shift();
      for (const track of this.tracks.values()) track.values.shift();
    }
    this.draw();
  }

  draw(): void {
    if (this.root.clientWidth === 0) return; // its tab is closed
    this.chart("cpu", t("CPU"), (y) => `${Math.round(y * 100)} %`, [0, 1]);
    this.chart("memory", t("Memory"), (y) => bytes(y));
    this.chart("devices", t("Devices"), (y) => `${Math.round(y * 100)} %`, [0, 1]);
  }

  stop(): void {
    this.resize.disconnect();
    for (const plot of this.plots.values()) plot.destroy();
  }

  private note(seen: Set<string>, key: string, label: string, value: number | undefined): void {
    if (value === undefined || value === null) return;
    seen.add(key);
    let track = this.tracks.get(key);
    if (!track) {
      track = { label, values: new Array(this.times.length - 1).fill(null) };
      this.tracks.set(key, track);
    }
    track.values.push(value);
  }

  private chart(kind: string, title: string, format: (y: number) => string, range?: [number, number]): void {
    const found = [...this.tracks].filter(([key]) => key.startsWith(`${kind}/`)).slice(0, 40);
    if (found.length === 0) return;
    const data = [this.times, ...found.map(([, track]) => track.values)] as uPlot.AlignedData;
    const shape = `${kind}:${found.length}:${document.documentElement.dataset.bsTheme}`;
    const old = this.plots.get(kind);
    if (old?.root.dataset.shape === shape) {
      old.setData(data);
      return;
    }
    const place = this.placeFor(kind, title);
    old?.destroy();
    const ink = cssColour("--ink-3");
    const grid = { stroke: cssColour("--line-soft"), width: 1 };
    const plot = new uPlot(
      {
        width: Math.max(120, place.clientWidth),
        height: 150,
        padding: [8, 12, 0, 0],
        cursor: { sync: { key: "usage" } },
        legend: { show: true, live: true },
        scales: { y: range ? { range } : { range: (_plot, _low, high) => [0, (high || 1) * 1.05] } },
        axes: [
          { stroke: ink, grid, ticks: grid, font: "11px system-ui", size: 26 },
          { stroke: ink, grid, ticks: grid, font: "11px system-ui", size: 64, values: (_plot, ys) => ys.map(format) },
        ],
        series: [
          { label: t("time") },
          ...found.map(([, track], i) => ({
            label: track.label,
            stroke: seriesColour(i),
            width: 1.25,
            value: (_plot: uPlot, y: number | null) => (y === null ? "–" : kind === "memory" ? bytes(y) : format(y)),
          })),
        ],
      },
      data,
      place,
    );
    plot.root.dataset.shape = shape;
    this.plots.set(kind, plot);
  }

  private placeFor(kind: string, title: string): HTMLElement {
    const known = this.root.querySelector<HTMLElement>(`[data-kind="${kind}"]`);
    if (known) return known;
    const card = document.createElement("article");
    card.className = "card chart";
    const head = document.createElement("div");
    head.className = "chart-head";
    const words = document.createElement("h2");
    words.textContent = title;
    head.append(words);
    const place = document.createElement("div");
    place.className = "chart-place";
    place.dataset.kind = kind;
    card.append(head, place);
    this.root.append(card);
    return place;
  }

  private fit(): void {
    for (const [kind, plot] of this.plots) {
      const width = this.root.querySelector(`[data-kind="${kind}"]`)?.clientWidth ?? 0;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: 150 });
    }
    if (this.plots.size === 0) this.draw();
  }
}
