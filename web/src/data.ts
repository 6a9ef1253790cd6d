// What the page shows. It is the JSON of `report --json` and a few words beside it.
import type { Compared } from "./compare";
import type { Basis, Report } from "./report";
import type { Listing } from "./listing";
import type { Ranks } from "./ranks";
import type { Source } from "./source";
import { count, percent } from "./format";

export interface Data {
  report: Report;
  about: { recording: string; steps: { what: string; command: string }[]; sources: Source[]; sources_missing: string[]; code: Listing[]; code_missing: string[] };
  words: { version: string; headline: string; findings: string[] };
}

/** Characters that a browser obeys instead of showing them, as crates/figures/src/escape.rs has them. Not line feeds: source has them. */
const COMMAND = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]/g;
/** The same as they may stand in JSON. */
const ESCAPED = /\\u(00[01][0-9a-f]|007f|00[89][0-9a-f]|200[ef]|061c|202[a-e89]|206[6-9]|feff)/i;
const shown = (text: string): string => text.replace(COMMAND, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);

/** What the page has for its script. Names are shown as they are, but turn no line round: U+202E is shown as `\u{202e}`. */
export function read(): Data | Compared | Ranks {
  const text = document.getElementById("data")?.textContent ?? "";
  const harmless = !ESCAPED.test(text) && text.search(COMMAND) < 0;
  return JSON.parse(text, harmless ? undefined : (_, value) => (typeof value === "string" ? shown(value) : value)) as Data | Compared | Ranks;
}

/** What shares are shares of. */
const BASIS: Record<Basis, { of: string; name: string; each: string }> = {
  stall_time: { of: "working time", name: "time", each: "samples" },
  dram_lines: { of: "DRAM traffic", name: "traffic", each: "lines" },
  memory_loads: { of: "loads that memory answered", name: "loads", each: "loads" },
};

export const basis = (r: Report): string => BASIS[r.basis].of;

/** The name of a column of such shares. */
export const shareName = (r: Report): string => BASIS[r.basis].name;

/** What is counted in the parts of the run. */
export const each = (r: Report): string => BASIS[r.basis].each;

/** Where a report's shares come from, a line each. */
export function sources(r: Report): string[] {
  return r.sources.map((source) => {
    const rate = source.hz === null ? "" : ` at ${Math.round(source.hz)} Hz`;
    const what = source.source === "pages" ? "page events" : `${source.source} samples${rate}`;
    const lost = source.lost_known ? `${count(source.lost)} lost` : `at least ${count(source.lost)} lost`;
    const found = source.resolved_share === null ? "" : `; ${percent(source.resolved_share)} resolved`;
    return `${count(source.samples)} ${what}, ${lost}${found}`;
  });
}

/** The sources that sample, as one line for a hint. */
export function sampled(r: Report): string {
  const all = r.sources.filter((source) => source.source !== "pages").map((source) => `${count(source.samples)} ${source.source} samples`);
  return all.length > 0 ? `source: ${all.join(", ")}` : "source: none";
}
