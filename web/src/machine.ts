// The machine, with the traffic on it: from whose cpus to whose memory. The width of a band is its traffic, its colour is
// how much of what the way sustains is used; hatched where that is unknown.
import { type Child, h, picture, s } from "./dom";
import { digits, percent, plural, size } from "./format";
import { basis, sampled } from "./data";
import type { Report } from "./report";
import { saveable } from "./save";
import { tip } from "./tip";

interface Flow {
  /** Positions of the nodes of the threads and of the memory. */
  from: number;
  page_node: number;
  /** Part of all traffic that is drawn, 0 to 1: the band's width. */
  part: number;
  /** Part of what the way sustains, where that is known: the band's colour. */
  load: number | null;
  label: string;
  lines: string[];
}

interface Box {
  width: number;
  cpus: number;
  pipe: number;
  memory: number;
}
const BOX: Box = { width: 196, cpus: 58, pipe: 46, memory: 44 };
/** Of many nodes: narrow enough that letters keep their size on the first screen. */
const SMALL: Box = { width: 140, cpus: 58, pipe: 36, memory: 58 };
/** Of more nodes than these, bands between all of them would hide each other: each memory's near and far use is drawn. */
const CROSSING = 4;
/** More nodes than these are shown by the matrix alone. */
const NODES = 16;

/** Where a colour of the scale ends: parts of what a memory or a link sustains. Over the last is the strongest. */
const SCALE = [0.2, 0.4, 0.6, 0.8];
const loadClass = (load: number | null): string => (load === null ? "lu" : `l${SCALE.filter((end) => load >= end).length}`);

/** What colours and widths of bands mean; `timed` where lines were counted and their time is known. */
function scale(r: Report, timed: boolean, unknown: boolean): HTMLElement {
  const ends = SCALE.map((end) => Math.round(end * 100));
  const names = [`below ${ends[0]} %`, ...ends.slice(1).map((end, at) => `${ends[at]}\u2013${end} %`), `from ${ends.at(-1)} %`];
  const keys = timed ? names.map((name, at) => h("span", { class: "key" }, h("i", { class: `l${at}` }), name)) : [];
  const hatched = unknown ? h("span", { class: "key" }, h("i", { class: "unknown" }), timed ? "unknown" : r.counters ? `unknown: ${r.time_why ?? "no time"}` : "unknown: samples count no bytes") : null;
  return h("span", { class: "legend scale" }, h("span", {}, `Width: ${timed ? "GB/s" : `share of ${basis(r)}`}. Colour: how much of what the memory or link sustains is used:`), ...keys, hatched);
}

/** What is there is not 0, however little. */
const rate = (gb: number): string => (gb > 0 && gb < 0.005 ? "< 0.01" : digits(gb));

/** `31 % used`: of what a memory or a link sustains. */
const used = (load: number | null): string => (load === null ? "" : `${percent(load)} used`);

/** Traffic between nodes: GB/s where lines were counted and timed, else shares of what was sampled. */
function flows(r: Report): Flow[] {
  const ids = r.machine.node_ids;
  return r.pictures.traffic.flows.map((f) => {
    const [from, page_node] = [ids.indexOf(f.from), ids.indexOf(f.page_node)];
    const near = f.from === f.page_node;
    const way = near ? `threads on node ${f.from}, memory on the same node` : `threads on node ${f.from} use memory on node ${f.page_node}`;
    if (f.gb_per_s === null) {
      const share = r.node_matrix[from]?.[page_node] ?? null;
      return { from, page_node, part: f.share, load: null, label: percent(share), lines: [way, `${percent(share)} of ${basis(r)}`, sampled(r), `GB/s: unknown, ${r.counters ? (r.time_why ?? "its time is") : "samples do not count bytes"}`] };
    }
    const what = near ? `memory of node ${f.page_node}` : `link ${f.page_node}→${f.from}`;
    const all = near ? "all that it has to do" : "all that it carries, control messages included";
    const carried = f.load === null ? `${what}: what it sustains is unknown` : `${what}, ${all}: ${digits(f.way_gb_per_s)} of ${digits(f.way_sustains_gb_per_s)} GB/s that it sustains, ${percent(f.load)}`;
    return { from, page_node, part: f.share, load: f.load, label: `${rate(f.gb_per_s)} GB/s`, lines: [way, `${rate(f.gb_per_s)} GB/s, read and written, over ${digits((r.time?.seconds ?? 0) * 1000)} ms, counted`, carried] };
  });
}

export function machinePicture(r: Report): HTMLElement {
  const nodes = r.pictures.machine.nodes;
  if (nodes.length === 0 || nodes.length > NODES) {
    return h("p", { class: "none" }, `${plural(nodes.length, "node")}: the matrix below shows the traffic`);
  }
  const many = nodes.length > CROSSING;
  const NODE = many ? SMALL : BOX;
  const HEIGHT = NODE.cpus + NODE.pipe + NODE.memory;
  const across = nodes.length <= 2 ? nodes.length : nodes.length <= 4 ? 2 : 4;
  const down = Math.ceil(nodes.length / across);
  const gap = { x: many ? 12 : 180, y: many ? 30 : 44 };
  const around = many ? 4 : 8;
  const width = across * NODE.width + (across - 1) * gap.x + 24;
  const height = down * HEIGHT + (down - 1) * gap.y + 28;
  const corner = (at: number): { x: number; y: number } => ({
    x: 12 + (at % across) * (NODE.width + gap.x),
    y: 24 + Math.floor(at / across) * (HEIGHT + gap.y),
  });
  const shapes: Child[] = [];
  // Packages behind their nodes, where several nodes of one are beside each other.
  const packages = new Map<number, number[]>();
  nodes.forEach((node, at) => {
    if (node.package !== null) packages.set(node.package, [...(packages.get(node.package) ?? []), at]);
  });
  for (const [number, own] of packages) {
    const at = own.map(corner);
    const x = Math.min(...at.map((c) => c.x)) - around;
    const y = Math.min(...at.map((c) => c.y)) - 18;
    const right = Math.max(...at.map((c) => c.x)) + NODE.width + around;
    const bottom = Math.max(...at.map((c) => c.y)) + HEIGHT + 4;
    shapes.push(s("rect", { x, y, width: right - x, height: bottom - y, rx: 6, class: "package" }));
    shapes.push(s("text", { x: x + 8, y: y + 13, class: "small" }, `socket ${number}`));
  }
  const cache = r.pictures.machine.caches.at(-1);
  nodes.forEach((node, at) => {
    const { x, y } = corner(at);
    const cores = node.cpu_count === 0 ? "no cpus" : `${plural(node.cores, "core")}, cpus ${node.cpus}`;
    const inner = cache && node.cpu_count > 0 ? `L${cache.level} ${size(cache.size_bytes)} for ${plural(cache.cores_per_instance, "core")}` : "";
    shapes.push(s("rect", { x, y, width: NODE.width, height: NODE.cpus, rx: 4, class: "cpus" }));
    shapes.push(s("text", { x: x + 10, y: y + 20, class: "strong" }, `node ${node.id}`));
    shapes.push(s("text", { x: x + 10, y: y + 36, class: "small" }, cores.length > (many ? 20 : 32) ? plural(node.cores, "core") : cores));
    shapes.push(s("text", { x: x + 10, y: y + 50, class: "small" }, inner));
    const top = y + NODE.cpus + NODE.pipe;
    shapes.push(s("rect", { x, y: top, width: NODE.width, height: NODE.memory, rx: 4, class: "memory" }));
    const kind = node.kind === "dram" ? "memory" : many ? `${node.kind} memory` : `memory (${node.kind})`;
    shapes.push(s("text", { x: x + 10, y: top + 18, class: "strong" }, many ? `${kind} ${node.id}` : `${kind} of node ${node.id}`));
    const known = [node.memory_bytes === null ? "" : size(node.memory_bytes), node.read_gb_per_s === null ? "" : `sustains ${digits(node.read_gb_per_s)} GB/s`];
    const load = r.pictures.traffic.memories[at]?.load ?? null;
    const words = known.filter((k) => k !== "");
    // Of many nodes, ways to other nodes are not drawn: how much of its memory's bandwidth is used stands in the memory.
    if (many) [words[0] ?? "size unknown", [...words.slice(1), used(load)].filter((w) => w !== "").join(", ")].forEach((line, row) => shapes.push(s("text", { x: x + 10, y: top + 33 + row * 15, class: "small" }, line)));
    else shapes.push(s("text", { x: x + 10, y: top + 34, class: "small" }, words.join(", ") || "size unknown"));
  });
  const all = flows(r).sort((a, b) => b.part - a.part);
  const crossing = nodes.length <= CROSSING;
  const drawn = crossing ? all : [];
  const labels: Child[] = [];
  for (const flow of drawn) {
    const [a, b] = [corner(flow.from), corner(flow.page_node)];
    const wide = 2 + flow.part * 26;
    const near = flow.from === flow.page_node;
    const top = b.y + NODE.cpus + NODE.pipe;
    let path: string;
    let label: { x: number; y: number };
    let anchor = near ? "start" : "middle";
    if (near) {
      const x = a.x + NODE.width / 2;
      path = `M${x} ${top}V${a.y + NODE.cpus}`;
      label = { x: x + wide / 2 + 6, y: a.y + NODE.cpus + NODE.pipe / 2 + 4 };
    } else {
      // From the side of the memory to the side of the cpus that face each other.
      const right = b.x < a.x || (b.x === a.x && flow.page_node < flow.from);
      const x1 = right ? b.x + NODE.width : b.x;
      const x2 = a.x > b.x ? a.x : a.x < b.x ? a.x + NODE.width : x1;
      const y1 = top + NODE.memory / 2;
      const y2 = a.y + NODE.cpus / 2;
      const bend = a.x === b.x ? (right ? 50 : -50) : (x2 - x1) / 2;
      path = `M${x1} ${y1}C${x1 + bend} ${y1} ${a.x === b.x ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
      label = { x: (x1 + x2) / 2 + (a.x === b.x ? bend * 0.75 : 0), y: (y1 + y2) / 2 + 4 };
      // Above the end at the cpus: bands of opposite direction cross in the middle, where a label could be either's.
      if (a.y === b.y) {
        anchor = a.x > b.x ? "end" : "start";
        label = { x: x2 + (a.x > b.x ? -4 : 4), y: y2 - wide / 2 - (flow.load === null ? 6 : 15) };
      } else label.y += (flow.from < flow.page_node ? 1 : -1) * 20;
    }
    const band = s("path", { d: path, class: `band ${loadClass(flow.load)}`, "stroke-width": wide });
    shapes.push(tip(band, () => flow.lines));
    labels.push(s("text", { x: label.x, y: label.y - (flow.load === null ? 0 : 5), class: "label", "text-anchor": anchor }, flow.label));
    if (flow.load !== null) labels.push(s("text", { x: label.x, y: label.y + 9, class: "label load", "text-anchor": anchor }, used(flow.load)));
  }
  if (!crossing) {
    nodes.forEach((node, at) => {
      const { x, y } = corner(at);
      const own = r.pictures.traffic.memories[at];
      if (!own) return;
      const list = all.filter((f) => f.page_node === at);
      for (const [kind, from, part, gb] of [["near", x + 18, own.near_share, own.near_gb_per_s], ["far", x + 84, own.far_share, own.far_gb_per_s]] as const) {
        if (part === 0) continue;
        const name = kind === "near" ? `memory of node ${node.id}, used by threads of the same node` : `memory of node ${node.id}, used by threads of other nodes`;
        const band = s("path", { d: `M${from} ${y + NODE.cpus + NODE.pipe}V${y + NODE.cpus}`, class: `band ${loadClass(own.load)}`, "stroke-width": 2 + part * 30 });
        const carried = own.load === null ? ["used of what the memory sustains: unknown"] : [`the memory: ${percent(own.load)} of what it sustains`];
        const ways = list.filter((f) => (f.from === at) === (kind === "near")).slice(0, 8);
        shapes.push(tip(band, () => [name, `${percent(part)} of the traffic whose nodes are known`, ...(gb === null ? [] : [`${rate(gb)} GB/s, read and written, counted`]), ...carried, ...ways.map((f) => `${f.lines[0]}: ${f.label}`)]));
        const label = gb === null ? percent(part) : rate(gb);
        const [side, middle] = [from + 6 + part * 15, y + NODE.cpus + NODE.pipe / 2];
        labels.push(s("text", { x: side, y: middle - 3, class: "label load" }, kind), s("text", { x: side, y: middle + 10, class: "label" }, label));
      }
    });
  }
  const label = !crossing ? `the machine ${r.machine.name}: near and far use of each node's memory; the matrix has the numbers` : `the machine ${r.machine.name} with its traffic: ${drawn.map((f) => f.lines[0] + " " + f.label).join("; ")}`;
  const timed = r.counters !== null && r.time !== null;
  const loads = crossing ? all.map((f) => f.load) : r.pictures.traffic.memories.filter((m) => m.near_share + m.far_share > 0).map((m) => m.load);
  const figure = h(
    "figure",
    { class: "machine" },
    picture(width, height, label, ...shapes, ...labels),
    h("figcaption", {}, r.machine.name, crossing ? "" : `: near and far use of each memory${timed ? ", GB/s" : ""}`, ". ", scale(r, timed, loads.includes(null))),
  );
  return saveable(figure, "machine");
}
