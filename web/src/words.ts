// Words for the values of enumerations.
import type { Binding, Pattern, Repair, Report } from "./report";

export function repair(r: Repair): string {
  switch (r.kind) {
    case "where_used":
      return "each page on the node that uses it";
    case "interleave":
      return "interleaved over all nodes";
    case "weighted_interleave":
      return "interleaved, by bandwidth";
    case "weighted":
      return `interleaved, pages on each node with cpus and on each without as ${r.with_cpus} to ${r.without}`;
    case "bind":
      return `all on node ${r.node}`;
    case "same_schedule":
      return "same schedule as the first touch";
    case "replicate":
      return "a copy on each node";
  }
}

export const PATTERNS: Record<Pattern, string> = {
  blocked: "blocks",
  cyclic: "in turns",
  own_thread: "own stacks",
  all_over: "all over",
  one_thread: "one thread",
  unknown: "unknown",
};

/** The resource that binds. */
export function binding(b: Binding): string {
  const words = b.kind.replace(/_/g, " ");
  if ("from" in b) return `${words} ${b.from}→${b.to}`;
  return "node" in b ? `${words} of node ${b.node}` : words;
}

/** A thread as a reader meets it everywhere: by its place in the order in which threads began. */
export function threadOf(r: Report, tid: number | null): string {
  const row = r.threads.find((t) => t.tid === tid);
  return `thread ${row === undefined ? "unknown" : row.index}`;
}
