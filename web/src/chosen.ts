// The part of the run that the reader has chosen. Charts set it; tables and the matrix follow.
import type { Timeline, PartsOf, Weights } from "./report";

export interface TimeRange {
  /** First part of the timeline, and one past the last. */
  first: number;
  end: number;
}

/** Weights of a part, as shares of the weight of all samples of the run. */
export interface Parts {
  near: number;
  far: number;
  other: number;
  waiting: number;
}

const MILLION = 1e6;
let range: TimeRange | null = null;
let waits = false;
const followers: (() => void)[] = [];

export const chosen = (): TimeRange | null => range;

/** Calls `f` after each change, at most once for each frame. */
export function follow(f: () => void): void {
  followers.push(f);
}

export function choose(to: TimeRange | null): void {
  if (to?.first === range?.first && to?.end === range?.end) return;
  range = to;
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    const begin = performance.now();
    for (const f of followers) f();
    document.documentElement.dataset.followed = (performance.now() - begin).toFixed(1);
  });
}

const add = (list: number[], of: TimeRange): number => {
  let sum = 0;
  for (let part = of.first; part < of.end; part++) sum += list[part] ?? 0;
  return sum / MILLION;
};

export const sum = (w: Weights, of: TimeRange): Parts => ({ near: add(w.near, of), far: add(w.far, of), other: add(w.other, of), waiting: add(w.waiting, of) });

export const total = (p: Parts): number => p.near + p.far + p.other + p.waiting;

/** Seconds at which a part begins; of `parts`, where the last ends. */
export const at = (c: Timeline, part: number): number => c.from_s + ((c.to_s - c.from_s) * part) / c.parts;

/** The part that a time is in. */
export const partOf = (c: Timeline, t: number): number => Math.max(0, Math.min(c.parts - 1, Math.floor(((t - c.from_s) / Math.max(1e-12, c.to_s - c.from_s)) * c.parts)));

export interface Part {
  /** Shares of all samples of the chosen part. */
  share: number;
  near: number;
  far: number;
  other: number;
  /** Far, of what is near or far; null if nothing is. */
  remote: number | null;
}

/** What a row of a table is of the chosen part; null where it is not followed over time. */
export function rowOf(c: Timeline, rows: PartsOf[], row: number): Part | null {
  const own = rows.find((one) => one.row === row);
  return own && range ? part(c, own) : null;
}

export function part(c: Timeline, w: Weights): Part {
  const of = range ?? { first: 0, end: c.parts };
  const all = Math.max(total(sum(c.all, of)), 1e-12);
  const own = sum(w, of);
  const known = own.near + own.far;
  return { share: total(own) / all, near: own.near / all, far: own.far / all, other: (own.other + own.waiting) / all, remote: known > 0 ? own.far / known : null };
}

/** The matrix of the chosen part; null where pairs of nodes are not followed. */
export function matrixOf(c: Timeline, nodes: number): number[][] | null {
  if (c.node_matrix.length === 0) return null;
  const of = range ?? { first: 0, end: c.parts };
  const all = Math.max(total(sum(c.all, of)), 1e-12);
  return Array.from({ length: nodes }, (_, from) =>
    Array.from({ length: nodes }, (_, page_node) => add(c.node_matrix.map((pairs) => pairs[from * nodes + page_node] ?? 0), of) / all),
  );
}
