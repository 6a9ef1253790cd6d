//! The whole topology for `nearfar topo`: the machine that analysis also uses, and
//! around it what only a person asks for.

use super::archive::Archive;
use super::tree::Tree;
use super::{Read, cgroups, cpus, devices, gpus, node_files, nvml, prefetchers, smbios};
use anyhow::{Context, Result};
use nearfar_machine::cpulist::{CpuList, IndexList, Nodes};
use nearfar_machine::topology::{
    Access, Allowed, Cpus, HugePages, Node, Package, Settings, SideCache, Tier, Topology, judge,
};
use nearfar_machine::{NodeId, NodeKind};
use std::path::Path;

/// Reads and judges the topology below `root`: `/` for the host, or a folder with
/// `sys/` and `proc/` in it.
///
/// # Errors
/// Only if not even a list of cpus can be found.
pub fn topology(root: &Path) -> Result<Topology> {
    read_topology(&Tree::new(root))
}

/// The same as if the machine had these cpus only, as the virtual machine has one more, for the recorder.
///
/// # Errors
/// As of [`topology`].
pub fn topology_of_cpus(root: &Path, only: &CpuList) -> Result<Topology> {
    read_topology(&Tree::new(root).only(only))
}

/// The same of a machine in a tar archive, plain or compressed by gzip or bzip2.
///
/// # Errors
/// As of [`topology`], and if the archive cannot be read.
pub fn topology_of_archive(file: &Path) -> Result<Topology> {
    read_topology(&Tree::of_archive(Archive::open(file)?))
}

/// All files that [`topology`] reads below `root`, as a tar archive compressed by gzip. Left out is the firmware's table of
/// memory modules, which has serial numbers.
///
/// # Errors
/// As of [`topology`].
pub fn capture(root: &Path) -> Result<Vec<u8>> {
    let tree = Tree::new(root).capturing();
    read_topology(&tree)?;
    // What is read only where a node's list of cpus is missing or damaged.
    for folder in tree.names(node_files::NODE) {
        tree.names(&format!("{}/{folder}", node_files::NODE));
    }
    tree.into_capture().context("nothing was looked at")?.to_archive()
}

fn read_topology(tree: &Tree) -> Result<Topology> {
    let Read { discovered, folders } = super::read(tree)?;
    let (machine, kernel) = (&discovered.machine, &discovered.kernel);
    let source = machine.figures.topology.as_ref().map_or("sysfs", |p| p.source.as_str());
    let mut t = Topology::from_machine(machine, source);
    let online = kernel.online.clone();
    t.cpus_without_node = online.iter().filter(|&c| machine.node_of_cpu(c).is_none()).collect();
    t.packages = packages(tree, &online, &t.nodes);
    t.caches = super::caches::instances(tree, &online);
    // All cores, also those that no node lists.
    t.cores = Some(machine.figures.cores.clone()).filter(|c| !c.is_empty());
    t.threads_per_core = t.cores.as_ref().map(|_| machine.threads_per_core);
    for (node, folders) in t.nodes.iter_mut().zip(&folders) {
        complete(tree, node, folders);
    }
    t.cpus = Cpus {
        offline: cpus::present(tree).map(|p| p.iter().filter(|&c| !online.contains(c)).collect()),
        isolated: tree.list("sys/devices/system/cpu/isolated"),
        online,
    };
    t.memory_modules = smbios::modules(tree, t.packages.as_ref().map(Vec::len)).into();
    t.prefetchers = prefetchers::read(tree, &t.cpus.online, kernel.virtual_machine).into();
    t.tiers = tiers(tree);
    t.devices = devices::read(tree);
    t.virtual_machine = kernel.virtual_machine;
    t.allowed = Allowed {
        // The kernel's mask names cpus that are off, and those that could be plugged in.
        cpus: kernel.allowed_cpus.as_ref().map(|l| l.iter().filter(|&c| t.cpus.online.contains(c)).collect()),
        nodes: kernel.allowed_mems.clone(),
        policy: tree.text("proc/self/numa_maps").and_then(|maps| policy(&maps)),
        cgroup: tree
            .text("proc/self/cgroup")
            .and_then(|groups| Some(cgroups::group(&groups, "cpuset")?.1.to_owned())),
        limits: cgroups::limits(tree, "self"),
    };
    t.settings = Settings {
        numa_balancing: kernel.numa_balancing,
        zone_reclaim_mode: tree.parsed("proc/sys/vm/zone_reclaim_mode"),
        thp: kernel.thp.clone(),
        demotion: tree.text("sys/kernel/mm/numa/demotion_enabled").map(|on| on == "true" || on == "1"),
    };
    t.warnings = discovered.warnings.clone();
    // The library asks the driver of this machine, whatever the root is.
    if tree.is_live() {
        match nvml::gpus() {
            Ok(found) if found.is_empty() => {}
            Ok(found) => gpus::add(t.devices.get_or_insert_default(), found, &t.nodes),
            Err(why) => t.warnings.push(why),
        }
    }
    Ok(judge(t))
}

fn packages(tree: &Tree, online: &CpuList, nodes: &[Node]) -> Option<Vec<Package>> {
    let of: Vec<(u32, u32)> = online.iter().filter_map(|c| Some((c, cpus::package(tree, c)?))).collect();
    let mut ids: Vec<u32> = of.iter().map(|&(_, package)| package).collect();
    ids.sort_unstable();
    ids.dedup();
    let package = |id: u32| {
        let cpus: CpuList = of.iter().filter(|&&(_, package)| package == id).map(|&(cpu, _)| cpu).collect();
        Package {
            id,
            nodes: nodes.iter().filter(|n| n.cpus.first_common(&cpus).is_some()).map(|n| n.id).collect(),
            dies: cpus::dies(tree, &cpus),
            cpus,
        }
    };
    (!ids.is_empty()).then(|| ids.into_iter().map(package).collect())
}

/// What the machine does not carry of a node. `folders` are the nodes of sysfs that
/// it stands for: several where they were taken for one, none where there are none.
fn complete(tree: &Tree, node: &mut Node, folders: &[NodeId]) {
    // Without cpus and without a driver that tells, the reader's DRAM is only its default.
    let told = node.kind != Some(NodeKind::Dram) || !node.cpus.is_empty();
    node.kind = node.kind.filter(|_| told && node.memory_kb != Some(0));
    node.free_kb = node_files::memory(tree, folders, "MemFree:").map(|b| b / 1024);
    let pools: Vec<String> = match folders {
        [] => vec!["sys/kernel/mm/hugepages".to_owned()],
        _ => folders.iter().map(|id| format!("{}/node{id}/hugepages", node_files::NODE)).collect(),
    };
    node.huge_pages = huge_pages(tree, &pools);
    if let [id] = folders {
        let folder = format!("{}/node{id}", node_files::NODE);
        node.side_caches = side_caches(tree, &format!("{folder}/memory_side_cache"));
        if !node.side_caches.is_empty() {
            // The DRAM is the cache; what is behind it, nothing in sysfs says.
            node.kind = None;
        }
        // Class 1 is from cpus; class 0 may be from a device that is nearer.
        node.access = ["access1", "access0"]
            .iter()
            .find_map(|class| access(tree, &format!("{folder}/{class}/initiators")));
    }
}

fn huge_pages(tree: &Tree, pools: &[String]) -> Option<Vec<HugePages>> {
    let mut all: Vec<HugePages> = Vec::new();
    let mut there = false;
    for pool in pools {
        there |= tree.is_dir(pool);
        for name in tree.names(pool) {
            let size = name.strip_prefix("hugepages-").and_then(|n| n.strip_suffix("kB")?.parse().ok());
            let Some(page_kb) = size else { continue };
            let count = |file: &str| tree.parsed::<u64>(&format!("{pool}/{name}/{file}"));
            let (total, free) = (count("nr_hugepages")?, count("free_hugepages")?);
            match all.iter_mut().find(|p| p.page_kb == page_kb) {
                Some(pages) => {
                    pages.total += total;
                    pages.free += free;
                }
                None => all.push(HugePages { page_kb, total, free }),
            }
        }
    }
    all.sort_by_key(|p| p.page_kb);
    there.then_some(all)
}

fn side_caches(tree: &Tree, folder: &str) -> Vec<SideCache> {
    let levels: IndexList<()> = tree.numbered(folder, "index");
    let cache = |level: u32| {
        let file = |name: &str| format!("{folder}/index{level}/{name}");
        SideCache {
            level,
            // Bytes here, unlike the sizes of processor caches.
            size_kb: tree.parsed::<u64>(&file("size")).filter(|&b| b > 0).map(|b| b / 1024),
            line_bytes: tree.parsed(&file("line_size")).filter(|&b| b > 0),
            direct_mapped: tree.parsed::<u32>(&file("indexing")).map(|i| i == 0),
        }
    };
    levels.iter().map(cache).collect()
}

fn access(tree: &Tree, folder: &str) -> Option<Access> {
    // The kernel shows 0 where the firmware gave no figure.
    let figure = |name: &str| tree.parsed::<u64>(&format!("{folder}/{name}")).filter(|&f| f > 0);
    let access = Access {
        from: tree.numbered::<Nodes>(folder, "node").iter().collect(),
        read_mbs: figure("read_bandwidth"),
        write_mbs: figure("write_bandwidth"),
        read_ns: figure("read_latency"),
        write_ns: figure("write_latency"),
    };
    let any =
        [access.read_mbs, access.write_mbs, access.read_ns, access.write_ns].iter().any(Option::is_some);
    (any && !access.from.is_empty()).then_some(access)
}

/// The kernel numbers tiers by how slow they are.
fn tiers(tree: &Tree) -> Option<Vec<Tier>> {
    let folder = "sys/devices/virtual/memory_tiering";
    let tier = |id: u32| Some(Tier { id, nodes: tree.list(&format!("{folder}/memory_tier{id}/nodelist"))? });
    let ids = tree.is_dir(folder).then(|| tree.numbered::<()>(folder, "memory_tier"))?;
    Some(ids.iter().filter_map(tier).filter(|t| !t.nodes.is_empty()).collect())
}

/// The caller's memory policy. A mapping without a policy of its own is shown with
/// the process's, and the first one is the program's file, which is never bound.
/// `5559ff5ba000 interleave:0-1 file=/usr/bin/cat mapped=2`, but also
/// `… weighted interleave:0-1 file=…` and `… prefer (many):0 file=…`.
fn policy(maps: &str) -> Option<String> {
    let mut words = maps.lines().next()?.split_whitespace().skip(1);
    let first = words.next()?;
    let two = |second: &str| second.starts_with("interleave") || second.starts_with("(many)");
    Some(match words.next().filter(|second| two(second)) {
        Some(second) => format!("{first} {second}"),
        None => first.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_one_and_two_words_are_read() {
        assert_eq!(policy("5559ff default file=/usr/bin/cat mapped=2").as_deref(), Some("default"));
        assert_eq!(policy("5559ff bind=static:0-1 anon=1").as_deref(), Some("bind=static:0-1"));
        assert_eq!(policy("5559ff weighted interleave:0,2 heap").as_deref(), Some("weighted interleave:0,2"));
        assert_eq!(policy("5559ff prefer (many):1 stack").as_deref(), Some("prefer (many):1"));
        assert_eq!(policy(""), None);
    }

    #[test]
    fn the_cpuset_controllers_group_counts_before_the_common_one() {
        let group = |groups| cgroups::group(groups, "cpuset");
        assert_eq!(group("5:cpuset:/slurm/job1\n0::/x"), Some((1, "/slurm/job1")));
        assert_eq!(group("0::/user.slice"), Some((2, "/user.slice")));
        assert_eq!(group("1:cpu:/"), None);
    }
}
