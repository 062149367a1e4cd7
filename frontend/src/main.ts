import "./styles/main.css";
import "./favicon.svg?url";
import "./icons.svg?url";
import htmx from "htmx.org";
import { csrfToken } from "./base/csrf";
import { bindKeyboard } from "./base/keyboard";
import { bindModules } from "./base/modules";
import { loadTexts } from "./base/texts";
import { keepTimesMoving } from "./base/times";

// Every request htmx sends carries the CSRF token.
document.addEventListener("htmx:config:request", (event) => {
  const { ctx } = (event as CustomEvent<{ ctx: { request: { headers: Record<string, string> } } }>).detail;
  ctx.request.headers["X-CSRFToken"] = csrfToken();
});
htmx.config.history = "reload";

bindKeyboard();
void loadTexts().then(() => {
  keepTimesMoving();
  bindModules({
    rail: () => import("./modules/rail"),
    "theme-switch": () => import("./modules/theme-switch"),
    copy: () => import("./modules/copy"),
    confirm: () => import("./modules/confirm"),
    "auto-submit": () => import("./modules/auto-submit"),
    "live-part": () => import("./modules/live-part"),
    uploads: () => import("./modules/uploads"),
    "job-form": () => import("./modules/job-form"),
    "job-page": () => import("./modules/job-page"),
  });
});
