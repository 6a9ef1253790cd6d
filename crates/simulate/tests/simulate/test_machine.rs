//! Machines with known caches, and cpus that touch memory.

use nearfar_machine::file::{CacheFigures, Confidence, Figure, Inclusion};
use nearfar_machine::{CacheLevel, Machine};
use nearfar_simulate::{Access, Core, DramKind, Hierarchy, Kind, Options, PageNodeMap, Sink};

pub const LINE: u64 = 64;
pub const PAGE: u64 = 4096;
/// Memory of each node in [`TestMachine`]s.
pub const NODE: u64 = 1 << 30;
/// Virtual addresses are physical ones and this.
pub const BASE: u64 = 0x7fff_0000_0000;

/// A cache of a machine under test.
#[derive(Clone, Copy)]
pub struct Cache {
    pub bytes: u64,
    pub ways: u32,
    pub cores: u32,
    pub inclusion: Inclusion,
}

pub fn private(bytes: u64, ways: u32) -> Cache {
    Cache { bytes, ways, cores: 1, inclusion: Inclusion::Neither }
}

pub fn shared(bytes: u64, ways: u32, cores: u32, inclusion: Inclusion) -> Cache {
    Cache { bytes, ways, cores, inclusion }
}

fn figure(value: f64) -> Figure {
    Figure { value, source: "test".into(), confidence: Confidence::Assumed }
}

/// A machine of a shape (`2x4`) with caches from the first level outward.
pub fn machine(shape: &str, caches: &[Cache]) -> Machine {
    let mut machine = Machine::from_shape(shape).expect("a shape");
    for (i, cache) in caches.iter().enumerate() {
        let level = i as u32 + 1;
        machine.caches.push(CacheLevel {
            level,
            size_bytes: cache.bytes,
            ways: Some(cache.ways),
            latency_cycles: None,
            cores_per_instance: cache.cores,
        });
        machine.figures.caches.push(CacheFigures {
            level,
            size_bytes: figure(cache.bytes as f64),
            cores_per_instance: cache.cores,
            inclusion: Some(cache.inclusion),
            ways: Some(figure(f64::from(cache.ways))),
            latency_cycles: None,
            read_gbs: None,
            write_gbs: None,
        });
    }
    machine
}

/// 32 KiB, 256 KiB, and 1 MiB of 16 ways for four cores, inclusive: a small Broadwell.
pub fn usual(shape: &str) -> Machine {
    let third = shared(1 << 20, 16, 4, Inclusion::Inclusive);
    machine(shape, &[private(32 << 10, 8), private(256 << 10, 8), third])
}

/// What moved from and to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub demand: u64,
    pub rfo: u64,
    pub prefetch: u64,
    pub written: u64,
    pub streamed: u64,
    /// Of all of these, by node of the page.
    pub page_nodes: Vec<u64>,
    /// Addresses, in order.
    pub addresses: Vec<u64>,
    /// Accesses to lines that cores take from each other all the time.
    pub contended: u64,
}

impl Moved {
    pub fn read(&self) -> u64 {
        self.demand + self.rfo + self.prefetch
    }
}

impl Sink for Moved {
    fn dram(&mut self, physical: u64, page_node: usize, kind: DramKind) {
        assert_eq!(physical % LINE, 0, "the sink hears of lines");
        match kind {
            DramKind::Demand => self.demand += 1,
            DramKind::Rfo => self.rfo += 1,
            DramKind::Prefetch => self.prefetch += 1,
            DramKind::WriteBack => self.written += 1,
            DramKind::Stream => self.streamed += 1,
        }
        self.page_nodes.resize(self.page_nodes.len().max(page_node + 1), 0);
        self.page_nodes[page_node] += 1;
        self.addresses.push(physical);
    }

    fn contended(&mut self) {
        self.contended += 1;
    }
}

/// A machine at work, one thread.
pub struct TestMachine {
    pub hierarchy: Hierarchy,
    pub cores: Vec<Core>,
    pub moved: Moved,
    /// Accesses that the quick filter took.
    pub quick: u64,
}

impl TestMachine {
    /// Every node has [`NODE`] bytes; no prefetcher.
    pub fn new(machine: &Machine) -> TestMachine {
        let ends: Vec<u64> = (1..=machine.nodes.len() as u64).map(|n| n * NODE).collect();
        TestMachine::with(machine, false, PageNodeMap::ranges(&ends))
    }

    pub fn with(machine: &Machine, prefetch: bool, page_nodes: PageNodeMap) -> TestMachine {
        let hierarchy = Hierarchy::new(machine, &Options { prefetch, page_nodes }).expect("a hierarchy");
        let cores = (0..hierarchy.cpus()).map(|cpu| hierarchy.core(cpu)).collect();
        TestMachine { hierarchy, cores, moved: Moved::default(), quick: 0 }
    }

    /// As the plugin does it: the filter first.
    pub fn touch(&mut self, cpu: usize, physical: u64, bytes: u8, kind: Kind) {
        let virt = BASE + physical;
        if self.cores[cpu].quick_hit(virt, bytes, kind) {
            self.quick += 1;
            return;
        }
        let access = Access { virt, physical, bytes, kind, huge: false, chain: 0 };
        self.cores[cpu].access(&self.hierarchy, access, &mut self.moved);
    }

    pub fn load(&mut self, cpu: usize, physical: u64) {
        self.touch(cpu, physical, 8, Kind::Load);
    }

    pub fn store(&mut self, cpu: usize, physical: u64) {
        self.touch(cpu, physical, 8, Kind::Store);
    }

    /// Everything that is modified goes to memory.
    pub fn write_back(&mut self) {
        for core in &mut self.cores {
            core.write_back(&self.hierarchy, &mut self.moved);
        }
        self.hierarchy.write_back(&mut self.moved);
    }

    /// What has moved since the last call.
    pub fn take(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }
}

/// Random numbers without a dependency: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Within half a percent, which is what is promised.
#[track_caller]
pub fn near(got: u64, expected: u64) {
    let off = got.abs_diff(expected) as f64;
    assert!(off <= 0.005 * expected as f64, "{got} lines where arithmetic says {expected}");
}
