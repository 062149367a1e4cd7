import { t } from "./texts";

// <time datetime data-ago>: relative text that keeps moving, the absolute time with its zone on hover.

function relative(seconds: number): string {
  if (seconds < -5) return t("in {time}", { time: span(-seconds) });
  if (seconds < 5) return t("just now");
  return t("{time} ago", { time: span(seconds) });
}

function span(seconds: number): string {
  if (seconds < 60) return t("{n} s", { n: Math.floor(seconds) });
  if (seconds < 3600) return t("{n} min", { n: Math.floor(seconds / 60) });
  if (seconds < 2 * 86400) return t("{n} h", { n: Math.floor(seconds / 3600) });
  return t("{n} d", { n: Math.floor(seconds / 86400) });
}

/** The portal's clock minus this browser's, told by the page: ages are right on a machine whose clock is wrong. */
let offsetSeconds = 0;

export function portalNow(): number {
  return Date.now() / 1000 + offsetSeconds;
}

function absolute(when: Date): string {
  return when.toLocaleString(document.documentElement.lang, {
    dateStyle: "medium",
    timeStyle: "long",
  });
}

function refresh(): void {
  const now = portalNow();
  for (const element of document.querySelectorAll<HTMLTimeElement>("time[data-ago]")) {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const text = relative(now - when.getTime() / 1000);
    if (element.textContent !== text) element.textContent = text;
    const title = absolute(when);
    if (element.title !== title) element.title = title;
  }
}

export function keepTimesMoving(): void {
  const told = Number(document.documentElement.dataset.now);
  if (told > 0) {
    const drift = told - Date.now() / 1000;
    offsetSeconds = Math.abs(drift) > 5 ? drift : 0;
  }
  refresh();
  setInterval(refresh, 1000);
  document.addEventListener("htmx:after:swap", refresh);
}
