//! What follows from a topology: whether memory is divided at all, and what a
//! reader would get wrong without being told.

use super::{Node, Numa, NumaState, Topology, limits, modules, prefetchers};
use crate::cpulist::{CpuList, NodeList};
use crate::{NodeId, NodeKind};

/// Fills in `numa` and adds to the warnings. Judge a topology once.
pub fn judge(mut topology: Topology) -> Topology {
    topology.numa = numa(&topology);
    let found = [
        apart(&topology),
        limits::quota(&topology),
        limits::memory(&topology),
        no_memory(&topology),
        uneven(&topology),
        flat(&topology),
        gpu(&topology),
        side_caches(&topology),
        reclaim(&topology),
    ];
    let more = [modules::judge(&topology), prefetchers::judge(&topology)].concat();
    topology.warnings.extend(found.into_iter().flatten().chain(more));
    topology
}

fn numa(t: &Topology) -> Numa {
    let with_cpus = t.nodes.iter().filter(|n| !n.cpus.is_empty()).count();
    let others = t.nodes.len() - with_cpus;
    let packages = t.packages.as_deref().unwrap_or_default();
    let spanning: Vec<NodeId> = spanning(t);
    let per_package = packages.iter().map(|p| p.nodes.len()).max().unwrap_or(0);
    // Without all packages nothing can be said of the nodes in one.
    let all_known = t.nodes.iter().filter(|n| !n.cpus.is_empty()).all(|n| n.package.is_some());
    // Sockets of one board: no package is in two nodes.
    let boards = with_cpus > 1 && packages.iter().all(|p| p.nodes.len() <= 1);
    let all_span = !spanning.is_empty() && spanning.len() == with_cpus;
    let (state, mut why) = if all_span && !boards {
        let hidden = match t.virtual_machine {
            Some(true) => "the hypervisor shows sockets but not where their memory is",
            _ => {
                "the firmware interleaves memory over the sockets (NUMA off), or a hypervisor hides them, or the \
                 packages share one memory (a front-side bus, as before 2008)"
            }
        };
        let why = format!("off as far as the kernel can see: {} several packages; {hidden}", have(&spanning));
        (NumaState::Interleaved, why)
    } else if all_span {
        let why = format!(
            "on, {with_cpus} nodes, each with cpus of several packages (sockets of one board or cell share its memory)"
        );
        (NumaState::PackagesPerNode, why)
    } else if with_cpus <= 1 && packages.len() <= 1 {
        (NumaState::OneNode, "one node has all cpus, so no memory is another cpu's".to_owned())
    } else if !spanning.is_empty() {
        (
            NumaState::Unknown,
            format!("on, {with_cpus} nodes with cpus, but {} several packages", have(&spanning)),
        )
    } else if with_cpus <= 1 {
        let why = "unknown: one node has cpus, and those of other packages are in no node".to_owned();
        (NumaState::Unknown, why)
    } else if !all_known {
        (NumaState::Unknown, format!("on, {with_cpus} nodes with cpus; their packages are not known"))
    } else if per_package > 1 {
        let why = format!(
            "on, {per_package} nodes in a package (several chips in it, or a firmware mode: SNC, NPS, cluster-on-die)"
        );
        (NumaState::NodesPerPackage, why)
    } else {
        (NumaState::NodePerPackage, format!("on, {with_cpus} nodes, one for each package"))
    };
    if others > 0 {
        why.push_str(&format!("; {others} more without cpus"));
    }
    Numa { state, why }
}

/// Nodes whose cpus are in several packages.
fn spanning(t: &Topology) -> Vec<NodeId> {
    let packages = t.packages.as_deref().unwrap_or_default();
    let spans = |n: &&Node| packages.iter().filter(|p| p.nodes.contains(&n.id)).count() > 1;
    t.nodes.iter().filter(spans).map(|n| n.id).collect()
}

fn have(ids: &[NodeId]) -> String {
    let list: NodeList = ids.iter().copied().collect();
    if ids.len() == 1 { format!("node {list} has cpus of") } else { format!("nodes {list} have cpus of") }
}

/// `node 1`, `nodes 250-255`.
fn nodes(ids: &[NodeId]) -> String {
    let list: NodeList = ids.iter().copied().collect();
    format!("{} {list}", if ids.len() == 1 { "node" } else { "nodes" })
}

/// A cpuset that gives cpus here and memory there.
fn apart(t: &Topology) -> Option<String> {
    let (cpus, memory) = (t.allowed.cpus.as_ref()?, t.allowed.nodes.as_ref()?);
    let near: Vec<&Node> = t.nodes.iter().filter(|n| n.cpus.first_common(cpus).is_some()).collect();
    let without: Vec<NodeId> = near.iter().filter(|n| !memory.contains(n.id)).map(|n| n.id).collect();
    if without.is_empty() {
        return None;
    }
    let from: NodeList = t.nodes.iter().map(|n| n.id).filter(|&n| memory.contains(n)).collect();
    let from = nodes(from.as_slice());
    Some(if without.len() == near.len() {
        format!(
            "the cpuset separates cpus from memory: the caller runs on cpus {cpus} of {}, but takes memory \
             from {from} only, so all of its memory is far",
            nodes(&without)
        )
    } else {
        format!(
            "the cpuset separates some cpus from memory: the caller may run on {}, but takes memory from \
             {from} only; threads there have no near memory",
            nodes(&without)
        )
    })
}

fn no_memory(t: &Topology) -> Option<String> {
    let without: Vec<NodeId> =
        t.nodes.iter().filter(|n| n.memory_kb == Some(0) && !n.cpus.is_empty()).map(|n| n.id).collect();
    let have = if without.len() == 1 { "has" } else { "have" };
    (!without.is_empty()).then(|| {
        format!("{} {have} cpus but no memory: all that their threads touch is far", nodes(&without))
    })
}

/// A node with much less memory than the largest spills over early. Three quarters
/// is chosen: reserved ranges make node 0 a few per cent smaller everywhere.
fn uneven(t: &Topology) -> Option<String> {
    let sized = || t.nodes.iter().filter(|n| !n.cpus.is_empty()).filter_map(|n| Some((n.id, n.memory_kb?)));
    let largest = sized().map(|(_, kb)| kb).max()?;
    let small: Vec<NodeId> =
        sized().filter(|&(_, kb)| kb > 0 && kb < largest / 4 * 3).map(|(id, _)| id).collect();
    let have = if small.len() == 1 { "has" } else { "have" };
    (!small.is_empty()).then(|| {
        format!(
            "{} {have} less memory than the others: what does not fit goes to another node (are all memory \
             channels populated?)",
            nodes(&small)
        )
    })
}

/// `LOCAL_DISTANCE` of the kernel: of a node to itself (ACPI specification 6.5, 5.2.17).
const LOCAL: u32 = 10;
/// `REMOTE_DISTANCE` of the kernel, which it uses where the firmware has no table.
const DEFAULT_REMOTE: u32 = 20;

fn flat(t: &Topology) -> Option<String> {
    let mut remote = t
        .nodes
        .iter()
        .flat_map(|n| n.distances.iter().filter(|(to, _)| **to != n.id).map(|(_, distance)| *distance));
    let first = remote.next()?;
    if !matches!(first, LOCAL | DEFAULT_REMOTE) || !remote.all(|d| d == first) {
        return None;
    }
    let who = if t.virtual_machine == Some(true) { "hypervisor" } else { "firmware" };
    if first == LOCAL {
        return Some(format!(
            "every distance between nodes is {LOCAL}, as if all memory were as near as a node's own: what the {who} \
             tells is wrong, or it interleaves memory; measure it: nearfar measure"
        ));
    }
    Some(format!(
        "every distance between nodes is {DEFAULT_REMOTE}, the kernel's default: the {who} may not have told \
         any, so which nodes are nearer than others is not known"
    ))
}

fn gpu(t: &Topology) -> Option<String> {
    let ids: Vec<NodeId> = t.nodes.iter().filter(|n| n.kind == Some(NodeKind::Gpu)).map(|n| n.id).collect();
    let rest: CpuList = t
        .nodes
        .iter()
        .filter(|n| n.kind != Some(NodeKind::Gpu) && n.memory_kb != Some(0))
        .map(|n| n.id)
        .collect();
    let is = if ids.len() == 1 { "is" } else { "are" };
    (!ids.is_empty()).then(|| {
        format!(
            "{} {is} memory of GPUs: `numactl --interleave=all` would place pages there; write --interleave={rest}",
            nodes(&ids)
        )
    })
}

fn side_caches(t: &Topology) -> Option<String> {
    let ids: Vec<NodeId> = t.nodes.iter().filter(|n| !n.side_caches.is_empty()).map(|n| n.id).collect();
    (!ids.is_empty()).then(|| {
        format!(
            "the memory of {} lies behind a memory-side cache: its capacity is that of slower memory, and \
             what does not fit in the cache is slower than DRAM",
            nodes(&ids)
        )
    })
}

fn reclaim(t: &Topology) -> Option<String> {
    let mode = t.settings.zone_reclaim_mode.filter(|&m| m != 0)?;
    (t.nodes.len() > 1).then(|| {
        format!(
            "vm.zone_reclaim_mode is {mode}: a node that is full drops page cache before it takes memory of \
             another, which makes allocations slow; `sysctl vm.zone_reclaim_mode=0` stops it"
        )
    })
}
