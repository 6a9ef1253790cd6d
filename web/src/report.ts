// Written by build.mjs from docs/report.schema.json.
export type Report = {
  schema: 1;
  verdict: Verdict;
  verdict_why: string;
  command: Array<string>;
  exit: string | null;
  ended_early: string | null;
  seconds: number;
  machine: JudgedMachine;
  recorded_on: string;
  rungs: Array<RungUse>;
  cpu: CpuTime | null;
  basis: Basis;
  region: Region;
  remote_share: number | null;
  remote_share_ci: Interval | null;
  remote_share_exact: boolean;
  remote_time_share: number | null;
  remote_time_share_ci: Interval | null;
  caches: CacheBound | null;
  caches_why: string | null;
  caches_may_hold: CacheHeld | null;
  distance: Array<DistanceShare>;
  home_unknown_share: number;
  unattributed_share: number;
  compute_share: number;
  spinning_share: number;
  node_matrix: Array<Array<number>>;
  threads: Array<ThreadRow>;
  objects: Array<ObjectRow>;
  functions: Array<FunctionRow>;
  findings: Array<Finding>;
  counters: Counted | null;
  counters_why: string | null;
  time: Timed | null;
  time_why: string | null;
  notes: Array<string>;
  what_if: WhatIf | null;
  what_if_why: string | null;
  pictures: Pictures;
};

export type Basis = "stall_time" | "dram_lines";

export type Binding = {
  kind: "core";
} | {
  kind: "concurrency";
} | {
  kind: "dram";
  node: number;
} | {
  kind: "link";
  from: number;
  to: number;
};

export type Bound = {
  binds: Binding;
  share: number;
};

export type Cause = {
  at: string | null;
  function: string | null;
  text: string;
};

export type Counted = {
  rung: string;
  region: Region;
  epochs: number;
  line_bytes: number;
  dram: Array<DramFlow>;
  links: Array<LinkFlow>;
  cpus: Array<CpuCounts>;
  bandwidth: Array<NodeLoad>;
  timeline: Array<Moment>;
  memory_bound_share: number | null;
  roofline: Roofline | null;
  roofline_why: string | null;
};

export type Roofline = {
  f64_ops: number;
  f32_ops: number;
  flop_per_byte: number | null;
  gflops: number | null;
  peak_gflops: number | null;
  memory_gb_per_s: number | null;
  roof_gflops: number | null;
  roof: "memory" | "arithmetic" | null;
};

export type CpuCounts = {
  cpu: number;
  node: number | null;
  instructions: number;
  ipc: number | null;
  l1_hit: number | null;
  l2_hit: number | null;
  l3_hit: number | null;
  dram_local: number;
  dram_remote: number;
  cache_transfers: number;
  tlb_misses: number;
  huge_tlb_misses: number;
};

export type DistanceClass = "local" | "same_socket" | "other_socket" | "cpu_less";

export type DistanceShare = {
  class: DistanceClass;
  share: number;
};

export type DramFlow = {
  from: number;
  home: number;
  read_bytes: number;
  prefetch_bytes: number;
  write_bytes: number;
  cache_bytes: number;
  walks: number;
};

export type DramLines = {
  local: number;
  remote: number;
  exact: boolean;
  bound: Array<Bound>;
};

export type Finding = {
  kind: string;
  objects: Array<string>;
  cause: Cause;
  evidence: Array<string>;
  advice: string;
  predicted: Predicted | null;
  predicted_why: string | null;
  stake: number;
  rank: number;
  repairs: Array<RepairPart>;
};

export type FunctionRow = {
  function: string;
  module: string | null;
  stall_share: number;
  remote_share: number | null;
  dram: DramLines | null;
  lines: Array<UseRow>;
};

export type CacheHeld = {
  far_share: number;
  cache_level: number;
  cache_bytes: number;
  object_bytes: number;
  objects: Array<string>;
};

export type CacheBound = {
  memory_bytes: number;
  cache_level: number;
  cache_bytes: number;
  far_share_at_most: number;
  between_nodes_at_most: number;
};

export type CpuTime = {
  seconds: number;
  kernel_seconds: number;
  page_faults: number;
};

export type Interval = {
  low: number;
  high: number;
};

export type JudgedMachine = {
  name: string;
  nodes: number;
  node_ids: Array<number>;
  assumed: boolean;
  binding: string;
};

export type LinkFlow = {
  from: number;
  to: number;
  bytes: number;
  data_bytes: number;
  gb_per_s: number;
  capacity_gb_per_s: number | null;
};

export type Moment = {
  from_s: number;
  to_s: number;
  binds: Binding;
  nodes: Array<MomentNode>;
};

export type MomentNode = {
  node: number;
  read_gb_per_s: number;
  write_gb_per_s: number;
};

export type NodeLoad = {
  node: number;
  gb_per_s: number;
  sustained_gb_per_s: number | null;
  low: number | null;
  medium: number | null;
  high: number | null;
};

export type ObjectRow = {
  name: string;
  name_from: string;
  kind: string;
  bytes: number;
  count: number;
  allocated_at: string | null;
  allocated_in: string | null;
  allocated_through: Array<string>;
  first_touch: Array<TouchRow>;
  pages: PageOrigins;
  folio_bytes: Array<number>;
  samples: number;
  stall_share: number;
  remote_share: number | null;
  remote_share_ci: Interval | null;
  remote_share_exact: boolean;
  dram: DramLines | null;
  distance: Array<DistanceShare>;
  home_unknown_share: number;
  accessed_at: Array<UseRow>;
  pattern: Pattern;
  thread_ranges: Array<ThreadRange>;
};

export type PageOrigins = {
  total: number;
  touched: number;
  inherited: number;
  unseen: number;
  absent_or_unknown: number;
};

export type Pattern = "blocked" | "cyclic" | "own_thread" | "all_over" | "one_thread" | "unknown";

export type Predicted = {
  ratio: number;
  low: number;
  high: number;
};

export type Region = "whole" | "marked";

export type RungUse = {
  rung: string;
  samples: number;
  lost: number;
  lost_known: boolean;
  resolved_share: number | null;
  hz: number | null;
  resolution: Array<[string, number]>;
};

export type ThreadRange = {
  thread: number;
  samples: number;
  from: number;
  to: number;
};

export type ThreadRow = {
  tid: number;
  name: string;
  index: number;
  node: number | null;
  samples: number;
  share: number;
  by_home: Array<number>;
  cpus: number;
  migrations: number;
};

export type Timed = {
  seconds: number;
  low: number;
  high: number;
  binds: Binding;
  shares: Array<Bound>;
  weak_figures: Array<WeakFigure>;
};

export type TouchRow = {
  thread: number;
  node: number | null;
  pages: number;
  at: string | null;
  function: string | null;
  how: string;
};

export type UseRow = {
  at: string | null;
  function: string | null;
  stall_share: number;
  remote_share: number | null;
  dram: DramLines | null;
};

export type Verdict = "clean" | "affected" | "unknown";

export type WeakFigure = {
  name: string;
  value: number | null;
  confidence: string;
};

export type RepairRow = {
  objects: Array<string>;
  repair: Repair;
  predicted: Predicted;
  remote_share: number;
};

export type RepairPart = {
  object: string;
  repair: Repair;
  allocated_at: string | null;
  variable: string | null;
  module: string | null;
  nodes: Array<number>;
  bytes: number;
  blocks: Array<[number, number]>;
  turns: Array<number>;
  not_placeable: string | null;
};

export type Combination = {
  parts: Array<RepairPart>;
  predicted: Predicted;
  remote_share: number;
};

export type OneNode = {
  node: number;
  predicted: Predicted;
};

export type WhatIf = {
  remote_share: number;
  repairs: Array<RepairRow>;
  best: Combination | null;
  placeable: Combination | null;
  all_local: Predicted;
  one_node: OneNode | null;
  not_worth: Array<NotWorth>;
};

export type NotWorth = {
  kind: string;
  objects: Array<string>;
  predicted: Predicted;
};

export type Repair = {
  kind: "where_used";
} | {
  kind: "interleave";
} | {
  kind: "weighted_interleave";
} | {
  kind: "same_schedule";
} | {
  kind: "replicate";
} | {
  kind: "bind";
  node: number;
};

export type Pictures = {
  machine: MachinePicture;
};

export type MachinePicture = {
  nodes: Array<NodePicture>;
  caches: Array<CachePicture>;
  links: Array<LinkPicture>;
  distances: Array<Array<number>>;
  latency_ns: Array<Array<number | null>>;
  read_gb_per_s: Array<Array<number | null>>;
  sources: Array<string>;
};

export type NodePicture = {
  id: number;
  package: number | null;
  cpus: string;
  cpu_count: number;
  cores: number;
  kind: "dram" | "hbm" | "cxl" | "gpu" | "pmem";
  memory_bytes: number | null;
  read_gb_per_s: number | null;
};

export type CachePicture = {
  level: number;
  size_bytes: number;
  cores_per_instance: number;
};

export type LinkPicture = {
  from: number;
  to: number;
  gb_per_s: number;
};
