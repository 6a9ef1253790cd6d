//! The topology of a machine that is only described: a machine file, a shape, or
//! the part of a host that analysis also uses.

use super::{Allowed, Cache, CacheKind, Cpus, Node, Numa, NumaState, Package, Reading, Settings, Topology};
use crate::Machine;
use crate::cpulist::CpuList;

impl Topology {
    /// What a machine's description tells, not yet judged. What only a running
    /// kernel knows (free memory, settings, devices) is unknown.
    pub fn from_machine(machine: &Machine, source: &str) -> Topology {
        let online: CpuList = machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
        let cores: Vec<CpuList> = machine.nodes.iter().flat_map(|n| machine.cores_of(n.id)).collect();
        let known = machine.threads_per_core > 0 && !cores.is_empty();
        Topology {
            schema: super::SCHEMA_VERSION,
            name: machine.name.clone(),
            source: source.to_owned(),
            numa: Numa { state: NumaState::Unknown, why: String::new() },
            virtual_machine: None,
            packages: packages(machine),
            nodes: machine.nodes.iter().map(|n| node(machine, n.id)).collect(),
            cpus: Cpus { online, offline: None, isolated: None },
            cpus_without_node: CpuList::default(),
            caches: known.then(|| caches(machine)).filter(|c| !c.is_empty()),
            cores: known.then_some(cores),
            threads_per_core: known.then_some(machine.threads_per_core),
            prefetchers: Reading::default(),
            memory_modules: Reading::default(),
            tiers: None,
            devices: None,
            allowed: Allowed::default(),
            settings: Settings::default(),
            warnings: Vec::new(),
        }
    }
}

fn node(machine: &Machine, id: u32) -> Node {
    let node = machine.node(id);
    let distance = |to: u32| Some((to, machine.distance(id, to)?));
    Node {
        id,
        cpus: node.map(|n| n.cpus.clone()).unwrap_or_default(),
        memory_kb: node.and_then(|n| n.memory_bytes).map(|b| b / 1024),
        free_kb: None,
        kind: node.map(|n| n.kind),
        package: node.and_then(|n| n.package),
        distances: machine.nodes.iter().filter_map(|n| distance(n.id)).collect(),
        huge_pages: None,
        side_caches: Vec::new(),
        access: None,
    }
}

fn packages(machine: &Machine) -> Option<Vec<Package>> {
    let mut ids: Vec<u32> = machine.cpu_nodes().filter_map(|n| n.package).collect();
    ids.sort_unstable();
    ids.dedup();
    let package = |id: u32| {
        let of = || machine.cpu_nodes().filter(move |n| n.package == Some(id));
        Package {
            id,
            cpus: of().flat_map(|n| n.cpus.iter()).collect(),
            nodes: of().map(|n| n.id).collect(),
            dies: machine.figures.dies_per_package,
        }
    };
    (!ids.is_empty()).then(|| ids.into_iter().map(package).collect())
}

/// A description says how many cores share a cache. Neighbours do; those of one
/// node if they are not more than it has, else those of the package.
fn caches(machine: &Machine) -> Vec<Cache> {
    let nodes: Vec<Vec<CpuList>> = machine.cpu_nodes().map(|n| machine.cores_of(n.id)).collect();
    let smallest = nodes.iter().map(Vec::len).min().unwrap_or(0);
    let mut packages: Vec<(Option<u32>, Vec<CpuList>)> = Vec::new();
    for (node, cores) in machine.cpu_nodes().zip(&nodes) {
        match packages.iter_mut().find(|(id, _)| *id == node.package) {
            Some((_, all)) => all.extend(cores.iter().cloned()),
            None => packages.push((node.package, cores.clone())),
        }
    }
    let packages: Vec<Vec<CpuList>> = packages.into_iter().map(|(_, cores)| cores).collect();
    let all = machine.caches.iter().map(|level| {
        let share = level.cores_per_instance.max(1) as usize;
        let groups = if share <= smallest { &nodes } else { &packages };
        let union = |cores: &[CpuList]| cores.iter().flat_map(CpuList::iter).collect();
        let mut instances: Vec<CpuList> = groups.iter().flat_map(|g| g.chunks(share).map(union)).collect();
        instances.sort_by_key(CpuList::first);
        Cache {
            level: level.level,
            kind: if level.level == 1 { CacheKind::Data } else { CacheKind::Unified },
            size_kb: level.size_bytes / 1024,
            ways: level.ways,
            line_bytes: machine.figures.line_bytes,
            instances,
        }
    });
    all.collect()
}
