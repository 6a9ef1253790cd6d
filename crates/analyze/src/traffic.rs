//! Sums over the exact tables: which cpus moved how much from where.

use super::input::{Input, Judge};
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::region::Region;
use super::value::{CpuCounts, DramFlow};
use nearfar_recording::Columns;
use nearfar_recording::tables::UNCOUNTED;

/// Lines between the cpus of one node and the memory of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Read from DRAM.
    pub read: u64,
    /// Of these, prefetched.
    pub prefetch: u64,
    /// Written to DRAM.
    pub write: u64,
    /// Supplied by a cache instead.
    pub cache: u64,
    /// Page walks.
    pub walks: u64,
}

impl Flow {
    /// Lines from and to DRAM.
    pub fn dram(&self) -> u64 {
        self.read + self.write
    }
}

/// What one cpu did.
#[derive(Clone, Debug, Default)]
struct Cpu {
    cpu: u16,
    instructions: u64,
    accesses: u64,
    hits: [u64; 3],
    transfers: u64,
    tlb: u64,
    huge_tlb: u64,
    local: u64,
    remote: u64,
}

/// One epoch.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// Its number.
    pub number: u32,
    /// Cpus that worked in it.
    pub cpus: Vec<u16>,
    /// Instructions of all of them.
    pub instructions: u64,
    /// Lines from and to the memory of the cpu's own node, and of other nodes.
    pub lines: [u64; 2],
}

/// The sums over the epochs that count.
#[derive(Debug)]
pub struct Traffic {
    /// Node of the cpus × node of the memory, in the order of the machine.
    pub flows: Vec<Flow>,
    /// Lines of which one end is not a node of the machine.
    pub unknown: u64,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// The epochs, ascending.
    pub epochs: Vec<Epoch>,
    /// Floating-point operations in double and in single precision; `None` if any epoch has none counted.
    pub ops: Option<(u64, u64)>,
    cpus: Vec<Cpu>,
    nodes: usize,
}

impl Traffic {
    /// Sums the tables.
    ///
    /// # Errors
    /// In words, why the counts are missing of what is judged.
    pub fn new(input: &Input, judge: &Judge, nodes: &Nodes, region: &Region) -> Result<Traffic, String> {
        let (c, t) = (&input.cpu_epochs, &input.epoch_traffic);
        if c.is_empty() {
            return Err(
                "nothing was counted: exact counts need the virtual machine (`nearfar record --on MACHINE.toml`)"
                    .to_string(),
            );
        }
        if judge.assume.is_some() {
            return Err(format!(
                "the counts are of {}; on another machine caches and pages would be others",
                input.meta.machine.name
            ));
        }
        let mut sums = Traffic {
            flows: vec![Flow::default(); nodes.count * nodes.count],
            unknown: 0,
            line_bytes: judge.machine.figures.line(),
            epochs: Vec::new(),
            ops: Some((0, 0)),
            cpus: Vec::new(),
            nodes: nodes.count,
        };
        let mut numbers: Vec<u32> = c.epoch.iter().copied().filter(|&e| region.holds_epoch(e)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let empty = |number| Epoch { number, cpus: Vec::new(), instructions: 0, lines: [0; 2] };
        sums.epochs = numbers.into_iter().map(empty).collect();
        for i in 0..c.len() {
            sums.add_cpu(input, i);
        }
        for i in 0..t.len() {
            sums.add_lines(input, nodes, i);
        }
        sums.cpus.sort_by_key(|c| c.cpu);
        Ok(sums)
    }

    fn epoch(&mut self, number: u32) -> Option<&mut Epoch> {
        let at = self.epochs.binary_search_by_key(&number, |e| e.number).ok()?;
        Some(&mut self.epochs[at])
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = self.cpus.iter().position(|c| c.cpu == cpu).unwrap_or_else(|| {
            self.cpus.push(Cpu { cpu, ..Cpu::default() });
            self.cpus.len() - 1
        });
        &mut self.cpus[at]
    }

    fn add_cpu(&mut self, input: &Input, i: usize) {
        let r = input.cpu_epochs.row(i);
        let Some(epoch) = self.epoch(r.epoch) else { return };
        epoch.cpus.push(r.cpu);
        epoch.instructions += r.instructions;
        let counted = r.f64_ops != UNCOUNTED && r.f32_ops != UNCOUNTED;
        let ops = self.ops.filter(|_| counted);
        self.ops = ops.map(|(double, single)| (double + r.f64_ops, single + r.f32_ops));
        let cpu = self.cpu(r.cpu);
        cpu.instructions += r.instructions;
        cpu.accesses += r.accesses;
        cpu.hits.iter_mut().zip([r.l1_hits, r.l2_hits, r.l3_hits]).for_each(|(a, b)| *a += b);
        cpu.transfers += r.cache_transfers;
        cpu.tlb += r.tlb_misses;
        cpu.huge_tlb += r.huge_tlb_misses;
    }

    fn add_lines(&mut self, input: &Input, nodes: &Nodes, i: usize) {
        let r = input.epoch_traffic.row(i);
        let (from, page_node) = (nodes.of_cpu(r.cpu), nodes.position(r.page_node));
        let written = r.write_lines + r.stream_lines;
        let Some(epoch) = self.epoch(r.epoch) else { return };
        if from == UNKNOWN || page_node == UNKNOWN {
            self.unknown += r.read_lines + written;
            return;
        }
        epoch.lines[usize::from(from != page_node)] += r.read_lines + written;
        let cpu = self.cpu(r.cpu);
        *(if from == page_node { &mut cpu.local } else { &mut cpu.remote }) += r.read_lines + written;
        let flow = &mut self.flows[usize::from(from) * nodes.count + usize::from(page_node)];
        flow.read += r.read_lines;
        flow.prefetch += r.prefetch_lines;
        flow.write += written;
        flow.cache += r.transfer_lines;
        flow.walks += r.walks;
    }

    /// Lines between the cpus of `from` and the memory of `page_node`.
    pub fn flow(&self, from: NodeIndex, page_node: NodeIndex) -> &Flow {
        &self.flows[usize::from(from) * self.nodes + usize::from(page_node)]
    }

    /// Lines from and to DRAM, both ends known.
    pub fn known(&self) -> u64 {
        self.flows.iter().map(Flow::dram).sum()
    }

    /// Of these, remote.
    pub fn remote(&self) -> u64 {
        let far = |(i, f): (usize, &Flow)| if i / self.nodes == i % self.nodes { 0 } else { f.dram() };
        self.flows.iter().enumerate().map(far).sum()
    }

    /// All pairs of nodes that moved anything.
    pub fn dram(&self, nodes: &Nodes) -> Vec<DramFlow> {
        let bytes = |lines: u64| lines * u64::from(self.line_bytes);
        let row = |(i, f): (usize, &Flow)| {
            (*f != Flow::default()).then(|| DramFlow {
                from: nodes.ids[i / self.nodes],
                page_node: nodes.ids[i % self.nodes],
                read_bytes: bytes(f.read),
                prefetch_bytes: bytes(f.prefetch),
                write_bytes: bytes(f.write),
                cache_bytes: bytes(f.cache),
                walks: f.walks,
            })
        };
        self.flows.iter().enumerate().filter_map(row).collect()
    }

    /// What each cpu did. `cycles`: of the epochs that a cpu worked in, if known.
    pub fn cpus(&self, judge: &Judge, cycles: impl Fn(u16) -> Option<f64>) -> Vec<CpuCounts> {
        let has = |level: u32| judge.machine.caches.iter().any(|c| c.level == level);
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let row = |c: &Cpu| {
            let [l1, l2, l3] = c.hits;
            let beyond_l1 = c.accesses.saturating_sub(l1);
            CpuCounts {
                cpu: u32::from(c.cpu),
                node: judge.machine.node_of_cpu(u32::from(c.cpu)),
                instructions: c.instructions,
                ipc: cycles(c.cpu).filter(|&n| n > 0.0).map(|n| c.instructions as f64 / n),
                l1_hit: ratio(l1, c.accesses),
                l2_hit: ratio(l2, beyond_l1),
                // A machine without a third level has no ratio of it, rather than one of 0.
                l3_hit: ratio(l3, beyond_l1.saturating_sub(l2)).filter(|_| has(3)),
                dram_local: c.local,
                dram_remote: c.remote,
                cache_transfers: c.transfers,
                tlb_misses: c.tlb,
                huge_tlb_misses: c.huge_tlb,
            }
        };
        self.cpus.iter().map(row).collect()
    }
}
