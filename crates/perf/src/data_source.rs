//! Where the data of a sampled access came from: `PERF_SAMPLE_DATA_SRC` (include/uapi/linux/perf_event.h).
//!
//! The kernel fills one 64-bit layout on all processors, but not with the same meaning. Two things
//! of AMD's IBS would be read wrongly by the layout alone:
//!
//! - A cache of a neighbouring core complex *of the same node* is reported with the bit "remote" set
//!   and one hop. One hop is another core of the same node, so "remote" counts only with two hops or
//!   more, or where no hops are given.
//! - IBS has a data source for loads only. The field of a store is what an earlier load left there,
//!   so a store's node can come from its physical address or its page only.
//!
//! Intel's tables before Linux 4.14, and of parts that older kernels know, use the old field `lvl` and leave the number of
//! the level empty.
//!
//! None of this ran on a processor with such samples: no machine that nearfar is built on has one. The
//! test has a row for every encoding of the header.

use nearfar_recording::Served;

/// Whose processor took the sample: it decides what the fields mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// Intel: PEBS.
    Intel,
    /// AMD: IBS.
    Amd,
    /// Anything else: the layout as it is defined.
    Other,
}

impl Vendor {
    /// By the vendor's name as cpuid and perf.data have it: `AuthenticAMD,25,17,1`, `GenuineIntel,6,143,8`.
    pub fn from_cpuid(text: &str) -> Vendor {
        match text {
            t if t.contains("AuthenticAMD") || t.contains("HygonGenuine") => Vendor::Amd,
            t if t.contains("GenuineIntel") => Vendor::Intel,
            _ => Vendor::Other,
        }
    }

    /// By a description such as `AMD EPYC 9654 96-Core Processor`.
    pub fn from_description(text: &str) -> Vendor {
        let text = text.to_ascii_lowercase();
        match () {
            () if text.contains("amd") || text.contains("hygon") => Vendor::Amd,
            () if text.contains("intel") || text.contains("xeon") => Vendor::Intel,
            () => Vendor::Other,
        }
    }
}

/// Bits of the field `op`.
pub mod op {
    /// Not available.
    pub const NA: u64 = 1;
    /// Load.
    pub const LOAD: u64 = 2;
    /// Store.
    pub const STORE: u64 = 4;
    /// Prefetch.
    pub const PREFETCH: u64 = 8;
    /// Code.
    pub const EXEC: u64 = 16;
}

/// Bits of the old field `lvl`.
pub mod lvl {
    /// Not available.
    pub const NA: u64 = 0x01;
    /// Hit in that level.
    pub const HIT: u64 = 0x02;
    /// Missed that level: where the data came from is not said.
    pub const MISS: u64 = 0x04;
    /// First level.
    pub const L1: u64 = 0x08;
    /// Line fill buffer.
    pub const LFB: u64 = 0x10;
    /// Second level.
    pub const L2: u64 = 0x20;
    /// Third level.
    pub const L3: u64 = 0x40;
    /// Memory of the node.
    pub const LOC_RAM: u64 = 0x80;
    /// Memory one hop away.
    pub const REM_RAM1: u64 = 0x100;
    /// Memory two hops away.
    pub const REM_RAM2: u64 = 0x200;
    /// Cache one hop away.
    pub const REM_CCE1: u64 = 0x400;
    /// Cache two hops away.
    pub const REM_CCE2: u64 = 0x800;
    /// Input and output.
    pub const IO: u64 = 0x1000;
    /// Not cached.
    pub const UNC: u64 = 0x2000;
}

/// Values of the field `lvl_num`.
pub mod num {
    /// First level.
    pub const L1: u64 = 1;
    /// Second level.
    pub const L2: u64 = 2;
    /// Third level.
    pub const L3: u64 = 3;
    /// Fourth level.
    pub const L4: u64 = 4;
    /// Miss handling buffer of the second level.
    pub const L2_MHB: u64 = 5;
    /// Cache on the memory's side.
    pub const MSC: u64 = 6;
    /// Level zero.
    pub const L0: u64 = 7;
    /// Not cached.
    pub const UNC: u64 = 8;
    /// Memory behind CXL.
    pub const CXL: u64 = 9;
    /// Input and output.
    pub const IO: u64 = 0xa;
    /// Some cache.
    pub const ANY_CACHE: u64 = 0xb;
    /// Line fill buffer.
    pub const LFB: u64 = 0xc;
    /// Memory.
    pub const RAM: u64 = 0xd;
    /// Persistent memory.
    pub const PMEM: u64 = 0xe;
    /// Not available.
    pub const NA: u64 = 0xf;
}

/// The field `hops` for another core of the same node.
pub const HOPS_SAME_NODE: u64 = 1;
/// The bit of `snoop` for a modified line in another core's cache.
pub const SNOOP_HITM: u64 = 0x10;
/// What the kernel writes where it knows nothing (`PERF_MEM_NA`).
pub const NOTHING_KNOWN: u64 = 1 | lvl::NA << 5 | 1 << 19 | 1 << 24 | 1 << 26;

/// The fields of the 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataSource {
    /// What the instruction did: bits of [`op`].
    pub op: u64,
    /// The old level: bits of [`lvl`].
    pub lvl: u64,
    /// Snoops: 1 not available, 2 none, 4 hit, 8 miss, 16 hit a modified line.
    pub snoop: u64,
    /// Locked access: 1 not available, 2 yes.
    pub lock: u64,
    /// Translation: 1 not available, 2 hit, 4 miss, 8 first level, 16 second level, 32 walk, 64 fault.
    pub dtlb: u64,
    /// The level: one of [`num`]; 0 in files of kernels that do not have it.
    pub lvl_num: u64,
    /// Not this core's, not this node's level.
    pub remote: u64,
    /// More of snoops: 1 forwarded, 2 from a peer.
    pub snoopx: u64,
    /// Blocked: 1 not available, 2 by data, 4 by an address.
    pub blk: u64,
    /// How far: 1 another core of the node, 2 another node of the socket, 3 another socket, 4 another board.
    pub hops: u64,
    /// Memory region (Diamond Rapids on): 8 to 15 are MEM0 to MEM7.
    pub region: u64,
}

/// Position and width of every field, in the order of [`DataSource`].
const FIELDS: [(u32, u32); 11] =
    [(0, 5), (5, 14), (19, 5), (24, 2), (26, 7), (33, 4), (37, 1), (38, 2), (40, 3), (43, 3), (46, 5)];

impl DataSource {
    /// Takes the 64 bits apart.
    pub fn from_bits(bits: u64) -> DataSource {
        let [op, lvl, snoop, lock, dtlb, lvl_num, remote, snoopx, blk, hops, region] =
            FIELDS.map(|(at, width)| bits >> at & ((1 << width) - 1));
        DataSource { op, lvl, snoop, lock, dtlb, lvl_num, remote, snoopx, blk, hops, region }
    }

    /// Puts them together again.
    pub fn bits(self) -> u64 {
        let DataSource { op, lvl, snoop, lock, dtlb, lvl_num, remote, snoopx, blk, hops, region } = self;
        let values = [op, lvl, snoop, lock, dtlb, lvl_num, remote, snoopx, blk, hops, region];
        FIELDS.iter().zip(values).fold(0, |bits, (&(at, width), v)| bits | (v & ((1 << width) - 1)) << at)
    }

    /// Whether the sample says what was accessed at all; events that are not a memory events have
    /// [`NOTHING_KNOWN`] or 0 here.
    pub fn is_access(self) -> bool {
        self.op & (op::LOAD | op::STORE | op::PREFETCH) != 0
    }

    /// Loads, stores or both.
    pub fn access(self) -> nearfar_recording::Access {
        use nearfar_recording::Access;
        match (self.op & op::LOAD != 0, self.op & op::STORE != 0) {
            (true, false) => Access::Load,
            (false, true) => Access::Store,
            (true, true) => Access::LoadStore,
            (false, false) => Access::Unknown,
        }
    }

    /// The memory region MEM0 to MEM7, where the processor says it: its node is in
    /// /sys/firmware/acpi/memory_ranges.
    pub fn memory_region(self) -> Option<u8> {
        (8..=15).contains(&self.region).then(|| self.region as u8 - 8)
    }

    /// Whether the data came from another node.
    fn is_of_another_node(self) -> bool {
        let far = lvl::REM_RAM1 | lvl::REM_RAM2 | lvl::REM_CCE1 | lvl::REM_CCE2;
        (self.remote == 1 || self.lvl & far != 0) && self.hops != HOPS_SAME_NODE
    }

    /// Whether another core of the node had the line.
    fn is_of_another_core(self) -> bool {
        self.snoop & SNOOP_HITM != 0 || self.snoopx & 3 != 0 || self.hops == HOPS_SAME_NODE
    }
}

/// Where the data of an access came from, by the 64 bits of a processor of `vendor`.
pub fn served(bits: u64, vendor: Vendor) -> Served {
    let d = DataSource::from_bits(bits);
    if d.op & op::LOAD == 0 && (vendor == Vendor::Amd || d.op & op::STORE == 0) {
        return Served::Unknown;
    }
    let cache = |d: DataSource| match (d.is_of_another_node(), d.is_of_another_core()) {
        (true, _) => Served::OtherNodesCache,
        (false, true) => Served::OtherCore,
        (false, false) => Served::Cache,
    };
    match d.lvl_num {
        num::CXL => return Served::Cxl,
        num::RAM | num::PMEM | num::MSC => {
            return if d.is_of_another_node() { Served::RemoteMemory } else { Served::LocalMemory };
        }
        num::LFB | num::L2_MHB => return Served::InFlight,
        num::UNC | num::IO => return Served::Unknown,
        // A store that missed has no level behind it.
        _ if d.lvl & lvl::MISS != 0 => return Served::Unknown,
        num::L0 | num::L1 | num::L2 | num::L3 | num::L4 | num::ANY_CACHE => return cache(d),
        _ => {}
    }
    // What has no number has the old level.
    let has = |bits: u64| d.lvl & bits != 0;
    match () {
        () if has(lvl::REM_RAM1 | lvl::REM_RAM2) => Served::RemoteMemory,
        () if has(lvl::REM_CCE1 | lvl::REM_CCE2) => cache(d),
        () if has(lvl::LOC_RAM) => Served::LocalMemory,
        () if has(lvl::LFB) => Served::InFlight,
        () if has(lvl::L1 | lvl::L2 | lvl::L3) => cache(d),
        () => Served::Unknown,
    }
}

/// The 64 bits that say `served`, as a processor with the new fields would: for a recording that is written as perf.data.
pub fn bits_of(served: Served, access: nearfar_recording::Access) -> u64 {
    use nearfar_recording::Access;
    let op = match access {
        Access::Load => op::LOAD,
        Access::Store => op::STORE,
        Access::LoadStore => op::LOAD | op::STORE,
        Access::Unknown => op::LOAD,
    };
    let known = DataSource { op, snoop: 1, lock: 1, dtlb: 1, blk: 1, ..DataSource::default() };
    // perf prints the old level where there is one: both are filled.
    let (old, number, remote, hops) = match served {
        Served::Cache => (lvl::HIT | lvl::L3, num::L3, 0, 0),
        Served::OtherCore => (lvl::HIT | lvl::L3, num::L3, 0, HOPS_SAME_NODE),
        // How many hops is not known: 0 reports it.
        Served::OtherNodesCache => (lvl::HIT | lvl::REM_CCE1, num::ANY_CACHE, 1, 0),
        Served::LocalMemory => (lvl::HIT | lvl::LOC_RAM, num::RAM, 0, 0),
        Served::RemoteMemory => (lvl::HIT | lvl::REM_RAM1, num::RAM, 1, 0),
        Served::Cxl => (lvl::NA, num::CXL, 0, 0),
        Served::InFlight => (lvl::HIT | lvl::LFB, num::LFB, 0, 0),
        Served::Unknown => (lvl::NA, num::NA, 0, 0),
    };
    let snoop = if served == Served::OtherCore { SNOOP_HITM } else { known.snoop };
    DataSource { lvl: old, lvl_num: number, remote, hops, snoop, ..known }.bits()
}
