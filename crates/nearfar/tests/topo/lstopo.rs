//! Every captured machine that there is, beside what lstopo reads of the same files: those of tests/topo/captured, of
//! shared/data/topo beside the checkout, and of the folders in `NEARFAR_CAPTURED` (separated by `:`), such as tests/hwloc/linux
//! of hwloc's sources.

use super::topo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What differs, on which machine, and why that is right.
const KNOWN: &[(&str, &str, &str)] = &[
    ("40intel64-4n10c+pci-conflicts", "packages", "the kernel names four, of ten cpus each"),
    ("64amd64-4s2n4ca2co", "cores", "to the kernel the two cores of a module are threads of one"),
    ("16ia64-8n2s", "packages", "both sockets of a node have one number; the node is the same"),
    ("fakememinitiators-1np2c+1npp+gi", "cores", "the files say nothing of which cpus share a core"),
    ("nvidiagpunumanodes", "nodes", "lstopo leaves out GPUs' memory unless it is asked for it"),
    ("fakeheterocpunuma", "nodes", "made by hand: cpus are in several nodes, which no kernel says"),
    (
        "8em64t-2s2ca2c-buggynuma",
        "memory",
        "all nodes list all cpus: one node, with the memory of all; lstopo has the first's",
    ),
    ("offline-cpu0-node0", "nodes", "node 0 has cpus; lstopo leaves it out with its memory"),
];

fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = here.ancestors().map(|a| a.join("shared/data/topo")).find(|p| p.exists());
    let asked = std::env::var_os("NEARFAR_CAPTURED");
    let asked: Vec<PathBuf> = asked.iter().flat_map(std::env::split_paths).collect();
    [here.join("tests/topo/captured")].into_iter().chain(beside).chain(asked).collect()
}

/// The value of an attribute in a line of lstopo's XML, which has one object in a line.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let from = line.find(&format!(" {name}=\""))? + name.len() + 3;
    line[from..].split('"').next()
}

/// The indexes of a mask such as `0x0000ff00,0x1`.
fn mask(text: &str) -> Vec<u32> {
    let words = text.split(',').rev().enumerate();
    let bits = |(i, word): (usize, &str)| {
        let word = u32::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as u32 * 32 + bit)
    };
    words.flat_map(bits).collect()
}

fn list(text: &Value) -> Option<Vec<u32>> {
    let parsed: nearfar_machine::cpulist::CpuList = text.as_str()?.parse().unwrap();
    Some(parsed.iter().collect())
}

/// What is compared, as text by its name.
type Read = BTreeMap<&'static str, String>;

fn of_lstopo(root: &Path) -> Option<Read> {
    let run = Command::new("lstopo-no-graphics")
        .args(["--of", "xml", "--disallowed"])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_COMPONENTS", "linux,stop")
        .env("HWLOC_THISSYSTEM", "0")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    if !run.status.success() || !text.contains("<object") {
        return None;
    }
    let objects = |kind: &str| -> Vec<&str> {
        let wanted = format!("<object type=\"{kind}\"");
        text.lines().filter(|l| l.trim_start().starts_with(&wanted)).collect()
    };
    let nodes = objects("NUMANode");
    let of = |line: &str, what: &str| attribute(line, what).unwrap_or_default().to_owned();
    let number = |line: &str| of(line, "os_index").parse::<u32>().unwrap_or(u32::MAX);
    let mut by_id: Vec<(u32, &str)> = nodes.iter().map(|&line| (number(line), line)).collect();
    by_id.sort_unstable();
    let kb = |line: &str| of(line, "local_memory").parse::<u64>().unwrap_or(0) / 1024;
    let mut cpus: Vec<u32> = objects("PU").into_iter().map(number).collect();
    cpus.sort_unstable();
    let machine = objects("Machine").first().copied()?;
    let allowed = |what: &str| format!("{:?}", mask(&of(machine, what)));
    let mut read: Read = [
        ("nodes", format!("{:?}", by_id.iter().map(|n| n.0).collect::<Vec<_>>())),
        ("memory", format!("{:?}", by_id.iter().map(|n| kb(n.1)).collect::<Vec<_>>())),
        ("cpus", format!("{cpus:?}")),
        ("allowed cpus", allowed("allowed_cpuset")),
        ("allowed nodes", allowed("allowed_nodeset")),
    ]
    .into();
    // Where the files do not say, lstopo has none.
    for (name, kind) in [("packages", "Package"), ("cores", "Core")] {
        // One without a number is lstopo's guess.
        let found = objects(kind).into_iter().filter(|line| attribute(line, "os_index").is_some()).count();
        if found > 0 {
            read.insert(name, found.to_string());
        }
    }
    Some(read)
}

fn of_nearfar(archive: &Path) -> Read {
    let t: Value = serde_json::from_str(&topo(&["--json", "--from", archive.to_str().unwrap()])).unwrap();
    let nodes = t["nodes"].as_array().unwrap();
    let ids: Vec<u64> = nodes.iter().map(|n| n["id"].as_u64().unwrap()).collect();
    let memory: Vec<u64> = nodes.iter().map(|n| n["memory_kb"].as_u64().unwrap_or(0)).collect();
    let online = list(&t["cpus"]["online"]).unwrap();
    let count = |what: &str| t[what].as_array().map_or("unknown".to_owned(), |all| all.len().to_string());
    let ids_u32: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
    // Nothing that limits the caller: all of it.
    let allowed =
        |what: &str, all: &[u32]| format!("{:?}", list(&t["allowed"][what]).unwrap_or(all.to_vec()));
    // No state of NUMA may be claimed of nodes that are not there, nor the other way round.
    let state = t["numa"]["state"].as_str().unwrap();
    let with_cpus = nodes.iter().filter(|n| n["cpus"] != "").count();
    let several = ["node_per_package", "nodes_per_package", "packages_per_node"].contains(&state);
    assert!(!several || with_cpus > 1, "{}: {state} with {with_cpus} nodes", archive.display());
    assert!(
        !["interleaved", "one_node"].contains(&state) || with_cpus <= 1,
        "{}: {state} with {with_cpus} nodes",
        archive.display()
    );
    [
        ("nodes", format!("{ids:?}")),
        ("memory", format!("{memory:?}")),
        ("cpus", format!("{online:?}")),
        ("allowed cpus", allowed("cpus", &online)),
        ("allowed nodes", allowed("nodes", &ids_u32)),
        ("packages", count("packages")),
        ("cores", count("cores")),
    ]
    .into()
}

#[test]
fn every_captured_machine_is_read_as_lstopo_reads_it() {
    if Command::new("lstopo-no-graphics").arg("--version").output().is_err() {
        println!("skipped: lstopo is not installed");
        return;
    }
    let (mut equal, mut known, mut unread, mut wrong) = (0, 0, 0, Vec::new());
    let mut seen = Vec::new();
    for folder in folders() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut archives: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
        archives.sort();
        for archive in archives {
            let file = archive.file_name().unwrap().to_str().unwrap();
            let Some((name, _)) = file.split_once(".tar.") else { continue };
            if seen.contains(&name.to_owned()) {
                continue;
            }
            seen.push(name.to_owned());
            let ours = of_nearfar(&archive);
            // What `topo --capture` writes is too little for lstopo; captured.rs checks these.
            if folder.ends_with("topo/captured") {
                unread += 1;
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            // Memory blocks are thousands of links that are never read, and of caches, half of all files, nothing is compared.
            let mut tar = Command::new("tar");
            tar.arg("xf").arg(&archive).arg("-C").arg(dir.path());
            tar.args(["--exclude=*/memory[0-9]*", "--exclude=*/cache/index[0-9]*"]);
            assert!(tar.status().unwrap().success(), "{}", archive.display());
            let root = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
            let Some(theirs) = of_lstopo(&root) else {
                unread += 1;
                continue;
            };
            let excused = |what: &str| KNOWN.iter().any(|k| k.0 == name && (k.1 == what || k.1 == "nodes"));
            let differs: Vec<&str> =
                theirs.iter().filter(|(k, v)| ours[*k] != **v).map(|(k, _)| *k).collect();
            for what in differs.iter().filter(|what| !excused(what)) {
                wrong.push(format!("{name}: {what}: {} here, {} of lstopo", ours[*what], theirs[*what]));
            }
            match differs.is_empty() {
                true => equal += 1,
                false => known += 1,
            }
        }
    }
    println!(
        "{} captured machines: {equal} read as lstopo reads them, {known} not, {unread} that it cannot read",
        seen.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal > 0 || unread == seen.len(), "lstopo reads none of {seen:?}");
}
