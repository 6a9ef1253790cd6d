//! What NVIDIA's library tells, put beside what sysfs tells of the same devices.

use super::devices;
use super::nvml::{Found, Peer};
use nearfar_machine::NodeId;
use nearfar_machine::topology::{Device, DeviceKind, Gpu, GpuLink, Node, NodeSource};

/// Adds to the devices of sysfs what was found, and the GPUs that sysfs hides (in some
/// containers). The node of sysfs stays; the library's is for where that is −1.
pub(super) fn add(devices: &mut Vec<Device>, found: Vec<Found>, nodes: &[Node]) {
    let links: Vec<Vec<GpuLink>> = found.iter().map(|gpu| links(gpu, &found)).collect();
    for (gpu, links) in found.into_iter().zip(links) {
        let place = devices.iter().position(|d| d.pci.as_ref() == Some(&gpu.pci));
        let place = place.unwrap_or_else(|| {
            devices.push(Device {
                kind: DeviceKind::Gpu,
                name: gpu.pci.clone(),
                pci: Some(gpu.pci.clone()),
                node: None,
                path: Vec::new(),
                interrupts: None,
                node_source: None,
                gpu: None,
            });
            devices.len() - 1
        });
        let device = &mut devices[place];
        if device.node.is_none()
            && let Some((node, source)) = nearest(&gpu, nodes)
        {
            device.node = Some(node);
            device.node_source = Some(source);
        }
        device.gpu = Some(Gpu {
            product: gpu.product,
            memory_kb: gpu.memory_bytes.map(|b| b / 1024),
            near_nodes: gpu.near_nodes,
            near_cpus: gpu.near_cpus,
            links,
        });
    }
    devices::sort(devices);
}

/// A node only if it is one: on a socket of several nodes the driver may name them all.
fn nearest(gpu: &Found, nodes: &[Node]) -> Option<(NodeId, NodeSource)> {
    let there = |id: u32| nodes.iter().any(|n| n.id == id);
    if let Some([id]) = gpu.near_nodes.as_ref().map(|n| n.as_slice())
        && there(*id)
    {
        return Some((*id, NodeSource::NvmlMemoryAffinity));
    }
    let cpus = gpu.near_cpus.as_ref()?;
    let mut with = nodes.iter().filter(|n| n.cpus.first_common(cpus).is_some());
    let node = with.next()?.id;
    with.next().is_none().then_some((node, NodeSource::NvmlCpuAffinity))
}

fn links(gpu: &Found, all: &[Found]) -> Vec<GpuLink> {
    let others = all.iter().filter(|other| other.pci != gpu.pci);
    let link = |other: &Found| {
        let count = |from: &Found, to: &dyn Fn(&Peer) -> bool| {
            from.nvlinks.as_ref().map(|links| links.iter().filter(|l| to(l)).count() as u32)
        };
        let direct = count(gpu, &|peer| matches!(peer, Peer::Gpu(pci) if *pci == other.pci));
        // All GPUs on switches reach each other, each with all its links.
        let switch = |from: &Found| count(from, &|peer| matches!(peer, Peer::Switch));
        let switched = switch(gpu).zip(switch(other)).map(|(a, b)| a.min(b));
        let pci = gpu.ways.iter().find(|(to, _)| *to == other.pci).map(|(_, word)| (*word).to_owned());
        GpuLink { to: other.pci.clone(), nvlinks: direct.zip(switched).map(|(d, s)| d + s), pci }
    };
    others.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::topology::Topology;

    fn found(pci: &str, nodes: Option<&str>, cpus: Option<&str>, nvlinks: Vec<Peer>) -> Found {
        Found {
            pci: pci.to_owned(),
            product: None,
            memory_bytes: None,
            near_nodes: nodes.map(|t| t.parse().unwrap()),
            near_cpus: cpus.map(|t| t.parse().unwrap()),
            nvlinks: Some(nvlinks),
            ways: Vec::new(),
        }
    }

    /// Nodes 0 to 3 of one cpu each.
    fn nodes() -> Vec<Node> {
        Topology::from_machine(&super::super::machine_from_argument("4x1").unwrap(), "").nodes
    }

    #[test]
    fn the_drivers_node_counts_only_where_sysfs_has_none_and_if_it_is_one() {
        let of = |node: Option<u32>, near: Option<&str>, cpus: Option<&str>| {
            let mut devices = Vec::new();
            add(&mut devices, vec![found("0000:01:00.0", None, None, vec![])], &nodes());
            (devices[0].node, devices[0].node_source) = (node, node.map(|_| NodeSource::Sysfs));
            add(&mut devices, vec![found("0000:01:00.0", near, cpus, vec![])], &nodes());
            assert_eq!(devices.len(), 1);
            (devices[0].node, devices[0].node_source)
        };
        assert_eq!(of(Some(2), Some("1"), Some("1")), (Some(2), Some(NodeSource::Sysfs)));
        assert_eq!(of(None, Some("1"), Some("2")), (Some(1), Some(NodeSource::NvmlMemoryAffinity)));
        assert_eq!(of(None, None, Some("2")), (Some(2), Some(NodeSource::NvmlCpuAffinity)));
        assert_eq!(of(None, Some("0-1"), Some("0-1")), (None, None));
        // A node that is not there.
        assert_eq!(of(None, Some("9"), None), (None, None));
    }

    #[test]
    fn nvlinks_are_counted_to_each_gpu_and_through_switches() {
        let to = |pci: &str, n: usize| vec![Peer::Gpu(pci.to_owned()); n];
        let gpus = [
            found("a", None, None, to("b", 2)),
            found("b", None, None, [to("a", 2), vec![Peer::Switch; 4]].concat()),
            found("c", None, None, vec![Peer::Switch; 6]),
            Found { nvlinks: None, ..found("d", None, None, vec![]) },
        ];
        let counts = |i: usize| links(&gpus[i], &gpus).into_iter().map(|l| l.nvlinks).collect::<Vec<_>>();
        assert_eq!(counts(0), [Some(2), Some(0), None]);
        assert_eq!(counts(1), [Some(2), Some(4), None]);
        assert_eq!(counts(3), [None, None, None]);
    }
}
