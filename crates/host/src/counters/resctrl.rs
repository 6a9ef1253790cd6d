//! Bytes that the cpus of each last-level cache moved, as resctrl monitors them (Intel MBM, AMD QoS): where they are
//! switched on, anybody may read them, without a PMU.
//!
//! `mbm_total_bytes` and `mbm_local_bytes` of a group are of its tasks; a group's files have those of its monitoring
//! groups too, so the machine's are the sums over the root and its control groups
//! (Documentation/filesystems/resctrl.rst).

use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::live::reading::{Monitored, Source};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MOUNTED: &str = "sys/fs/resctrl";
/// Folders of the root that are not a control groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// The counters now, below `root`.
pub fn read(root: &Path, machine: &Machine) -> Source<BTreeMap<NodeId, Monitored>> {
    let top = root.join(MOUNTED);
    if !top.join("schemata").exists() && !top.join("mon_data").exists() {
        return Source::Not(
            "resctrl is not mounted, or this processor has no bandwidth monitoring: \
             `sudo mount -t resctrl resctrl /sys/fs/resctrl`"
                .to_owned(),
        );
    }
    let mut sums: BTreeMap<NodeId, Monitored> = BTreeMap::new();
    let mut why = "resctrl is mounted, but has no mbm_total_bytes and mbm_local_bytes here".to_owned();
    for group in groups(&top) {
        for (id, domain) in domains(&group.join("mon_data")) {
            let number = |file: &str| fs::read_to_string(domain.join(file)).ok()?.trim().parse::<u64>().ok();
            let Some((total, local)) = number("mbm_total_bytes").zip(number("mbm_local_bytes")) else {
                continue;
            };
            match node_of_cache(root, machine, id) {
                Some(node) => {
                    let sum = sums.entry(node).or_default();
                    sum.total += total;
                    sum.local += local;
                }
                None => {
                    why = format!(
                        "resctrl counts by last-level cache, and the cpus of cache {id} belong to several nodes \
                         (SNC) or to none"
                    );
                    return Source::Not(why);
                }
            }
        }
    }
    Source::of(sums, "resctrl (mbm_total_bytes, mbm_local_bytes)", &why)
}

/// The root group and the control groups beside it.
fn groups(top: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(top).into_iter().flatten().flatten().map(|e| e.path());
    let name = |p: &PathBuf| p.file_name().is_some_and(|n| NO_GROUPS.iter().any(|no| n == *no));
    let own = entries.filter(|p| p.join("mon_data").is_dir() && !name(p));
    std::iter::once(top.to_owned()).chain(own).collect()
}

/// `mon_L3_00` and so on: a cache's id and its folder.
fn domains(data: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(data).into_iter().flatten().flatten();
    let domain = |e: fs::DirEntry| {
        let id = e.file_name().to_str()?.strip_prefix("mon_L3_")?.parse().ok()?;
        Some((id, e.path()))
    };
    entries.filter_map(domain).collect()
}

/// The node that all cpus of a third-level cache belong to.
fn node_of_cache(root: &Path, machine: &Machine, id: u32) -> Option<NodeId> {
    let mut found = None;
    for node in &machine.nodes {
        for cpu in node.cpus.iter() {
            let cache = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache/index3"));
            let text = |file: &str| fs::read_to_string(cache.join(file)).ok();
            if text("id").and_then(|t| t.trim().parse::<u32>().ok()) != Some(id) {
                continue;
            }
            let shared: CpuList = text("shared_cpu_list")?.trim().parse().ok()?;
            let nodes: Vec<Option<NodeId>> = shared.iter().map(|c| machine.node_of_cpu(c)).collect();
            found = nodes[0].filter(|_| nodes.iter().all(|n| *n == nodes[0]));
            return found;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(caches: [&str; 2]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (group, factor) in [("", 1), ("half/", 2)] {
            for id in 0..2 {
                let data = format!("{MOUNTED}/{group}mon_data/mon_L3_0{id}");
                write(format!("{data}/mbm_total_bytes"), &format!("{}\n", 100 * factor * (id + 1)));
                write(format!("{data}/mbm_local_bytes"), &format!("{}\n", 10 * factor));
            }
        }
        write(format!("{MOUNTED}/schemata"), "");
        for cpu in 0..4usize {
            let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            write(format!("{cache}/id"), &format!("{}\n", cpu / 2));
            write(format!("{cache}/shared_cpu_list"), caches[cpu / 2]);
        }
        root
    }

    #[test]
    fn bytes_of_all_groups_are_added_by_the_node_of_the_cache() {
        let machine = Machine::from_shape("2x2").unwrap();
        let found = read(tree(["0-1", "2-3"]).path(), &machine);
        let expected = [(0, Monitored { total: 300, local: 30 }), (1, Monitored { total: 600, local: 30 })];
        assert_eq!(found.get(), Some(&BTreeMap::from(expected)));
    }

    #[test]
    fn a_cache_of_several_nodes_is_of_none() {
        let machine = Machine::from_shape("2x2").unwrap();
        assert!(read(tree(["0-2", "2-3"]).path(), &machine).why().contains("several nodes"));
        assert!(read(tempfile::tempdir().unwrap().path(), &machine).why().contains("not mounted"));
    }
}
