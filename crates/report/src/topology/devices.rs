//! Devices, the node of each, and how near they are to each other.

use super::super::layout::{Page, columns, left, right, shorten, size};
use nearfar_machine::topology::{Device, DeviceKind, GpuLink, NodeSource, Topology};

/// More devices than this make a matrix that is never read.
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
        let star = if by_nvml(device) { "*" } else { "" };
        let node = device.node.map_or("node unknown".to_owned(), |n| format!("node {n}{star}"));
        let start = format!(
            "{} {} {} {}",
            left(word(device.kind), 11),
            left(&shorten(name(device), 20), 20),
            left(device.pci.as_deref().unwrap_or(""), 14),
            left(&node, 13)
        );
        let room = page.width.saturating_sub(columns(&start) + 1);
        page.line(&format!("{start} {}", shorten(&more(device), room)));
    }
    if devices.iter().any(by_nvml) {
        page.paragraph("* by NVIDIA's library: the kernel does not know the node");
    }
    let placed: Vec<&Device> = devices.iter().filter(|d| !d.path.is_empty() || d.gpu.is_some()).collect();
    if (2..=MATRIX).contains(&placed.len()) {
        matrix(page, &placed);
    }
}

/// Whether the node is not the kernel's word.
fn by_nvml(device: &Device) -> bool {
    matches!(device.node_source, Some(NodeSource::NvmlMemoryAffinity | NodeSource::NvmlCpuAffinity))
}

/// What a person calls it: the kernel's `card0` says less than `NVIDIA H200`.
fn name(device: &Device) -> &str {
    device.gpu.as_ref().and_then(|gpu| gpu.product.as_deref()).unwrap_or(&device.name)
}

/// Interrupts, or how much memory a GPU has.
fn more(device: &Device) -> String {
    if let Some(gpu) = &device.gpu {
        return gpu.memory_kb.map_or("memory unknown".to_owned(), |kb| format!("has {}", size(kb * 1024)));
    }
    let interrupts = device.interrupts.as_ref().map(|i| {
        let cpus = i.cpus.as_ref().map_or("unknown".to_owned(), ToString::to_string);
        format!("{} interrupts on cpus {cpus}", i.count)
    });
    interrupts.unwrap_or_default()
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
        let row: String = devices.iter().map(|to| right(&between(from, to), 6)).collect();
        page.line(&format!("{}{row}", left(&format!("#{i:<3} {}", shorten(name(from), 18)), 24)));
    }
    let linked = |from: &&Device| devices.iter().any(|to| nvlinks(from, to).is_some());
    if devices.iter().any(linked) {
        page.paragraph("NV# that many NVLinks, direct or through switches");
    }
    page.paragraph(
        "PIX one PCI bridge or switch between them; PXB several; PHB the host bridge; NODE the node's fabric; \
         SYS the link between nodes; ? unknown",
    );
}

/// How data gets from one device to the other, in the words of `nvidia-smi topo -m`.
fn between(a: &Device, b: &Device) -> String {
    let same = if a.path.is_empty() { a.pci == b.pci && a.name == b.name } else { a.path == b.path };
    if same {
        return "X".to_owned();
    }
    if let Some(nvlinks) = nvlinks(a, b) {
        return format!("NV{nvlinks}");
    }
    // The first element is the host bridge.
    let common = a.path.iter().zip(&b.path).take_while(|(a, b)| a == b).count();
    let word = match (common, a.node, b.node) {
        // A switch is two bridges deep: the port towards the root and one towards the device.
        (2.., _, _) if a.path.len().max(b.path.len()) - common <= 2 => "PIX",
        (2.., _, _) => "PXB",
        (1, _, _) => "PHB",
        // Sysfs knows neither bridges nor nodes; the driver may.
        _ if link(a, b).is_some_and(|l| l.pci.is_some()) && (a.path.is_empty() || a.node.is_none()) => {
            return link(a, b).and_then(|l| l.pci.clone()).unwrap_or_default();
        }
        (_, Some(a), Some(b)) if a == b => "NODE",
        (_, Some(_), Some(_)) => "SYS",
        _ => "?",
    };
    word.to_owned()
}

/// The driver's word on the way from one GPU to another.
fn link<'a>(a: &'a Device, b: &Device) -> Option<&'a GpuLink> {
    a.gpu.as_ref()?.links.iter().find(|l| Some(&l.to) == b.pci.as_ref())
}

fn nvlinks(a: &Device, b: &Device) -> Option<u32> {
    link(a, b)?.nvlinks.filter(|&n| n > 0)
}
