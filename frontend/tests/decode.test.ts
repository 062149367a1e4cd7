import { describe, expect, it } from "vitest";
import { BadPage, decodePage, type PieceHead } from "../src/series/decode";
import { SeriesStore } from "../src/series/store";

/** A page as jobs/series/README.md lays it out. */
function page(pieces: (Partial<PieceHead> & { columns: number[][]; counts?: number[][] })[], head = {}): ArrayBuffer {
  let at = 0;
  const heads = pieces.map(({ columns, counts, ...piece }) => {
    const n = columns[0]?.length ?? 0;
    const told = {
      stream: 1,
      attempt: 1,
      rank: 0,
      name: "loss",
      level: 0,
      first: 0,
      total: n,
      n,
      y: null,
      at,
      ...piece,
    };
    at += n * (8 * columns.length + 4 * (counts?.length ?? 0));
    return told;
  });
  let text = JSON.stringify({
    type: "series",
    job: 1,
    view: "main",
    rev: 1,
    attempt: 1,
    reset: false,
    names_total: 1,
    ...head,
    pieces: heads,
  });
  while ((8 + new TextEncoder().encode(text).length) % 8) text += " ";
  const bytes = new TextEncoder().encode(text);
  const buffer = new ArrayBuffer(8 + bytes.length + at);
  const view = new DataView(buffer);
  new Uint8Array(buffer).set(new TextEncoder().encode("TYS1"));
  view.setUint32(4, bytes.length, true);
  new Uint8Array(buffer).set(bytes, 8);
  let place = 8 + bytes.length;
  for (const { columns, counts } of pieces) {
    for (const value of columns.flat()) {
      view.setFloat64(place, value, true);
      place += 8;
    }
    for (const value of (counts ?? []).flat()) {
      view.setUint32(place, value, true);
      place += 4;
    }
  }
  return buffer;
}

const raw = (steps: number[], values: number[]) => [steps, steps.map((step) => 1e9 + step), values];

describe("decodePage", () => {
  it("gives exactly the five values, NaN and infinities among them", () => {
    const values = [1, Number.NaN, Infinity, -Infinity, 2];
    const { pieces } = decodePage(page([{ columns: raw([0, 1, 2, 3, 4], values) }]));
    expect([...(pieces[0]?.columns.value ?? [])]).toEqual(values);
  });

  it("reads buckets with their counts, and names in any script", () => {
    const floats = [[0], [7], [1], [2], [0.1], [0.9], [0.5], [0.4], [0.45]];
    const buffer = page([{ name: "损失", level: 3, columns: floats, counts: [[6], [1], [1], [0]] }]);
    const piece = decodePage(buffer).pieces[0];
    expect(piece?.head.name).toBe("损失");
    expect(piece?.columns.mean?.[0]).toBe(0.45);
    expect(piece?.columns.nan?.[0]).toBe(1);
  });

  it("refuses what is no page, and a page that was cut", () => {
    expect(() => decodePage(new ArrayBuffer(4))).toThrow(BadPage);
    const whole = page([{ columns: raw([0, 1], [1, 2]) }]);
    expect(() => decodePage(whole.slice(0, whole.byteLength - 8))).toThrow(BadPage);
  });
});

describe("SeriesStore", () => {
  const values = (store: SeriesStore) => [...(store.of("loss")[0]?.columns.value ?? [])];

  it("replaces the tail from its first index and never adds twice", () => {
    const store = new SeriesStore();
    store.apply(decodePage(page([{ columns: raw([0, 1, 2], [1, 2, 3]) }])));
    const tail = page([{ first: 2, columns: raw([2, 3], [30, 40]) }], { rev: 2 });
    store.apply(decodePage(tail));
    store.apply(decodePage(tail));
    expect(values(store)).toEqual([1, 2, 30, 40]);
    expect(store.rev).toBe(2);
  });

  it("asks again when a message was lost", () => {
    const store = new SeriesStore();
    expect(store.apply(decodePage(page([{ first: 5, columns: raw([5], [1]) }])))).toBeUndefined();
    store.apply(decodePage(page([{ columns: raw([0, 1], [1, 2]) }])));
    expect(store.apply(decodePage(page([{ first: 4, columns: raw([4], [1]) }])))).toBeUndefined();
  });

  it("drops everything when a new attempt has hidden some", () => {
    const store = new SeriesStore();
    store.apply(decodePage(page([{ columns: raw([0], [1]) }, { stream: 2, name: "acc", columns: raw([0], [1]) }])));
    const changed = store.apply(decodePage(page([{ stream: 3, columns: raw([0], [9]) }], { reset: true, rev: 3 })));
    expect(changed).toEqual(new Set(["loss", "acc"]));
    expect(store.names()).toEqual(["loss"]);
  });
});
