//! `nearfar topo` on trees made by hand, one for each way in which machines mislead,
//! on captured trees of real machines where there are any, and beside numactl and lstopo.

#[path = "topo/captured.rs"]
mod captured;
#[path = "topo/limits.rs"]
mod limits;
#[path = "topo/lstopo.rs"]
mod lstopo;
#[path = "topo/modules.rs"]
mod modules;
#[path = "topo/nvml.rs"]
mod nvml;
#[path = "topo/prefetchers.rs"]
mod prefetchers;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

fn topo(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_nearfar")).arg("topo").args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn read(root: &Path) -> Value {
    serde_json::from_str(&topo(&["--json", "--from", root.to_str().unwrap()])).unwrap()
}

/// The terminal's picture on one line, so that no break splits what is looked for.
fn flat(root: &Path) -> String {
    let text = topo(&["--from", root.to_str().unwrap()]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn warned(topology: &Value, words: &str) -> bool {
    topology["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains(words))
}

/// Four cpus, and nodes as number, cpus, kB, distances; then more files.
fn machine(nodes: &[(u32, &str, u64, &str)], more: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    };
    write("sys/devices/system/cpu/online", "0-3");
    let ids: Vec<String> = nodes.iter().map(|n| n.0.to_string()).collect();
    write("sys/devices/system/node/online", &ids.join(","));
    for (id, cpus, kb, distances) in nodes {
        let folder = format!("sys/devices/system/node/node{id}");
        write(&format!("{folder}/cpulist"), cpus);
        write(&format!("{folder}/distance"), distances);
        let free = kb / 4;
        write(
            &format!("{folder}/meminfo"),
            &format!("Node {id} MemTotal: {kb} kB\nNode {id} MemFree: {free} kB"),
        );
    }
    for (path, content) in more {
        write(path, content);
    }
    dir
}

const TWO: &[(u32, &str, u64, &str)] = &[(0, "0-1", 4096, "10 21"), (1, "2-3", 4096, "21 10")];

#[test]
fn numbers_with_gaps_keep_their_distances() {
    // Columns are the online nodes in order, so the second column is node 33's.
    let dir = machine(&[(0, "0-1", 4096, "10 21"), (33, "2-3", 4096, "22 10")], &[]);
    let t = read(dir.path());
    assert_eq!(t["nodes"][0]["distances"], json!({"0": 10, "33": 21}));
    assert_eq!(t["nodes"][1]["distances"], json!({"0": 22, "33": 10}));
    assert_eq!(t["nodes"][1]["free_kb"], 1024);
    assert_eq!(
        topo(&["--numactl", "--from", dir.path().to_str().unwrap()]),
        "available: 2 nodes (0,33)\nnode 0 cpus: 0 1\nnode 0 size: 4 MB\nnode 0 free: 1 MB\n\
         node 33 cpus: 2 3\nnode 33 size: 4 MB\nnode 33 free: 1 MB\nnode distances:\nnode   0  33 \n  \
         0:  10  21 \n 33:  22  10 \n"
    );
}

#[test]
fn nodes_that_all_have_all_cpus_are_one_with_the_memory_of_all() {
    let dir = machine(&[(0, "0-3", 4096, "10 20"), (1, "0-3", 4096, "20 10")], &[]);
    let t = read(dir.path());
    assert_eq!(t["nodes"].as_array().unwrap().len(), 1);
    assert_eq!((&t["nodes"][0]["memory_kb"], &t["nodes"][0]["free_kb"]), (&json!(8192), &json!(2048)));
    assert!(warned(&t, "taken for one node"));
}

#[test]
fn a_cpuset_with_its_memory_on_another_node_is_told() {
    // As a container gets it from --cpuset-cpus without --cpuset-mems of the same node.
    let status = "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t0";
    let dir = machine(TWO, &[("proc/self/status", status)]);
    let t = read(dir.path());
    assert_eq!(t["allowed"]["cpus"], "2-3");
    assert_eq!(t["allowed"]["nodes"], "0");
    assert!(warned(&t, "all of its memory is far"), "{}", t["warnings"]);
    let dir = machine(TWO, &[("proc/self/status", "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0")]);
    assert!(warned(&read(dir.path()), "threads there have no near memory"));
    let dir = machine(TWO, &[("proc/self/status", "Cpus_allowed_list:\t2-3\nMems_allowed_list:\t1")]);
    assert_eq!(read(dir.path())["warnings"], json!([]));
}

#[test]
fn a_cpu_without_a_node_is_listed() {
    let dir = machine(&[(0, "0-2", 4096, "10")], &[]);
    assert_eq!(read(dir.path())["cpus_without_node"], "3");
}

#[test]
fn distances_that_are_the_kernels_default_are_called_unknown() {
    // Hypervisors often make nodes and no distances; the kernel then says 20.
    let nodes = [(0, "0-1", 4096, "10 20"), (1, "2-3", 4096, "20 10")];
    let dir = machine(&nodes, &[("proc/cpuinfo", "flags\t\t: fpu hypervisor")]);
    let t = read(dir.path());
    assert_eq!(t["virtual_machine"], true);
    assert!(warned(&t, "the hypervisor may not have told"));
}

#[test]
fn memory_behind_a_side_cache_is_not_called_dram() {
    // Optane in memory mode: the node's size is that of the persistent memory.
    let cache = "sys/devices/system/node/node0/memory_side_cache/index1";
    let (size, indexing) = (format!("{cache}/size"), format!("{cache}/indexing"));
    let dir = machine(&[(0, "0-3", 8192, "10")], &[(&size, "1048576"), (&indexing, "0")]);
    let t = read(dir.path());
    assert_eq!(t["nodes"][0]["kind"], Value::Null);
    assert_eq!(t["nodes"][0]["side_caches"][0]["size_kb"], 1024);
    assert!(warned(&t, "memory-side cache"));
}

#[test]
fn gpu_memory_is_a_node_that_interleaving_should_avoid() {
    let gpu = ("proc/driver/nvidia/gpus/0004:04:00.0/numa_status", "Node: 255\nStatus: online");
    let dir = machine(&[(0, "0-3", 4096, "10 80"), (255, "", 4096, "80 10")], &[gpu]);
    let t = read(dir.path());
    assert_eq!(t["nodes"][1]["kind"], "gpu");
    assert!(warned(&t, "write --interleave=0"));
}

#[test]
fn one_node_over_two_packages_is_numa_off_and_two_in_one_are_clusters() {
    let package = |cpu: u32, id: u32| {
        (format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), id.to_string())
    };
    let files = |of: fn(u32) -> u32| -> Vec<(String, String)> { (0..4).map(|c| package(c, of(c))).collect() };
    let state = |nodes: &[(u32, &str, u64, &str)], files: Vec<(String, String)>| {
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        read(machine(nodes, &files).path())["numa"]["state"].clone()
    };
    assert_eq!(state(&[(0, "0-3", 4096, "10")], files(|c| c / 2)), "interleaved");
    assert_eq!(state(TWO, files(|_| 0)), "nodes_per_package");
    assert_eq!(state(TWO, files(|c| c / 2)), "node_per_package");
    assert_eq!(state(TWO, Vec::new()), "unknown");
    // Two nodes that each span both packages are as good as none; one that does is odd, and the other remains.
    assert_eq!(state(TWO, files(|c| c % 2)), "interleaved");
    assert_eq!(state(TWO, files(|c| u32::from(c == 1))), "unknown");
    // Two boards of two sockets each: no package is in two nodes.
    assert_eq!(state(TWO, files(|c| c)), "packages_per_node");
}

/// As inside a virtual machine of 4x2: a ninth cpu, in a package of its own and in the last node, is the recorder's.
#[test]
fn a_cpu_that_is_not_the_machines_is_not_shown() {
    let nodes: Vec<(u32, String)> =
        (0..4).map(|n| (n, format!("{}-{}{}", 2 * n, 2 * n + 1, if n == 3 { ",8" } else { "" }))).collect();
    let nodes: Vec<(u32, &str, u64, &str)> =
        nodes.iter().map(|(n, cpus)| (*n, cpus.as_str(), 4096, "10 20 20 20")).collect();
    let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-8".to_owned())];
    files.extend((0..9).flat_map(|c| {
        let folder = format!("sys/devices/system/cpu/cpu{c}/topology");
        [
            (format!("{folder}/physical_package_id"), (c / 2).to_string()),
            (format!("{folder}/thread_siblings_list"), c.to_string()),
        ]
    }));
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let dir = machine(&nodes, &files);
    let all = nearfar_host::discover::topology(dir.path()).unwrap();
    assert_eq!((all.packages.unwrap().len(), all.cpus.online.len()), (5, 9));
    let own = nearfar_host::discover::topology_of_cpus(dir.path(), &"0-7".parse().unwrap()).unwrap();
    let packages = own.packages.unwrap();
    assert_eq!((packages.len(), own.cpus.online.len(), own.cores.unwrap().len()), (4, 8, 8));
    assert_eq!(packages[3].nodes, [3]);
    assert_eq!(serde_json::to_value(own.numa.state).unwrap(), "node_per_package");
    assert!(own.warnings.iter().all(|w| !w.contains("spans packages")), "{:?}", own.warnings);
    let text = nearfar_report::topology::to_numactl(
        &nearfar_host::discover::topology_of_cpus(dir.path(), &"0-7".parse().unwrap()).unwrap(),
    );
    assert!(text.contains("node 3 cpus: 6 7\n"), "{text}");
}

#[test]
fn without_a_node_folder_nothing_is_made_up() {
    let dir = machine(&[], &[("proc/meminfo", "MemTotal: 2048 kB\nMemFree: 1024 kB")]);
    let t = read(dir.path());
    assert_eq!(t["nodes"][0]["cpus"], "0-3");
    assert_eq!(t["nodes"][0]["memory_kb"], 2048);
    for unknown in ["tiers", "devices", "caches", "packages", "virtual_machine"] {
        assert_eq!(t[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(t["settings"]["thp"], Value::Null);
}

#[test]
fn this_host_reads_as_numactl_reads_it() {
    let Ok(numactl) = Command::new("numactl").arg("-H").output() else {
        println!("skipped: numactl is not installed");
        return;
    };
    // What is free changes from one look to the next.
    let lasting = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.contains(" free: ")).map(str::to_owned).collect()
    };
    assert_eq!(lasting(&topo(&["--numactl"])), lasting(&String::from_utf8_lossy(&numactl.stdout)));
}

#[test]
fn this_host_has_as_many_of_everything_as_lstopo_counts() {
    let count = |what: &str| {
        let run = Command::new("lstopo-no-graphics").args(["--only", what]).output().ok()?;
        run.status.success().then(|| String::from_utf8_lossy(&run.stdout).lines().count())
    };
    let t: Value = serde_json::from_str(&topo(&["--json"])).unwrap();
    for (what, ours) in [("numanode", &t["nodes"]), ("package", &t["packages"]), ("core", &t["cores"])] {
        let (Some(counted), Some(ours)) = (count(what), ours.as_array()) else {
            println!("skipped: lstopo is not installed, or this host does not tell its {what}s");
            continue;
        };
        assert_eq!(ours.len(), counted, "{what}");
    }
}

/// Captured trees are beside the checkout on some machines; nothing depends on them.
#[test]
fn captured_machines_are_shown_as_they_are_and_fit_the_page() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|a| a.join("shared/data/topo"));
    let Some(captured) = folders.into_iter().find(|p| p.join("expected.json").exists()) else {
        println!("skipped: no folder shared/data/topo beside the checkout");
        return;
    };
    let expected = fs::read_to_string(captured.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for (name, expected) in expected.as_object().unwrap() {
        let archive = captured.join(format!("{name}.tar.bz2"));
        let t = read(&archive);
        let nodes = t["nodes"].as_array().unwrap();
        if let Some(sysfs) = expected["sysfs_nodes"].as_object().filter(|n| !n.is_empty()) {
            assert_eq!(nodes.len(), sysfs.len(), "{name}");
            for node in nodes {
                let expected = &sysfs[&node["id"].to_string()];
                assert_eq!(node["cpus"], expected["cpus"], "{name}: {node}");
                assert_eq!(node["memory_kb"], expected["mem_kb"], "{name}: {node}");
                let mut row: Vec<(u32, u64)> = node["distances"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(to, d)| (to.parse().unwrap(), d.as_u64().unwrap()))
                    .collect();
                row.sort_unstable();
                let row: Vec<String> = row.iter().map(|(_, d)| d.to_string()).collect();
                assert_eq!(row.join(" "), expected["distance"], "{name}: {node}");
            }
        } else {
            let lstopo = &expected["lstopo_2_9"][0];
            assert_eq!(nodes.len(), 1, "{name}");
            assert_eq!(nodes[0]["cpus"], lstopo["cpuset"], "{name}");
            assert_eq!(nodes[0]["memory_kb"], lstopo["mem_kb"], "{name}");
        }
        let text = topo(&["--width", "100", "--from", archive.to_str().unwrap()]);
        // The source is the caller's path, which may be long.
        let wide = text.lines().skip(3).find(|l| l.chars().count() > 100);
        assert_eq!(wide, None, "{name}");
    }
}
