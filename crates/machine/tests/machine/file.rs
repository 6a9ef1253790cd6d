//! Machine files: read, written back, and refused with the place of the fault.

use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use std::path::Path;

#[test]
fn every_described_machine_is_read_and_written_back_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let machine = Machine::from_toml(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let again = Machine::from_toml(&machine.to_toml()).unwrap();
        assert_eq!(machine, again, "{}", path.display());
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(machine, serde_json::from_str(&json).unwrap());
        assert_eq!(machine.missing_to_simulate(), [], "{}", path.display());
        assert_eq!(machine.missing_to_time(), [], "{}", path.display());
        assert!(!machine.figures.tlbs.is_empty() && !machine.distances.is_empty(), "{}", path.display());
        described_in_the_list(&path);
    }
    assert_eq!(files, 14);
}

/// A machine that the folder's list leaves out is not found by people.
fn described_in_the_list(path: &Path) {
    let list = std::fs::read_to_string(path.with_file_name("README.md")).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy();
    assert!(list.contains(&format!("| `{name}` |")), "{name} is missing in machines/README.md");
}

#[test]
fn a_shape_can_be_written_as_a_machine_file() {
    let mut machine = Machine::from_shape("2x2x8").unwrap();
    assert_eq!(Machine::from_toml(&machine.to_toml()).unwrap(), machine);
    machine.name = "a \"quoted\" name\\ with \t and ü".into();
    machine.nodes[3].cpus = CpuList::default();
    assert_eq!(Machine::from_toml(&machine.to_toml()).unwrap(), machine);
}

const SMALL: &str = r#"format = 1
name = "small"
[latency_ns]
source = "test"
confidence = "M"
rows = [[80, 130, "unknown"], [130, 80, "unknown"], ["unknown", "unknown", "unknown"]]
[topology]
source = "test"
confidence = "M"
[[node]]
id = 0
cpus = "0-3"
[[node]]
id = 2
cpus = "4-7"
[[node]]
id = 4
cpus = ""
kind = "cxl"
[distances]
source = "test"
confidence = "M"
rows = [[10, 21, 30], [21, 10, 30], [30, 30, 10]]
[core]
base_ghz = { value = 2, source = "test", confidence = "M" }
[[bandwidth]]
nodes = "0,2"
peak_gbs = { value = 60, source = "test", confidence = "M" }
read_gbs = { value = 50, source = "test", confidence = "M" }
[[link]]
from = 0
to = 2
count = { value = 1, source = "test", confidence = "M" }
gbs_per_direction = { value = 16, source = "test", confidence = "M" }
[[cache]]
level = 1
cores_per_instance = 1
size_bytes = { value = 32768, source = "test", confidence = "M" }
[[tlb]]
level = 1
page_bytes = [4096]
entries = { value = 64, source = "test", confidence = "M" }
ways = { value = 4, source = "test", confidence = "M" }
[time]
control_bytes = { value = 16, source = "test", confidence = "M" }
"#;

/// Replaced, by what, line of the error, part of its message.
#[rustfmt::skip]
const CONTRADICTIONS: &[(&str, &str, usize, &str)] = &[
    ("cpus = \"4-7\"", "cpus = \"3-7\"", 15, "cpu 3 is in node 0 and in node 2"),
    ("id = 2", "id = 0", 13, "node 0 is described twice"),
    ("id = 4", "id = 1", 16, "ascending order"),
    ("[[10, 21, 30], ", "[", 22, "has 2 rows, but the machine has 3 nodes"),
    ("[10, 21, 30]", "[10, 21]", 22, "the row of node 0 has 2 entries"),
    ("[10, 21, 30]", "[10, 9, 30]", 22, "nearer to node 0"),
    ("[80, 130,", "[80, 70,", 3, "from node 0 to node 2 takes 70 ns, less than its own memory (80 ns)"),
    ("[80, 130,", "[80, 0,", 3, "never 0"),
    ("[80, 130,", "[80, \"none\",", 6, "number or \"unknown\""),
    ("nodes = \"0,2\"", "nodes = \"0,3\"", 25, "bandwidth of node 3, which is not described"),
    ("read_gbs = { value = 50", "read_gbs = { value = 70", 25, "above the peak"),
    ("value = 2,", "value = 0,", 24, "leave out what is not known"),
    ("value = 2,", "value = nan,", 24, "NaN is not a figure"),
    ("value = 2, source = \"test\"", "value = 2, source = \"\"", 24, "needs a source"),
    ("value = 2,", "valve = 2,", 24, "did you mean `value`?"),
    ("to = 2", "to = 7", 29, "a link to node 7"),
    ("cpus = \"0-3\"", "cpus = \"3-0\"", 12, "reversed"),
    ("[[node]]\nid = 0", "threads_per_core = 3\n[[node]]\nid = 0", 13, "not whole cores of 3 threads"),
    ("[[tlb]]", "[[cache]]\nlevel = 1\ncores_per_instance = 1\nsize_bytes = { value = 1, source = \"t\", confidence = \"M\" }\n[[tlb]]", 38, "inner levels come first"),
    ("[4096]", "[4096, 4096]", 38, "described twice"),
    ("[4096]", "[]", 38, "page_bytes is empty"),
    ("[4096]", "[64]", 38, "not a page size"),
    ("ways = { value = 4,", "ways = { value = 65,", 38, "cannot have 65 ways"),
    ("control_bytes = ", "probe_share = { value = 75, source = \"t\", confidence = \"M\" }\ncontrol_bytes = ", 43, "cannot be 75"),
    ("control_bytes = ", "eta = { value = 0.9, source = \"t\", confidence = \"M\" }\ncontrol_bytes = ", 43, "1 or more, not 0.9"),
    ("format = 1", "format = 9", 1, "format 9"),
    ("base_ghz", "base_gzh", 24, "did you mean `base_ghz`?"),
    ("[core]", "[cores]", 23, "did you mean `core`?"),
    ("kind = \"cxl\"", "kind = \"cxm\"", 18, "did you mean `cxl`?"),
    ("value = 2, source = \"test\"", "value = 2", 24, "missing field `source`"),
    ("count = { value = 1, source = \"test\", confidence = \"M\" }\n", "", 29, "missing field `count`"),
    ("name = \"small\"\n", "", 1, "missing field `name`"),
    ("name = \"small\"", "name = small", 2, ""),
];

#[test]
fn a_contradiction_is_reported_with_its_place() {
    let machine = Machine::from_toml(SMALL).unwrap();
    assert_eq!(machine.figures.latency_ns.as_ref().unwrap().get(0, 2), None);
    assert_eq!(Machine::from_toml(&machine.to_toml()).unwrap(), machine);
    for &(from, to, line, message) in CONTRADICTIONS {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let error = Machine::from_toml(&text).unwrap_err();
        assert!(error.message.contains(message), "{to}: {error}");
        assert!(!error.message.is_empty());
        // A fault of a whole table is placed at its header.
        let near = error.line.abs_diff(line) <= 1;
        assert!(near, "{to}: line {line} expected, {error}");
    }
}

#[test]
fn the_last_number_of_a_list_is_written_too() {
    let list: nearfar_machine::cpulist::CpuList = [u32::MAX - 1, u32::MAX].into_iter().collect();
    assert_eq!(list.to_string(), "4294967294-4294967295");
}
