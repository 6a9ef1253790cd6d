// The part of the run that the reader has chosen. Charts set it; tables and the matrix follow. Of two runs, the same part
// of both is chosen: of a run that took half as long, half as many seconds.
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
/** Of a timeline with this many parts. */
let range: (TimeRange & { parts: number }) | null = null;

export const anyChosen = (): boolean => range !== null;

export function chosen(c: Timeline): TimeRange | null {
  if (!range || range.parts === c.parts) return range;
  const scale = c.parts / range.parts;
  const first = Math.min(c.parts - 1, Math.floor(range.first * scale));
  return { first, end: Math.max(first + 1, Math.min(c.parts, Math.ceil(range.end * scale))) };
}

interface Follower {
  draw: () => void;
  /** False while it is known to be outside of what the reader sees. */
  seen: boolean;
  stale: boolean;
}

const followers: Follower[] = [];
/** After so long without another choice, what is out of sight is drawn, too. */
const REST_MS = 150;
let waits = false;
let rest = 0;

const run = (f: Follower): void => {
  f.stale = false;
  f.draw();
};
const runStale = (): void => followers.filter((f) => f.stale).forEach(run);
/** All of the page shows the choice now, and says which: `data-selected`, the first part and one past the last. */
const settle = (): void => {
  runStale();
  document.documentElement.dataset.selected = range ? `${range.first}-${range.end}` : "";
};

const watched = new WeakMap<Element, Follower>();
const watcher = new IntersectionObserver(
  (entries) =>
    entries.forEach((entry) => {
      const f = watched.get(entry.target);
      if (!f) return;
      f.seen = entry.isIntersecting;
      if (f.seen && f.stale) run(f);
    }),
  { rootMargin: "100px" },
);
// Paper shows everything.
addEventListener("beforeprint", runStale);

/** Calls `draw` after each change: at most once for each frame while `element` is in sight, and otherwise when the reader pauses. */
export function follow(draw: () => void, element?: Element): void {
  const f: Follower = { draw, seen: true, stale: false };
  followers.push(f);
  if (!element) return;
  watched.set(element, f);
  watcher.observe(element);
}

export function choose(c: Timeline, to: TimeRange | null): void {
  if (to?.first === range?.first && to?.end === range?.end && (to === null || range?.parts === c.parts)) return;
  range = to && { ...to, parts: c.parts };
  for (const f of followers) f.stale = true;
  clearTimeout(rest);
  rest = window.setTimeout(settle, REST_MS);
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    for (const f of followers) if (f.seen && f.stale) run(f);
  });
}

type Kind = keyof Parts;
const KINDS: Kind[] = ["near", "far", "other", "waiting"];

/** Entry i is the sum of the first i: a brush asks for sums of ranges often. Entries are whole numbers, so that sums are exact. */
function prefix(list: number[]): Float64Array {
  const sums = new Float64Array(list.length + 1);
  list.forEach((n, at) => (sums[at + 1] = (sums[at] ?? 0) + n));
  return sums;
}

/** What `make` gives, made once for each key. */
function once<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, V>();
  return (key) => {
    let own = made.get(key);
    if (own === undefined) made.set(key, (own = make(key)));
    return own;
  };
}

const sums = once((w: Weights) => new Map(KINDS.map((kind) => [kind, prefix(w[kind])])));
const pairs = once((c: Timeline) => (c.node_matrix[0] ?? []).map((_, pair) => prefix(c.node_matrix.map((of) => of[pair] ?? 0))));
const byRow = once((rows: PartsOf[]) => new Map(rows.map((one) => [one.row, one])));

const within = (list: Float64Array | undefined, of: TimeRange): number => ((list?.[of.end] ?? 0) - (list?.[of.first] ?? 0)) / MILLION;

export function sum(w: Weights, of: TimeRange): Parts {
  const own = sums(w);
  return { near: within(own.get("near"), of), far: within(own.get("far"), of), other: within(own.get("other"), of), waiting: within(own.get("waiting"), of) };
}

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
  /** Waiting for other threads, of what is its own; null if nothing is. */
  waiting: number | null;
}

/** What a row of a table is of the chosen part; null where it is not followed over time. */
export function rowOf(c: Timeline, rows: PartsOf[], row: number): Part | null {
  const own = byRow(rows).get(row);
  return own && range ? part(c, own) : null;
}

export function part(c: Timeline, w: Weights): Part {
  const of = chosen(c) ?? { first: 0, end: c.parts };
  const all = Math.max(total(sum(c.all, of)), 1e-12);
  const own = sum(w, of);
  const known = own.near + own.far;
  return { share: total(own) / all, near: own.near / all, far: own.far / all, other: (own.other + own.waiting) / all, remote: known > 0 ? own.far / known : null, waiting: total(own) > 0 ? own.waiting / total(own) : null };
}

/** The matrix of the chosen part; null where pairs of nodes are not followed. */
export function matrixOf(c: Timeline, nodes: number): number[][] | null {
  if (c.node_matrix.length === 0) return null;
  const of = chosen(c) ?? { first: 0, end: c.parts };
  const all = Math.max(total(sum(c.all, of)), 1e-12);
  const own = pairs(c);
  return Array.from({ length: nodes }, (_, from) => Array.from({ length: nodes }, (_, page_node) => within(own[from * nodes + page_node], of) / all));
}
