import uPlot from "uplot";
import { bytes } from "../base/format";
import { t } from "../base/texts";
import { portalNow } from "../base/times";
import { CLOCK_AXIS } from "../series/chart";
import { cssColour, seriesColour } from "../series/colours";

// CPU, memory and devices of the job's nodes on one axis of time, which is also the curves' when those run along time:
// then the charts stand below them and share their cursor. History comes once by REST, the newest samples by the socket.

interface NodeUsage {
  id: string;
  name: string;
  usage: { cpu?: number; memory_used_bytes?: number };
  devices: { index: number; kind: string; usage: { utilisation?: number | null } }[];
}

interface History {
  node: string;
  name: string;
  time: number[];
  cpu: (number | null)[];
  memory_used_bytes: (number | null)[];
  device_utilisation: (number | null)[][];
}

interface Track {
  label: string;
  times: number[];
  values: (number | null)[];
}

type Kind = "cpu" | "memory" | "devices";

const KEPT = 7200;
const MAX_TRACKS = 40;
const ROUND_BYTES: uPlot.Axis = { incrs: Array.from({ length: 50 }, (_, i) => 2 ** i) };
const HEIGHT = 150;

export class UsageCharts {
  readonly element = document.createElement("div");
  private readonly tracks = new Map<string, Track>();
  private readonly plots = new Map<Kind, { plot: uPlot; shape: string }>();
  private readonly resize = new ResizeObserver(() => this.draw());
  private isLoaded = false;
  private timer = 0;

  constructor(private readonly api: string) {
    this.element.className = "usage-charts";
    this.resize.observe(this.element);
  }

  /** Show the charts within `place`. */
  moveTo(place: HTMLElement): void {
    if (this.element.parentElement !== place) place.append(this.element);
    void this.load();
    this.draw();
  }

  take(nodes: NodeUsage[]): void {
    const now = portalNow();
    for (const node of nodes) {
      this.note(`cpu/${node.id}`, node.name, now, node.usage.cpu);
      this.note(`memory/${node.id}`, node.name, now, node.usage.memory_used_bytes);
      for (const device of node.devices) {
        this.note(
          `devices/${node.id}/${device.index}`,
          `${node.name} · ${device.index}`,
          now,
          device.usage.utilisation,
        );
      }
    }
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.draw();
    }, 500);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.resize.disconnect();
    for (const { plot } of this.plots.values()) plot.destroy();
  }

  private async load(): Promise<void> {
    if (this.isLoaded) return;
    this.isLoaded = true;
    try {
      const answer = await fetch(`${this.api}usage/`, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      for (const part of (await answer.json()) as History[]) this.prepend(part);
      this.draw();
    } catch {
      this.isLoaded = false; // the next opening tries again
    }
  }

  private prepend(part: History): void {
    const add = (key: string, label: string, values: (number | null)[]): void => {
      const track = this.track(key, label);
      const first = track.times[0] ?? Number.POSITIVE_INFINITY;
      const count = part.time.findIndex((time) => time >= first);
      const kept = count < 0 ? part.time.length : count;
      track.times.unshift(...part.time.slice(0, kept));
      track.values.unshift(...values.slice(0, kept));
    };
    add(`cpu/${part.node}`, part.name, part.cpu);
    add(`memory/${part.node}`, part.name, part.memory_used_bytes);
    part.device_utilisation.forEach((values, i) => {
      add(`devices/${part.node}/${i}`, `${part.name} · ${i}`, values);
    });
  }

  private track(key: string, label: string): Track {
    const known = this.tracks.get(key) ?? { label, times: [], values: [] };
    this.tracks.set(key, known);
    return known;
  }

  private note(key: string, label: string, time: number, value: number | null | undefined): void {
    if (value === undefined || value === null) return;
    const track = this.track(key, label);
    if (time <= (track.times.at(-1) ?? 0)) return;
    track.times.push(time);
    track.values.push(value);
    if (track.times.length > KEPT) {
      track.times.shift();
      track.values.shift();
    }
  }

  private draw(): void {
    if (this.element.clientWidth === 0) return; // nobody looks
    const share = (y: number): string => `${Math.round(y * 100)} %`;
    this.chart("cpu", t("CPU"), share);
    this.chart("memory", t("Memory"), bytes);
    this.chart("devices", t("Devices"), share);
  }

  private chart(kind: Kind, title: string, format: (y: number) => string): void {
    const found = [...this.tracks].filter(
      ([key, track]) => key.startsWith(`${kind}/`) && track.values.some((value) => value !== null),
    );
    const shown = found.slice(0, MAX_TRACKS).map(([, track]) => track);
    if (shown.length === 0) return;
    const data = uPlot.join(shown.map((track) => [track.times, track.values] as uPlot.AlignedData));
    if (data[0].length < 2) return; // an axis of one moment shows nothing
    const place = this.placeFor(kind, title);
    const shape = `${shown.map((track) => track.label).join("|")}/${document.documentElement.dataset.bsTheme}`;
    const old = this.plots.get(kind);
    if (old?.shape === shape) {
      if (old.plot.width !== place.clientWidth) old.plot.setSize({ width: place.clientWidth, height: HEIGHT });
      old.plot.setData(data);
      return;
    }
    old?.plot.destroy();
    const plot = new uPlot(settings(kind, shown, format, place.clientWidth), data, place);
    this.plots.set(kind, { plot, shape });
  }

  private placeFor(kind: Kind, title: string): HTMLElement {
    const known = this.element.querySelector<HTMLElement>(`[data-kind="${kind}"]`);
    if (known) return known;
    const card = document.createElement("article");
    const head = document.createElement("div");
    const words = document.createElement("h2");
    const place = document.createElement("div");
    card.className = "card chart";
    head.className = "chart-head";
    words.textContent = title;
    place.className = "chart-plain";
    place.dataset.kind = kind;
    head.append(words);
    card.append(head, place);
    this.element.append(card);
    return place;
  }
}

function settings(kind: Kind, tracks: Track[], format: (y: number) => string, width: number): uPlot.Options {
  const stroke = cssColour("--ink-3");
  const grid = { stroke: cssColour("--line-soft"), width: 1 };
  const axis = { stroke, grid, ticks: grid, font: "11px system-ui, sans-serif" };
  const range = kind === "memory" ? (_plot: uPlot, _low: number, high: number) => [0, (high || 1) * 1.05] : [0, 1];
  return {
    width: Math.max(120, width),
    height: HEIGHT,
    padding: [8, 12, 0, 0],
    cursor: { sync: { key: "job", scales: ["x", null], setSeries: false } },
    legend: { show: tracks.length <= 12, live: true },
    scales: {
      y: { range: range as uPlot.Scale.Range },
    },
    axes: [
      { ...axis, size: 26, ...CLOCK_AXIS },
      { ...axis, size: 64, values: (_plot, splits) => splits.map(format), ...(kind === "memory" ? ROUND_BYTES : {}) },
    ],
    series: [
      { label: t("time") },
      ...tracks.map((track, i) => ({
        label: track.label,
        stroke: seriesColour(i),
        width: 1.25,
        spanGaps: true,
        value: (_plot: uPlot, y: number | null) => (y === null ? "–" : format(y)),
      })),
    ],
  };
}
