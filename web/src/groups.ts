// Functions grouped by what ran them or by the phase that they ran in, and lines by what they use.
import type { Data } from "./data";
import { basis, sampled } from "./data";
import { type Child, h } from "./dom";
import { brief, percent, shorten } from "./format";
import { bar, place, share } from "./marks";
import type { CodeGroup, Report } from "./report";
import { tabs } from "./tabs";

/** Objects whose lines are shown. */
const OBJECTS = 20;

interface Line {
  share: number;
  remote: number | null;
  what: Child;
}

function group(name: string, own: { share: number; remote: number | null }, lines: Line[], most: number, source: string, open: boolean): HTMLElement {
  const line = (l: Line): Child[] => {
    const far = l.remote === null ? 0 : (l.share / most) * l.remote;
    const near = l.remote === null ? 0 : l.share / most - far;
    return [h("span", { class: "number" }, share(l.share, null, source)), bar(near, far, l.remote === null ? l.share / most : 0), h("span", { class: "number" }, share(l.remote, null, source)), l.what];
  };
  const head = h("summary", {}, h("span", { class: "grouped" }, ...line({ ...own, what: h("strong", {}, name) })));
  return h("details", { open }, head, ...lines.map((l) => h("div", { class: "leaf" }, h("span", { class: "grouped" }, ...line(l)))));
}

function of(r: Report, groups: CodeGroup[], name: (g: CodeGroup) => string, source: string, none: string): HTMLElement {
  if (groups.length === 0) return h("p", { class: "none" }, none);
  const most = Math.max(1e-9, ...groups.map((g) => g.share));
  const boxes = groups.map((g, at) =>
    group(name(g), { share: g.share, remote: g.remote_share }, g.functions.map((f) => ({ share: f.share, remote: f.remote_share, what: h("code", {}, shorten(r.functions[f.row]?.function ?? "", 80)) })), most, source, at < 8),
  );
  return h("div", { class: "calls" }, ...boxes);
}

export function groups(d: Data): HTMLElement {
  const r = d.report;
  const source = sampled(r);
  const threads = new Map(r.threads.map((t) => [t.tid, t]));
  const byNode = of(r, r.pictures.code_by_node, (g) => (g.node === null ? "node unknown" : `threads on node ${g.node}`), source, "unknown: no samples");
  const nameOf = (g: CodeGroup): string => {
    const t = threads.get(g.tid ?? -1);
    return `${t?.index ?? "unknown"} ${t?.name ?? ""}, ${t?.node === null || t?.node === undefined ? "node unknown" : `node ${t.node}`}`;
  };
  const byThread = of(r, r.pictures.code_by_thread, nameOf, source, r.pictures.timeline?.threads_why ?? "unknown: no samples");
  const list = r.objects.slice(0, OBJECTS);
  const most = Math.max(1e-9, ...list.map((o) => o.stall_share));
  const boxes = list.map((o, at) =>
    group(shorten(brief(o.name), 60), { share: o.stall_share, remote: o.remote_share }, o.accessed_at.map((u) => ({ share: u.stall_share, remote: u.remote_share, what: place(u.at, u.function === null ? null : shorten(u.function, 60)) })), most, source, at < 8),
  );
  const byObject = boxes.length === 0 ? h("p", { class: "none" }, "unknown: no samples") : h("div", { class: "calls" }, ...boxes);
  const nodes = r.phases?.nodes ?? [];
  const path = (at: number): string => {
    const n = nodes[at];
    if (!n || n.parent === null) return "";
    const outer = path(n.parent);
    return `${outer === "" ? "" : `${outer} \u203a `}${n.name === "" ? "unnamed" : n.name}`;
  };
  const phase = (g: CodeGroup): string => (g.phase ? shorten(path(g.phase), 100) : "in no phase");
  const byPhase = of(r, r.pictures.code_by_phase, phase, source, "No phases: neither the program nor its runtime or a tool named any (docs/phases.md).");
  const lead = h("p", { class: "lead" }, `Share of all ${basis(r)}, and what of it is far where the node is known. Of each group those with most; ${percent(1)} is everything.`);
  return h("div", {}, lead, tabs("group", [["by node", byNode], ["by thread", byThread], ["by object", byObject], ["by phase", byPhase]]));
}
