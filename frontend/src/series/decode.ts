// The binary answer of series, as jobs/series/README.md lays it out.

export interface PieceHead {
  stream: number;
  attempt: number;
  rank: number;
  name: string;
  level: number;
  first: number;
  n: number;
  total: number;
  hidden_from: number | null;
  y: [number, number] | null;
  at: number;
}

export interface PageHead {
  type: "series";
  job: number;
  view: string;
  rev: number;
  attempt: number;
  reset: boolean;
  names_total: number;
  pieces: PieceHead[];
}

/** Raw points at level 0, else buckets of 2^level points; columns of equal length. */
export interface Piece {
  head: PieceHead;
  columns: Columns;
}

export type Columns = Record<string, Float64Array | Uint32Array>;

export interface Page {
  head: PageHead;
  pieces: Piece[];
}

const POINT_FLOATS = ["step", "time", "value"];
const BUCKET_FLOATS = ["step_min", "step_max", "time_first", "time_last", "low", "high", "first", "last", "mean"];
const BUCKET_COUNTS = ["finite", "nan", "pos", "neg"];
const MAGIC = 0x31535954; // "TYS1", little-endian

export class BadPage extends Error {}

export function decodePage(buffer: ArrayBuffer): Page {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0, true) !== MAGIC) throw new BadPage("not a page of series");
  const length = view.getUint32(4, true);
  if (8 + length > buffer.byteLength) throw new BadPage("cut inside the header");
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as PageHead;
  const body = 8 + length;
  return { head, pieces: head.pieces.map((piece) => ({ head: piece, columns: columnsAt(buffer, body, piece) })) };
}

function columnsAt(buffer: ArrayBuffer, body: number, head: PieceHead): Columns {
  const floats = head.level === 0 ? POINT_FLOATS : BUCKET_FLOATS;
  const counts = head.level === 0 ? [] : BUCKET_COUNTS;
  let at = body + head.at;
  if (at + head.n * (8 * floats.length + 4 * counts.length) > buffer.byteLength)
    throw new BadPage("cut inside a piece");
  const columns: Columns = {};
  for (const name of floats) {
    columns[name] = new Float64Array(buffer.slice(at, at + 8 * head.n));
    at += 8 * head.n;
  }
  for (const name of counts) {
    columns[name] = new Uint32Array(buffer.slice(at, at + 4 * head.n));
    at += 4 * head.n;
  }
  return columns;
}
