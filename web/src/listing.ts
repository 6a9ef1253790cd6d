// The machine's instructions around those with most samples.
import { h } from "./dom";
import { bar, place, share } from "./marks";
import type { Report } from "./report";

export interface Listing {
  function: string;
  at: string | null;
  module: string;
  lines: { address: number; text: string; instruction: number | null }[];
}

export function listing(r: Report, listings: Listing[], missing: string[], source: string): HTMLElement {
  const all = r.pictures.instructions;
  const most = Math.max(1e-9, ...all.map((i) => i.share));
  const tables = listings.map((one) => {
    const head = h("tr", {}, ...["address", "time", "far", "", "instruction"].map((name, i) => h("th", { scope: "col", class: i < 3 ? "number" : null }, name)));
    let before = -1;
    const rows = one.lines.flatMap((line, at) => {
      const hot = line.instruction === null ? undefined : all[line.instruction];
      const part = hot ? hot.share / most : 0;
      const far = hot?.remote_share ?? null;
      // An instruction has at most 15 bytes: what is further apart has others between it.
      const gap = at > 0 && line.address - before > 15 ? [h("tr", { class: "gap" }, h("td", { colspan: 5 }, "\u22ef"))] : [];
      before = line.address;
      const cells = [
        h("td", { class: "number quiet" }, h("code", {}, line.address.toString(16))),
        h("td", { class: "number" }, hot ? share(hot.share, null, source) : ""),
        h("td", { class: "number" }, hot ? share(far, null, source) : ""),
        h("td", {}, hot ? bar(far === null ? 0 : part * (1 - far), far === null ? 0 : part * far, far === null ? part : 0) : null),
        h("td", {}, h("code", { class: "text" }, line.text), hot?.at ? h("small", {}, " ", place(hot.at, null)) : null),
      ];
      return [...gap, h("tr", { class: hot ? "hot" : null }, ...cells)];
    });
    return h("div", { class: "scroll" }, h("h4", {}, `${one.function}, ${one.module}`), h("table", { class: "source listing", "aria-label": `instructions of ${one.function}` }, h("thead", {}, head), h("tbody", {}, ...rows)));
  });
  const lead = "Where the program stood when it was sampled, or the load before it that it waited for.";
  return h("div", {}, h("p", { class: "lead" }, lead), ...tables, missing.length > 0 ? h("ul", { class: "lead" }, ...missing.map((m) => h("li", {}, m))) : null);
}
