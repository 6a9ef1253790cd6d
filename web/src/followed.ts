// Cells of tables that follow the chosen part of the run. Of a row, `undefined` is: nothing is chosen, the row's own
// figures hold; null: it is not followed over time, so its part of the part is unknown.
import { chosen, type Part, part, rowOf } from "./chosen";
import { bar } from "./marks";
import type { Report, ThreadParts, Timeline } from "./report";

/** Of several rows of a table together; null where one of them is not followed over time. */
export function chosenRows(r: Report, table: "objects" | "functions", rows: number[]): Chosen {
  const c = r.pictures.timeline;
  if (!c || !chosen(c)) return undefined;
  const all = rows.map((row) => rowOf(c, c[table], row));
  if (all.length === 0 || all.includes(null)) return null;
  const add = (of: (p: Part) => number): number => all.reduce((sum, p) => sum + (p ? of(p) : 0), 0);
  const [near, far] = [add((p) => p.near), add((p) => p.far)];
  return { share: add((p) => p.share), near, far, other: add((p) => p.other), remote: near + far > 0 ? far / (near + far) : null, waiting: null };
}

const byTid = new WeakMap<Timeline, Map<number, ThreadParts>>();
function threadOf(c: Timeline, tid: number): ThreadParts | undefined {
  let own = byTid.get(c);
  if (!own) byTid.set(c, (own = new Map(c.threads.map((t) => [t.tid, t]))));
  return own.get(tid);
}

export type Chosen = Part | null | undefined;

export function chosenPart(r: Report, table: "objects" | "functions", row: number): Chosen {
  const c = r.pictures.timeline;
  return c && chosen(c) ? rowOf(c, c[table], row) : undefined;
}

export function chosenThread(r: Report, tid: number): Chosen {
  const c = r.pictures.timeline;
  if (!c || !chosen(c)) return undefined;
  const own = threadOf(c, tid);
  return own ? part(c, own) : null;
}

export const shareOf = (p: Chosen, own: number | null): number | null => (p === undefined ? own : (p?.share ?? null));
export const farOf = (p: Chosen, own: number): number | null => (p === undefined ? own : (p?.far ?? null));
export const remoteOf = (p: Chosen, own: number | null): number | null => (p === undefined ? own : (p?.remote ?? null));
/** What of the chosen part is waiting for other threads. */
export const waitingOf = (p: Chosen, own: number | null): number | null => (p === undefined ? own : (p?.waiting ?? null));
export const barOf = (p: Chosen, own: () => HTMLElement): HTMLElement => (p === undefined ? own() : p === null ? bar(0, 0, 1) : bar(p.near, p.far, p.other));
