import type { Piece } from "./decode";

// From a piece to what is drawn: the raw line (with each bucket's low and high, so that no spike is lost), the smoothed
// one, and marks where a value was not finite.

export type Axis = "step" | "time";

export interface Line {
  rank: number;
  attempt: number;
  rawX: number[];
  rawY: (number | null)[];
  smoothX: number[];
  smoothY: (number | null)[];
  marks: number[]; // x of NaN, +inf, -inf
  last: number | null;
  firstStep: number;
}

export function lineOf(piece: Piece, axis: Axis, smoothing: number): Line {
  const line: Line = {
    rank: piece.head.rank,
    attempt: piece.head.attempt,
    rawX: [],
    rawY: [],
    smoothX: [],
    smoothY: [],
    marks: [],
    last: null,
    firstStep: 0,
  };
  if (piece.head.level === 0) addPoints(line, piece, axis);
  else addBuckets(line, piece, axis);
  line.smoothY = smooth(line.smoothY, smoothing);
  return sorted(line);
}

function addPoints(line: Line, { head, columns }: Piece, axis: Axis): void {
  const xs = columns[axis];
  const values = columns.value;
  line.firstStep = columns.step?.[0] ?? 0;
  for (let i = 0; i < head.n; i++) {
    const x = xs?.[i] ?? 0;
    const y = values?.[i] ?? Number.NaN;
    if (Number.isFinite(y)) line.last = y;
    else line.marks.push(x);
    const shown = Number.isFinite(y) ? y : null;
    line.rawX.push(x);
    line.rawY.push(shown);
    line.smoothX.push(x);
    line.smoothY.push(shown);
  }
}

function addBuckets(line: Line, { head, columns }: Piece, axis: Axis): void {
  const [from, to] = axis === "step" ? ["step_min", "step_max"] : ["time_first", "time_last"];
  const of = (name: string, i: number): number => columns[name]?.[i] ?? Number.NaN;
  line.firstStep = of("step_min", 0);
  for (let i = 0; i < head.n; i++) {
    const left = of(from ?? "", i);
    const right = of(to ?? "", i);
    const middle = (left + right) / 2;
    if (of("nan", i) + of("pos", i) + of("neg", i) > 0) line.marks.push(middle);
    const isKnown = of("finite", i) > 0;
    line.rawX.push(left, Math.max(left, right));
    line.rawY.push(isKnown ? of("low", i) : null, isKnown ? of("high", i) : null);
    line.smoothX.push(middle);
    line.smoothY.push(isKnown ? of("mean", i) : null);
    if (isKnown) line.last = of("last", i);
  }
}

/** Exponential moving average without the pull to the first value; `weight` 0 leaves everything as it is. */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let sum = 0;
  let norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    norm = norm * weight + (1 - weight);
    return sum / norm;
  });
}

/** Charts need growing x; a script may report steps in any order, and clocks may go backwards. */
function sorted(line: Line): Line {
  return { ...line, ...sortedPair(line, "rawX", "rawY"), ...sortedPair(line, "smoothX", "smoothY") };
}

function sortedPair(line: Line, x: "rawX" | "smoothX", y: "rawY" | "smoothY"): Partial<Line> {
  const xs = line[x];
  if (xs.every((value, i) => i === 0 || value > (xs[i - 1] ?? value))) return {};
  const order = xs.map((_, i) => i).sort((a, b) => (xs[a] ?? 0) - (xs[b] ?? 0) || a - b);
  return { [x]: spread(order.map((i) => xs[i] ?? 0)), [y]: order.map((i) => line[y][i] ?? null) };
}

/** Equal x would be one place for two values; the later ones move by the smallest visible amount. */
function spread(xs: number[]): number[] {
  const range = (xs.at(-1) ?? 0) - (xs[0] ?? 0) || 1;
  let last = Number.NEGATIVE_INFINITY;
  return xs.map((x) => {
    last = x > last ? x : last + range * 1e-9;
    return last;
  });
}

/** The axis of finite values with 5 % head room. */
export function paddedRange(low: number, high: number): [number, number] {
  if (low === high) {
    const room = Math.abs(low) * 0.05 || 1;
    return [low - room, high + room];
  }
  const room = (high - low) * 0.05;
  return [low - room, high + room];
}
