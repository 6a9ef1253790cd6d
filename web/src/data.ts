// What the page shows. It is the JSON of `report --json` and a few words beside it.
import type { Compared } from "./compare";
import type { Report } from "./report";
import type { Listing } from "./listing";
import type { Source } from "./source";
import { count, percent } from "./format";

export interface Data {
  report: Report;
  about: { recording: string; steps: { what: string; command: string }[]; sources: Source[]; sources_missing: string[]; code: Listing[]; code_missing: string[] };
  words: { version: string; headline: string; findings: string[] };
}

export function read(): Data | Compared {
  return JSON.parse(document.getElementById("data")?.textContent ?? "") as Data | Compared;
}

/** What shares are shares of. */
export const basis = (r: Report): string => (r.basis === "stall_time" ? "stall time" : "DRAM traffic");

/** The name of a column of such shares. */
export const shareName = (r: Report): string => (r.basis === "stall_time" ? "time" : "traffic");

/** Where a report's shares come from, a line each. */
export function sources(r: Report): string[] {
  return r.rungs.map((rung) => {
    const rate = rung.hz === null ? "" : ` at ${Math.round(rung.hz)} Hz`;
    const what = rung.rung === "pages" ? "page events" : `${rung.rung} samples${rate}`;
    const lost = rung.lost_known ? `${count(rung.lost)} lost` : `at least ${count(rung.lost)} lost`;
    const found = rung.resolved_share === null ? "" : `; ${percent(rung.resolved_share)} resolved`;
    return `${count(rung.samples)} ${what}, ${lost}${found}`;
  });
}

/** The sources that sample, as one line for a hint. */
export function sampled(r: Report): string {
  const all = r.rungs.filter((rung) => rung.rung !== "pages").map((rung) => `${count(rung.samples)} ${rung.rung} samples`);
  return all.length > 0 ? `source: ${all.join(", ")}` : "source: none";
}
