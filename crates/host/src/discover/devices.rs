//! Devices whose node matters: network, storage, GPUs, other processors on PCI.

use super::tree::Tree;
use nearfar_machine::cpulist::{CpuList, Cpus, IndexList};
use nearfar_machine::topology::{Device, DeviceKind, Interrupts, NodeSource};
use std::path::Path;

const PCI: &str = "sys/bus/pci/devices";

/// Devices that the kernel has names for, then those on PCI that no driver has
/// named. `None` where the tree has neither classes nor buses.
pub(super) fn read(tree: &Tree) -> Option<Vec<Device>> {
    let known = ["sys/class/net", "sys/class/nvme", PCI].iter().any(|f| tree.is_dir(f));
    if !known {
        return None;
    }
    let mut devices: Vec<Device> = Vec::new();
    for (folder, prefix, kind) in [
        ("sys/class/net", "", DeviceKind::Nic),
        ("sys/class/infiniband", "", DeviceKind::Infiniband),
        ("sys/class/nvme", "nvme", DeviceKind::Nvme),
        ("sys/bus/cxl/devices", "mem", DeviceKind::Cxl),
    ] {
        for name in tree.names(folder).into_iter().filter(|n| n.starts_with(prefix)) {
            // Loopback, bridges and bonds are nowhere.
            let Some(place) = place(tree, &format!("{folder}/{name}")) else { continue };
            devices.push(device(tree, kind, name, &place));
        }
    }
    for address in tree.names(PCI) {
        let folder = format!("{PCI}/{address}");
        let class = tree.text(&format!("{folder}/class"));
        let Some(kind) = class.as_deref().and_then(pci_kind) else { continue };
        // Virtual functions are the guests', and would be dozens.
        let guests = tree.exists(&format!("{folder}/physfn"));
        if guests || devices.iter().any(|d| d.pci.as_deref() == Some(address.as_str())) {
            continue;
        }
        let card = tree.names(&format!("{folder}/drm")).into_iter().find(|n| n.starts_with("card"));
        let place = place(tree, &folder).unwrap_or_default();
        let place = if place.pci.is_empty() { Place { pci: vec![address.clone()], ..place } } else { place };
        devices.push(device(tree, kind, card.unwrap_or(address), &place));
    }
    sort(&mut devices);
    Some(devices)
}

pub(super) fn sort(devices: &mut [Device]) {
    devices.sort_by(|a, b| (a.kind, &a.pci, &a.name).cmp(&(b.kind, &b.pci, &b.name)));
}

/// Where a device is.
#[derive(Default)]
struct Place {
    /// Host bridge and PCI addresses down to the device.
    pci: Vec<String>,
    /// The node that a device without PCI tells itself.
    node: Option<u32>,
}

/// `None` for what is not a device of hardware.
fn place(tree: &Tree, entry: &str) -> Option<Place> {
    let real = tree.canonical(entry)?;
    let pci = pci_path(&real);
    let node = tree
        .parsed(&format!("{entry}/device/numa_node"))
        .or_else(|| tree.parsed(&format!("{entry}/numa_node")));
    let hardware = !pci.is_empty() || tree.exists(&format!("{entry}/device"));
    hardware.then_some(Place { pci, node })
}

/// `…/pci0000:00/0000:00:03.0/virtio2/net/eth0` → `pci0000:00`, `0000:00:03.0`.
fn pci_path(path: &Path) -> Vec<String> {
    let parts = path.components().filter_map(|c| c.as_os_str().to_str());
    parts.filter(|p| is_address(p) || p.strip_prefix("pci").is_some_and(is_bus)).map(str::to_owned).collect()
}

/// `0000:00`.
fn is_bus(text: &str) -> bool {
    let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
    text.split_once(':').is_some_and(|(domain, bus)| hex(domain) && hex(bus))
}

/// `0000:00:03.0`.
fn is_address(text: &str) -> bool {
    let Some((bus, slot)) = text.rsplit_once(':') else { return false };
    is_bus(bus) && slot.len() == 4 && slot.as_bytes()[2] == b'.'
}

/// By the class code `0xCCSSPP`: class, subclass, programming interface.
fn pci_kind(class: &str) -> Option<DeviceKind> {
    let class = u32::from_str_radix(class.strip_prefix("0x")?, 16).ok()? >> 8;
    Some(match class {
        0x0200 => DeviceKind::Nic,
        0x0207 => DeviceKind::Infiniband,
        0x0108 => DeviceKind::Nvme,
        0x0300..=0x03ff => DeviceKind::Gpu,
        0x0502 => DeviceKind::Cxl,
        // Co-processors, and since PCI 4.0 processing accelerators.
        0x0b40 | 0x1200..=0x12ff => DeviceKind::Accelerator,
        _ => return None,
    })
}

fn device(tree: &Tree, kind: DeviceKind, name: String, place: &Place) -> Device {
    let pci = place.pci.last().filter(|p| is_address(p)).cloned();
    let at = |file: &str| pci.as_ref().map(|p| format!("{PCI}/{p}/{file}"));
    // −1, which says unknown, is not a number of a node.
    let node = place.node.or_else(|| tree.parsed(&at("numa_node")?));
    let interrupts = match kind {
        DeviceKind::Nic | DeviceKind::Infiniband | DeviceKind::Nvme => {
            at("msi_irqs").and_then(|f| interrupts(tree, &f))
        }
        _ => None,
    };
    // Without a host bridge the rest of the way is not known either.
    let path =
        if place.pci.first().is_some_and(|p| p.starts_with("pci")) { place.pci.clone() } else { Vec::new() };
    Device {
        kind,
        name,
        pci,
        node,
        path,
        interrupts,
        node_source: node.map(|_| NodeSource::Sysfs),
        gpu: None,
    }
}

fn interrupts(tree: &Tree, folder: &str) -> Option<Interrupts> {
    let numbers: IndexList<()> = tree.numbered(folder, "");
    if numbers.is_empty() {
        return None;
    }
    let served = |irq: u32| {
        // Where they go; else where they may go.
        ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .find_map(|file| tree.list::<Cpus>(&format!("proc/irq/{irq}/{file}")).filter(|l| !l.is_empty()))
    };
    let cpus: CpuList = numbers.iter().filter_map(served).flat_map(|l| l.as_slice().to_vec()).collect();
    Some(Interrupts { count: numbers.len(), cpus: (!cpus.is_empty()).then_some(cpus) })
}
