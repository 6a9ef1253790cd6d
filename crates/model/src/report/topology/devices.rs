//! Devices, the node of each, and how near they are to each other.

use super::super::layout::{Page, columns, left, right, shorten};
use crate::topology::{Device, DeviceKind, Topology};

/// More devices than this make a matrix that nobody reads.
const MATRIX: usize = 12;

/// A line for each device, and the matrix that `nvidia-smi topo -m` also draws.
pub(super) fn list(page: &mut Page, t: &Topology) {
    page.heading("Devices");
    let Some(devices) = &t.devices else {
        page.line("unknown");
        return;
    };
    if devices.is_empty() {
        page.line("none that matters here");
        return;
    }
    for device in devices {
        let node = device.node.map_or("node unknown".to_owned(), |n| format!("node {n}"));
        let start = format!(
            "{} {} {} {}",
            left(word(device.kind), 11),
            left(&shorten(&device.name, 20), 20),
            left(device.pci.as_deref().unwrap_or(""), 14),
            left(&node, 13)
        );
        let interrupts = device.interrupts.as_ref().map(|i| {
            let cpus = i.cpus.as_ref().map_or("unknown".to_owned(), ToString::to_string);
            format!("{} interrupts on cpus {cpus}", i.count)
        });
        let room = page.width.saturating_sub(columns(&start) + 1);
        page.line(&format!("{start} {}", shorten(&interrupts.unwrap_or_default(), room)));
    }
    let placed: Vec<&Device> = devices.iter().filter(|d| !d.path.is_empty()).collect();
    if (2..=MATRIX).contains(&placed.len()) {
        matrix(page, &placed);
    }
}

fn word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Nic => "network",
        DeviceKind::Infiniband => "infiniband",
        DeviceKind::Nvme => "nvme",
        DeviceKind::Gpu => "display/gpu",
        DeviceKind::Accelerator => "accelerator",
        DeviceKind::Cxl => "cxl memory",
    }
}

fn matrix(page: &mut Page, devices: &[&Device]) {
    page.blank();
    let numbers: String = (0..devices.len()).map(|i| right(&format!("#{i}"), 6)).collect();
    page.line(&format!("{}{numbers}", " ".repeat(24)));
    for (i, from) in devices.iter().enumerate() {
        let row: String = devices.iter().map(|to| right(between(from, to), 6)).collect();
        page.line(&format!("{}{row}", left(&format!("#{i:<3} {}", shorten(&from.name, 18)), 24)));
    }
    page.paragraph(
        "PIX one PCI bridge or switch between them; PXB several; PHB the host bridge; NODE the node's fabric; \
         SYS the link between nodes; ? unknown",
    );
}

/// How data gets from one device to the other, in the words of `nvidia-smi topo -m`.
fn between(a: &Device, b: &Device) -> &'static str {
    if a.path == b.path {
        return "X";
    }
    // The first element is the host bridge.
    let common = a.path.iter().zip(&b.path).take_while(|(a, b)| a == b).count();
    match (common, a.node, b.node) {
        // A switch is two bridges deep: the port towards the root and one towards the device.
        (2.., _, _) if a.path.len().max(b.path.len()) - common <= 2 => "PIX",
        (2.., _, _) => "PXB",
        (1, _, _) => "PHB",
        (_, Some(a), Some(b)) if a == b => "NODE",
        (_, Some(_), Some(_)) => "SYS",
        _ => "?",
    }
}
