//! What a run showed: its machine and its counts.

use nearfar_machine::Machine;
use nearfar_recording::{Columns, CpuEpochs, EpochTraffics};
use nearfar_timing::{Time, Timeline, time};
use std::collections::{BTreeMap, HashMap};

/// Cache lines that one cpu moved from and to one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lines {
    /// Kernel index of the cpu.
    pub cpu: u16,
    /// The cpu's node, as a position.
    pub node: usize,
    /// The memory's node, as a position.
    pub page_node: usize,
    /// Read, prefetched ones included.
    pub read: f64,
    /// Written back.
    pub written: f64,
    /// Streamed by non-temporal stores.
    pub streamed: f64,
}

impl Lines {
    /// Of all kinds.
    pub fn all(&self) -> f64 {
        self.read + self.written + self.streamed
    }

    /// Whether the memory is another node's.
    pub fn is_remote(&self) -> bool {
        self.node != self.page_node
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The machine as it was emulated.
    pub machine: Machine,
    /// What each cpu did.
    pub cpus: CpuEpochs,
    /// What it moved.
    pub traffic: EpochTraffics,
    /// Cores per node of the described machine over those that were emulated: rates of the whole machine are
    /// this much higher.
    pub factor: f64,
    /// Whether it ran at the published sizes.
    pub full: bool,
    /// How much smaller than the published run this one was, in words.
    pub scale: String,
    /// Times of the published run over this one's, for counts: iterations and sizes.
    pub repeat: f64,
}

impl Seen {
    /// How long it takes, and why.
    ///
    /// # Errors
    /// What the machine does not say.
    pub fn time(&self) -> Result<Time, String> {
        time(&self.machine, &self.cpus, &self.traffic).map_err(|e| e.to_string())
    }

    /// When each core was done, seconds, by position of the core: without waiting for the others.
    ///
    /// # Errors
    /// As [`Seen::time`].
    pub fn busy_seconds(&self) -> Result<Vec<(usize, f64)>, String> {
        let timeline = Timeline::new(&self.machine, &self.cpus, &self.traffic).map_err(|e| e.to_string())?;
        let finish = timeline.finish_ns();
        Ok(finish.iter().enumerate().map(|(core, ns)| (timeline.node_of_core(core), ns * 1e-9)).collect())
    }

    /// What the region of interest moved, by cpu and node of the page.
    pub fn lines(&self) -> Vec<Lines> {
        let mut found: BTreeMap<(u16, usize), Lines> = BTreeMap::new();
        for row in self.traffic.rows().filter(|r| r.region == 1) {
            let Some(node) = self.node_of(row.cpu) else { continue };
            let Some(page_node) = u32::try_from(row.page_node).ok().and_then(|h| self.machine.position(h))
            else {
                continue;
            };
            let lines = found.entry((row.cpu, page_node)).or_default();
            (lines.cpu, lines.node, lines.page_node) = (row.cpu, node, page_node);
            lines.read += row.read_lines as f64;
            lines.written += row.write_lines as f64;
            lines.streamed += row.stream_lines as f64;
        }
        found.into_values().collect()
    }

    /// Position of a cpu's node.
    pub fn node_of(&self, cpu: u16) -> Option<usize> {
        self.machine.node_of_cpu(u32::from(cpu)).and_then(|id| self.machine.position(id))
    }

    /// Lines of the region that `which` holds for. A sum of nothing would be −0, which no count is.
    pub fn sum(&self, which: impl Fn(&Lines) -> bool) -> f64 {
        self.lines().iter().filter(|l| which(l)).map(Lines::all).fold(0.0, |sum, lines| sum + lines)
    }

    /// The part of all lines that are another node's; `NaN` if there are none.
    pub fn remote(&self) -> f64 {
        self.sum(Lines::is_remote) / self.sum(|_| true)
    }

    /// The same of the lines read: what is written back may be left over from the initialisation.
    pub fn remote_reads(&self) -> f64 {
        let lines = self.lines();
        let read = |which: &dyn Fn(&Lines) -> bool| {
            lines.iter().filter(|l| which(l)).map(|l| l.read).fold(0.0, |sum, lines| sum + lines)
        };
        read(&Lines::is_remote) / read(&|_| true)
    }

    /// Instructions of the region.
    pub fn instructions(&self) -> f64 {
        self.cpus.rows().filter(|r| r.region == 1).map(|r| r.instructions as f64).sum()
    }

    /// Of the accesses that missed the first level, the part that hit the second.
    pub fn second_level_hits(&self) -> f64 {
        let (mut hits, mut lookups) = (0.0, 0.0);
        for row in self.cpus.rows().filter(|r| r.region == 1) {
            hits += row.l2_hits as f64;
            lookups += row.accesses.saturating_sub(row.l1_hits) as f64;
        }
        hits / lookups
    }

    /// The same for the third.
    pub fn third_level_hits(&self) -> f64 {
        let (mut hits, mut lookups) = (0.0, 0.0);
        for row in self.cpus.rows().filter(|r| r.region == 1) {
            hits += row.l3_hits as f64;
            lookups += row.accesses.saturating_sub(row.l1_hits + row.l2_hits) as f64;
        }
        hits / lookups
    }

    /// The part of the run that cpus did for which `which` holds.
    pub fn of_cpus(&self, which: impl Fn(u16) -> bool) -> Seen {
        let mut cpus = CpuEpochs::default();
        let mut traffic = EpochTraffics::default();
        self.cpus.rows().filter(|r| which(r.cpu)).for_each(|r| cpus.push(r));
        self.traffic.rows().filter(|r| which(r.cpu)).for_each(|r| traffic.push(r));
        Seen { cpus, traffic, machine: self.machine.clone(), scale: self.scale.clone(), ..*self }
    }

    /// The share of the region's lines that are at the memory which has most of them in their epoch: 1 if all cores
    /// use the same memory at any time, one over the number of nodes if all are used alike.
    pub fn crowding(&self) -> f64 {
        let mut epochs: HashMap<u32, HashMap<i16, u64>> = HashMap::new();
        for row in self.traffic.rows().filter(|r| r.region == 1) {
            *epochs.entry(row.epoch).or_default().entry(row.page_node).or_default() +=
                row.read_lines + row.write_lines + row.stream_lines;
        }
        let most: u64 = epochs.values().filter_map(|page_nodes| page_nodes.values().max()).sum();
        let all: u64 = epochs.values().flat_map(HashMap::values).sum();
        most as f64 / all as f64
    }

    /// With every line's node of the page changed: `page_node` gets the positions of the cpu's node and of the node of the page.
    pub fn with_page_nodes(&self, page_node: impl Fn(usize, usize) -> usize) -> Seen {
        let mut traffic = EpochTraffics::default();
        for mut row in self.traffic.rows() {
            let node = self.node_of(row.cpu);
            let old = u32::try_from(row.page_node).ok().and_then(|h| self.machine.position(h));
            if let (Some(node), Some(old)) = (node, old) {
                row.page_node = self.machine.nodes[page_node(node, old)].id as i16;
            }
            traffic.push(row);
        }
        Seen {
            traffic,
            cpus: self.cpus.clone(),
            machine: self.machine.clone(),
            scale: self.scale.clone(),
            ..*self
        }
    }
}

/// Runs by name.
#[derive(Clone, Debug, Default)]
pub struct Sights(pub BTreeMap<String, Seen>);

impl Sights {
    /// The run of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, name: &str) -> Result<&Seen, String> {
        self.0.get(name).ok_or_else(|| format!("the run `{name}` is missing"))
    }
}
