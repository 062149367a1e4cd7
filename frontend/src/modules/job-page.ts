import htmx from "htmx.org";
import { LiveSocket, type Message } from "../base/socket";
import { t } from "../base/texts";
import { Curves } from "../job/curves";
import { bindTabs } from "../job/tabs";
import { UsageCharts } from "../job/usage";
import type { LogPage } from "../log/lines";
import { LogView } from "../log/view";

// A job's page: one socket brings curves, log lines, usage, and word that the text parts (header, events, placements,
// checkpoints) changed, which are then fetched as the server renders them.

const TEXT_PACE_MS = 1000;
const TEXT_PARTS = new Set(["job", "events", "checkpoints"]);

export function mount(root: HTMLElement): () => void {
  let fetchedAt = Date.now();
  let timer = 0;
  let known = 0; // the first message of each kind is what the page shows already
  const { api = "", socket: path = "", moving = "" } = root.dataset;

  const send = (message: object): void => socket.send(message);
  const curves = new Curves(root, send);
  const log = new LogView(root, api, send);
  const usage = new UsageCharts(api);
  const below = root.querySelector<HTMLElement>("[data-usage-below]");
  const own = root.querySelector<HTMLElement>("[data-usage]");
  const placeUsage = (tab: string): void => {
    if (tab === "nodes" && own) usage.moveTo(own);
    if (tab === "curves" && below && curves.axis === "time") usage.moveTo(below);
    if (below) below.hidden = curves.axis !== "time";
  };
  const socket = new LiveSocket(() => path, {
    onOpen: () => {
      curves.ask();
      log.ask();
    },
    onBytes: (bytes) => curves.take(bytes),
    onMessage: take,
  });

  function take(message: Message): void {
    if (message.type === "log") log.take(message as unknown as LogPage);
    else if (message.type === "usage") usage.take(message.nodes as Parameters<UsageCharts["take"]>[0]);
    else if (TEXT_PARTS.has(message.type)) {
      if (message.type === "job") sayWhatComes(String((message.job as { state?: string }).state ?? ""));
      known += 1;
      if (known > TEXT_PARTS.size || message.type === "job") refreshTexts();
    }
  }

  function sayWhatComes(state: string): void {
    const texts: Record<string, string> = {
      queued: t("Curves appear here once the job runs."),
      starting: t("First point expected within a minute of the start."),
      running: t("First point expected within a minute of the start."),
      stopping: t("The job is stopping."),
    };
    curves.say(texts[state] ?? t("This job reported no points."));
  }

  function refreshTexts(): void {
    if (timer) return;
    timer = window.setTimeout(
      () => {
        timer = 0;
        fetchedAt = Date.now();
        void htmx.ajax("GET", moving, { target: "#job-head", swap: "none" });
      },
      Math.max(0, TEXT_PACE_MS - (Date.now() - fetchedAt)),
    );
  }

  bindTabs(root, (name) => {
    if (name === "logs") log.open();
    if (name === "curves") curves.redraw();
    placeUsage(name);
  });
  root.querySelector("[data-curve-axis]")?.addEventListener("change", () => placeUsage("curves"));
  sayWhatComes(root.dataset.state ?? "");
  return () => {
    clearTimeout(timer);
    socket.stop();
    curves.stop();
    log.stop();
    usage.stop();
  };
}
