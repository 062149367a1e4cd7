import { describe, expect, it } from "vitest";
import { bytes, duration, value } from "../src/base/format";
import { Speed } from "../src/upload/speed";

it("writes bytes in binary units and durations in words", () => {
  expect([0, 1023, 1536, 5 * 2 ** 30].map(bytes)).toEqual(["0 B", "1023 B", "1.50 KiB", "5.00 GiB"]);
  expect([5, 125, 7500, 200_000].map(duration)).toEqual(["5 s", "2 min 05 s", "2 h 05 min", "2 d 7 h"]);
});

it("writes values short, and names what is not finite", () => {
  expect([0.000012345, 0.123456, 12, 1e7].map((one) => value(one))).toEqual(["1.234e-5", "0.12346", "12", "1.000e7"]);
  expect([Number.NaN, Infinity, -Infinity, null].map((one) => value(one))).toEqual(["NaN", "∞", "−∞", "–"]);
});

describe("Speed", () => {
  it("tells nothing too early, then bytes a second over the last seconds", () => {
    const speed = new Speed();
    speed.note(0, 0);
    expect(speed.perSecond()).toBeUndefined();
    speed.note(1000, 1000);
    expect(speed.perSecond()).toBe(1000);
    for (let second = 2; second <= 20; second++) speed.note(1000 + (second - 1) * 10, second * 1000);
    expect(speed.perSecond()).toBeCloseTo(10);
  });

  it("begins anew when bytes are sent again", () => {
    const speed = new Speed();
    speed.note(5000, 0);
    speed.note(1000, 100);
    expect(speed.perSecond()).toBeUndefined();
  });
});
