import { describe, expect, it } from "vitest";
import type { Piece } from "../src/series/decode";
import { lineOf, paddedRange, smooth } from "../src/series/lines";

function rawPiece(steps: number[], values: number[]): Piece {
  const n = steps.length;
  const head = {
    stream: 1,
    attempt: 1,
    rank: 0,
    name: "loss",
    level: 0,
    first: 0,
    n,
    total: n,
    hidden_from: null,
    y: null,
    at: 0,
  };
  return {
    head,
    columns: { step: new Float64Array(steps), time: new Float64Array(steps), value: new Float64Array(values) },
  };
}

describe("lineOf", () => {
  it("marks what is not finite and keeps the finite values", () => {
    const line = lineOf(rawPiece([0, 1, 2, 3, 4], [1, Number.NaN, Infinity, -Infinity, 2]), "step", 0);
    expect(line.marks).toEqual([1, 2, 3]);
    expect(line.rawY).toEqual([1, null, null, null, 2]);
    expect(line.last).toBe(2);
  });

  it("draws steps that came out of order in their order, none lost", () => {
    const line = lineOf(rawPiece([5, 1, 5], [50, 10, 51]), "step", 0);
    expect(line.rawY).toEqual([10, 50, 51]);
    expect(line.rawX.every((x, i) => i === 0 || x > (line.rawX[i - 1] ?? x))).toBe(true);
  });

  it("keeps a bucket's low and high in the raw line", () => {
    const one = (value: number) => new Float64Array([value]);
    const count = (value: number) => new Uint32Array([value]);
    const { head } = rawPiece([0], [0]);
    const columns = {
      step_min: one(0),
      step_max: one(15),
      time_first: one(0),
      time_last: one(1),
      low: one(-3),
      high: one(9),
      first: one(1),
      last: one(2),
      mean: one(1.5),
      finite: count(15),
      nan: count(1),
      pos: count(0),
      neg: count(0),
    };
    const line = lineOf({ head: { ...head, level: 4 }, columns }, "step", 0);
    expect([line.rawX, line.rawY]).toEqual([
      [0, 15],
      [-3, 9],
    ]);
    expect([line.smoothX, line.smoothY, line.marks, line.last]).toEqual([[7.5], [1.5], [7.5], 2]);
  });
});

it("smooths without the pull to the first value", () => {
  expect(smooth([2, 2, null, 2], 0.9)).toEqual([2, 2, null, 2].map((v) => (v === null ? null : expect.closeTo(v))));
  expect(smooth([1, 5], 0)).toEqual([1, 5]);
});

it("gives the axis 5 % head room, also to a flat line", () => {
  expect(paddedRange(1, 2)).toEqual([0.95, 2.05]);
  expect(paddedRange(0, 0)).toEqual([-1, 1]);
});
