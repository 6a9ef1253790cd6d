//! What things cost by a core's own simulated clock, ns.
//!
//! The clock orders the work of the cores and cuts it into epochs; it is not the
//! predicted time, which is the time model's. It is
//!
//! ```text
//! instructions / (IPC · f)  +  Σ latency / M  +  page walks
//! ```
//!
//! over all lines that miss the first level. M lines are in flight at a time, so
//! a line costs its latency / M, wherever it comes from; a line of a dependent
//! chain costs its whole latency. Hits of the first level are part of the IPC.

use nearfar_machine::Machine;
use nearfar_machine::figures::Figure;

/// Assumed where the machine does not say: a server core under load.
const DEFAULT_GHZ: f64 = 2.5;
/// Assumed: between a stalled core's and the 4 to 6 that cores of this century can issue.
const DEFAULT_IPC: f64 = 2.0;
/// Line fill buffers of Intel cores from Nehalem to Broadwell (Intel's optimization
/// reference manual, "L1 data cache"); assumed for others.
const DEFAULT_OUTSTANDING: f64 = 10.0;
/// Assumed: between the 60 and 115 ns of the described machines.
const DEFAULT_LOCAL_NS: f64 = 90.0;
/// Assumed: 135 / 85 of a two-socket Broadwell; 1.2 to 2.0 on others.
const DEFAULT_REMOTE_FACTOR: f64 = 1.6;
/// Assumed latency of level 1, core cycles: 4 or 5 on described machines.
const DEFAULT_FIRST_CYCLES: f64 = 4.0;
/// Assumed latencies of levels 2 and 3, core cycles: 12 to 16 and 40 to 70 on described machines.
const DEFAULT_L2_CYCLES: f64 = 14.0;
const DEFAULT_SHARED_CYCLES: f64 = 50.0;
/// Second-level TLB hit, core cycles (Intel's optimization reference manual: 7).
const STLB_CYCLES: f64 = 7.0;
/// Assumed: a page walk whose entries are in the caches. Two walkers work at a time
/// on Broadwell and later, and out-of-order execution hides part of it.
const WALK_CYCLES: f64 = 30.0;

/// Costs of one machine, ns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    /// One cycle.
    pub cycle: f64,
    /// One instruction.
    pub instruction: f64,
    /// Cycles of a hit in the first level.
    pub first_cycles: f64,
    /// A line from the second level, from the shared level; one of many in flight.
    pub l2: f64,
    pub shared: f64,
    /// Lines from memory, per node position of the core and of the node of the page: full latency.
    pub latency: Vec<Vec<f64>>,
    /// What a demanded line costs of its latency: 1 / M.
    pub demand: f64,
    /// What a prefetched line costs of its latency. Prefetchers keep more lines in
    /// flight than a core's own misses: as many as its measured bandwidth needs.
    pub prefetch: f64,
    pub stlb: f64,
    pub walk: f64,
    /// Lines that non-temporal stores fill at a time. On Intel cores these are the
    /// line fill buffers (optimization reference manual, "Write combining").
    pub buffers: usize,
}

impl Costs {
    pub fn new(machine: &Machine) -> Costs {
        let core = &machine.figures.core;
        let value = |figure: &Option<Figure>| figure.as_ref().map(|f| f.value);
        let ghz = value(&core.all_core_ghz).or(value(&core.base_ghz)).unwrap_or(DEFAULT_GHZ);
        let ipc = value(&core.ipc).unwrap_or(DEFAULT_IPC);
        let outstanding = value(&core.outstanding_lines).unwrap_or(DEFAULT_OUTSTANDING).max(1.0);
        let cycle = 1.0 / ghz;
        let cycles = |level: u32, default: f64| {
            let known = machine.caches.iter().find(|c| c.level == level).and_then(|c| c.latency_cycles);
            known.unwrap_or(default)
        };
        let shared_level = if machine.caches.iter().any(|c| c.level == 3) { 3 } else { 2 };
        let latency = latency(machine);
        let local = (0..latency.len()).map(|n| latency[n][n]).fold(f64::INFINITY, f64::min);
        // bandwidth = M · 64 bytes / latency; GB/s · ns = bytes.
        let streaming =
            value(&core.read_gbs).map_or(outstanding, |gbs| (gbs * local / 64.0).max(outstanding));
        Costs {
            cycle,
            instruction: cycle / ipc,
            first_cycles: cycles(1, DEFAULT_FIRST_CYCLES),
            l2: cycles(2, DEFAULT_L2_CYCLES) * cycle / outstanding,
            shared: cycles(shared_level, DEFAULT_SHARED_CYCLES) * cycle / outstanding,
            latency,
            demand: 1.0 / outstanding,
            prefetch: 1.0 / streaming,
            stlb: STLB_CYCLES * cycle / outstanding,
            walk: WALK_CYCLES * cycle / 2.0,
            buffers: outstanding as usize,
        }
    }
}

fn latency(machine: &Machine) -> Vec<Vec<f64>> {
    let nodes = machine.nodes.len();
    let known = |from: usize, to: usize| machine.figures.latency_ns.as_ref().and_then(|m| m.get(from, to));
    let local = (0..nodes).find_map(|n| known(n, n)).unwrap_or(DEFAULT_LOCAL_NS);
    let entry = |from: usize, to: usize| {
        let own = known(from, from).unwrap_or(local);
        known(from, to).unwrap_or(if from == to { own } else { own * DEFAULT_REMOTE_FACTOR })
    };
    (0..nodes).map(|from| (0..nodes).map(|to| entry(from, to)).collect()).collect()
}
