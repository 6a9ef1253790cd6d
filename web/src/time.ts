// The run over time: what each node's memory and each link had to do, near and far, phases; and what was done in the
// part that the reader chooses.
import { chart, HALF, LEFT, seconds, type Span, WIDTH } from "./chart";
import { anyChosen, at, choose, chosen, follow, matrixOf, part, partOf } from "./chosen";
import type { Data } from "./data";
import { basis, each, sampled } from "./data";
import { type Child, h, s, section } from "./dom";
import { brief, count, digits, percent, plural, shorten } from "./format";
import { bar, keys, setBar } from "./marks";
import { liveMatrix } from "./matrix";
import { phases } from "./phases";
import type { Counted, Timeline, PartsOf, Report } from "./report";
import { nodeClass } from "./strip";
import { tip } from "./tip";
import { binding } from "./words";

const phaseName = (name: string): string => (name === "" ? "region of interest" : name);

interface Lane {
  name: string;
  unit: string;
  kind: string;
  /** Its value in a moment; null is unknown. */
  value: (moment: number) => number | null;
  /** What it is measured against; drawn as a line. */
  limit: number | null;
  most: number;
  say: (value: number) => string;
}

/** A row for each thing, in the same moments: filled steps up to what it had, and its limit. */
function lanes(moments: { from_s: number; to_s: number }[], list: Lane[], height: number, x: (t: number) => number): Child[] {
  const drawn: Child[] = [];
  list.forEach((lane, row) => {
    const bottom = (row + 1) * height - 4;
    const high = (value: number): number => (Math.min(value, lane.most) / Math.max(lane.most, 1e-12)) * (height - 12);
    let d = "";
    let unknown = "";
    moments.forEach((m, i) => {
      const value = lane.value(i);
      const [from, to] = [x(m.from_s), x(m.to_s)];
      if (value === null) unknown += `M${from} ${bottom}h${to - from}v-4h${from - to}z`;
      else d += `M${from} ${bottom}v${-high(value)}H${to}V${bottom}z`;
    });
    drawn.push(s("path", { d, class: lane.kind }), s("path", { d: unknown, class: "nu" }));
    if (lane.limit !== null) drawn.push(s("line", { x1: LEFT, x2: WIDTH, y1: bottom - high(lane.limit), y2: bottom - high(lane.limit), class: "limit" }));
    drawn.push(s("text", { x: 0, y: bottom - height / 2 + 8, class: "small" }, lane.name), s("text", { x: 0, y: bottom - height / 2 + 21, class: "small" }, lane.unit));
  });
  return drawn;
}

/** Bands of phases below a chart of this height, a row for each name. */
function phaseRows(r: Report, span: Span, top: number, x: (t: number) => number): { drawn: Child[]; height: number } {
  const bands = r.pictures.phases.filter((p) => p.to_s > span.from && p.from_s < span.to);
  const names = [...new Set(bands.map((p) => p.name))].slice(0, 8);
  const drawn: Child[] = names.map((name, row) => s("text", { x: 0, y: top + row * 18 + 12, class: "small" }, shorten(phaseName(name), 18)));
  for (const p of bands) {
    const row = names.indexOf(p.name);
    if (row < 0) continue;
    const from = x(Math.max(span.from, p.from_s));
    const width = Math.max(1, x(Math.min(span.to, p.to_s)) - from);
    drawn.push(s("rect", { x: from, y: top + row * 18 + 2, width, height: 12, class: "phase" }));
    if (width > 60) drawn.push(s("text", { x: from + 4, y: top + row * 18 + 12, class: "in" }, shorten(phaseName(p.name), Math.floor(width / 8))));
  }
  return { drawn, height: names.length * 18 };
}

const inPhases = (r: Report, t: number): string => {
  const inside = r.pictures.phases.filter((p) => p.from_s <= t && t < p.to_s).map((p) => phaseName(p.name));
  return inside.length > 0 ? `; in ${[...new Set(inside)].slice(0, 4).join(", ")}` : "";
};

function nearFar(r: Report, c: Timeline, id = ""): HTMLElement {
  const span = { from: c.from_s, to: c.to_s };
  const height = 110;
  const moved = c.migrations.some((n) => n > 0);
  const lane = moved ? 18 : 0;
  const all = c.all;
  const sumAt = (p: number): number => (all.near[p] ?? 0) + (all.far[p] ?? 0) + (all.other[p] ?? 0) + (all.waiting[p] ?? 0);
  const most = Math.max(...all.near.map((_, p) => sumAt(p)), 1);
  const top = height + lane + 6;
  const whole = top + phaseRows(r, span, top, () => 0).height;
  const shapes = (x: (t: number) => number): Child[] => {
    const paths: Record<string, string> = {};
    for (let p = 0; p < c.parts; p++) {
      const [from, width] = [x(at(c, p)), x(at(c, p + 1)) - x(at(c, p))];
      let y = height;
      for (const [kind, list] of [["near", all.near], ["far", all.far], ["rest", all.other], ["waiting", all.waiting]] as const) {
        const high = ((list[p] ?? 0) / most) * (height - 6);
        y -= high;
        if (high > 0) paths[kind] = `${paths[kind] ?? ""}M${from} ${y}h${width}v${high}h${-width}z`;
      }
    }
    const ticks: Child[] = [];
    if (moved) {
      const busy = Math.max(...c.migrations, 1);
      let d = "";
      c.migrations.forEach((n, p) => (d += n > 0 ? `M${(x(at(c, p)) + x(at(c, p + 1))) / 2} ${height + lane}v${-3 - (n / busy) * (lane - 5)}` : ""));
      ticks.push(s("path", { d, class: "tick" }), s("text", { x: 0, y: height + lane - 3, class: "small" }, "changes of cpu"));
    }
    const words = [`share of ${each(r)}`, `highest ${percent(most / 1e6)}`].map((text, row) => s("text", { x: 0, y: 14 + row * 14, class: "small" }, text));
    return [...Object.entries(paths).map(([kind, d]) => s("path", { d, class: kind })), ...words, ...ticks, ...phaseRows(r, span, top, x).drawn];
  };
  const answer = (t: number): string => {
    const p = partOf(c, t);
    const known = (all.near[p] ?? 0) + (all.far[p] ?? 0);
    const far = known > 0 ? percent((all.far[p] ?? 0) / known) : "unknown";
    const moves = c.migrations[p] ?? 0;
    return `${seconds(at(c, p))} to ${seconds(at(c, p + 1))}: ${percent(sumAt(p) / 1e6)} of all; far ${far} where the node is known${moves > 0 ? `; ${plural(moves, "change")} of cpu` : ""}${inPhases(r, t)}. ${sampled(r)}`;
  };
  const clock = c.clock === "simulated" ? ", in the time that the counted work takes on the machine" : "";
  const colours = keys(["near", "near"], ["far", "far"], ["unknown", r.basis === "stall_time" ? "no memory, or its node is unknown" : "node unknown"], ...(all.waiting.some((w) => w > 0) ? ([["waiting", "waiting for other threads"]] as [string, string][]) : []));
  return h("div", {}, h("h3", {}, `Near and far, by ${basis(r)}${clock}`), colours, chart({ id: `near-far${id}`, label: `near and far samples over time${id.replace("-", " ")}`, height: whole, width: id === "" ? WIDTH : HALF, span, timeline: c, shapes, answer }));
}

/** GB/s of each node's memory and each link, far share and instructions per cycle over simulated time, and what binds. */
function counted(r: Report, c: Counted): HTMLElement | null {
  const [first, last] = [c.timeline[0], c.timeline.at(-1)];
  if (!first || !last) return null;
  const span = { from: first.from_s, to: last.to_s };
  const gb = (value: number): string => `${digits(value)} GB/s`;
  const most = (limit: number | null, value: (i: number) => number | null): number => Math.max(limit ?? 0, ...c.timeline.map((_, i) => value(i) ?? 0), 1e-9);
  const list: Lane[] = c.bandwidth.map((load) => {
    const value = (i: number): number => {
      const m = c.timeline[i]?.nodes.find((n) => n.node === load.node);
      return m ? m.read_gb_per_s + m.write_gb_per_s : 0;
    };
    const limit = load.sustained_gb_per_s;
    return { name: `memory of node ${load.node}`, unit: `of ${limit === null ? "unknown" : digits(limit)} GB/s`, kind: nodeClass(r, load.node), value, limit, most: most(limit, value), say: gb };
  });
  // Of many links, those that carried most.
  const busy = c.links.map((link, at) => ({ link, at })).sort((a, b) => b.link.gb_per_s - a.link.gb_per_s).slice(0, 8);
  for (const { link, at: place } of busy.sort((a, b) => a.at - b.at)) {
    const value = (i: number): number | null => c.timeline[i]?.links_gb_per_s[place] ?? null;
    const limit = link.capacity_gb_per_s;
    list.push({ name: `link ${link.from}→${link.to}`, unit: `of ${limit === null ? "unknown" : digits(limit)} GB/s`, kind: "linkfill", value, limit, most: most(limit, value), say: gb });
  }
  list.push({ name: "far share", unit: "of the lines", kind: "far", value: (i) => c.timeline[i]?.remote_share ?? null, limit: null, most: 1, say: percent });
  const ipc = (i: number): number | null => c.timeline[i]?.ipc ?? null;
  list.push({ name: "instructions", unit: "per cycle", kind: "phase", value: ipc, limit: null, most: most(null, ipc), say: digits });
  const each = list.length > 8 ? 44 : 54;
  const height = list.length * each + 16;
  const whole = height + phaseRows(r, span, height, () => 0).height;
  const kinds = [...new Set(c.timeline.map((m) => binding(m.binds)))];
  const shapes = (x: (t: number) => number): Child[] => {
    const drawn = lanes(c.timeline, list, each, x);
    const paths = kinds.map((kind) => c.timeline.map((m) => (binding(m.binds) === kind ? `M${x(m.from_s)} ${height - 12}H${x(m.to_s)}v10H${x(m.from_s)}z` : "")).join(""));
    paths.forEach((d, at) => drawn.push(s("path", { d, class: `n${at % 8}`, "fill-opacity": 0.6 })));
    drawn.push(s("text", { x: 0, y: height - 3, class: "small" }, "what binds"));
    return [...drawn, ...phaseRows(r, span, height, x).drawn];
  };
  const answer = (t: number): string => {
    const i = Math.max(0, c.timeline.findIndex((m) => t < m.to_s));
    const m = c.timeline[i];
    if (!m) return "";
    const value = (lane: Lane): string => {
      const v = lane.value(i);
      return `${lane.name.replace("memory of ", "")} ${v === null ? "unknown" : lane.say(v)}`;
    };
    return `${seconds(m.from_s)} to ${seconds(m.to_s)}: ${list.map(value).join(", ")}; ${binding(m.binds)} binds${inPhases(r, t)}. Source: lines counted on an emulated machine, time by its figures.`;
  };
  const keys = h("p", { class: "legend" }, "what binds: ", ...kinds.map((kind, at) => h("span", { class: "key" }, h("i", { class: `n${at % 8}` }), kind)));
  const timeline = r.pictures.timeline?.clock === "simulated" ? r.pictures.timeline : null;
  return h("div", {}, h("h3", {}, "Bandwidth of each node's memory and of each link, simulated time"), chart({ id: "bandwidth", label: "bandwidth over time", height: whole, span, timeline, shapes, answer }), keys);
}

/** Objects and functions of the chosen part that are listed. */
const TOP = 5;
/** Links that are shown at first. */
const LINKS = 8;

/** How long each node's memory and each link had little, medium or much to do. */
function histogram(c: Counted): HTMLElement | null {
  const rows: { name: string; now: number; most: number | null; low: number | null; medium: number | null; high: number | null }[] = [
    ...c.bandwidth.map((b) => ({ name: `memory of node ${b.node}`, now: b.gb_per_s, most: b.sustained_gb_per_s, low: b.low, medium: b.medium, high: b.high })),
    ...c.links.map((l) => ({ name: l.from === l.to ? `port of node ${l.from}` : `link ${l.from}→${l.to}`, now: l.gb_per_s, most: l.capacity_gb_per_s, low: l.low, medium: l.medium, high: l.high })),
  ];
  if (rows.length === 0) return null;
  // Of many links, at first those that carried most.
  const few = [...c.links.keys()].sort((a, b) => (c.links[b]?.gb_per_s ?? 0) - (c.links[a]?.gb_per_s ?? 0)).slice(0, LINKS);
  const lines = rows.map((row, at) => {
    const link = at - c.bandwidth.length;
    const rest = c.links.length > LINKS + 2 && link >= 0 && !few.includes(link);
    const bar = h("span", { class: row.low === null ? "use none" : "use" });
    const parts: [string, number | null][] = [["low", row.low], ["medium", row.medium], ["high", row.high]];
    for (const [name, share] of parts) {
      const piece = h("i", { class: name });
      piece.style.width = `${(share ?? 0) * 100}%`;
      bar.append(piece);
    }
    const say = (): string[] => [`${row.name}: ${digits(row.now)} GB/s on average, of ${digits(row.most)} GB/s`, ...parts.map(([name, share]) => `${name}: ${percent(share)} of the time`), "source: lines counted on an emulated machine, time by its figures"];
    return h("tr", { hidden: rest }, h("th", { scope: "row" }, row.name), h("td", {}, `${digits(row.now)} of ${digits(row.most)} GB/s`), h("td", {}, tip(bar, say)), ...parts.map(([, share]) => h("td", { class: "number" }, percent(share))));
  });
  const head = h("tr", {}, ...["", "mean", "", "low", "medium", "high"].map((name, at) => h("th", { scope: "col", class: at > 2 ? "number" : null }, name)));
  const hidden = lines.filter((line) => line.hasAttribute("hidden"));
  const all = h("button", { type: "button", class: "more", hidden: hidden.length === 0 }, `show all ${c.links.length} links`);
  all.addEventListener("click", () => {
    hidden.forEach((line) => line.removeAttribute("hidden"));
    all.hidden = true;
  });
  return h(
    "div",
    {},
    h("h3", {}, "Use of bandwidth, share of the time"),
    h("p", { class: "lead" }, "low: below half of what the memory or the link sustains; high: above four fifths, where latency climbs."),
    h("div", { class: "scroll" }, h("table", { class: "usage", "aria-label": "use of bandwidth" }, h("thead", {}, head), h("tbody", {}, ...lines))),
    all,
  );
}

/** Rows with most of the chosen part, and what draws them again. Lines stay: making them anew takes longer than a frame. */
function top(c: Timeline, title: string, rows: PartsOf[], source: string, name: (row: number) => string): { table: HTMLElement; draw: () => void } {
  const lines = Array.from({ length: Math.min(TOP, rows.length) }, () => {
    const [share, far, what, own] = [h("td", { class: "number" }), h("td", { class: "number" }), h("span", { class: "name" }), bar(0, 0, 0)];
    const words = (): string[] => [`${what.textContent}: ${share.textContent} of the part, far ${far.textContent} where the node is known`, "no interval: a part of the run may have few samples", source];
    return { line: tip(h("tr", {}, share, h("td", {}, own), far, h("td", {}, what)), words), share, far, what, own };
  });
  const draw = (): void => {
    const list = rows.map((row) => ({ row, part: part(c, row) })).filter((r) => r.part.share > 0).sort((a, b) => b.part.share - a.part.share);
    lines.forEach(({ line, share, far, what, own }, at) => {
      const of = list[at];
      line.toggleAttribute("hidden", !of);
      if (!of) return;
      share.textContent = percent(of.part.share);
      setBar(own, of.part.near, of.part.far, of.part.other);
      far.textContent = percent(of.part.remote);
      what.textContent = shorten(brief(name(of.row.row)), 34);
    });
  };
  const head = h("tr", {}, ...["of it", "", "far", title].map((text, i) => h("th", { scope: "col", class: i === 0 || i === 2 ? "number" : null }, text)));
  return { table: h("table", { class: "usage", "aria-label": `${title} of the selection` }, h("thead", {}, head), h("tbody", {}, ...lines.map((l) => l.line))), draw };
}

/** What the chosen part, or the whole run, was spent on. It is as high before a part is chosen: nothing moves away from the pointer. */
function selection(r: Report, c: Timeline, id = ""): HTMLElement {
  const box = h("div", { id: `selection${id}`, class: "selection", role: "region", "aria-label": `selection${id.replace("-", " ")}` });
  const none = h("p", {}, id === "" ? "The whole run. Drag over a chart to select a part of it (keyboard: shift and arrows): objects, functions, threads and node \u00d7 node follow. Escape or a click selects everything again." : "The whole run.");
  const head = h("p");
  const clear = h("button", { type: "button", click: () => choose(c, null) }, "select everything");
  const shares = matrixOf(c, r.machine.node_ids.length);
  const pairs = shares ? liveMatrix(`% of its ${basis(r)}`, r.machine.node_ids, shares, () => [anyChosen() ? "of the selected part" : "of the whole run", sampled(r)]) : null;
  const lists = [top(c, "object", c.objects, sampled(r), (row) => r.objects[row]?.name ?? ""), top(c, "function", c.functions, sampled(r), (row) => r.functions[row]?.function ?? "")];
  const foot = h("p", { class: "lead" });
  box.append(head, none, h("div", { class: "followed" }, h("div", { class: "lists" }, ...lists.map((l) => l.table)), pairs?.figure ?? h("p", { class: "none" }, `node \u00d7 node: unknown, ${c.node_matrix_why ?? ""}`)), foot);
  const draw = (): void => {
    const of = chosen(c);
    none.hidden = of !== null;
    head.hidden = of === null;
    if (of) {
      const words = `, ${percent((of.end - of.first) / c.parts)} of the run; far ${percent(part(c, c.all).remote)} where the node is known `;
      head.replaceChildren(h("strong", {}, `${seconds(at(c, of.first))} to ${seconds(at(c, of.end))}`), words, clear);
    } else head.replaceChildren();
    lists.forEach((l) => l.draw());
    pairs?.set(matrixOf(c, r.machine.node_ids.length) ?? []);
    const moves = c.migrations.slice(of?.first ?? 0, of?.end ?? c.parts).reduce((a, b) => a + b, 0);
    foot.textContent = `${count(moves)} changes of cpu between samples, at least. ${sampled(r)}${of ? "; no intervals: a short part has few samples" : ""}.`;
  };
  follow(draw, box);
  draw();
  return box;
}

export function time(d: Data): HTMLElement {
  const r = d.report;
  const c = r.counters;
  const timeline = r.pictures.timeline;
  const none = h("p", { class: "none" }, `unknown: ${r.time_why ?? "no samples"}`);
  const missing = c && r.time ? null : h("p", { class: "lead" }, `Bandwidth over time is unknown: ${r.time_why ?? ""}`);
  const charts = [timeline ? nearFar(r, timeline) : null, c ? counted(r, c) : null].filter((p) => p !== null);
  const parts = charts.length === 0 ? [none] : [...charts.slice(0, 1), timeline ? selection(r, timeline) : null, ...charts.slice(1), c ? histogram(c) : null, missing, phases(d)];
  return section("time", "Time", `${r.basis === "dram_lines" ? "Counted lines" : r.basis === "memory_loads" ? "Sampled loads" : "Samples"}${timeline ? ` in ${timeline.parts} parts of the run` : ""}.`, ...parts);
}

/** Two runs over time. What is selected in one is selected in the other, as the same part of the run. */
export function times(before: Report, after: Report): HTMLElement | null {
  const side = (name: string, r: Report): HTMLElement => {
    const c = r.pictures.timeline;
    return h("div", {}, h("small", {}, name), ...(c ? [nearFar(r, c, `-${name}`), selection(r, c, `-${name}`)] : [h("p", { class: "none" }, `unknown: ${r.time_why ?? "no samples"}`)]));
  };
  if (!before.pictures.timeline && !after.pictures.timeline) return null;
  const lead = "Drag over a chart to select a part of the run (keyboard: shift and arrows). The same part of both runs is selected, by share of the run and not by seconds; objects, functions and node × node follow. Escape or a click selects everything again.";
  return section("time", "Time", lead, h("div", { class: "pair wide" }, side("before", before), side("after", after)));
}
