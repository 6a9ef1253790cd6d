// What the kernel and the processor counted while the program was recorded: sums with their sources, and what is unknown with why.
import { each } from "./data";
import { type Child, h, section } from "./dom";
import { count, digits, percent, percentCi, UNKNOWN } from "./format";
import type { CountedAlong, CountedThread, CountedValue, Report } from "./report";
import { table } from "./table";

/** A value with its unit. */
export function counted(value: CountedValue): string {
  const n = value.value;
  if (n === null) return UNKNOWN;
  if (value.unit === "ns") return `${(n * 1e-9).toFixed(2)} s`;
  if (value.unit === "bytes") return `${(n * 1e-9).toFixed(3)} GB`;
  return value.unit === "" ? count(n) : `${count(n)} ${value.unit}`;
}

/** The remote share by counters, and whether samples say the same. */
function remote(r: Report, along: CountedAlong): string {
  if (along.remote_share === null) return `Remote share by counters is unknown: ${along.remote_share_why ?? "not counted"}.`;
  const samples = percentCi(r.remote_share, r.remote_share_ci);
  const same = along.agrees === null ? "the samples' share is unknown" : `the samples ${along.agrees ? "say the same" : "disagree"}: ${samples} of the ${each(r)}`;
  return `Remote share by counters: ${percent(along.remote_share)} of the lines from memory; ${same}.`;
}

function values(id: string, label: string, rows: CountedValue[]): HTMLElement {
  return table<CountedValue>({
    id,
    label,
    rows,
    text: (v) => `${v.name} ${v.of} ${v.source} ${v.why ?? ""}`,
    columns: [
      { name: "counted", about: "what is counted", key: (v) => v.name, cell: (v) => v.name },
      { name: "of", about: "what it is of", key: (v) => v.of, cell: (v) => v.of },
      { name: "value", about: "its sum over the recording, scaled where counters took turns", number: true, key: (v) => v.value, cell: (v) => counted(v) },
      { name: "ran", about: "part of the time that the counter ran, the smallest of all threads and intervals; below 100 % the value is scaled", number: true, key: (v) => v.running_share, cell: (v) => percent(v.running_share) },
      { name: "source", about: "what counted it", key: (v) => v.source, cell: (v) => v.source },
      { name: "note", about: "why it is unknown, or how much of it is known", key: (v) => v.why, cell: (v) => h("span", { class: "note" }, v.why ?? "") },
    ],
  });
}

function threads(r: Report, along: CountedAlong): Child {
  if (along.threads.length === 0) return null;
  const per = (a: number | null, b: number | null): number | null => (a === null || b === null || b <= 0 ? null : a / b);
  const events: [string, string, (t: CountedThread) => number | null][] = [
    ["faults", "page faults", (t) => t.page_faults],
    ["switches", "context switches", (t) => t.context_switches],
    ["migrations", "moves to another cpu", (t) => t.cpu_migrations],
    ["instructions", "in user mode", (t) => t.instructions],
    ["LLC misses", "misses of the last-level cache", (t) => t.last_level_misses],
    ["local lines", "lines from memory of the thread's own node", (t) => t.local_lines],
    ["remote lines", "lines from memory of other nodes", (t) => t.remote_lines],
  ];
  const known = events.filter(([, , of]) => along.threads.some((t) => of(t) !== null));
  const index = new Map(r.threads.map((t) => [t.tid, t.index]));
  const ipc = (t: CountedThread): number | null => per(t.instructions, t.cycles);
  const number = (n: number | null): string => (n === null ? UNKNOWN : count(n));
  const own = table<CountedThread>({
    id: "counted-thread-table",
    label: "counters of threads",
    rows: along.threads,
    text: (t) => `${t.name} ${t.tid}`,
    columns: [
      { name: "thread", about: "position in creation order and name; tid: its number in other tools", ascending: true, key: (t) => index.get(t.tid) ?? null, cell: (t) => h("span", { class: "name" }, `${index.get(t.tid) ?? UNKNOWN} ${t.name}`, h("small", {}, ` tid ${t.tid}`)) },
      { name: "cpu time", about: "while its counters ran, seconds", number: true, key: (t) => t.cpu_seconds, cell: (t) => (t.cpu_seconds === null ? UNKNOWN : `${t.cpu_seconds.toFixed(2)} s`) },
      ...known.map(([name, about, of]) => ({ name, about, number: true, key: of, cell: (t: CountedThread) => number(of(t)) })),
      ...(along.threads.some((t) => ipc(t) !== null) ? [{ name: "instr./cycle", about: "instructions for each cycle, in user mode", number: true, key: ipc, cell: (t: CountedThread) => digits(ipc(t)) }] : []),
    ],
  });
  const share = along.threads_share;
  const lead = share === null ? "What part of the CPU time these have is unknown." : share < 0.995 ? `These ran for ${percent(share)} of the CPU time: the counters of a thread begin when it is found.` : null;
  return h("div", {}, h("h3", {}, "Of each thread"), lead ? h("p", { class: "lead" }, lead) : null, own);
}

/** Null where nothing was counted beside the samples: lines of an emulated machine are exact, and imported files have theirs in the notes. */
export function along(r: Report): HTMLElement | null {
  const a = r.counted_along;
  if (!a) return null;
  const seconds = a.host_seconds === null ? "" : `, in ${digits(a.host_seconds)} s`;
  const host = a.host.length === 0 ? null : h("div", {}, h("h3", {}, `Of the host, with all other programs${seconds}`), values("host-counter-table", "counters of the host", a.host));
  return section(
    "along",
    "Counted beside the samples",
    remote(r, a),
    a.program.length === 0 ? h("p", { class: "none" }, "unknown: no counter of the program was read") : values("counter-table", "counters of the program", a.program),
    threads(r, a),
    host,
  );
}
