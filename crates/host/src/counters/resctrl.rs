//! Bytes that the cpus of each last-level cache moved, as resctrl monitors them (Intel MBM, AMD QoS): where they are
//! switched on, anybody may read them, without a PMU.
//!
//! `mbm_total_bytes` and `mbm_local_bytes` of a group are of its tasks; a group's files have those of its monitoring
//! groups too, so the machine's are the sums over the root and its control groups
//! (Documentation/filesystems/resctrl.rst).
//!
//! On AMD what the two files count can be set (BMEC, and the counters that are assigned to events): two settings are
//! understood, for others the bytes are unknown.

use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::live::reading::{Monitored, Source};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MOUNTED: &str = "sys/fs/resctrl";
/// Folders of the root that are not a control groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// What is counted, a bit each (resctrl.rst, "mbm_total_bytes_config"), with the words of newer kernels
/// ("event_filter"), in the order of the bits.
const TRANSFERS: [&str; 7] = [
    "local_reads",
    "remote_reads",
    "local_non_temporal_writes",
    "remote_non_temporal_writes",
    "local_reads_slow_memory",
    "remote_reads_slow_memory",
    "dirty_victim_writes_all",
];
/// All of them; those with the cpus' own memory; and those with other nodes' memory.
const ALL: u32 = 0x7f;
const LOCAL: u32 = 0x15;
const REMOTE: u32 = 0x2a;

/// Whether `mbm_total_bytes` is set to count remote transfers only.
///
/// # Errors
/// That the files are set to count something else, and how they are set back.
fn only_remote(top: &Path) -> Result<bool, String> {
    let totals = settings(top, "mbm_total_bytes");
    let locals = settings(top, "mbm_local_bytes");
    let same = |set: &[u32], to: u32| set.iter().all(|&bits| bits == to);
    match (same(&totals, ALL), same(&totals, REMOTE), same(&locals, LOCAL)) {
        (true, _, true) => Ok(false),
        (_, true, true) => Ok(true),
        _ => Err(format!(
            "resctrl is set to count something else than all and local bytes (mbm_total_bytes {}, mbm_local_bytes {}): \
             in {MOUNTED}/info/L3_MON, as root, give every domain {ALL:#x} in mbm_total_bytes_config and {LOCAL:#x} in \
             mbm_local_bytes_config",
            said(&totals),
            said(&locals)
        )),
    }
}

fn said(set: &[u32]) -> String {
    let mut set: Vec<String> = set.iter().map(|bits| format!("{bits:#x}")).collect();
    set.dedup();
    if set.is_empty() { "as the kernel sets it".to_owned() } else { set.join(" and ") }
}

/// What a file is set to count: a value for each domain, one for all on newer kernels, none where it cannot be set.
/// What cannot be read as a setting is 0, which is none that is understood.
fn settings(top: &Path, file: &str) -> Vec<u32> {
    let info = top.join("info/L3_MON");
    if let Ok(words) = fs::read_to_string(info.join(format!("event_configs/{file}/event_filter"))) {
        let bit = |word: &str| TRANSFERS.iter().position(|t| *t == word.trim()).map(|bit| 1 << bit);
        let bits: Option<Vec<u32>> = words.trim().split(',').map(bit).collect();
        return vec![bits.map_or(0, |bits| bits.iter().fold(0, |all, bit| all | bit))];
    }
    let Ok(text) = fs::read_to_string(info.join(format!("{file}_config"))) else { return Vec::new() };
    let bits = |domain: &str| {
        let hex = domain.split_once('=')?.1.trim().trim_start_matches("0x");
        u32::from_str_radix(hex, 16).ok()
    };
    text.trim().split(';').map(|domain| bits(domain).unwrap_or(0)).collect()
}

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
    let only_remote = match only_remote(&top) {
        Ok(only_remote) => only_remote,
        Err(why) => return Source::Not(why),
    };
    let mut sums: BTreeMap<NodeId, Monitored> = BTreeMap::new();
    let mut why = "resctrl is mounted, but has no mbm_total_bytes and mbm_local_bytes here".to_owned();
    for group in groups(&top) {
        for (id, domain) in domains(&group.join("mon_data")) {
            let text = |file: &str| fs::read_to_string(domain.join(file)).ok();
            let Some((total, local)) = text("mbm_total_bytes").zip(text("mbm_local_bytes")) else {
                continue;
            };
            let number = |text: &str| text.trim().parse::<u64>().ok();
            let Some((total, local)) = number(&total).zip(number(&local)) else {
                // "Unassigned" where counters are assigned by hand, "Unavailable" and "Error" where the processor
                // has no value: a sum without a group would be too small.
                let (total, local) = (total.trim(), local.trim());
                let name =
                    group.file_name().filter(|_| group != top).unwrap_or("root".as_ref()).to_string_lossy();
                return Source::Not(format!(
                    "resctrl has no number for cache {id} in the group {name} (mbm_total_bytes {total}, \
                     mbm_local_bytes {local}); where counters are assigned by hand, \
                     {MOUNTED}/info/L3_MON/mbm_assign_mode says how"
                ));
            };
            let total = if only_remote { total + local } else { total };
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
    fn what_the_files_are_set_to_count_is_looked_at() {
        let machine = Machine::from_shape("2x2").unwrap();
        let root = tree(["0-1", "2-3"]);
        let info = root.path().join(MOUNTED).join("info/L3_MON");
        let set = |file: &str, text: &str| {
            let path = info.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let total = || read(root.path(), &machine).get().map(|sums| sums[&0].total);
        set("mbm_total_bytes_config", "0=0x7f;1=0x7f\n");
        set("mbm_local_bytes_config", "0=0x15;1=0x15\n");
        assert_eq!(total(), Some(300));
        // Remote and local ones apart: all of them are the sum.
        set("mbm_total_bytes_config", "0=0x2a;1=0x2a\n");
        assert_eq!(total(), Some(330));
        for other in ["0=0x2a;1=0x7f\n", "0=0x30;1=0x30\n", "0=\n", "\n"] {
            set("mbm_total_bytes_config", other);
            assert!(read(root.path(), &machine).why().contains("something else"), "{other}");
        }
        set("event_configs/mbm_total_bytes/event_filter", &format!("{}\n", TRANSFERS.join(",")));
        assert_eq!(total(), Some(300));
        set("event_configs/mbm_total_bytes/event_filter", "local_reads,of_tomorrow\n");
        assert!(read(root.path(), &machine).why().contains("something else"));
    }

    #[test]
    fn a_group_without_a_number_leaves_the_sum_unknown() {
        let machine = Machine::from_shape("2x2").unwrap();
        let root = tree(["0-1", "2-3"]);
        let file = root.path().join(MOUNTED).join("half/mon_data/mon_L3_01/mbm_total_bytes");
        fs::write(file, "Unassigned\n").unwrap();
        let why = read(root.path(), &machine).why().to_owned();
        assert!(why.contains("cache 1 in the group half (mbm_total_bytes Unassigned"), "{why}");
    }

    #[test]
    fn a_cache_of_several_nodes_is_of_none() {
        let machine = Machine::from_shape("2x2").unwrap();
        assert!(read(tree(["0-2", "2-3"]).path(), &machine).why().contains("several nodes"));
        assert!(read(tempfile::tempdir().unwrap().path(), &machine).why().contains("not mounted"));
    }
}
