//! Cpus: which are online, and which share a core, a die, a package.

use super::tree::Tree;
use super::without_sys;
use nearfar_machine::cpulist::{CpuList, Cpus};

pub(super) const CPU: &str = "sys/devices/system/cpu";

/// The cpus that run. Old kernels have no list; there a cpu is online unless its
/// own `online` file says 0.
pub(super) fn online(tree: &Tree) -> Option<CpuList> {
    all_online(tree).map(|cpus| tree.counted(cpus)).filter(|cpus| !cpus.is_empty())
}

fn all_online(tree: &Tree) -> Option<CpuList> {
    let listed = tree.list(&format!("{CPU}/online"));
    if let Some(list) = listed.filter(|l| !l.is_empty()) {
        return Some(list);
    }
    let cpus: CpuList = tree
        .numbered::<Cpus>(CPU, "cpu")
        .iter()
        .filter(|n| tree.text(&format!("{CPU}/cpu{n}/online")).as_deref() != Some("0"))
        .collect();
    if cpus.is_empty() { without_sys::online(tree) } else { Some(cpus) }
}

/// The package of a cpu. Virtual machines and some ARM boards report −1: unknown.
pub(super) fn package(tree: &Tree, cpu: u32) -> Option<u32> {
    tree.parsed(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"))
}

/// The online cpus of each core; empty if any cpu does not tell, because half a
/// list would order threads wrongly.
pub(super) fn cores(tree: &Tree, online: &CpuList) -> Vec<CpuList> {
    let mut cores: Vec<CpuList> = Vec::new();
    for cpu in online.iter() {
        if cores.iter().any(|c| c.contains(cpu)) {
            continue;
        }
        let topology = format!("{CPU}/cpu{cpu}/topology");
        let Some(siblings) = tree.list_or_mask(
            &format!("{topology}/thread_siblings_list"),
            &format!("{topology}/thread_siblings"),
        ) else {
            return Vec::new();
        };
        let core: CpuList = siblings.iter().filter(|&c| online.contains(c)).collect();
        if !core.contains(cpu) {
            return Vec::new();
        }
        cores.push(core);
    }
    cores
}

/// The cpus that are there, running or not.
pub(super) fn present(tree: &Tree) -> Option<CpuList> {
    let listed = tree.list(&format!("{CPU}/present")).unwrap_or_else(|| tree.numbered(CPU, "cpu"));
    (!listed.is_empty()).then(|| tree.counted(listed))
}

/// Number of dies that the cpus of one package are on; `None` if any does not tell.
pub(super) fn dies(tree: &Tree, package: &CpuList) -> Option<u32> {
    let die = |cpu| tree.parsed::<u32>(&format!("{CPU}/cpu{cpu}/topology/die_id"));
    let dies: Option<CpuList> = package.iter().map(die).collect();
    dies.filter(|d| !d.is_empty()).map(|d| d.len() as u32)
}
