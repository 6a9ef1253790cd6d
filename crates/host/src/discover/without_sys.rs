//! The machine where /sys is not mounted (chroots, build sandboxes) or hides its nodes: what the kernel
//! tells otherwise. The rest stays unknown.

use super::node_files::{Found, NODE, memory};
use super::tree::Tree;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::{NodeId, NodeKind, NumaNode};
use std::collections::BTreeMap;

/// The cpus that run, by their lines in /proc/stat; on the live machine at least those that we may use.
pub(super) fn online(tree: &Tree) -> Option<CpuList> {
    let stat = tree.text("proc/stat").unwrap_or_default();
    let listed: CpuList =
        stat.lines().filter_map(|l| l.strip_prefix("cpu")?.split(' ').next()?.parse().ok()).collect();
    if !listed.is_empty() {
        return Some(listed);
    }
    tree.is_live().then(allowed).filter(|cpus| !cpus.is_empty())
}

/// Cpus that this thread may run on, as the kernel answers where /proc does not; empty if it does not.
fn allowed() -> CpuList {
    // SAFETY: the kernel fills at most the set whose size is passed; CPU_ISSET reads within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return CpuList::default();
        }
        (0..libc::CPU_SETSIZE as u32).filter(|&cpu| libc::CPU_ISSET(cpu as usize, &set)).collect()
    }
}

/// The nodes of the live machine: a thread visits each cpu that we may use and asks getcpu(2) where it is;
/// nodes with memory that we may use are listed in /proc/self/status. `None` on captured machines, and
/// where nothing is answered.
pub(super) fn nodes(tree: &Tree, online: &CpuList, warnings: &mut Vec<String>) -> Option<Found> {
    if !tree.is_live() {
        return None;
    }
    let visited = std::thread::Builder::new().spawn(visit_all).ok()?.join().ok()?;
    let status = tree.text("proc/self/status").unwrap_or_default();
    let with_memory: NodeList = status
        .lines()
        .find_map(|l| l.strip_prefix("Mems_allowed_list:")?.trim().parse().ok())
        .unwrap_or_default();
    let mut cpus: BTreeMap<NodeId, CpuList> = BTreeMap::new();
    for node in with_memory.iter().chain(visited.iter().map(|&(_, node)| node)) {
        let here = visited.iter().filter(|v| v.1 == node && online.contains(v.0)).map(|v| v.0);
        cpus.insert(node, here.collect());
    }
    if visited.is_empty() {
        return None;
    }
    let all: CpuList = visited.iter().map(|&(cpu, _)| cpu).collect();
    let unseen: CpuList = online.iter().filter(|&cpu| !all.contains(cpu)).collect();
    warnings.push(format!(
        "{} has no nodes (/sys is not mounted, or hidden): nodes are those that the kernel named on each cpu that \
         may be used here; distances, caches, cores and packages are unknown{}",
        tree.shown(NODE),
        if unseen.is_empty() { String::new() } else { format!(", and so is the node of cpu {unseen}") }
    ));
    let single = cpus.len() == 1;
    let nodes: Vec<NumaNode> = cpus
        .into_iter()
        .map(|(id, cpus)| NumaNode {
            id,
            cpus,
            // The machine's is the node's where there is one; of several nothing tells each one's.
            memory_bytes: if single { memory(tree, &[], "MemTotal:") } else { None },
            kind: NodeKind::Dram,
            package: None,
        })
        .collect();
    let distances = if single { vec![vec![10]] } else { Vec::new() };
    let folders = nodes.iter().map(|_| Vec::new()).collect();
    Some(Found { nodes, distances, folders })
}

/// Cpus that can be visited, each with its node. The thread's affinity ends with it.
fn visit_all() -> Vec<(u32, NodeId)> {
    let visit = |cpu: u32| {
        crate::target::stay_on(&(cpu..=cpu).into()).ok()?;
        let (mut here, mut node) = (0u32, 0u32);
        // SAFETY: the kernel writes two numbers; the third argument is not used any more.
        let got = unsafe {
            libc::syscall(libc::SYS_getcpu, &raw mut here, &raw mut node, std::ptr::null_mut::<u8>())
        };
        (got == 0 && here == cpu).then_some((cpu, node))
    };
    allowed().iter().filter_map(visit).collect()
}
