import htmx from "htmx.org";
import { LiveSocket } from "../base/socket";

// A part of a page that the server renders anew: at once when its socket brings news, at most every `data-every`
// seconds; without a socket by the clock alone. Never while the page is hidden, and once when it is seen again.

export function mount(part: HTMLElement): () => void {
  const paceSeconds = Number(part.dataset.every ?? "1");
  let isDue = false;
  let isBusy = false;
  let refreshedAt = Date.now();
  let timer = 0;

  function refresh(): void {
    timer = 0;
    if (!isDue || isBusy || document.hidden) return;
    isDue = false;
    isBusy = true;
    refreshedAt = Date.now();
    htmx.trigger(part, "refresh");
  }

  function plan(): void {
    isDue = true;
    if (timer || isBusy) return;
    timer = window.setTimeout(refresh, Math.max(0, paceSeconds * 1000 - (Date.now() - refreshedAt)));
  }

  function done(): void {
    isBusy = false;
    const state = part.querySelector<HTMLElement>("[data-part-state]")?.dataset.partState ?? "";
    if (state && part.dataset.reloadWhen?.split(",").includes(state)) location.reload();
    if (isDue || !part.dataset.socket) plan();
  }

  const seen = (): void => {
    if (!document.hidden) plan();
  };
  part.addEventListener("htmx:finally:request", done);
  document.addEventListener("visibilitychange", seen);
  const path = part.dataset.socket;
  let isFirst = true;
  const socket = path
    ? new LiveSocket(() => path, {
        onMessage: () => {
          if (!isFirst) plan();
          isFirst = false; // the first message is what the page shows already
        },
        onOpen: () => {
          if (Date.now() - refreshedAt > 5000) plan();
        },
      })
    : undefined;
  if (!path) plan();
  return () => {
    clearTimeout(timer);
    socket?.stop();
    document.removeEventListener("visibilitychange", seen);
  };
}
