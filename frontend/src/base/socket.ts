import { LiveBadge } from "./live-badge";

// One socket of a live page: it comes back by itself, tells the badge, and asks anew for everything after a break.

const SIGNED_OUT = 4401;
const NOT_FOUND = 4404;
const SILENT_SECONDS = 6; // the portal sends a pulse at least every two
const LONGEST_WAIT_SECONDS = 10;

interface Pulse {
  type: "pulse";
  status: "live" | "catching up" | "stale";
  stale_seconds: number;
}

export interface Message {
  type: string;
  [key: string]: unknown;
}

export interface SocketHandlers {
  onOpen?: () => void;
  onMessage?: (message: Message) => void;
  onBytes?: (bytes: ArrayBuffer) => void;
}

export class LiveSocket {
  private socket: WebSocket | undefined;
  private readonly badge = new LiveBadge();
  private heardAt = Date.now();
  private failures = 0;
  private isFresh = true;
  private retry = 0;
  private isStopped = false;
  private readonly watch = window.setInterval(() => this.check(), 1000);

  /** `path` is asked anew for each connection, so that it can carry a cursor. */
  constructor(
    private readonly path: () => string,
    private readonly handlers: SocketHandlers,
  ) {
    window.addEventListener("online", this.hurry);
    this.connect();
  }

  send(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  stop(): void {
    this.isStopped = true;
    clearInterval(this.watch);
    clearTimeout(this.retry);
    window.removeEventListener("online", this.hurry);
    this.socket?.close();
    this.badge.stop();
  }

  private readonly hurry = (): void => {
    if (this.isStopped || this.socket?.readyState === WebSocket.OPEN) return;
    clearTimeout(this.retry);
    this.connect();
  };

  private connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}${this.path()}`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.addEventListener("open", () => {
      this.heard();
      this.failures = 0;
      this.isFresh = true;
      this.badge.show("catching-up");
      this.handlers.onOpen?.();
    });
    socket.addEventListener("message", (event: MessageEvent<string | ArrayBuffer>) => {
      this.heard();
      if (typeof event.data === "string") this.take(JSON.parse(event.data) as Message);
      else this.handlers.onBytes?.(event.data);
    });
    socket.addEventListener("close", (event) => this.closed(socket, event.code));
  }

  private take(message: Message): void {
    if (message.type === "pulse") this.pulse(message as unknown as Pulse);
    else {
      this.handlers.onMessage?.(message);
      if (this.isFresh) this.badge.show("live"); // the state has come; the next pulse says how it goes on
      this.isFresh = false;
    }
  }

  private pulse(pulse: Pulse): void {
    if (pulse.status === "live") this.badge.show("live");
    else if (pulse.status === "catching up") this.badge.show("catching-up");
    else this.badge.show("stale", pulse.stale_seconds);
  }

  private heard(): void {
    this.heardAt = Date.now();
  }

  private check(): void {
    const silent = (Date.now() - this.heardAt) / 1000;
    if (silent > SILENT_SECONDS) this.badge.show("stale", silent);
    if (silent > 3 * SILENT_SECONDS && this.socket?.readyState === WebSocket.OPEN) this.socket.close();
  }

  private closed(socket: WebSocket, code: number): void {
    if (this.isStopped || socket !== this.socket) return;
    if (code === SIGNED_OUT || code === NOT_FOUND) {
      location.reload(); // the page itself says it: sign in again, or nothing here any longer
      return;
    }
    this.badge.show("stale", (Date.now() - this.heardAt) / 1000);
    this.failures += 1;
    const longest = Math.min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** Math.min(this.failures, 6));
    this.retry = window.setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2) * 1000);
  }
}
