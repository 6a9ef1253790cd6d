// Threads: on which node each runs, and on which its memory is.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { chart, seconds } from "./chart";
import { at, partOf } from "./chosen";
import { type Child, h, s, section } from "./dom";
import { count, plural, shorten } from "./format";
import { barOf, type Chosen, chosenThread, farOf, shareOf, waitingOf } from "./followed";
import { bar, share } from "./marks";
import type { ProcessPicture, Report, ThreadParts, ThreadRow } from "./report";
import { nodeClass, nodeLegend } from "./strip";
import { table } from "./table";
import { threadOf } from "./words";

export function threads(d: Data): HTMLElement {
  const r = d.report;
  const source = sampled(r);
  const ids = r.machine.node_ids;
  const near = (t: ThreadRow): number => (t.node === null ? 0 : (t.by_page_node[ids.indexOf(t.node)] ?? 0));
  const known = (t: ThreadRow): number => t.by_page_node.reduce((a, b) => a + b, 0);
  const nodes = ids.length <= 8 ? ids : [];
  const most = r.threads.reduce((least, t) => Math.max(least, t.share), 1e-9);
  const of = (t: ThreadRow): Chosen => chosenThread(r, t.tid);
  const all = table<ThreadRow>({
    id: "thread-table",
    label: "threads",
    rows: r.threads,
    text: (t) => `${t.name} ${t.tid} node ${t.node ?? "unknown"}`,
    columns: [
      { name: "thread", about: "position in creation order and name; tid: its number in other tools", number: false, ascending: true, key: (t) => t.index, cell: (t) => h("span", { class: "name" }, `${t.index} ${t.name}`, h("small", {}, ` tid ${t.tid}`)) },
      { name: "node", about: "node that it runs on", number: true, ascending: true, key: (t) => t.node, cell: (t) => (t.node === null ? "unknown" : String(t.node)) },
      { name: shareName(r), follows: true, about: `share of all ${basis(r)}`, number: true, key: (t) => shareOf(of(t), t.share), cell: (t) => share(shareOf(of(t), t.share), null, source) },
      { name: "", follows: true, about: "near and far parts of that share; the rest computes, waits or is unknown", key: (t) => farOf(of(t), known(t) - near(t)), cell: (t) => barOf(of(t), () => bar(near(t) / most, (known(t) - near(t)) / most, 0)) },
      ...nodes.map((id, at) => ({ name: `memory on ${id}`, about: `share of all samples that are on pages of node ${id}`, number: true, key: (t: ThreadRow) => t.by_page_node[at] ?? null, cell: (t: ThreadRow) => share(t.by_page_node[at] ?? null, null, source) })),
      { name: "waiting", follows: true, about: "share of its samples that wait for another thread in a runtime's loop", number: true, key: (t) => waitingOf(of(t), t.waiting_share), cell: (t) => share(waitingOf(of(t), t.waiting_share), null, source) },
      { name: "cpus", about: "cpus it was seen on", number: true, key: (t) => t.cpus, cell: (t) => count(t.cpus) },
      { name: "moves", about: "changes of cpu between samples, at least", number: true, key: (t) => t.migrations, cell: (t) => count(t.migrations) },
    ],
  });
  return section("threads", "Threads", null, cpus(r), all, processes(d));
}

/** `0-21,44` as the nodes of cpus. */
function nodesOfCpus(r: Report): Map<number, number> {
  const nodes = new Map<number, number>();
  for (const node of r.pictures.machine.nodes)
    for (const range of node.cpus.split(",").filter((text) => text !== "")) {
      const [first, last] = range.split("-").map(Number);
      for (let cpu = first ?? 0; cpu <= (last ?? first ?? 0); cpu++) nodes.set(cpu, node.id);
    }
  return nodes;
}

/** Where each thread ran over time: the colour is the node, the height how busy it was, hatched while it waited. */
function cpus(r: Report): HTMLElement | null {
  const c = r.pictures.timeline;
  if (!c) return null;
  if (c.threads.length === 0) return h("p", { class: "lead" }, `Threads over time: unknown. ${c.threads_why ?? ""}`);
  const assumed = r.machine.assumed;
  const nodes = nodesOfCpus(r);
  const rows = new Map(r.threads.map((t) => [t.tid, t]));
  const lane = c.threads.length > 24 ? 8 : 13;
  const span = { from: c.from_s, to: c.to_s };
  const most = c.threads.reduce((all, t) => Math.max(all, ...t.near.map((_, p) => weight(t, p))), 1);
  const nodeOf = (tid: number, cpu: number): number | null => (assumed ? (rows.get(tid)?.node ?? null) : (nodes.get(cpu) ?? null));
  const shapes = (x: (t: number) => number): Child[] => {
    const paths = new Map<string, string>();
    const add = (kind: string, d: string): void => void paths.set(kind, `${paths.get(kind) ?? ""}${d}`);
    const texts: Child[] = [];
    c.threads.forEach((t, row) => {
      const bottom = (row + 1) * lane - 1;
      let before: number | null = null;
      for (let p = 0; p < c.parts; p++) {
        const cpu = t.cpu[p] ?? null;
        if (cpu === null) continue;
        const [from, width] = [x(at(c, p)), x(at(c, p + 1)) - x(at(c, p))];
        const high = Math.max(1, (weight(t, p) / most) * (lane - 2));
        const waits = ((t.waiting[p] ?? 0) / most) * (lane - 2);
        add(nodeClass(r, nodeOf(t.tid, cpu)), `M${from} ${bottom}v${-(high - waits)}h${width}V${bottom}z`);
        if (waits > 0) add("nu", `M${from} ${bottom - (high - waits)}v${-waits}h${width}v${waits}z`);
        if (before !== null && before !== cpu) add("tick", `M${from} ${bottom}v${-(lane - 2)}`);
        before = cpu;
      }
      if (lane > 10 || row % 4 === 0) texts.push(s("text", { x: 0, y: bottom - 1, class: "small" }, shorten(`${rows.get(t.tid)?.index ?? ""} ${rows.get(t.tid)?.name ?? ""}`, 16)));
    });
    return [...[...paths].map(([kind, d]) => s("path", { d, class: kind })), ...texts];
  };
  const answer = (t: number): string => {
    const p = partOf(c, t);
    const seen = c.threads.filter((one) => one.cpu[p] !== null && one.cpu[p] !== undefined);
    const words = seen.slice(0, 8).map((one) => `${threadOf(r, one.tid)} on cpu ${one.cpu[p]}${(one.waiting[p] ?? 0) > 0 ? ", waiting" : ""}`);
    return `${seconds(at(c, p))} to ${seconds(at(c, p + 1))}: ${plural(seen.length, "thread")} seen${words.length > 0 ? `: ${words.join("; ")}` : ""}${seen.length > 8 ? "; …" : ""}. ${sampled(r)}`;
  };
  const rest = r.threads.filter((t) => t.samples > 0).length - c.threads.length;
  const lead = `Colour: node of the ${assumed ? "thread on the assumed machine" : "cpu"}; height: how much it was sampled; hatched: it waited for other threads; a line: another cpu than before.${rest > 0 ? ` The ${c.threads.length} threads with most samples; ${count(rest)} more are in the table.` : ""}`;
  return h("div", {}, h("h3", {}, "Threads and their cpus over time"), h("p", { class: "lead" }, lead, " ", nodeLegend(r, "waiting, or node unknown", "blank: not seen")), chart({ id: "thread-cpus", label: "threads and their cpus over time", height: c.threads.length * lane, span, timeline: c, shapes, answer }));
}

const weight = (t: ThreadParts, p: number): number => (t.near[p] ?? 0) + (t.far[p] ?? 0) + (t.other[p] ?? 0) + (t.waiting[p] ?? 0);

/** Processes, where there are several. */
function processes(d: Data): HTMLElement | null {
  const r = d.report;
  const rows = r.pictures.processes;
  if (rows.length < 2) return null;
  const source = sampled(r);
  const nodes = r.machine.node_ids.length <= 8 ? r.machine.node_ids : [];
  const all = table<ProcessPicture>({
    id: "process-table",
    label: "processes",
    rows,
    text: (p) => `${p.pid} ${p.executable}`,
    columns: [
      { name: "process", about: "process id", number: true, ascending: true, key: (p) => p.pid, cell: (p) => String(p.pid) },
      { name: "executable", about: "path of its program", ascending: true, key: (p) => p.executable, cell: (p) => h("code", {}, p.executable) },
      { name: "threads", about: "threads with samples", number: true, key: (p) => p.threads, cell: (p) => count(p.threads) },
      { name: shareName(r), about: `share of all ${basis(r)}`, number: true, key: (p) => p.share, cell: (p) => share(p.share, null, source) },
      ...nodes.map((id, at) => ({ name: `memory on ${id}`, about: `share of all samples that are on pages of node ${id}`, number: true, key: (p: ProcessPicture) => p.by_page_node[at] ?? null, cell: (p: ProcessPicture) => share(p.by_page_node[at] ?? null, null, source) })),
    ],
  });
  return h("div", {}, h("h3", {}, "Processes"), all);
}
