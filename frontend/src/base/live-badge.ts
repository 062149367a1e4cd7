import { duration } from "./format";
import { t } from "./texts";

// How fresh the page is, in one place at the top: live, catching up, or stale since when.

export type Freshness = "live" | "catching-up" | "stale";

export class LiveBadge {
  private readonly element = document.querySelector<HTMLElement>("#live-badge");
  private staleSince = 0;
  private readonly timer = window.setInterval(() => this.refresh(), 1000);
  private state: Freshness = "catching-up";

  show(state: Freshness, staleSeconds = 0): void {
    if (state === "stale" && this.state !== "stale") this.staleSince = Date.now() - staleSeconds * 1000;
    this.state = state;
    this.refresh();
  }

  stop(): void {
    clearInterval(this.timer);
    if (this.element) this.element.hidden = true;
  }

  private refresh(): void {
    const text = this.element?.querySelector("[data-text]");
    if (!this.element || !text) return;
    this.element.hidden = false;
    this.element.dataset.state = this.state;
    const words = {
      live: t("live"),
      "catching-up": t("catching up"),
      stale: t("stale {time}", { time: duration((Date.now() - this.staleSince) / 1000) }),
    };
    if (text.textContent !== words[this.state]) text.textContent = words[this.state];
  }
}
