//! Small trees made by hand, and captured trees of real machines where there are any.

use super::*;
use nearfar_machine::NodeKind;
use nearfar_machine::cpulist::NodeList;
use std::fs;

/// A tree from `path: content` pairs.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }
    dir
}

const ONLINE: (&str, &str) = ("sys/devices/system/cpu/online", "0-3");

fn node_file(node: u32, file: &str) -> String {
    format!("sys/devices/system/node/node{node}/{file}")
}

/// Four cpus and these nodes: number, cpus, distances.
fn with_nodes(nodes: &[(u32, &str, &str)]) -> tempfile::TempDir {
    let mut files: Vec<(String, String)> = vec![(ONLINE.0.into(), ONLINE.1.into())];
    for (id, cpus, distance) in nodes {
        let meminfo = format!("Node {id} MemTotal:       1024 kB\nNode {id} MemFree: 5 kB");
        files.push((node_file(*id, "cpulist"), (*cpus).into()));
        files.push((node_file(*id, "distance"), (*distance).into()));
        files.push((node_file(*id, "meminfo"), meminfo));
    }
    let ids: NodeList = nodes.iter().map(|n| n.0).collect();
    files.push(("sys/devices/system/node/online".into(), ids.to_string()));
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    tree(&files)
}

#[test]
fn node_numbers_may_have_gaps_and_columns_follow_online_nodes() {
    let dir = with_nodes(&[(0, "0-1", "10 21"), (33, "2-3", "21 10")]);
    let found = discover(dir.path()).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let m = &found.machine;
    assert_eq!(m.nodes[1].id, 33);
    assert_eq!(m.distance(0, 33), Some(21));
    assert_eq!(m.nodes[0].memory_bytes, Some(1024 * 1024));
    assert_eq!(m.node_of_cpu(2), Some(33));
    assert_eq!(found.kernel.online.to_string(), "0-3");
}

#[test]
fn without_node_folders_all_cpus_are_one_node_and_a_warning_says_so() {
    let dir = tree(&[ONLINE, ("proc/meminfo", "MemTotal:  2048 kB")]);
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.nodes.len(), 1);
    assert_eq!(found.machine.nodes[0].cpus.to_string(), "0-3");
    assert_eq!(found.machine.nodes[0].memory_bytes, Some(2 << 20));
    assert!(found.warnings[0].contains("one node with all cpus"));
}

#[test]
fn without_sys_cpus_are_those_that_the_kernel_counts_time_for() {
    let dir = tree(&[
        ("proc/stat", "cpu  9 9\ncpu0 4 4\ncpu3 5 5\nintr 1"),
        ("proc/meminfo", "MemTotal:  2048 kB"),
    ]);
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.kernel.online.to_string(), "0,3");
    let machine = &found.machine;
    assert_eq!((machine.nodes.len(), machine.nodes[0].memory_bytes), (1, Some(2 << 20)));
    assert!(machine.caches.is_empty() && machine.figures.cores.is_empty());
    assert!(found.warnings[0].contains("/sys is not mounted"), "{:?}", found.warnings);
    // With nothing at all no machine is found.
    assert!(discover(tree(&[]).path()).is_err());
}

#[test]
fn nodes_that_all_list_every_cpu_become_one_node_with_a_warning() {
    let dir = with_nodes(&[(0, "0-3", "10 20"), (1, "0-3", "20 10")]);
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.nodes.len(), 1);
    assert_eq!(found.machine.nodes[0].memory_bytes, Some(2 << 20));
    assert_eq!(found.machine.distances, [[10]]);
    assert!(found.warnings[0].contains("in node 0 and in node 1"));
}

#[test]
fn a_cpu_without_a_node_and_a_node_without_a_folder_are_named() {
    let dir = with_nodes(&[(0, "0-1", "10 20 20"), (1, "2", "20 10 20")]);
    let online = dir.path().join("sys/devices/system/node/online");
    fs::write(online, "0-2\n").unwrap();
    let found = discover(dir.path()).unwrap();
    let warnings = found.warnings.join("\n");
    assert!(warnings.contains("cpu 3 is in no node"), "{warnings}");
    assert!(warnings.contains("node 2 is online but has no folder"));
    assert_eq!(found.machine.distances, [[10, 20], [20, 10]]);
    assert_eq!(found.machine.node_of_cpu(3), None);
}

#[test]
fn a_wrong_number_of_distances_leaves_them_unknown() {
    let dir = with_nodes(&[(0, "0-1", "10"), (1, "2-3", "20 10")]);
    let found = discover(dir.path()).unwrap();
    assert!(found.machine.distances.is_empty());
    assert!(found.warnings[0].contains("distances are unknown"));
}

#[test]
fn a_node_without_cpus_is_kept_and_its_kind_is_not_guessed() {
    let dir = with_nodes(&[(0, "0-3", "10 30"), (4, "", "30 10")]);
    let found = discover(dir.path()).unwrap();
    assert!(found.machine.nodes[1].cpus.is_empty());
    assert_eq!(found.machine.cpu_nodes().count(), 1);
    assert!(found.warnings[0].contains("node 4 has memory but no cpus"));
}

#[test]
fn one_node_over_two_packages_is_told_as_numa_off() {
    let dir = with_nodes(&[(0, "0-3", "10")]);
    for cpu in 0..4 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let folder = dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("physical_package_id"), format!("{}\n", cpu / 2)).unwrap();
    }
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.nodes[0].package, None);
    assert!(found.warnings[0].contains("NUMA off"));
}

#[test]
fn old_kernels_have_masks_and_folders_only() {
    let dir = tree(&[
        ("sys/devices/system/cpu/cpu0/online", "1"),
        ("sys/devices/system/cpu/cpu1/online", "0"),
        ("sys/devices/system/cpu/cpu33/x", ""),
        ("sys/devices/system/node/node2/cpumap", "00000002,00000001"),
        ("sys/devices/system/node/node2/distance", "10"),
    ]);
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.nodes[0].cpus.to_string(), "0,33");
    assert_eq!(found.machine.nodes[0].memory_bytes, None);
}

#[test]
fn an_empty_tree_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = discover(dir.path()).unwrap_err().to_string();
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
}

#[test]
fn pools_of_hugetlb_pages_count_with_what_they_may_grow_by() {
    let pool = |name: &str, file: &str| format!("sys/kernel/mm/hugepages/hugepages-{name}/{file}");
    let files = [
        (pool("2048kB", "nr_hugepages"), "3"),
        (pool("2048kB", "nr_overcommit_hugepages"), "2"),
        (pool("1048576kB", "nr_hugepages"), "1"),
        (pool("1048576kB", "nr_overcommit_hugepages"), "0"),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    assert_eq!(hugetlb_bytes(tree(&files).path()), Some((10 << 20) + (1 << 30)));
    // A pool of which a number cannot be read is unknown, not empty.
    assert_eq!(hugetlb_bytes(tree(&files[..3]).path()), None);
    assert_eq!(hugetlb_bytes(tree(&[("sys/kernel/mm/ksm/run", "0")]).path()), Some(0));
    assert_eq!(hugetlb_bytes(tree(&[ONLINE]).path()), None);
}

#[test]
fn the_kernel_state_resolves_inherited_folio_sizes() {
    let thp = "sys/kernel/mm/transparent_hugepage";
    let at = |name: &str| format!("{thp}/{name}/enabled");
    let (small, mid, large) = (at("hugepages-64kB"), at("hugepages-128kB"), at("hugepages-2048kB"));
    let enabled = format!("{thp}/enabled");
    let dir = tree(&[
        ONLINE,
        (&enabled, "always [madvise] never"),
        (&small, "[always] inherit madvise never"),
        (&mid, "always inherit madvise [never]"),
        (&large, "always [inherit] madvise never"),
        ("proc/sys/kernel/numa_balancing", "1"),
        ("proc/sys/kernel/perf_event_paranoid", "-1"),
        ("proc/stat", "cpu  10 0 20 60 0 0 0 10 5 0\ncpu0 1 1"),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0"),
    ]);
    let kernel = discover(dir.path()).unwrap().kernel;
    assert_eq!(kernel.folio_bytes, [64 << 10, 2 << 20]);
    assert_eq!(kernel.thp.as_deref(), Some("madvise"));
    assert_eq!(kernel.numa_balancing, Some(1));
    assert_eq!(kernel.perf_event_paranoid, Some(-1));
    assert_eq!(kernel.allowed_cpus.unwrap().to_string(), "0-1");
    let later = CpuTimes { total: 200, steal: 20 };
    let first = kernel.cpu_times.unwrap();
    assert_eq!(later.steal_share_since(&first), Some(0.1));
    assert_eq!(first.steal_share_since(&first), None);
    fs::write(dir.path().join(&enabled), "always madvise [never]\n").unwrap();
    let kernel = discover(dir.path()).unwrap().kernel;
    assert_eq!(kernel.folio_bytes, [64 << 10]);
}

#[test]
fn this_host_can_be_read() {
    let found = discover(Path::new("/")).unwrap();
    assert!(found.machine.cpu_count() > 0);
    let text = found.machine.to_toml();
    let again = nearfar_machine::Machine::from_toml(&text).unwrap();
    assert_eq!(again, found.machine);
}

#[test]
fn an_argument_is_a_shape_a_file_or_a_name_and_an_error_lists_all_three() {
    assert_eq!(machine_from_argument("2x4").unwrap().nodes.len(), 2);
    let error = format!("{:#}", machine_from_argument("no/such").unwrap_err());
    for part in ["2x22", "no/such: No such file", "xeon-e5-2699v4-2s"] {
        assert!(error.contains(part), "{error}");
    }
    let huge = machine_from_argument("9999x9999").unwrap_err().to_string();
    assert!(huge.contains("9999 nodes"), "{huge}");
    let dir = tree(&[("bad.toml", "format = 1\nname = 3")]);
    let path = dir.path().join("bad.toml");
    let error = machine_from_argument(path.to_str().unwrap()).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("bad.toml: line 2"), "{error}");
}

/// Captured trees are beside the checkout on some machines; nothing depends on them.
#[test]
fn captured_trees_read_as_an_independent_reader_reads_them() {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|a| a.join("shared/data/topo"))
        .find(|p| p.join("expected.json").exists());
    let Some(captured) = captured else {
        println!("skipped: no folder shared/data/topo beside the checkout");
        return;
    };
    let expected = fs::read_to_string(captured.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let mut gpus = 0;
    for (name, expected) in expected.as_object().unwrap() {
        let archive = archive::Archive::open(&captured.join(format!("{name}.tar.bz2"))).unwrap();
        let found = read(&Tree::of_archive(archive)).unwrap().discovered;
        for warning in &found.warnings {
            println!("{name}: {warning}");
        }
        let nodes = expected["sysfs_nodes"].as_object().unwrap();
        if nodes.is_empty() {
            assert_eq!(found.machine.nodes.len(), 1, "{name}");
            continue;
        }
        assert_eq!(found.machine.nodes.len(), nodes.len(), "{name}");
        for (i, node) in found.machine.nodes.iter().enumerate() {
            let expected = &nodes[&node.id.to_string()];
            let at = format!("{name}, node {}", node.id);
            assert_eq!(node.cpus.to_string(), expected["cpus"], "{at}");
            let kib = node.memory_bytes.map(|b| b / 1024);
            assert_eq!(kib, expected["mem_kb"].as_u64(), "{at}");
            let row: Vec<String> = found.machine.distances[i].iter().map(u32::to_string).collect();
            assert_eq!(row.join(" "), expected["distance"], "{at}");
            gpus += usize::from(node.kind == NodeKind::Gpu);
        }
        let again = nearfar_machine::Machine::from_toml(&found.machine.to_toml());
        assert_eq!(again.unwrap(), found.machine, "{name}");
    }
    println!("gpu nodes: {gpus}");
}

#[test]
fn cpus_of_a_node_that_is_off_or_hidden_stay_its_cpus() {
    // Node 0's memory is off; the kernel prints its column all the same, as it was seen to.
    let dir = with_nodes(&[(1, "2-3", "21 10")]);
    let link = |cpu: u32, node: u32| {
        let folder = dir.path().join(format!("sys/devices/system/cpu/cpu{cpu}/node{node}"));
        fs::create_dir_all(folder).unwrap();
    };
    (0..2).for_each(|cpu| link(cpu, 0));
    fs::write(dir.path().join("sys/devices/system/cpu/online"), "0-3\n").unwrap();
    let found = discover(dir.path()).unwrap();
    let nodes: Vec<(u32, String, Option<u64>)> =
        found.machine.nodes.iter().map(|n| (n.id, n.cpus.to_string(), n.memory_bytes)).collect();
    assert_eq!(nodes[0], (0, "0-1".to_owned(), Some(0)));
    assert_eq!((nodes[1].0, nodes[1].1.as_str()), (1, "2-3"));
    assert_eq!(found.machine.distances, [[10, 21], [21, 10]]);
    let warnings = found.warnings.join("\n");
    assert!(warnings.contains("node 0 is not online, but its cpus 0-1 are"), "{warnings}");
    assert!(!warnings.contains("in no node"), "{warnings}");
    let why = topology(dir.path()).unwrap().numa.why;
    assert!(why.starts_with("on, 2 nodes"), "{why}");

    // Its folder is hidden: its memory is unknown, not none.
    fs::write(dir.path().join("sys/devices/system/node/online"), "0-1\n").unwrap();
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.nodes[0].memory_bytes, None);
    assert_eq!(found.machine.distances, [[10, 21], [21, 10]]);
    assert!(found.warnings.join("\n").contains("of it only its cpus are known"));

    // Its column is not there, either.
    fs::write(dir.path().join("sys/devices/system/node/online"), "1\n").unwrap();
    fs::write(dir.path().join("sys/devices/system/node/node1/distance"), "10\n").unwrap();
    let found = discover(dir.path()).unwrap();
    assert_eq!(found.machine.distances, Vec::<Vec<u32>>::new());
    assert!(found.warnings.join("\n").contains("how far node 0 is"));
}

#[test]
fn a_captured_process_is_limited_by_its_cpuset_wherever_that_is_mounted() {
    let mounted = |mounts: &str, files: &[(&str, &str)]| {
        let dir = with_nodes(&[(0, "0-1", "10 20"), (1, "2-3", "20 10")]);
        let write = |path: &str, content: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("proc/self/cpuset", "/job/step\n");
        write("proc/mounts", mounts);
        files.iter().for_each(|(path, content)| write(path, content));
        let allowed = topology(dir.path()).unwrap().allowed;
        (allowed.cpus.map(|l| l.to_string()), allowed.nodes.map(|l| l.to_string()))
    };
    let both = (Some("1".to_owned()), Some("0".to_owned()));
    let one =
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nnone /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
    let of_one = [
        ("sys/fs/cgroup/cpuset/job/step/cpuset.cpus", "1,7"),
        ("sys/fs/cgroup/cpuset/job/step/cpuset.mems", "0"),
    ];
    assert_eq!(mounted(one, &of_one), both);
    let two = "rootfs / rootfs rw 0 0\nnone /unified cgroup2 rw 0 0\n";
    let of_two =
        [("unified/job/step/cpuset.cpus.effective", "1"), ("unified/job/cpuset.mems.effective", "0")];
    assert_eq!(mounted(two, &of_two), both);
    let old = "none /dev/cpuset cpuset rw 0 0\n";
    assert_eq!(mounted(old, &[("dev/cpuset/job/step/cpus", "1"), ("dev/cpuset/job/step/mems", "0")]), both);
    let short = "none /there cgroup rw,cpuset,noprefix 0 0\n";
    assert_eq!(mounted(short, &[("there/job/step/cpus", "1"), ("there/job/step/mems", "0")]), both);
    assert_eq!(mounted("", &of_one), (None, None));
}

#[test]
fn a_captured_machine_is_read_as_it_was_where_it_was() {
    let dir = with_nodes(&[(0, "0-1", "10 21"), (3, "2-3", "21 10")]);
    let at = |path: &str| dir.path().join(path);
    let write = |path: &str, content: &str| {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), content).unwrap();
    };
    // A device by its link, an interrupt by its name alone, and what nobody reads.
    write("sys/devices/pci0000:00/0000:00:03.0/class", "0x020000\n");
    write("sys/devices/pci0000:00/0000:00:03.0/numa_node", "3\n");
    write("sys/devices/pci0000:00/0000:00:03.0/msi_irqs/24", "msi\n");
    write("sys/devices/pci0000:00/0000:00:03.0/secret", "serial number\n");
    write("proc/irq/24/effective_affinity_list", "1\n");
    write("proc/self/numa_maps", "55d0 bind:1 file=/home/somebody/program mapped=2 N1=2\n");
    write("sys/firmware/dmi/tables/DMI", "serial number");
    fs::create_dir_all(at("sys/bus/pci/devices")).unwrap();
    let link = at("sys/bus/pci/devices/0000:00:03.0");
    std::os::unix::fs::symlink("../../../devices/pci0000:00/0000:00:03.0", link).unwrap();

    let bytes = capture(dir.path()).unwrap();
    assert_eq!(bytes, capture(dir.path()).unwrap());
    let file = at("machine.tar.gz");
    fs::write(&file, &bytes).unwrap();
    let json = |t: nearfar_machine::topology::Topology| {
        let mut json: serde_json::Value = serde_json::from_str(&t.to_json()).unwrap();
        // Where it was read, and what is left out of a capture.
        json["source"] = serde_json::Value::Null;
        json["memory_modules"] = serde_json::Value::Null;
        let text = json.to_string().replace(&format!("{}:", file.display()), "");
        text.replace(&format!("{}/", dir.path().display()), "")
    };
    let (there, here) = (json(topology(dir.path()).unwrap()), json(topology_of_archive(&file).unwrap()));
    assert_eq!(there, here);
    assert!(here.contains("0000:00:03.0") && here.contains("bind"), "{here}");
    let mut unpacked = String::new();
    let mut reader = flate2::read::GzDecoder::new(bytes.as_slice());
    std::io::Read::read_to_string(&mut reader, &mut unpacked).unwrap();
    assert!(!unpacked.contains("serial") && !unpacked.contains("somebody"));
}
