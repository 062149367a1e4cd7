// Colours of a log line (SGR codes) as spans with classes. Text goes in as text: nothing a program prints is ever HTML.

export interface Span {
  text: string;
  classes: string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape is what we look for
const SGR = /\x1b\[([0-9;:]*)m/g;

interface Style {
  colour: string;
  ground: string;
  isBold: boolean;
  isDim: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
  isInverse: boolean;
}

const PLAIN: Style = {
  colour: "",
  ground: "",
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
  isInverse: false,
};

/** Split one line; styles do not reach over lines, as each line may be shown alone. */
export function spansOf(line: string): Span[] {
  const spans: Span[] = [];
  let style = { ...PLAIN };
  let at = 0;
  for (const match of line.matchAll(SGR)) {
    if (match.index > at) spans.push({ text: line.slice(at, match.index), classes: classesOf(style) });
    style = restyled(style, match[1] ?? "");
    at = match.index + match[0].length;
  }
  if (at < line.length) spans.push({ text: line.slice(at), classes: classesOf(style) });
  return spans;
}

export function plainText(line: string): string {
  return line.replace(SGR, "");
}

export function fillLine(element: HTMLElement, line: string): void {
  if (!line.includes("\x1b[")) {
    element.textContent = line;
    return;
  }
  element.replaceChildren(
    ...spansOf(line).map(({ text, classes }) => {
      if (!classes) return document.createTextNode(text);
      const span = document.createElement("span");
      span.className = classes;
      span.textContent = text;
      return span;
    }),
  );
}

function restyled(old: Style, codes: string): Style {
  let style = { ...old };
  const parts = codes.split(/[;:]/).map((part) => Number(part || "0"));
  for (let i = 0; i < parts.length; i++) {
    const code = parts[i] ?? 0;
    if (code === 0) style = { ...PLAIN };
    else if (code === 1) style.isBold = true;
    else if (code === 2) style.isDim = true;
    else if (code === 3) style.isItalic = true;
    else if (code === 4) style.isUnderlined = true;
    else if (code === 7) style.isInverse = true;
    else if (code === 22) style.isBold = style.isDim = false;
    else if (code === 23) style.isItalic = false;
    else if (code === 24) style.isUnderlined = false;
    else if (code === 27) style.isInverse = false;
    else if (code >= 30 && code <= 37) style.colour = String(code - 30);
    else if (code >= 90 && code <= 97) style.colour = String(code - 90 + 8);
    else if (code === 39) style.colour = "";
    else if (code >= 40 && code <= 47) style.ground = String(code - 40);
    else if (code >= 100 && code <= 107) style.ground = String(code - 100 + 8);
    else if (code === 49) style.ground = "";
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(parts.slice(i + 1));
      if (code === 38) style.colour = colour;
      else style.ground = colour;
      i += used;
    }
  }
  return style;
}

/** `5;n` and `2;r;g;b` as the nearest of our sixteen, so that both themes stay readable. */
function extended(rest: number[]): [string, number] {
  if (rest[0] === 5) {
    const n = rest[1] ?? 0;
    if (n < 16) return [String(n), 2];
    if (n >= 232) return [n < 244 ? "8" : "7", 2];
    const cube = n - 16;
    return [nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51), 2];
  }
  if (rest[0] === 2) return [nearest(rest[1] ?? 0, rest[2] ?? 0, rest[3] ?? 0), 4];
  return ["", 0];
}

function nearest(red: number, green: number, blue: number): string {
  const most = Math.max(red, green, blue);
  if (most < 48) return "8";
  const bits = (red > most / 2 ? 1 : 0) + (green > most / 2 ? 2 : 0) + (blue > most / 2 ? 4 : 0);
  return String(bits + (most > 200 ? 8 : 0));
}

function classesOf(style: Style): string {
  const found: string[] = [];
  if (style.colour) found.push(`a-fg${style.colour}`);
  if (style.ground) found.push(`a-bg${style.ground}`);
  if (style.isBold) found.push("a-bold");
  if (style.isDim) found.push("a-dim");
  if (style.isItalic) found.push("a-italic");
  if (style.isUnderlined) found.push("a-underline");
  if (style.isInverse) found.push("a-inverse");
  return found.join(" ");
}
