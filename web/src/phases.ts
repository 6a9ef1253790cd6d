// Phases that the program, its runtime or a tool named: which in which, how long, how far.
import type { Data } from "./data";
import { each, sampled } from "./data";
import { h } from "./dom";
import { count, digits, shorten } from "./format";
import { bar, share } from "./marks";
import type { PhaseNode } from "./report";
import { table } from "./table";

export function phases(d: Data): HTMLElement | null {
  const p = d.report.phases;
  // The first is each thread as a whole.
  if (!p || p.nodes.length < 2) return null;
  const source = `${sampled(d.report)}; times by the ${p.clock === "simulated" ? "virtual machine's clock" : "recorded machine's clock"}`;
  const whole = Math.max(1, p.nodes[0]?.all.inclusive.weight ?? 1);
  const far = (n: PhaseNode): number | null => {
    const { near, far } = n.all.inclusive;
    return near + far > 0 ? far / (near + far) : null;
  };
  const part = (n: PhaseNode): number => n.all.inclusive.weight / whole;
  const seconds = (ns: number): string => `${digits(ns / 1e9)} s`;
  const rows = p.nodes.slice(1);
  const name = (n: PhaseNode): HTMLElement => {
    const cell = h("span", { class: "name", title: n.name }, shorten(n.name === "" ? "unnamed" : n.name, 50), h("small", {}, ` ${n.source}`));
    cell.style.paddingLeft = `${(n.depth - 1) * 14}px`;
    return cell;
  };
  const all = table<PhaseNode>({
    id: "phase-table",
    label: "phases",
    rows,
    text: (n) => `${n.name} ${n.source}`,
    columns: [
      { name: "phase", about: "its name, below the phase that it is in, and whose word it is", ascending: true, key: (n) => n.name, cell: name },
      { name: "calls", about: "how often it began", number: true, key: (n) => n.all.calls, cell: (n) => count(n.all.calls) },
      { name: "time", about: "in it and in phases in it, of all threads added", number: true, key: (n) => n.all.inclusive.time_ns, cell: (n) => seconds(n.all.inclusive.time_ns) },
      { name: "itself", about: "in it and in no phase in it, of all threads added", number: true, key: (n) => n.all.exclusive.time_ns, cell: (n) => seconds(n.all.exclusive.time_ns) },
      { name: "share", about: p.basis === "stall_time" ? "of the CPU time of all samples of these threads" : `of the ${each(d.report)} of these threads`, number: true, key: part, cell: (n) => share(part(n), null, source) },
      { name: "", about: "near, far and other parts of that share", key: (n) => n.all.inclusive.far, cell: (n) => bar(n.all.inclusive.near / whole, n.all.inclusive.far / whole, Math.max(0, n.all.inclusive.weight - n.all.inclusive.near - n.all.inclusive.far) / whole) },
      { name: "far", about: "of what is near or far in it and in phases in it", number: true, key: far, cell: (n) => share(far(n), null, source) },
      { name: "samples", about: "samples in it and in phases in it", number: true, key: (n) => n.all.inclusive.samples, cell: (n) => count(n.all.inclusive.samples) },
    ],
  });
  return h("div", {}, h("h3", {}, "Phases"), all);
}
