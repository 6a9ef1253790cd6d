// Threads: on which node each runs, and on which its memory is.
import type { Data } from "./data";
import { basis, sampled, shareName } from "./data";
import { h, section } from "./dom";
import { count, percent } from "./format";
import { bar, share } from "./marks";
import type { ProcessPicture, ThreadRow } from "./report";
import { table } from "./table";

export function threads(d: Data): HTMLElement {
  const r = d.report;
  const source = sampled(r);
  const ids = r.machine.node_ids;
  const near = (t: ThreadRow): number => (t.node === null ? 0 : (t.by_home[ids.indexOf(t.node)] ?? 0));
  const known = (t: ThreadRow): number => t.by_home.reduce((a, b) => a + b, 0);
  const nodes = ids.length <= 8 ? ids : [];
  const most = r.threads.reduce((least, t) => Math.max(least, t.share), 1e-9);
  const all = table<ThreadRow>({
    id: "thread-table",
    label: "threads",
    rows: r.threads,
    text: (t) => `${t.name} ${t.tid} node ${t.node ?? "unknown"}`,
    columns: [
      { name: "thread", about: "position in creation order and name", number: false, ascending: true, key: (t) => t.index, cell: (t) => h("span", { class: "name" }, `${t.index} ${t.name}`, h("small", {}, ` tid ${t.tid}`)) },
      { name: "node", about: "node that it runs on", number: true, ascending: true, key: (t) => t.node, cell: (t) => (t.node === null ? "unknown" : String(t.node)) },
      { name: shareName(r), about: `share of all ${basis(r)}`, number: true, key: (t) => t.share, cell: (t) => share(t.share, null, source) },
      { name: "", about: "near and far parts of that share; the rest computes, waits or is unknown", key: (t) => known(t) - near(t), cell: (t) => bar(near(t) / most, (known(t) - near(t)) / most, 0) },
      ...nodes.map((id, at) => ({ name: `memory on ${id}`, about: `share of all samples that are on pages of node ${id}`, number: true, key: (t: ThreadRow) => t.by_home[at] ?? null, cell: (t: ThreadRow) => percent(t.by_home[at]) })),
      { name: "cpus", about: "cpus it was seen on", number: true, key: (t) => t.cpus, cell: (t) => count(t.cpus) },
      { name: "moves", about: "changes of cpu between samples, at least", number: true, key: (t) => t.migrations, cell: (t) => count(t.migrations) },
    ],
  });
  return section("threads", "Threads", null, all, processes(d));
}

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
      ...nodes.map((id, at) => ({ name: `memory on ${id}`, about: `share of all samples that are on pages of node ${id}`, number: true, key: (p: ProcessPicture) => p.by_home[at] ?? null, cell: (p: ProcessPicture) => percent(p.by_home[at]) })),
    ],
  });
  return h("div", {}, h("h3", {}, "Processes"), all);
}
