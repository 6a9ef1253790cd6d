// The machine, with the traffic on it: from whose cpus to whose memory.
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
  /** Part of what the way sustains, where that is known: the band's strength. */
  load: number | null;
  label: string;
  lines: string[];
}

const NODE = { width: 196, cpus: 58, pipe: 46, memory: 44 };
const HEIGHT = NODE.cpus + NODE.pipe + NODE.memory;
/** Of more nodes than these, bands between all of them would hide each other: each memory's near and far use is drawn. */
const CROSSING = 4;
/** More nodes than these are shown by the matrix alone. */
const NODES = 16;

/** Traffic between nodes: GB/s where lines were counted and timed, else shares of what was sampled. */
function flows(r: Report): Flow[] {
  const ids = r.machine.node_ids;
  const id = (at: number): string => `node ${ids[at]}`;
  const way = (from: number, page_node: number): string =>
    from === page_node ? `threads on ${id(from)}, memory on the same node` : `threads on ${id(from)} use memory on ${id(page_node)}`;
  const counted = r.counters?.dram;
  const list: Flow[] = [];
  if (counted && r.time) {
    const seconds = r.time.seconds;
    const all = counted.reduce((sum, f) => sum + f.read_bytes + f.write_bytes, 0);
    for (const f of counted) {
      const [from, page_node] = [ids.indexOf(f.from), ids.indexOf(f.page_node)];
      const bytes = f.read_bytes + f.write_bytes;
      if (from < 0 || page_node < 0 || bytes === 0) continue;
      const rate = bytes / seconds / 1e9;
      // Data comes from the memory's node to the cpus'.
      const link = r.counters?.links.find((l) => l.from === f.page_node && l.to === f.from);
      const memory = r.counters?.bandwidth.find((b) => b.node === f.page_node);
      const most = from === page_node ? memory?.sustained_gb_per_s : link?.capacity_gb_per_s;
      const now = from === page_node ? memory?.gb_per_s : link?.gb_per_s;
      const load = most && now !== undefined ? now / most : null;
      const what = from === page_node ? `memory of ${id(page_node)}` : `link ${ids[page_node]}→${ids[from]}`;
      const used = load === null ? `${what}: what it sustains is unknown` : `${what}: ${digits(now ?? null)} of ${digits(most ?? null)} GB/s`;
      list.push({ from, page_node, part: bytes / all, load, label: `${digits(rate)} GB/s`, lines: [way(from, page_node), `${digits(rate)} GB/s over ${digits(seconds * 1000)} ms, counted`, used] });
    }
    return list;
  }
  const all = r.node_matrix.flat().reduce((a, b) => a + b, 0);
  r.node_matrix.forEach((row, from) =>
    row.forEach((share, page_node) => {
      if (share > 0 && all > 0)
        list.push({ from, page_node, part: share / all, load: null, label: percent(share), lines: [way(from, page_node), `${percent(share)} of ${basis(r)}`, sampled(r), "GB/s: unknown, samples of time do not count bytes"] });
    }),
  );
  return list;
}

export function machinePicture(r: Report): HTMLElement {
  const nodes = r.pictures.machine.nodes;
  if (nodes.length === 0 || nodes.length > NODES) {
    return h("p", { class: "none" }, `${plural(nodes.length, "node")}: the matrix below shows the traffic`);
  }
  const across = nodes.length <= 2 ? nodes.length : nodes.length <= 4 ? 2 : 4;
  const down = Math.ceil(nodes.length / across);
  const gap = { x: across > 2 ? 26 : 120, y: 44 };
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
    const x = Math.min(...at.map((c) => c.x)) - 8;
    const y = Math.min(...at.map((c) => c.y)) - 18;
    const right = Math.max(...at.map((c) => c.x)) + NODE.width + 8;
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
    shapes.push(s("text", { x: x + 10, y: y + 36, class: "small" }, cores.length > 32 ? plural(node.cores, "core") : cores));
    shapes.push(s("text", { x: x + 10, y: y + 50, class: "small" }, inner));
    const top = y + NODE.cpus + NODE.pipe;
    shapes.push(s("rect", { x, y: top, width: NODE.width, height: NODE.memory, rx: 4, class: "memory" }));
    const kind = node.kind === "dram" ? "memory" : `memory (${node.kind})`;
    shapes.push(s("text", { x: x + 10, y: top + 18, class: "strong" }, `${kind} of node ${node.id}`));
    const known = [node.memory_bytes === null ? "" : size(node.memory_bytes), node.read_gb_per_s === null ? "" : `sustains ${digits(node.read_gb_per_s)} GB/s`];
    const words = known.filter((k) => k !== "").join(", ") || "size unknown";
    shapes.push(s("text", { x: x + 10, y: top + 34, class: "small" }, words));
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
      // Bands of opposite direction cross in the middle: their labels part.
      label.y += (flow.from < flow.page_node ? 1 : -1) * 20;
    }
    const strength = flow.load === null ? 0.8 : 0.35 + 0.65 * Math.min(1, flow.load);
    const band = s("path", { d: path, class: near ? "band near" : "band far", "stroke-width": wide, "stroke-opacity": strength });
    shapes.push(tip(band, () => flow.lines));
    labels.push(s("text", { x: label.x, y: label.y, class: "label", "text-anchor": near ? "start" : "middle" }, flow.label));
  }
  if (!crossing) {
    nodes.forEach((node, at) => {
      const { x, y } = corner(at);
      const own = all.filter((f) => f.page_node === at);
      for (const [kind, from, list] of [["near", x + 30, own.filter((f) => f.from === at)], ["far", x + 112, own.filter((f) => f.from !== at)]] as const) {
        const part = list.reduce((sum, f) => sum + f.part, 0);
        if (part === 0) continue;
        const name = kind === "near" ? `memory of node ${node.id}, used by threads of the same node` : `memory of node ${node.id}, used by threads of other nodes`;
        const band = s("path", { d: `M${from} ${y + NODE.cpus + NODE.pipe}V${y + NODE.cpus}`, class: `band ${kind}`, "stroke-width": 2 + part * 40, "stroke-opacity": 0.8 });
        shapes.push(tip(band, () => [name, `${percent(part)} of the traffic whose nodes are known`, ...list.slice(0, 8).map((f) => f.lines[0] + ": " + f.label)]));
        labels.push(s("text", { x: from + 8 + part * 20, y: y + NODE.cpus + NODE.pipe / 2 + 4, class: "label" }, percent(part)));
      }
    });
  }
  const unit = !crossing ? "part of all traffic, near and far, of each memory" : r.counters && r.time ? "GB/s, counted; strength: part of what the way sustains" : `share of ${basis(r)}`;
  const label = !crossing ? `the machine ${r.machine.name}: near and far use of each node's memory; the matrix has the numbers` : `the machine ${r.machine.name} with its traffic: ${drawn.map((f) => f.lines[0] + " " + f.label).join("; ")}`;
  const figure = h(
    "figure",
    { class: "machine" },
    picture(width, height, label, ...shapes, ...labels),
    h("figcaption", {}, `${r.machine.name}. Width of a band: ${unit}.`),
  );
  return saveable(figure, "machine");
}
