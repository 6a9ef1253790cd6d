//! What the simulator takes from a [`Machine`]: which cpus share a core, which
//! cores share a cache, how large the caches are, how long things take.

use super::PageNodeMap;
use super::costs::Costs;
use nearfar_machine::figures::Inclusion;
use nearfar_machine::{CacheLevel, LINE_BYTES, Machine};

/// log2 of [`LINE_BYTES`].
pub(super) const LINE_SHIFT: u32 = LINE_BYTES.ilog2();

/// Most cores and shared caches together: an entry of the directory has a bit for each.
pub(super) const MOST_HOLDERS: usize = 255;
/// Most memory: a line's number + 1 must fit into 32 bits.
const MAX_BYTES: u64 = (1 << 38) - 64;
/// Most slots of a first-level cache: the quick filter has 13 bits for the number.
const MAX_L1_SLOTS: u64 = 1 << 13;
/// Most ways of a shared cache; Magny-Cours' has 48.
const MAX_SHARED_WAYS: u32 = 64;
/// Most ways of a core's own cache: their order is kept in 64 bits, four for each.
const MAX_PRIVATE_WAYS: u32 = 16;

/// Ways where the machine does not say: what most first- and second-level caches have.
const PRIVATE_WAYS: u32 = 8;
/// The same for a shared cache.
const SHARED_WAYS: u32 = 16;

/// Why a machine cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The machine says nothing about its first-level cache.
    #[error(
        "{machine} has no [[cache]] of level 1, so its traffic cannot be simulated; \
         describe its caches in the machine file (docs/machine-file.md)"
    )]
    NoCaches {
        /// Its name.
        machine: String,
    },
    /// A cache that the model cannot be.
    #[error("the level {level} cache of {machine} {problem}")]
    Cache {
        /// Name of the machine.
        machine: String,
        /// The level.
        level: u32,
        /// What it is and what it should be.
        problem: String,
    },
    /// Lines of another size.
    #[error("{machine} has cache lines of {bytes} bytes; only 64 can be simulated")]
    LineBytes {
        /// Name of the machine.
        machine: String,
        /// Its lines.
        bytes: u32,
    },
    /// More cores and shared caches than the directory has bits for.
    #[error(
        "{machine} has {cores} cores and {shared} shared caches; at most {MOST_HOLDERS} together can be \
         simulated: scale it down with --cpus-per-node"
    )]
    TooMany {
        /// Name of the machine.
        machine: String,
        /// Its cores.
        cores: usize,
        /// Its shared caches.
        shared: usize,
    },
    /// Memory that does not fit the machine.
    #[error("the map of pages to nodes {problem}")]
    PageNodes {
        /// What is wrong with it.
        problem: String,
    },
    /// No cpus at all.
    #[error("{machine} has no cpus")]
    NoCpus {
        /// Name of the machine.
        machine: String,
    },
}

/// Size of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Sets; any number from 1.
    pub sets: u32,
    /// Lines of a set.
    pub ways: u32,
}

/// Caches that cores share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedCache {
    pub geometry: Geometry,
    pub inclusion: Inclusion,
    /// Level in the machine's counting: 3, or 2 where cores share the second.
    pub level: u32,
}

/// The machine as the simulator sees it. Cores are numbered by their first cpu.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Kernel indexes, ascending: a cpu's position in here is what callers pass.
    pub cpus: Vec<u32>,
    /// Core of each cpu position.
    pub core_of: Vec<usize>,
    /// Node position of each core.
    pub node_of_core: Vec<usize>,
    /// Shared cache (or, without one, package) of each core.
    pub domain_of_core: Vec<usize>,
    /// Number of those.
    pub domains: usize,
    /// A node position for each domain: that of its first core.
    pub node_of_domain: Vec<usize>,
    /// Number of nodes.
    pub nodes: usize,
    pub l1: Geometry,
    /// Second level private to a core, with what it keeps of the first.
    pub l2: Option<(Geometry, Inclusion)>,
    pub shared: Option<SharedCache>,
    pub costs: Costs,
}

impl Layout {
    pub fn new(machine: &Machine, page_nodes: &PageNodeMap) -> Result<Layout, SimulateError> {
        let name = || machine.name.clone();
        check_page_nodes(machine, page_nodes)?;
        if let Some(bytes) = machine.figures.line_bytes
            && u64::from(bytes) != LINE_BYTES
        {
            return Err(SimulateError::LineBytes { machine: name(), bytes });
        }
        let mut cpus: Vec<u32> = machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
        cpus.sort_unstable();
        if cpus.is_empty() {
            return Err(SimulateError::NoCpus { machine: name() });
        }
        let cores = cores(machine);
        let place = |cpu: u32| cores.iter().position(|core| core.cpus.contains(&cpu)).unwrap_or(0);
        let core_of = cpus.iter().map(|&cpu| place(cpu)).collect();

        let level = |l: u32| machine.caches.iter().find(|c| c.level == l);
        let l1 = level(1).ok_or_else(|| SimulateError::NoCaches { machine: name() })?;
        let fail = |level: u32, problem: String| SimulateError::Cache { machine: name(), level, problem };
        if l1.cores_per_instance != 1 {
            return Err(fail(1, "is shared by several cores; it must be private to one".into()));
        }
        let inclusion = |level: u32| {
            let figures = machine.figures.caches.iter().find(|c| c.level == level);
            // What is not promised is not known either: neither.
            figures.and_then(|c| c.inclusion).unwrap_or(Inclusion::Neither)
        };
        let geometry =
            |c: &CacheLevel, ways: u32, most: u32| geometry(c, ways, most).map_err(|p| fail(c.level, p));
        let private = |c: &CacheLevel| geometry(c, PRIVATE_WAYS, MAX_PRIVATE_WAYS);
        let shared = |c: &CacheLevel| {
            geometry(c, SHARED_WAYS, MAX_SHARED_WAYS).map(|geometry| SharedCache {
                geometry,
                inclusion: inclusion(c.level),
                level: c.level,
            })
        };
        let (l2, outer) = match (level(2), level(3)) {
            (Some(l2), outer) if l2.cores_per_instance == 1 => (Some((private(l2)?, inclusion(2))), outer),
            (Some(l2), None) => (None, Some(l2)),
            (None, outer) => (None, outer),
            (Some(_), Some(_)) => {
                let problem = "is shared by several cores below a third level; only one level can be shared";
                return Err(fail(2, problem.into()));
            }
        };
        let domain_of_core = domains(machine, &cores, outer.map(|c| c.cores_per_instance));
        let domains = domain_of_core.iter().max().map_or(0, |d| d + 1);
        let layout = Layout {
            core_of,
            node_of_core: cores.iter().map(|c| c.node).collect(),
            node_of_domain: (0..domains)
                .map(|d| domain_of_core.iter().position(|&of| of == d).map_or(0, |core| cores[core].node))
                .collect(),
            domain_of_core,
            domains,
            nodes: machine.nodes.len(),
            l1: private(l1)?,
            l2,
            shared: outer.map(shared).transpose()?,
            costs: Costs::new(machine),
            cpus,
        };
        let slots = u64::from(layout.l1.sets) * u64::from(layout.l1.ways.next_power_of_two());
        if slots > MAX_L1_SLOTS {
            let problem = format!("has {} bytes, more than can be simulated", l1.size_bytes);
            return Err(fail(1, problem));
        }
        let cores = layout.node_of_core.len();
        if cores + domains > MOST_HOLDERS {
            return Err(SimulateError::TooMany { machine: name(), cores, shared: domains });
        }
        Ok(layout)
    }
}

fn check_page_nodes(machine: &Machine, page_nodes: &PageNodeMap) -> Result<(), SimulateError> {
    let fail = |problem: String| Err(SimulateError::PageNodes { problem });
    if page_nodes.nodes() != machine.nodes.len() {
        let (there, here) = (page_nodes.nodes(), machine.nodes.len());
        return fail(format!("has {there} nodes, but {} has {here}", machine.name));
    }
    if !page_nodes.ascends() {
        return fail("does not ascend: each node's end must be at or above the one before".into());
    }
    if page_nodes.bytes() == 0 || page_nodes.bytes() > MAX_BYTES {
        return fail(format!("has {} bytes; 1 byte to 255 GiB can be simulated", page_nodes.bytes()));
    }
    Ok(())
}

fn geometry(cache: &CacheLevel, default_ways: u32, most: u32) -> Result<Geometry, String> {
    let lines = cache.size_bytes / LINE_BYTES;
    let ways = u64::from(cache.ways.unwrap_or(default_ways));
    if ways == 0 || ways > u64::from(most) {
        return Err(format!("has {ways} ways; 1 to {most} can be simulated"));
    }
    // A cache scaled down may have fewer lines than ways: then it is one full set.
    let ways = ways.min(lines);
    match lines.checked_div(ways).map(u32::try_from) {
        Some(Ok(sets)) => Ok(Geometry { sets, ways: ways as u32 }),
        _ => Err(format!("has {} bytes, which is not a number of lines to simulate", cache.size_bytes)),
    }
}

/// A core: its cpus and the position of its node.
struct CoreCpus {
    cpus: Vec<u32>,
    node: usize,
}

/// The cores, ascending by first cpu. Where the machine lists none, hardware
/// threads of a core are neighbours in a contiguous range of cpus and a node's
/// n-th, 2n-th … cpu otherwise; the same rule as in `machine::binding`.
fn cores(machine: &Machine) -> Vec<CoreCpus> {
    let mut cores: Vec<CoreCpus> = Vec::new();
    for (node, n) in machine.nodes.iter().enumerate() {
        let cpus: Vec<u32> = n.cpus.iter().collect();
        let (Some(&first), Some(&last)) = (cpus.first(), cpus.last()) else { continue };
        let threads = match machine.threads_per_core as usize {
            t if t > 1 && cpus.len().is_multiple_of(t) => t,
            _ => 1,
        };
        let count = cpus.len() / threads;
        let contiguous = (last - first) as usize + 1 == cpus.len();
        for (i, &cpu) in cpus.iter().enumerate() {
            let listed = machine.figures.cores.iter().find(|core| core.contains(cpu));
            let leader = match listed {
                Some(core) => core.first().unwrap_or(cpu),
                None if !machine.figures.cores.is_empty() => cpu,
                None if contiguous => cpus[i - i % threads],
                None => cpus[i % count],
            };
            match cores.iter_mut().find(|core| core.cpus[0] == leader && core.node == node) {
                Some(core) => core.cpus.push(cpu),
                None => cores.push(CoreCpus { cpus: vec![cpu], node }),
            }
        }
    }
    cores.sort_by_key(|core| core.cpus[0]);
    cores
}

/// The shared cache of each core: cores of a package (of a node, where the
/// package is unknown) in order, so many at a time. Without a shared cache, the package.
fn domains(machine: &Machine, cores: &[CoreCpus], per_cache: Option<u32>) -> Vec<usize> {
    let package = |core: &CoreCpus| match machine.nodes[core.node].package {
        Some(package) => (0, package as usize),
        None => (1, core.node),
    };
    let mut order: Vec<usize> = (0..cores.len()).collect();
    // Node before cpu: clusters of a socket keep their cores together.
    order.sort_by_key(|&c| (package(&cores[c]), cores[c].node, cores[c].cpus[0]));
    let per_cache = per_cache.map_or(usize::MAX, |n| n.max(1) as usize);
    let mut of = vec![0; cores.len()];
    let (mut domain, mut filled, mut current) = (0, 0, None);
    for core in order {
        let here = package(&cores[core]);
        if current.is_some_and(|last| last != here) || filled == per_cache {
            (domain, filled) = (domain + 1, 0);
        }
        current = Some(here);
        filled += 1;
        of[core] = domain;
    }
    of
}
