//! The machine at hand: what sysfs and /proc say about nodes, cpus and memory,
//! and the machine that a `--as` argument names.
//!
//! [`discover`] takes a root folder so that captured trees of other machines can
//! be read and tested; `/` is the live host. A tree with faults still gives a
//! machine: each fault becomes a warning that says what was assumed instead.

mod archive;
mod argument;
mod caches;
mod capture;
mod cgroups;
mod cpus;
mod devices;
mod gpus;
mod kernel;
mod locator;
mod node_files;
mod nodes;
mod nvml;
pub mod pmu;
mod prefetchers;
mod smbios;
mod topology;
mod tree;
mod without_sys;

pub use argument::{described_machines, machine_from_argument, machine_with_figures, machine_without_a_file};
pub use kernel::{CpuTimes, KernelState, cpu_times, huge_page_bytes, hugetlb_bytes, page_settings};
pub use topology::{capture, topology, topology_of_archive, topology_of_cpus};

use tree::Tree;

use anyhow::{Context, Result};
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::file::{Confidence, Figures, Provenance};
use nearfar_machine::topology::{CacheKind, Limits};
use nearfar_machine::{Machine, NodeId, NumaNode};
use std::path::Path;

/// A machine as read from a host or a captured tree.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The machine.
    pub machine: Machine,
    /// What was wrong or missing, and what was assumed; a sentence or two each.
    pub warnings: Vec<String>,
    /// What the kernel is set to do, and what it lets the caller do.
    pub kernel: KernelState,
}

/// Reads the machine below `root`: `/` for the host, or a folder with `sys/` and
/// `proc/` in it. Fails only if not even a list of cpus can be found.
pub fn discover(root: &Path) -> Result<Discovered> {
    Ok(read(&Tree::new(root))?.discovered)
}

/// What a process's control groups allow; what cannot be read is unknown with the reason.
pub fn limits_of(root: &Path, pid: u32) -> Limits {
    cgroups::limits(&Tree::new(root), &pid.to_string())
}

/// The cpus of each last-level cache below `root`, by the first one; none if no cpu tells.
pub fn last_level_caches(root: &Path, online: &CpuList) -> Vec<CpuList> {
    let all = caches::instances(&Tree::new(root), online).unwrap_or_default();
    let data = || all.iter().filter(|c| c.kind != CacheKind::Instruction);
    let last = data().map(|c| c.level).max();
    let mut cpus: Vec<CpuList> =
        data().filter(|c| Some(c.level) == last).flat_map(|c| c.instances.clone()).collect();
    cpus.sort_by_key(CpuList::first);
    cpus
}

/// A machine, and the folders of sysfs that each of its nodes stands for.
struct Read {
    discovered: Discovered,
    folders: Vec<Vec<NodeId>>,
}

fn read(tree: &Tree) -> Result<Read> {
    let mut warnings = Vec::new();
    let kernel = kernel::read(tree);
    let online = cpus::online(tree).with_context(|| {
        format!(
            "no cpus found: neither {} nor folders cpu0, cpu1, … beside it nor lines of cpus in proc/stat can be read",
            tree.shown("sys/devices/system/cpu/online")
        )
    })?;
    if !tree.is_dir(cpus::CPU) {
        warnings.push(format!(
            "{} cannot be read (/sys is not mounted, or hidden): cpus are those that the kernel counts time for",
            tree.shown(cpus::CPU)
        ));
    }
    let found = nodes::read(tree, &online, &mut warnings);
    let cores = cpus::cores(tree, &online);
    let threads_per_core = cores.iter().map(CpuList::len).max().unwrap_or(0) as u32;
    let provenance = Provenance {
        source: if tree.is_live() && !tree.is_dir(cpus::CPU) {
            "the kernel's answers, without /sys".to_owned()
        } else if tree.is_live() && tree.is_part() {
            "sysfs of the virtual machine".to_owned()
        } else if tree.is_live() {
            "sysfs of the host".to_owned()
        } else {
            format!("sysfs tree at {}", tree.root())
        },
        confidence: Confidence::H,
    };
    let cache = caches::read(tree, &online, threads_per_core, &provenance);
    let figures = Figures {
        topology: Some(provenance.clone()),
        distances: (!found.distances.is_empty()).then_some(provenance),
        dies_per_package: dies_per_package(tree, &online),
        line_bytes: cache.line_bytes,
        caches: cache.figures,
        cores,
        ..Figures::default()
    };
    let machine = Machine {
        name: name(tree, &found.nodes),
        nodes: found.nodes,
        distances: found.distances,
        caches: cache.levels,
        threads_per_core,
        figures,
    };
    let discovered = Discovered { machine, warnings, kernel: KernelState { online, ..kernel } };
    Ok(Read { discovered, folders: found.folders })
}

/// Dies in the package of the first cpu.
fn dies_per_package(tree: &Tree, online: &CpuList) -> Option<u32> {
    let first = cpus::package(tree, online.first()?)?;
    let package: CpuList = online.iter().filter(|&c| cpus::package(tree, c) == Some(first)).collect();
    cpus::dies(tree, &package)
}

/// `2x Intel(R) Xeon(R) …` as far as it is known.
fn name(tree: &Tree, nodes: &[NumaNode]) -> String {
    let info = tree.text("proc/cpuinfo").unwrap_or_default();
    // x86 writes `model name`, POWER `cpu`; ARM names no model there.
    let model = ["model name", "cpu"].iter().find_map(|key| {
        info.lines().find_map(|line| {
            let (k, v) = line.split_once(':')?;
            (k.trim() == *key).then(|| v.split_whitespace().collect::<Vec<_>>().join(" "))
        })
    });
    let mut packages: Vec<u32> = nodes.iter().filter_map(|n| n.package).collect();
    packages.sort_unstable();
    packages.dedup();
    match (model, packages.len()) {
        (Some(model), 0 | 1) => model,
        (Some(model), n) => format!("{n}x {model}"),
        (None, _) => {
            let cpus: usize = nodes.iter().map(|n| n.cpus.len()).sum();
            format!("a machine of {} nodes and {cpus} cpus", nodes.len())
        }
    }
}

#[cfg(test)]
mod tests;
