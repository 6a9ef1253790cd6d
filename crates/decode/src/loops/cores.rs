//! What the cores of known processors can do in a cycle, and how long they take.
//!
//! From Agner Fog, "Instruction tables" and "The microarchitecture of Intel, AMD and VIA CPUs" (agner.org/optimize), and
//! uops.info (Abel and Reineke, ASPLOS 2019). Where the two differ, or forms of an instruction do, the range holds both. Figures of divisions
//! and roots are from memory of these, and wide for it; those of integers on Ice Lake and later were looked up again (uops.info, DIV).

/// Smallest and largest number of cycles.
pub(super) type Range = (f64, f64);

/// A core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// Its name.
    pub name: &'static str,
    /// Instructions that go on in a cycle at most; a comparison with its jump is one, and so is one with a memory operand.
    pub(super) width: f64,
    /// Loads in a cycle: of general registers and scalars, of vectors.
    pub(super) loads: [f64; 2],
    /// Stores in a cycle.
    pub(super) stores: f64,
    /// Integer operations in a cycle.
    pub(super) integer: f64,
    /// Floating-point additions in a cycle, of up to 256 bits.
    pub(super) additions: f64,
    /// Multiplications in a cycle, those with an addition included, of up to 256 bits.
    pub(super) products: f64,
    /// All of vectors and floating point in a cycle.
    pub(super) vector: f64,
    /// How many cycles of a pipe an operation of 512 bits takes.
    pub(super) wide: f64,
    /// From a general register's address to the value, hit in the first level.
    pub(super) load: Range,
    /// The same of vectors and scalars of floating point.
    pub(super) vector_load: Range,
    /// Floating-point addition.
    pub(super) addition: Range,
    /// Multiplication.
    pub(super) product: Range,
    /// Both at once.
    pub(super) fused: Range,
    /// Divisions and roots of up to 128 bits: cycles until the next can begin, and until the result is there.
    pub(super) division_f64: Range,
    pub(super) division_f64_latency: Range,
    pub(super) division_f32: Range,
    pub(super) division_f32_latency: Range,
    /// Divisions of integers of 32 and 64 bits: cycles at most; at least 4 and 7 on all cores here.
    pub(super) division_32: f64,
    pub(super) division_64: f64,
}

const ZEN2: Core = Core {
    name: "Zen 2",
    width: 6.0,
    loads: [2.0, 2.0],
    stores: 1.0,
    integer: 4.0,
    additions: 2.0,
    products: 2.0,
    vector: 4.0,
    wide: 2.0,
    load: (4.0, 5.0),
    vector_load: (7.0, 8.0),
    addition: (3.0, 3.0),
    product: (3.0, 3.0),
    fused: (5.0, 5.0),
    division_f64: (4.0, 10.0),
    division_f64_latency: (13.0, 21.0),
    division_f32: (3.0, 6.0),
    division_f32_latency: (10.0, 15.0),
    division_32: 30.0,
    division_64: 46.0,
};
const ZEN3: Core = Core {
    name: "Zen 3",
    loads: [3.0, 3.0],
    stores: 2.0,
    vector: 6.0,
    fused: (4.0, 4.0),
    division_32: 14.0,
    division_64: 20.0,
    ..ZEN2
};
const ZEN4: Core = Core { name: "Zen 4", ..ZEN3 };
/// Its width for 512 bits differs between models: from half to full.
const ZEN5: Core = Core {
    name: "Zen 5",
    width: 8.0,
    loads: [4.0, 4.0],
    integer: 6.0,
    wide: 1.0,
    addition: (2.0, 3.0),
    ..ZEN4
};
const HASWELL: Core = Core {
    name: "Haswell or Broadwell",
    width: 4.0,
    loads: [2.0, 2.0],
    stores: 1.0,
    integer: 4.0,
    additions: 2.0,
    products: 2.0,
    vector: 3.0,
    wide: 2.0,
    load: (4.0, 5.0),
    vector_load: (5.0, 7.0),
    addition: (3.0, 3.0),
    product: (3.0, 5.0),
    fused: (5.0, 5.0),
    division_f64: (4.0, 20.0),
    division_f64_latency: (10.0, 20.0),
    division_f32: (3.0, 13.0),
    division_f32_latency: (10.0, 13.0),
    division_32: 29.0,
    division_64: 103.0,
};
const SKYLAKE: Core = Core {
    name: "Skylake or Cascade Lake",
    wide: 1.5,
    addition: (4.0, 4.0),
    product: (4.0, 4.0),
    fused: (4.0, 4.0),
    division_f64: (4.0, 6.0),
    division_f64_latency: (13.0, 20.0),
    division_f32: (3.0, 5.0),
    division_f32_latency: (11.0, 13.0),
    ..HASWELL
};
const ICE_LAKE: Core = Core {
    name: "Ice Lake",
    width: 5.0,
    stores: 2.0,
    load: (5.0, 5.0),
    division_32: 15.0,
    division_64: 20.0,
    ..SKYLAKE
};
const SAPPHIRE_RAPIDS: Core = Core {
    name: "Sapphire Rapids to Granite Rapids",
    width: 6.0,
    loads: [3.0, 3.0],
    integer: 5.0,
    additions: 3.0,
    load: (5.0, 5.0),
    vector_load: (6.0, 8.0),
    addition: (2.0, 3.0),
    ..ICE_LAKE
};

/// The core of a processor by /proc/cpuinfo's `vendor_id`, `cpu family` and `model`; `None` for one whose figures are not here.
/// Processors with two kinds of core are left out: which one a thread ran on is not known. `flags`: cpuinfo's line of them. A hypervisor may
/// name an older model than it runs on, but what a core can do shows: only Intel's cores since Golden Cove, of servers, have AMX.
pub fn core(vendor: &str, family: u32, model: u32, flags: &str) -> Option<&'static Core> {
    if vendor == "GenuineIntel" && family == 6 && flags.split_whitespace().any(|flag| flag == "amx_tile") {
        return Some(&SAPPHIRE_RAPIDS);
    }
    Some(match (vendor, family, model) {
        // Linux 6.12, arch/x86/kernel/cpu/amd.c, bsp_init_amd().
        ("AuthenticAMD", 0x17, 0x30..=0x3f | 0x47 | 0x60..=0x7f | 0x84..=0x87 | 0x90..=0xaf) => &ZEN2,
        ("AuthenticAMD", 0x19, 0x00..=0x0f | 0x20..=0x5f) => &ZEN3,
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0xaf) => &ZEN4,
        ("AuthenticAMD", 0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => &ZEN5,
        // Linux 6.12, arch/x86/include/asm/intel-family.h.
        ("GenuineIntel", 6, 0x3c | 0x3f | 0x45 | 0x46 | 0x3d | 0x47 | 0x4f | 0x56) => &HASWELL,
        ("GenuineIntel", 6, 0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6) => &SKYLAKE,
        ("GenuineIntel", 6, 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7) => &ICE_LAKE,
        // Granite Rapids' core (Redwood Cove) has the pipes and latencies of the one before it.
        ("GenuineIntel", 6, 0x8f | 0xcf | 0xad | 0xae) => &SAPPHIRE_RAPIDS,
        _ => return None,
    })
}
