//! The machine that an imported file was recorded on, as its header says.

use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeKind, NumaNode};
use nearfar_perf::features::{Node, nodes, sockets};

/// From the parts of perf.data's header; `None` if it does not say the nodes.
pub(super) fn from_features(name: &str, numa: Option<&[u8]>, cores: Option<&[u8]>) -> Option<Machine> {
    let nodes = nodes(numa?)?;
    let cpus = nodes.iter().filter_map(|n| n.cpus.last()).max().map_or(0, |last| last as usize + 1);
    let sockets = cores.and_then(|part| sockets(part, cpus));
    Some(machine(name, nodes, sockets.as_deref()))
}

/// A machine of one node with so many cpus: where the file says nothing else.
pub(super) fn of_cpus(name: &str, cpus: u32) -> Machine {
    let cpus = CpuList::from(0..=cpus.clamp(1, 65_536) - 1);
    machine(name, vec![Node { id: 0, memory_bytes: 0, cpus }], None)
}

/// Of these nodes; `sockets` has the package of each cpu.
pub(super) fn machine(name: &str, nodes: Vec<Node>, sockets: Option<&[u32]>) -> Machine {
    let mut nodes: Vec<NumaNode> = nodes
        .into_iter()
        .map(|n| NumaNode {
            id: n.id,
            package: n.cpus.first().and_then(|cpu| sockets?.get(cpu as usize).copied()),
            cpus: n.cpus,
            memory_bytes: (n.memory_bytes > 0).then_some(n.memory_bytes),
            kind: NodeKind::Dram,
        })
        .collect();
    nodes.sort_by_key(|n| n.id);
    nodes.dedup_by_key(|n| n.id);
    Machine {
        name: name.to_owned(),
        nodes,
        distances: Vec::new(),
        caches: Vec::new(),
        threads_per_core: 0,
        figures: Default::default(),
    }
}
