//! Cores of a small machine, driven by hand.

use nearfar_model::machine::Machine;
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::figures::Inclusion;
use nearfar_model::simulate::{
    Access, Core, Counts, DramKind, Hierarchy, HomeMap, Kind, Options, Sink, Traffic,
};

/// Bytes of a line.
pub const LINE: u64 = 64;
/// Memory of each node.
const NODE: u64 = 1 << 30;
/// Virtual addresses are physical ones plus this.
const BASE: u64 = 0x7f00_0000_0000;

/// Sizes of the caches.
pub struct Sizes {
    pub l2_kib: u64,
    pub l3_kib: u64,
    pub inclusion: Inclusion,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { l2_kib: 256, l3_kib: 2048, inclusion: Inclusion::Inclusive }
    }
}

/// Nodes of cpus with 32 KiB and 8 ways of L1.
fn machine(nodes: usize, cpus: usize, sizes: &Sizes) -> Machine {
    let mut m = Machine::from_toml(include_str!("../../../../machines/xeon-e5-2699v4-2s.toml")).unwrap();
    let first = m.nodes[0].clone();
    m.nodes = (0..nodes)
        .map(|i| {
            let mut node = first.clone();
            node.id = i as u32;
            node.package = Some(i as u32);
            let list = format!("{}-{}", i * cpus, (i + 1) * cpus - 1);
            node.cpus = list.parse::<CpuList>().unwrap();
            node
        })
        .collect();
    let matrix = m.figures.latency_ns.as_mut().unwrap();
    let (near, far) = (matrix.rows[0][0], matrix.rows[0][1]);
    matrix.rows = (0..nodes).map(|i| (0..nodes).map(|j| if i == j { near } else { far }).collect()).collect();
    m.threads_per_core = 1;
    m.caches[1].size_bytes = sizes.l2_kib << 10;
    m.caches[2].size_bytes = sizes.l3_kib << 10;
    m.caches[2].ways = Some(16);
    m.caches[2].cores_per_instance = cpus as u32;
    m.figures.caches[2].inclusion = Some(sizes.inclusion);
    m
}

/// Lines told, by kind.
#[derive(Default)]
struct Heard([u64; 5]);

impl Sink for Heard {
    fn dram(&mut self, _: u64, _: usize, kind: DramKind) {
        self.0[kind as usize] += 1;
    }
}

/// What one cpu moved, all homes together.
pub struct Moved {
    pub read: u64,
    pub prefetched: u64,
    pub written: u64,
    pub streamed: u64,
}

/// The cores and what they said.
pub struct Rig {
    hierarchy: Hierarchy,
    cores: Vec<Core>,
    heard: Heard,
    after: Heard,
    nodes: usize,
    /// Pages are of 2 MiB.
    pub huge: bool,
}

impl Rig {
    /// Empty caches.
    pub fn new(nodes: usize, cpus: usize, sizes: Sizes, prefetch: bool) -> Rig {
        let ends: Vec<u64> = (1..=nodes as u64).map(|i| i * NODE).collect();
        Rig::with(nodes, cpus, &sizes, Options { prefetch, homes: HomeMap::ranges(&ends) })
    }

    /// One cpu per node, firmware interleaving.
    pub fn interleaved(nodes: usize, sizes: Sizes) -> Rig {
        let homes = HomeMap::interleaved(nodes, nodes as u64 * NODE);
        Rig::with(nodes, 1, &sizes, Options { prefetch: false, homes })
    }

    fn with(nodes: usize, cpus: usize, sizes: &Sizes, options: Options) -> Rig {
        let hierarchy = Hierarchy::new(&machine(nodes, cpus, sizes), &options).unwrap();
        let cores = (0..nodes * cpus).map(|cpu| hierarchy.core(cpu)).collect();
        Rig { hierarchy, cores, heard: Heard::default(), after: Heard::default(), nodes, huge: false }
    }

    /// Reads 8 bytes.
    pub fn load(&mut self, cpu: usize, at: u64) {
        self.access(cpu, at, 8, Kind::Load);
    }

    /// Writes 8 bytes.
    pub fn store(&mut self, cpu: usize, at: u64) {
        self.access(cpu, at, 8, Kind::Store);
    }

    /// As the plugin's callback does it.
    pub fn access(&mut self, cpu: usize, at: u64, bytes: u8, kind: Kind) {
        touch(&self.hierarchy, &mut self.cores[cpu], at, bytes, kind, self.huge, &mut self.heard);
    }

    /// Everything modified goes to memory.
    pub fn write_back(&mut self) {
        for core in &mut self.cores {
            core.write_back(&self.hierarchy, &mut self.heard);
        }
        self.hierarchy.write_back(&mut self.after);
    }

    /// Lines that the shared caches wrote at the end, and the cores before.
    pub fn written_back(&self) -> u64 {
        self.heard.0[DramKind::WriteBack as usize] + self.after.0[DramKind::WriteBack as usize]
    }

    /// Partly filled buffers go to memory.
    pub fn flush_streams(&mut self) {
        for core in &mut self.cores {
            core.flush_streams(&self.hierarchy, &mut self.heard);
        }
    }

    /// A cpu's totals.
    pub fn counts(&self, cpu: usize) -> Counts {
        self.cores[cpu].counts()
    }

    /// Lines between a cpu and a node.
    pub fn traffic(&self, cpu: usize, home: usize) -> Traffic {
        self.cores[cpu].traffic()[home]
    }

    /// Lines told of this kind.
    pub fn told(&self, kind: DramKind) -> u64 {
        self.heard.0[kind as usize]
    }

    /// What a cpu moved; what was written back at the end is the last cpu's.
    pub fn moved(&self, cpu: usize) -> Moved {
        let sum =
            |f: fn(&Traffic) -> u64| (0..self.nodes).map(|home| f(&self.traffic(cpu, home))).sum::<u64>();
        Moved {
            read: sum(|t| t.read_lines),
            prefetched: sum(|t| t.prefetch_lines),
            written: self.written_back(),
            streamed: sum(|t| t.stream_lines),
        }
    }

    /// All cpus, each on a thread of its own, use the same 64 lines.
    pub fn hammer(self, cpus: usize, accesses: u64) -> Vec<Counts> {
        let hierarchy = &self.hierarchy;
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .cores
                .into_iter()
                .take(cpus)
                .enumerate()
                .map(|(cpu, mut core)| {
                    scope.spawn(move || {
                        let (mut heard, mut random) = (Heard::default(), cpu as u64 + 1);
                        for _ in 0..accesses {
                            random =
                                random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                            let at = (random >> 40) % 64 * LINE;
                            let kind = if random >> 62 == 0 { Kind::Store } else { Kind::Load };
                            touch(hierarchy, &mut core, at, 8, kind, false, &mut heard);
                        }
                        core.counts()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

fn touch(h: &Hierarchy, core: &mut Core, at: u64, bytes: u8, kind: Kind, huge: bool, heard: &mut Heard) {
    core.execute(4);
    if !core.quick_hit(BASE + at, bytes, kind) {
        core.access(h, Access { virt: BASE + at, physical: at, bytes, kind, huge, chain: 0 }, heard);
    }
}
