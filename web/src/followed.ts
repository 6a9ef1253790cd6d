// Cells of tables that follow the chosen part of the run. Of a row, `undefined` is: nothing is chosen, the row's own
// figures hold; null: it is not followed over time, so its part of the part is unknown.
import { chosen, type Part, part, rowOf } from "./chosen";
import { bar } from "./marks";
import type { Report } from "./report";

export type Chosen = Part | null | undefined;

export function chosenPart(r: Report, table: "objects" | "functions", row: number): Chosen {
  const c = r.pictures.timeline;
  return c && chosen() ? rowOf(c, c[table], row) : undefined;
}

export function chosenThread(r: Report, tid: number): Chosen {
  const c = r.pictures.timeline;
  if (!c || !chosen()) return undefined;
  const own = c.threads.find((t) => t.tid === tid);
  return own ? part(c, own) : null;
}

export const shareOf = (p: Chosen, own: number | null): number | null => (p === undefined ? own : (p?.share ?? null));
export const farOf = (p: Chosen, own: number): number | null => (p === undefined ? own : (p?.far ?? null));
export const remoteOf = (p: Chosen, own: number | null): number | null => (p === undefined ? own : (p?.remote ?? null));
export const barOf = (p: Chosen, own: () => HTMLElement): HTMLElement => (p === undefined ? own() : p === null ? bar(0, 0, 1) : bar(p.near, p.far, p.other));
