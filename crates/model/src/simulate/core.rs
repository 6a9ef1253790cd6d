//! One cpu: its filter, TLB, first and second level.

use super::counts::{Counts, Traffic};
use super::layout::LINE_SHIFT;
use super::{Access, DramKind, Hierarchy, Kind, LINE_BYTES, Sink};

/// One simulated cpu. Its thread owns it; see [`Hierarchy::core`].
#[derive(Debug)]
pub struct Core {
    counts: Counts,
    traffic: Vec<Traffic>,
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
    idle_ns: f64,
    instruction_ns: f64,
    stall_ns: f64,
    costs: Vec<f64>,
}

impl Core {
    pub(super) fn new(hierarchy: &Hierarchy, position: usize) -> Core {
        let layout = &hierarchy.layout;
        let node = hierarchy.node_of(position);
        let size = layout.l2.map_or(layout.l1, |(geometry, _)| geometry);
        Core {
            counts: Counts::default(),
            traffic: vec![Traffic::default(); layout.nodes],
            sets: vec![Vec::new(); size.sets as usize],
            ways: size.ways as usize,
            idle_ns: 0.0,
            instruction_ns: layout.costs.instruction,
            stall_ns: 0.0,
            costs: layout.costs.latency[node].iter().map(|l| l * layout.costs.demand).collect(),
        }
    }

    /// Whether nothing but the count changes: the line was found by its virtual
    /// address, with permission to write if it is a store. The access is counted if so;
    /// if not, nothing has happened and `access` must follow.
    #[inline]
    pub fn quick_hit(&mut self, _virt: u64, _bytes: u8, _kind: Kind) -> bool {
        false
    }

    /// An access that `quick_hit` did not take.
    pub fn access(&mut self, hierarchy: &Hierarchy, access: Access, sink: &mut impl Sink) {
        let first = access.physical >> LINE_SHIFT;
        let last = (access.physical + u64::from(access.bytes.max(1)) - 1) >> LINE_SHIFT;
        for line in first..=last {
            self.line(hierarchy, line, access.kind, sink);
        }
    }

    fn line(&mut self, hierarchy: &Hierarchy, line: u64, kind: Kind, sink: &mut impl Sink) {
        self.counts.accesses += 1;
        let physical = line * LINE_BYTES;
        let Some(home) = hierarchy.homes.home(physical) else {
            self.counts.outside += 1;
            return;
        };
        let at = (line % self.sets.len() as u64) as usize;
        let set = &mut self.sets[at];
        let store = kind != Kind::Load;
        if let Some(way) = set.iter().position(|&(held, _)| held == line) {
            let (_, dirty) = set.remove(way);
            set.push((line, dirty | store));
            self.counts.l1_hits += 1;
            return;
        }
        set.push((line, store));
        let evicted = (set.len() > self.ways).then(|| set.remove(0));
        self.counts.dram_lines += 1;
        self.traffic[home].read_lines += 1;
        self.stall_ns += self.costs[home];
        sink.dram(physical, home, if store { DramKind::Rfo } else { DramKind::Demand });
        if let Some((evicted, true)) = evicted {
            let home = hierarchy.homes.home(evicted * LINE_BYTES).unwrap_or(home);
            self.traffic[home].write_lines += 1;
            sink.dram(evicted * LINE_BYTES, home, DramKind::WriteBack);
        }
    }

    /// Instructions that the cpu ran.
    #[inline]
    pub fn execute(&mut self, instructions: u32) {
        self.counts.instructions += u64::from(instructions);
    }

    /// Translations have changed (another address space, or a page was unmapped or moved).
    pub fn flush_translations(&mut self) {}

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        Counts { busy_ns: self.busy_ns(), ..self.counts }
    }

    /// Lines from and to each node's memory so far, by position in `Machine::nodes`.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    fn busy_ns(&self) -> f64 {
        self.counts.instructions as f64 * self.instruction_ns + self.stall_ns
    }

    /// The core's clock: the time it worked and the time it slept.
    pub fn clock_ns(&self) -> f64 {
        self.busy_ns() + self.idle_ns
    }

    /// The core slept until `ns`. A clock does not go back.
    pub fn sleep_until(&mut self, ns: f64) {
        self.idle_ns += (ns - self.clock_ns()).max(0.0);
    }
}
