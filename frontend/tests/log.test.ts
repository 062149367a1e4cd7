import { describe, expect, it } from "vitest";
import { plainText, spansOf } from "../src/log/ansi";
import { LogLines, type LogPage, MAX_LINES } from "../src/log/lines";

describe("spansOf", () => {
  it("turns colours into classes and leaves text as text", () => {
    expect(spansOf("a \x1b[1;31mred\x1b[0m <b>")).toEqual([
      { text: "a ", classes: "" },
      { text: "red", classes: "a-fg1 a-bold" },
      { text: " <b>", classes: "" },
    ]);
  });

  it("knows the 256 and the true colours, and ends at nothing", () => {
    expect(spansOf("\x1b[38;5;9mx")[0]?.classes).toBe("a-fg9");
    expect(spansOf("\x1b[38;2;250;10;10mx\x1b[39my").map((span) => span.classes)).toEqual(["a-fg9", ""]);
    expect(spansOf("\x1b[mplain\x1b[38m")).toEqual([{ text: "plain", classes: "" }]);
  });

  it("gives the text alone", () => {
    expect(plainText("\x1b[32mok\x1b[0m")).toBe("ok");
  });
});

function page(start: number, texts: string[], more: Partial<LogPage> = {}): LogPage {
  let at = start;
  const lines = texts.map((text) => {
    const line = { offset: at, text, gap: 0, is_open: false };
    at += text.length + 1;
    return line;
  });
  return { stream: 1, attempt: 1, rank: 0, start, end: at, size: at, lines, ...more };
}

describe("LogLines", () => {
  const texts = (log: LogLines) => log.lines.map((line) => line.text);

  it("replaces an open last line by its longer self", () => {
    const log = new LogLines();
    log.append(page(0, ["one", "tw"], { end: 4 }));
    log.append(page(4, ["two", "three"]));
    expect(texts(log)).toEqual(["one", "two", "three"]);
  });

  it("begins anew with another stream, or after a jump", () => {
    const log = new LogLines();
    log.append(page(0, ["one"]));
    log.append(page(900, ["far"], { skipped: 896 }));
    expect(texts(log)).toEqual(["far"]);
    log.append(page(0, ["other"], { stream: 2 }));
    expect(texts(log)).toEqual(["other"]);
  });

  it("takes earlier lines before its first one, and stays bounded", () => {
    const log = new LogLines();
    log.append(page(8, ["c", "d"]));
    expect(log.prepend(page(0, ["aaa", "bbb"]))).toBe(2);
    expect(texts(log)).toEqual(["aaa", "bbb", "c", "d"]);
    log.append(
      page(
        log.end,
        Array.from({ length: MAX_LINES }, (_, i) => String(i)),
      ),
    );
    expect(log.lines).toHaveLength(MAX_LINES);
  });
});
