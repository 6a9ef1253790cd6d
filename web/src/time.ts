// The run over time: near and far, phases, and what each node's memory had to do.
import type { Data } from "./data";
import { basis, sampled } from "./data";
import { type Child, h, picture, s, section } from "./dom";
import { digits, percent } from "./format";
import type { Counted, Report } from "./report";
import { saveable } from "./save";
import { nodeClass } from "./strip";
import { binding } from "./words";

const WIDTH = 1000;
const LEFT = 110;
const seconds = (t: number): string => (t === 0 ? "0" : t < 1 ? `${digits(t * 1000)} ms` : `${digits(t)} s`);

interface Span {
  from: number;
  to: number;
}

/** A picture over time with a cursor that answers, and a brush that others follow. */
function chart(id: string, label: string, height: number, span: Span, shapes: (x: (t: number) => number) => Child[], answer: (t: number) => string): HTMLElement {
  const x = (t: number): number => LEFT + ((t - span.from) / Math.max(1e-12, span.to - span.from)) * (WIDTH - LEFT);
  const cursor = s("line", { y1: 0, y2: height, class: "cursor", visibility: "hidden" });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const t = span.from + part * (span.to - span.from);
    return s("text", { x: x(t), y: height + 13, class: "small", "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, seconds(t));
  });
  const svg = picture(WIDTH, height + 18, label, ...shapes(x), ...ticks, cursor);
  svg.classList.add("chart");
  const said = h("div", { class: "answer", role: "status" });
  let now = span.from;
  const show = (t: number): void => {
    now = Math.max(span.from, Math.min(span.to, t));
    cursor.setAttribute("x1", String(x(now)));
    cursor.setAttribute("x2", String(x(now)));
    cursor.setAttribute("visibility", "visible");
    said.textContent = answer(now);
  };
  svg.addEventListener("mousemove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event as MouseEvent).clientX - box.left) * (WIDTH / box.width);
    show(span.from + ((at - LEFT) / (WIDTH - LEFT)) * (span.to - span.from));
  });
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("focus", () => show(now));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[(event as KeyboardEvent).key];
    if (step) {
      event.preventDefault();
      show(now + (step * (span.to - span.from)) / 100);
    }
  });
  return saveable(h("figure", { id, class: "timechart" }, svg, said), label);
}

function sampledTime(r: Report): HTMLElement | null {
  const moments = r.pictures.moments;
  const [first, last] = [moments[0], moments.at(-1)];
  if (!first || !last) return null;
  const span = { from: first.from_s, to: last.to_s };
  const most = Math.max(...moments.map((m) => m.share), 1e-9);
  const height = 110;
  const bands = r.pictures.phases.filter((p) => p.to_s > span.from && p.from_s < span.to);
  const names = [...new Set(bands.map((p) => p.name))].slice(0, 6);
  const top = height + 6;
  const all = top + names.length * 18;
  const shapes = (x: (t: number) => number): Child[] => {
    const boxes = moments.flatMap((m) => {
      const [from, width] = [x(m.from_s), x(m.to_s) - x(m.from_s)];
      let y = height;
      const box = (kind: string, share: number): Child => {
        const high = (share / most) * (height - 6);
        y -= high;
        return share > 0 ? s("rect", { x: from, y, width, height: high, class: kind }) : null;
      };
      return [box("near", m.near_share), box("far", m.far_share), box("rest", Math.max(0, m.share - m.near_share - m.far_share))];
    });
    const rows = names.map((name, at) => s("text", { x: 0, y: top + at * 18 + 12, class: "small" }, name === "" ? "region of interest" : name.slice(0, 18)));
    const marks = bands
      .filter((p) => names.includes(p.name))
      .map((p) => {
        const from = Math.max(span.from, p.from_s);
        return s("rect", { x: x(from), y: top + names.indexOf(p.name) * 18 + 2, width: Math.max(1, x(Math.min(span.to, p.to_s)) - x(from)), height: 12, class: "phase" });
      });
    return [...boxes, s("text", { x: 0, y: 14, class: "small" }, "share of samples"), s("text", { x: 0, y: 28, class: "small" }, "near, far, rest"), ...rows, ...marks];
  };
  const answer = (t: number): string => {
    const m = moments.find((one) => t < one.to_s) ?? last;
    const known = m.near_share + m.far_share;
    const far = known > 0 ? percent(m.far_share / known) : "unknown";
    const inside = bands.filter((p) => p.from_s <= t && t < p.to_s).map((p) => p.name || "region of interest");
    return `${seconds(m.from_s)} to ${seconds(m.to_s)}: ${percent(m.share)} of the samples; far ${far} where the node is known${inside.length > 0 ? `; in ${inside.join(", ")}` : ""}. ${sampled(r)}`;
  };
  return h("div", {}, h("h3", {}, `Near and far, by ${basis(r)}`), chart("near-far", "near and far samples over time", all, span, shapes, answer));
}

/** GB/s of each node's memory over simulated time, and what binds. */
function counted(r: Report, c: Counted): HTMLElement | null {
  const [first, last] = [c.timeline[0], c.timeline.at(-1)];
  if (!first || !last) return null;
  const span = { from: first.from_s, to: last.to_s };
  const rows = c.bandwidth;
  const lane = 62;
  const height = rows.length * lane + 16;
  const rate = (node: number, at: number): number => {
    const m = c.timeline[at]?.nodes.find((n) => n.node === node);
    return m ? m.read_gb_per_s + m.write_gb_per_s : 0;
  };
  const shapes = (x: (t: number) => number): Child[] => {
    const drawn: Child[] = [];
    rows.forEach((load, at) => {
      const bottom = (at + 1) * lane - 4;
      const most = Math.max(load.sustained_gb_per_s ?? 0, ...c.timeline.map((_, m) => rate(load.node, m)), 1e-9);
      const high = (value: number): number => (value / most) * (lane - 12);
      let d = `M${LEFT} ${bottom}`;
      c.timeline.forEach((m, i) => (d += `V${bottom - high(rate(load.node, i))}H${x(m.to_s)}`));
      drawn.push(s("path", { d: `${d}V${bottom}z`, class: nodeClass(r, load.node) }));
      if (load.sustained_gb_per_s !== null) {
        const y = bottom - high(load.sustained_gb_per_s);
        drawn.push(s("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y, class: "limit" }));
      }
      const sustained = load.sustained_gb_per_s === null ? "unknown" : digits(load.sustained_gb_per_s);
      drawn.push(s("text", { x: 0, y: bottom - 26, class: "small" }, `memory of node ${load.node}`));
      drawn.push(s("text", { x: 0, y: bottom - 12, class: "small" }, `of ${sustained} GB/s`));
    });
    // What bound for the longest part of each moment.
    const kinds = [...new Set(c.timeline.map((m) => binding(m.binds)))];
    c.timeline.forEach((m) => drawn.push(s("rect", { x: x(m.from_s), y: height - 12, width: x(m.to_s) - x(m.from_s), height: 10, class: `n${kinds.indexOf(binding(m.binds)) % 8}`, "fill-opacity": 0.6 })));
    drawn.push(s("text", { x: 0, y: height - 3, class: "small" }, "what binds"));
    return drawn;
  };
  const answer = (t: number): string => {
    const at = Math.max(0, c.timeline.findIndex((m) => t < m.to_s));
    const m = c.timeline[at];
    if (!m) return "";
    return `${seconds(m.from_s)} to ${seconds(m.to_s)}: ${rows.map((n) => `node ${n.node} ${digits(rate(n.node, at))} GB/s`).join(", ")}; ${binding(m.binds)} binds. Counted, time by the model.`;
  };
  return h("div", {}, h("h3", {}, "Bandwidth of each node's memory, simulated time"), chart("bandwidth", "bandwidth of each node's memory over time", height, span, shapes, answer));
}

/** How long each node's memory had little, medium or much to do. */
function histogram(c: Counted): HTMLElement | null {
  const known = c.bandwidth.filter((b) => b.low !== null);
  if (known.length === 0) return null;
  const rows = known.map((b) => {
    const bar = h("span", { class: "use" });
    const parts: [string, number | null][] = [["low", b.low], ["medium", b.medium], ["high", b.high]];
    for (const [name, share] of parts) {
      const piece = h("i", { class: name, title: `${name}: ${percent(share)} of the time` });
      piece.style.width = `${(share ?? 0) * 100}%`;
      bar.append(piece);
    }
    const words = `${digits(b.gb_per_s)} of ${digits(b.sustained_gb_per_s)} GB/s`;
    return h("tr", {}, h("th", { scope: "row" }, `memory of node ${b.node}`), h("td", {}, words), h("td", {}, bar), ...parts.map(([, share]) => h("td", { class: "number" }, percent(share))));
  });
  const links = c.links.map((l) => {
    const part = l.capacity_gb_per_s === null ? null : l.gb_per_s / l.capacity_gb_per_s;
    const bar = h("span", { class: "use" });
    const piece = h("i", { class: part !== null && part > 0.8 ? "high" : part !== null && part > 0.5 ? "medium" : "low" });
    piece.style.width = `${Math.min(1, part ?? 0) * 100}%`;
    bar.append(piece);
    return h("tr", {}, h("th", { scope: "row" }, `link ${l.from}→${l.to}`), h("td", {}, `${digits(l.gb_per_s)} of ${digits(l.capacity_gb_per_s)} GB/s`), h("td", {}, bar), h("td", { class: "number", colspan: 3 }, `mean, ${percent(part)} of what it carries`));
  });
  const head = h("tr", {}, ...["", "mean", "", "low", "medium", "high"].map((name, at) => h("th", { scope: "col", class: at > 2 ? "number" : null }, name)));
  return h(
    "div",
    {},
    h("h3", {}, "Use of bandwidth, share of the time"),
    h("p", { class: "lead" }, "low: below half of what the memory sustains in its mix of reads and writes; high: above four fifths, where latency climbs."),
    h("table", { class: "usage", "aria-label": "use of bandwidth" }, h("thead", {}, head), h("tbody", {}, ...rows, ...links)),
  );
}

export function time(d: Data): HTMLElement {
  const r = d.report;
  const c = r.counters;
  const parts = [c ? counted(r, c) : null, c ? histogram(c) : null, sampledTime(r)].filter((p) => p !== null);
  const none = h("p", { class: "none" }, `unknown: ${r.time_why ?? "no samples"}`);
  const missing = c && r.time ? null : h("p", { class: "lead" }, `Bandwidth: unknown. ${r.time_why ?? ""}`);
  return section("time", "Time", null, ...(parts.length === 0 ? [none] : [...parts, missing]));
}
