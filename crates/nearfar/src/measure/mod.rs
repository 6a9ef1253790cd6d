//! What this machine's memory does: latency and bandwidth of every node's memory from
//! every node's cpus. Threads are pinned, and a figure whose pages are not where they
//! should be is not printed but explained.

mod bandwidth;
mod copies;
mod kernels;
mod latency;
mod loaded;
mod memory;
mod scaling;

use crate::discover::{self, cpu_times};
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::{Machine, NodeId};
use nearfar_model::measured::{
    Bandwidth, Kernel, Latency, Loaded, Measured, Pages, Pair, SCHEMA_VERSION, Spread,
};
use nearfar_model::topology::Topology;
use std::path::Path;
use std::time::Instant;

/// Which measurements.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Idle latency.
    pub latency: bool,
    /// Bandwidth of all kernels.
    pub bandwidth: bool,
    /// Latency under load.
    pub loaded: bool,
    /// Bandwidth by number of threads.
    pub scaling: bool,
    /// Copies by every cpu in memory that every other touched.
    pub memcpy: bool,
    /// Fewer and shorter repetitions, and of the bandwidth kernels those that a machine file needs.
    pub quick: bool,
    /// Bytes of each array of a bandwidth; `None`: four times the caches of the threads.
    pub array_bytes: Option<u64>,
}

/// How long and how often something is measured.
struct Effort {
    /// Seconds of one repetition.
    seconds: f64,
    /// Repetitions after the first, which only warms up.
    runs: usize,
}

/// Whose cpus against whose memory.
struct Place {
    cpus: CpuList,
    memory: NodeId,
    /// There is one node, and the kernel may know of none.
    only: bool,
}

/// Of the last-level cache: lines of a chain that is this much larger are in it one time in eight.
const CHAIN_CACHES: u64 = 8;
/// STREAM's rule: each array at least four times the caches that its threads have.
const ARRAY_CACHES: u64 = 4;
/// If the kernel does not tell of caches.
const CACHE_BYTES: u64 = 32 << 20;

/// Measures. `say` is told what is being done.
///
/// # Errors
/// If the machine's topology cannot be read.
pub fn measure(wanted: &Wanted, say: &mut dyn FnMut(&str)) -> anyhow::Result<(Machine, Measured)> {
    let begin = Instant::now();
    let root = Path::new("/");
    let machine = discover::discover(root)?.machine;
    let topology = discover::topology(root)?;
    let (load, ticks) = (load(), cpu_times(root));
    let mut measured = Measured {
        schema: SCHEMA_VERSION,
        name: machine.name.clone(),
        day: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        quick: wanted.quick,
        nodes: machine.nodes.iter().map(|n| n.id).collect(),
        ..Measured::default()
    };
    if wanted.latency {
        latencies(&machine, &topology, wanted.quick, &mut measured, say);
    }
    if wanted.bandwidth {
        bandwidths(&machine, &topology, wanted, &mut measured, say);
    }
    if wanted.loaded {
        loads(&machine, &topology, wanted.quick, &mut measured, say);
    }
    if wanted.scaling {
        scalings(&machine, &topology, wanted, &mut measured, say);
    }
    if wanted.memcpy {
        copies(&machine, &topology, wanted.quick, &mut measured, say);
    }
    measured.seconds = begin.elapsed().as_secs_f64();
    measured.steal_share =
        ticks.zip(cpu_times(root)).and_then(|(before, now)| now.steal_share_since(&before));
    let caveats = caveats(&topology, &measured, load);
    measured.caveats.extend(caveats);
    Ok((machine, measured))
}

/// All pairs of nodes with cpus and nodes with memory.
fn pairs(machine: &Machine, topology: &Topology) -> Vec<(NodeId, Place)> {
    let mut all = Vec::new();
    for from in machine.nodes.iter().filter(|n| !n.cpus.is_empty()) {
        for to in machine.nodes.iter().filter(|n| n.memory_bytes != Some(0)) {
            let allowed = |cpu: &u32| topology.allowed.cpus.as_ref().is_none_or(|a| a.contains(*cpu));
            let cpus = from.cpus.iter().filter(allowed).collect();
            all.push((from.id, Place { cpus, memory: to.id, only: machine.nodes.len() == 1 }));
        }
    }
    all
}

fn latencies(
    machine: &Machine,
    topology: &Topology,
    quick: bool,
    measured: &mut Measured,
    say: &mut dyn FnMut(&str),
) {
    let effort = if quick { Effort { seconds: 0.15, runs: 3 } } else { Effort { seconds: 0.5, runs: 7 } };
    let bytes = (CHAIN_CACHES * last_cache(machine)).max(128 << 20);
    for wanted in [Pages::Huge, Pages::Base] {
        let mut table = Latency { pages: wanted, bytes, pairs: Vec::new() };
        for (from, place) in pairs(machine, topology) {
            say(&format!("latency, {} from node {from} to node {}", pages(wanted), place.memory));
            let result = room(topology, &place, bytes)
                .and_then(|()| latency::measure(&place, bytes as usize, wanted, &effort))
                .and_then(|(value, got)| match got == wanted {
                    true => Ok(value),
                    false => {
                        Err("the kernel gave no 2 MiB pages (transparent_hugepage, fragmented memory)".into())
                    }
                });
            table.pairs.push(pair(from, &place, result.map(|value| (value, None))));
        }
        measured.latency.push(table);
    }
}

fn bandwidths(
    machine: &Machine,
    topology: &Topology,
    asked: &Wanted,
    measured: &mut Measured,
    say: &mut dyn FnMut(&str),
) {
    let quick = asked.quick;
    let effort = if quick { Effort { seconds: 0.1, runs: 3 } } else { Effort { seconds: 0.4, runs: 7 } };
    let needed = [Kernel::Read, Kernel::Write, Kernel::Copy, Kernel::Triad, Kernel::TriadNt];
    let wanted: Vec<Kernel> = Kernel::ALL.into_iter().filter(|k| !quick || needed.contains(k)).collect();
    let mut tables: Vec<Bandwidth> =
        wanted.iter().map(|&kernel| Bandwidth { kernel, bytes: None, pairs: Vec::new() }).collect();
    let mut small = None;
    for (from, place) in pairs(machine, topology) {
        say(&format!("bandwidth from node {from} to node {}", place.memory));
        let caches = caches_of(machine, place.cpus.len());
        let each = asked.array_bytes.unwrap_or(ARRAY_CACHES * caches);
        if each < ARRAY_CACHES * caches {
            small = Some(caches);
        }
        let field =
            room(topology, &place, 3 * each).and_then(|()| bandwidth::Field::new(&place, each as usize));
        for table in &mut tables {
            let kernel = table.kernel;
            let result = match &field {
                Err(why) => Err(why.clone()),
                Ok(_) if !kernels::available(kernel) => Err("not written for this architecture".into()),
                Ok(field) => {
                    table.bytes = table.bytes.max(Some(field.bytes(kernel)));
                    field.measure(kernel, &effort).map(|(value, moved)| (value, Some(moved)))
                }
            };
            table.pairs.push(pair(from, &place, result));
        }
    }
    measured.bandwidth = tables;
    measured.caveats.extend(small.map(|caches| {
        format!(
            "the arrays are smaller than {ARRAY_CACHES} times the caches of the threads ({} MiB): part of what was \
             moved came from there",
            caches >> 20
        )
    }));
}

fn loads(
    machine: &Machine,
    topology: &Topology,
    quick: bool,
    measured: &mut Measured,
    say: &mut dyn FnMut(&str),
) {
    let effort = if quick { Effort { seconds: 0.02, runs: 3 } } else { Effort { seconds: 0.1, runs: 5 } };
    let chain = (CHAIN_CACHES * last_cache(machine)).max(128 << 20);
    for (from, place) in pairs(machine, topology) {
        say(&format!("latency under load from node {from} to node {}", place.memory));
        let each = ARRAY_CACHES * caches_of(machine, place.cpus.len());
        let result = room(topology, &place, chain + each)
            .and_then(|()| loaded::measure(&place, chain as usize, each as usize, &effort));
        let (points, why) = match result {
            Ok(points) => (points, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        measured.loaded.push(Loaded { from, memory: place.memory, points, why });
    }
}

/// Usable cpus of each node that has both cpus and memory.
fn usable(machine: &Machine, topology: &Topology) -> Vec<(NodeId, Vec<u32>)> {
    let allowed = |cpu: &u32| topology.allowed.cpus.as_ref().is_none_or(|a| a.contains(*cpu));
    let nodes = machine.nodes.iter().filter(|n| n.memory_bytes != Some(0));
    let cpus = nodes.map(|n| (n.id, n.cpus.iter().filter(allowed).collect::<Vec<u32>>()));
    cpus.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

fn scalings(
    machine: &Machine,
    topology: &Topology,
    asked: &Wanted,
    measured: &mut Measured,
    say: &mut dyn FnMut(&str),
) {
    say("bandwidth by number of threads");
    let effort =
        if asked.quick { Effort { seconds: 0.05, runs: 3 } } else { Effort { seconds: 0.2, runs: 5 } };
    let nodes = usable(machine, topology);
    // The same for every number of threads, and one thread alone has all of its node's cache.
    let part = asked.array_bytes.unwrap_or(ARRAY_CACHES * last_cache(machine));
    let only = machine.nodes.len() == 1;
    for (node, cpus) in &nodes {
        let place = Place { cpus: cpus.iter().copied().collect(), memory: *node, only };
        if let Err(why) = room(topology, &place, 3 * part * cpus.len() as u64) {
            measured.caveats.push(format!("bandwidth by number of threads was not measured: {why}"));
            return;
        }
    }
    measured.scaling = scaling::measure(&nodes, part as usize, only, &effort);
}

fn copies(
    machine: &Machine,
    topology: &Topology,
    quick: bool,
    measured: &mut Measured,
    say: &mut dyn FnMut(&str),
) {
    let effort = if quick { Effort { seconds: 0.0, runs: 3 } } else { Effort { seconds: 0.0, runs: 7 } };
    let nodes = usable(machine, topology);
    let cpus: Vec<u32> = nodes.iter().flat_map(|n| n.1.clone()).collect();
    let bytes = (2 * ARRAY_CACHES * last_cache(machine)).max(64 << 20);
    for (node, own) in &nodes {
        for &toucher in own {
            say(&format!("copies in memory that cpu {toucher} touched"));
            let node = (machine.nodes.len() > 1).then_some(*node);
            measured.copies.extend(copies::measure(toucher, node, &cpus, bytes as usize, &effort));
        }
    }
}

fn pair(from: NodeId, place: &Place, result: Result<(Spread, Option<u64>), String>) -> Pair {
    let memory = place.memory;
    match result {
        Ok((value, moved_bytes)) => Pair { from, memory, value: Some(value), moved_bytes, why: None },
        Err(why) => Pair { from, memory, value: None, moved_bytes: None, why: Some(why) },
    }
}

/// That the node has so much to spare: bound memory that runs out is an end by the kernel's hand.
fn room(topology: &Topology, place: &Place, bytes: u64) -> Result<(), String> {
    let free = topology.nodes.iter().find(|n| n.id == place.memory).and_then(|n| n.free_kb);
    match free {
        Some(kb) if kb * 1024 < bytes + bytes / 4 => Err(format!(
            "needs {} MiB and a quarter to spare, node {} has {} MiB free",
            bytes >> 20,
            place.memory,
            kb >> 10
        )),
        _ => Ok(()),
    }
}

/// Bytes of one last-level cache.
fn last_cache(machine: &Machine) -> u64 {
    machine.caches.iter().max_by_key(|c| c.level).map_or(CACHE_BYTES, |c| c.size_bytes)
}

/// Bytes of the last-level caches of so many cpus.
fn caches_of(machine: &Machine, cpus: usize) -> u64 {
    let Some(last) = machine.caches.iter().max_by_key(|c| c.level) else { return CACHE_BYTES };
    let sharing = (last.cores_per_instance * machine.threads_per_core.max(1)).max(1);
    last.size_bytes * (cpus as u64).div_ceil(u64::from(sharing)).max(1)
}

fn pages(pages: Pages) -> &'static str {
    match pages {
        Pages::Huge => "2 MiB pages,",
        Pages::Base => "base pages,",
    }
}

fn caveats(topology: &Topology, measured: &Measured, load: Option<f64>) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(load) = load.filter(|&l| l > 0.5) {
        list.push(format!(
            "other programs were running (load {load:.1} at the begin): figures are of what they left"
        ));
    }
    if let Some(share) = measured.steal_share.filter(|&s| s > 0.01) {
        list.push(format!("the hypervisor took {:.0} % of the time for others", share * 100.0));
    }
    if topology.virtual_machine == Some(true) {
        list.push(
            "a virtual machine: the hypervisor's page tables are part of each latency, and its neighbours of each \
             bandwidth"
                .into(),
        );
    }
    let governor = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_deref().map(str::trim) {
        Ok("performance") => {}
        Ok(other) => list.push(format!("the clock may change while measuring (governor {other})")),
        Err(_) => list.push("whether the clock changes while measuring is unknown (no cpufreq here)".into()),
    }
    let all = measured
        .latency
        .iter()
        .flat_map(|l| &l.pairs)
        .chain(measured.bandwidth.iter().flat_map(|b| &b.pairs));
    let wide = all.filter(|p| p.value.is_some_and(|v| v.relative() > 0.1)).count();
    if wide > 0 {
        list.push(format!("{wide} of the figures spread by more than 10 % over their repetitions"));
    }
    list
}

/// Runnable tasks, averaged over the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
