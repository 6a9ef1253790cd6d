//! Captured machines (tests/topo/captured, made by `make` there), read in a clone: emulated ones against what was asked
//! of the emulator, and copies with broken tables against what was broken.

use super::topo;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topo/captured")
}

fn captured(name: &str) -> Value {
    let file = folder().join(format!("{name}.tar.gz"));
    serde_json::from_str(&topo(&["--json", "--from", file.to_str().unwrap()])).unwrap()
}

/// `0:0-1 1:2-3`: the nodes with their cpus; a node without memory ends with `-`, one of unknown memory with `?`.
fn nodes(topology: &Value) -> String {
    let node = |n: &Value| {
        let memory = match n["memory_kb"].as_u64() {
            Some(0) => "-",
            Some(_) => "",
            None => "?",
        };
        format!("{}:{}{memory}", n["id"], n["cpus"].as_str().unwrap())
    };
    topology["nodes"].as_array().unwrap().iter().map(node).collect::<Vec<_>>().join(" ")
}

/// `10 21/21 10`: a row for each node; `unknown` where there is none.
fn distances(topology: &Value) -> String {
    let row = |n: &Value| {
        let row = n["distances"].as_object()?;
        let mut row: Vec<(u32, &Value)> = row.iter().map(|(id, d)| (id.parse().unwrap(), d)).collect();
        row.sort_by_key(|(id, _)| *id);
        Some(row.iter().map(|(_, d)| d.to_string()).collect::<Vec<_>>().join(" "))
            .filter(|row| !row.is_empty())
    };
    let rows: Option<Vec<String>> = topology["nodes"].as_array().unwrap().iter().map(row).collect();
    rows.map_or("unknown".to_owned(), |rows| rows.join("/"))
}

/// What an emulated machine was asked to be. The last cpu is the recorder's own, in a package of its own beside node 0.
struct Emulated {
    name: &'static str,
    nodes: &'static str,
    distances: &'static str,
    offline: &'static str,
    /// Packages with their nodes.
    packages: &'static str,
}

/// In the order of `make`.
const EMULATED: &[Emulated] = &[
    Emulated {
        name: "epyc-9654-nps4",
        nodes: "0:0,8 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
        distances: FOUR_AND_FOUR_32,
        offline: "",
        packages: "0:0,1,2,3 1:4,5,6,7 2:0",
    },
    // The last node is memory on CXL.
    Emulated {
        name: "epyc-9224-cxl",
        nodes: "0:0,4 1:1 2:2 3:3 4:",
        distances: "10 12 32 32 50/12 10 32 32 50/32 32 10 12 60/32 32 12 10 60/50 50 60 60 10",
        offline: "",
        packages: "0:0,1 1:2,3 2:0",
    },
    Emulated {
        name: "epyc-7763",
        nodes: "0:0-3,8 1:4-7",
        distances: "10 32/32 10",
        offline: "",
        packages: "0:0 1:1 2:0",
    },
    Emulated {
        name: "opteron-285",
        nodes: "0:0-1,4 1:2-3",
        distances: "10 20/20 10",
        offline: "",
        packages: "0:0 1:1 2:0",
    },
    Emulated {
        name: "opteron-6174",
        nodes: "0:0,8 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
        distances: OPTERONS,
        offline: "",
        packages: "0:0,1 1:2,3 2:4,5 3:6,7 4:0",
    },
    Emulated {
        name: "xeon-8480p-snc4",
        nodes: "0:0,8 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
        distances: FOUR_AND_FOUR_21,
        offline: "",
        packages: "0:0,1,2,3 1:4,5,6,7 2:0",
    },
    Emulated {
        name: "xeon-8480p-smt",
        nodes: "0:0-3,8 1:4-7",
        distances: "10 21/21 10",
        offline: "",
        packages: "0:0 1:1 2:0",
    },
    Emulated {
        name: "xeon-x5570",
        nodes: "0:0-2,6 1:3-5",
        distances: "10 20/20 10",
        offline: "",
        packages: "0:0 1:1 2:0",
    },
    Emulated {
        name: "altra",
        nodes: "0:0-4,10 1:5-9",
        distances: "10 20/20 10",
        offline: "",
        packages: "0:0 1:1 2:0",
    },
    Emulated { name: "nodes-1", nodes: "0:0-3", distances: "10", offline: "", packages: "0:0 1:0" },
    Emulated {
        name: "nodes-3",
        nodes: "0:0-1,6 1:2-3 2:4-5",
        distances: "10 21 21/21 10 21/21 21 10",
        offline: "",
        packages: "0:0 1:1 2:2 3:0",
    },
    Emulated {
        name: "nodes-5",
        nodes: "0:0,5 1:1 2:2 3:3 4:4",
        distances: "10 21 21 21 21/21 10 21 21 21/21 21 10 21 21/21 21 21 10 21/21 21 21 21 10",
        offline: "",
        packages: "0:0 1:1 2:2 3:3 4:4 5:0",
    },
    // From here on the recorder's cpu is offline, too.
    Emulated {
        name: "packages",
        nodes: "0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
        distances: OPTERONS,
        offline: "8",
        packages: "0:0,1 1:2,3 2:4,5 3:6,7",
    },
    Emulated {
        name: "clusters",
        nodes: "0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7",
        distances: FOUR_AND_FOUR_21,
        offline: "8",
        packages: "0:0,1,2,3 1:4,5,6,7",
    },
    Emulated {
        name: "offline-cpu",
        nodes: "0:0-2 1:4-7",
        distances: "10 21/21 10",
        offline: "3,8",
        packages: "0:0 1:1",
    },
    Emulated {
        name: "offline-node",
        nodes: "0:0-1 1:",
        distances: "10 21/21 10",
        offline: "2-4",
        packages: "0:0",
    },
    Emulated {
        name: "offline-first",
        nodes: "0:0,2-3 1:4-7",
        distances: "10 21/21 10",
        offline: "1,8",
        packages: "0:0 1:1",
    },
];

/// Two packages of four nodes; two numbers: within a package, and to the other one.
const FOUR_AND_FOUR_32: &str = "10 12 12 12 32 32 32 32/12 10 12 12 32 32 32 32/12 12 10 12 32 32 32 32/12 12 12 10 32 32 32 32/\
     32 32 32 32 10 12 12 12/32 32 32 32 12 10 12 12/32 32 32 32 12 12 10 12/32 32 32 32 12 12 12 10";
const FOUR_AND_FOUR_21: &str = "10 12 12 12 21 21 21 21/12 10 12 12 21 21 21 21/12 12 10 12 21 21 21 21/12 12 12 10 21 21 21 21/\
     21 21 21 21 10 12 12 12/21 21 21 21 12 10 12 12/21 21 21 21 12 12 10 12/21 21 21 21 12 12 12 10";
/// machines/opteron-6174-4s.toml.
const OPTERONS: &str = "10 16 16 22 16 22 16 22/16 10 22 16 16 22 22 16/16 22 10 16 16 16 16 16/22 16 16 10 16 16 22 22/\
     16 16 16 16 10 16 16 22/22 22 16 16 16 10 22 16/16 22 16 22 16 22 10 16/22 16 16 22 22 16 16 10";

#[test]
fn emulated_machines_are_what_was_asked_of_the_emulator() {
    for e in EMULATED {
        let t = captured(e.name);
        assert_eq!(nodes(&t), e.nodes, "{}", e.name);
        assert_eq!(distances(&t), e.distances, "{}", e.name);
        assert_eq!(t["cpus"]["offline"], e.offline, "{}", e.name);
        let package = |p: &Value| {
            let nodes: Vec<String> = p["nodes"].as_array().unwrap().iter().map(Value::to_string).collect();
            format!("{}:{}", p["id"], nodes.join(","))
        };
        let packages: Vec<String> = t["packages"].as_array().unwrap().iter().map(package).collect();
        assert_eq!(packages.join(" "), e.packages, "{}", e.name);
    }
}

#[test]
fn machines_of_many_nodes_are_read_whole() {
    for (name, count) in [("nodes-5", 5), ("nodes-16", 16)] {
        let t = captured(name);
        let expected: Vec<String> =
            (0..count).map(|n| if n == 0 { format!("0:0,{count}") } else { format!("{n}:{n}") }).collect();
        assert_eq!(nodes(&t), expected.join(" "));
        let row =
            |n: usize| (0..count).map(|m| if m == n { "10" } else { "21" }).collect::<Vec<_>>().join(" ");
        assert_eq!(distances(&t), (0..count).map(row).collect::<Vec<_>>().join("/"));
    }
}

#[test]
fn pages_that_were_set_apart_and_settings_are_those_of_the_machine() {
    let t = captured("huge-pages");
    let pools = |node: usize| {
        let pools = t["nodes"][node]["huge_pages"].as_array().unwrap();
        pools.iter().find(|p| p["page_kb"] == 2048).unwrap()["total"].clone()
    };
    assert_eq!((pools(0), pools(1)), (0.into(), 7.into()));
    assert_eq!(t["settings"]["numa_balancing"], 1);
    assert_eq!(captured("nodes-3")["settings"]["numa_balancing"], 0);
    let warnings = captured("offline-node")["warnings"].to_string();
    assert!(
        warnings.contains("node 1 has memory but no cpus that are online: 2-4 are offline"),
        "{warnings}"
    );
}

/// What was broken in `nodes-3` (three nodes of two cpus), and what is said of it.
const BROKEN: &[(&str, &str, &str, &str)] = &[
    ("distances-short", WHOLE, "unknown", "holds `10 21`, not one distance for each"),
    ("distances-all-10", WHOLE, "10 10 10/10 10 10/10 10 10", "every distance between nodes is 10"),
    ("distances-missing", WHOLE, "unknown", "distance cannot be read"),
    ("cpus-in-two-nodes", "0:0-6", "10", "cpu 2 is in node 0 and in node 1"),
    ("node-folder-missing", "0:0-1,6 1:2-3", "10 21/21 10", "node 2 is online but has no folder"),
    ("cpulist-malformed", WHOLE_BUT_1, ROWS, "holds `2-x,?`, which is not a list of cpus"),
    ("no-nodes", "0:0-6?", "10", "has no nodes"),
    ("no-sys", "0:0-6?", "10", "/sys is not mounted, or hidden"),
    ("gaps", "0:0-1,6 8:2-3 33:4-5", ROWS, "takes memory from node 0 only"),
    ("memoryless", "0:0-1,6 1:2-3- 2:4-5", ROWS, "node 1 has cpus but no memory"),
    ("packages-unknown", WHOLE, ROWS, ""),
];
const WHOLE: &str = "0:0-1,6 1:2-3 2:4-5";
const WHOLE_BUT_1: &str = "0:0-1,6 1: 2:4-5";
const ROWS: &str = "10 21 21/21 10 21/21 21 10";

#[test]
fn broken_tables_are_named_and_the_rest_is_read() {
    for (name, expected, rows, warning) in BROKEN {
        let t = captured(name);
        assert_eq!(nodes(&t), *expected, "{name}");
        assert_eq!(distances(&t), *rows, "{name}");
        let warnings = t["warnings"].to_string();
        assert!(warnings.contains(warning), "{name}: {warnings}");
    }
}

#[test]
fn at_least_twenty_machines_are_here_and_each_of_them_is_checked() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|e| {
            e.unwrap().file_name().into_string().unwrap().strip_suffix(".tar.gz").map(str::to_owned)
        })
        .collect();
    names.sort();
    let checked = EMULATED.iter().map(|e| e.name).chain(BROKEN.iter().map(|b| b.0));
    let mut checked: Vec<&str> = checked.chain(["nodes-16", "huge-pages"]).collect();
    checked.sort_unstable();
    assert_eq!(names, checked);
    assert!(names.len() >= 20);
}

#[test]
fn a_picture_and_numactls_listing_are_made_of_every_one() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|e| e == "gz") {
            let file = file.to_str().unwrap();
            assert!(topo(&["--from", file]).contains("node"), "{file}");
            assert!(topo(&["--numactl", "--from", file]).contains("available:"), "{file}");
        }
    }
}
