// Source with what each line costs.
import { sampled, shareName } from "./data";
import { h } from "./dom";
import { anchor, bar, link, share as figure } from "./marks";
import type { Report, UseRow } from "./report";

export interface Source {
  file: string;
  changed: boolean | null;
  lines: { line: number; text: string }[];
}

export function source(r: Report, sources: Source[], missing: string[]): HTMLElement {
  const from = sampled(r);
  const costs = new Map<string, UseRow>();
  for (const f of r.functions) for (const line of f.lines) if (line.at !== null && !costs.has(line.at)) costs.set(line.at, line);
  const touched = new Set(r.objects.flatMap((o) => o.first_touch.map((t) => t.at)));
  const most = Math.max(1e-9, ...[...costs.values()].map((c) => c.stall_share));
  const share = (file: Source): number => file.lines.reduce((sum, l) => sum + (costs.get(`${file.file}:${l.line}`)?.stall_share ?? 0), 0);
  const files = [...sources].sort((a, b) => share(b) - share(a)).map((file) => {
    let before = 0;
    const lines = file.lines.flatMap(({ line, text }) => {
      const at = `${file.file}:${line}`;
      const cost = costs.get(at);
      const gap = before !== 0 && line > before + 1 ? [h("tr", { class: "gap" }, h("td", { colspan: 6 }, "\u22ef"))] : [];
      before = line;
      const parts = cost ? bar((cost.near_share ?? 0) / most, (cost.at_risk ?? 0) / most, (cost.stall_share - (cost.near_share ?? 0) - (cost.at_risk ?? 0)) / most) : null;
      const mark = touched.has(at) ? h("small", { title: "first touch" }, "first touch") : null;
      const row = h("tr", { id: anchor(at), class: cost && cost.stall_share > 0.05 ? "hot" : null }, h("td", { class: "number quiet" }, String(line)), h("td", { class: "number" }, cost ? figure(cost.stall_share, null, from) : ""), h("td", { class: "number" }, cost ? figure(cost.near_share, null, from) : ""), h("td", { class: "number" }, cost ? figure(cost.at_risk, null, from) : ""), h("td", {}, parts, mark), h("td", {}, h("code", { class: "text" }, text)));
      return [...gap, row];
    });
    const changed = file.changed === true ? "changed since the recording: lines may have moved" : file.changed === null ? "whether it was changed since the recording is unknown" : "";
    const head = h("tr", {}, ...["line", shareName(r), "near", "at risk", "", file.file].map((name, i) => h("th", { scope: "col", title: name === "at risk" ? "on far pages: the most that a repair can save at this line" : null, class: i < 4 ? "number" : null }, name)));
    return h("div", { class: "scroll" }, changed === "" ? null : h("p", { class: "lead" }, `${file.file}: ${changed}`), h("table", { class: "source", "aria-label": file.file }, h("thead", {}, head), h("tbody", {}, ...lines)));
  });
  const gone = missing.length > 0 ? h("ul", { class: "lead" }, ...missing.map((m) => h("li", {}, m))) : null;
  return h("div", {}, ...files, gone);
}

/** Places in code lead to their source, where the page has it. Called before any place is drawn. */
export function linkSources(sources: Source[]): void {
  link(sources.flatMap((file) => file.lines.map(({ line }) => `${file.file}:${line}`)));
  // Enter on a link is a click, too. The line's tab is opened before the browser goes there.
  document.addEventListener("click", (event) => {
    const to = event.target instanceof Element ? event.target.closest(".place a")?.getAttribute("href") : null;
    const panel = to ? document.getElementById(decodeURIComponent(to.slice(1)))?.closest('[role="tabpanel"]') : null;
    document.getElementById(panel?.getAttribute("aria-labelledby") ?? "")?.click();
  });
}
