//! Bytes of the memory controllers: uncore events of Intel's `uncore_imc` and AMD's `amd_umc`.

use super::call::{Counting, explain, open, whole};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::live::events;
use nearfar_observed::live::reading::{Moved, Source};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Where the units that count are described, below the root.
pub(super) const DEVICES: &str = "sys/bus/event_source/devices";

/// The counters of all memory controllers, open.
pub struct Controllers {
    counters: Vec<Counter>,
    name: String,
}

/// A counter of a memory controller.
struct Counter {
    node: NodeId,
    writes: bool,
    /// Bytes of one count.
    bytes: f64,
    fd: OwnedFd,
}

impl Controllers {
    /// Opens reads and writes of every memory controller that sysfs lists.
    ///
    /// # Errors
    /// Why they are not counted, in words.
    pub fn open(root: &Path, machine: &Machine) -> Result<Controllers, String> {
        let found = units(root);
        if found.is_empty() {
            return Err(
                "this machine shows no counters of its memory controllers (uncore_imc, amd_umc), as is usual in \
                        virtual machines"
                    .to_owned(),
            );
        }
        let mut counters = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for unit in found {
            for cpu in unit.cpus.iter() {
                let node = node_of_unit(machine, cpu)?;
                for (config, bytes, writes) in &unit.events {
                    let fd = open(&Counting::of_cpu(unit.type_, *config, cpu), None)
                        .map_err(|error| explain(&error))?;
                    counters.push(Counter { node, writes: *writes, bytes: *bytes, fd });
                }
            }
            let kind = unit.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_').to_owned();
            if !names.contains(&kind) {
                names.push(kind);
            }
        }
        Ok(Controllers {
            counters,
            name: format!("counters of the memory controllers ({})", names.join(", ")),
        })
    }

    /// Bytes that they moved so far.
    pub fn moved(&self) -> Source<BTreeMap<NodeId, Moved>> {
        let mut sums: BTreeMap<NodeId, Moved> = BTreeMap::new();
        for counter in &self.counters {
            let bytes = match whole(&counter.fd) {
                Ok(counted) => (counted as f64 * counter.bytes) as u64,
                // A sum without one of its controllers would be too small.
                Err(why) => return Source::Not(why),
            };
            let moved = sums.entry(counter.node).or_default();
            match counter.writes {
                true => moved.written += bytes,
                false => moved.read += bytes,
            }
        }
        Source::of(sums, &self.name, "this machine has no memory controllers to count")
    }
}

/// The node of a controller that is counted from a cpu: that of the cpu's package, if it has one only.
fn node_of_unit(machine: &Machine, cpu: u32) -> Result<NodeId, String> {
    let node = machine.node_of_cpu(cpu).and_then(|id| machine.node(id));
    let package =
        node.ok_or_else(|| format!("cpu {cpu}, which counts a memory controller, is of no node"))?.package;
    let nodes: Vec<NodeId> = machine.nodes.iter().filter(|n| n.package == package).map(|n| n.id).collect();
    match nodes[..] {
        [node] => Ok(node),
        _ => Err(format!(
            "the memory controllers of a socket serve nodes {} here (SNC, NPS, CXL), and sysfs does not say which \
             controller serves which",
            nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// A memory controller's PMU as sysfs describes it.
#[derive(Debug, PartialEq)]
struct Unit {
    name: String,
    type_: u32,
    cpus: CpuList,
    /// Config, bytes of a count, and whether it counts writes.
    events: Vec<(u64, f64, bool)>,
}

fn units(root: &Path) -> Vec<Unit> {
    let entries = fs::read_dir(root.join(DEVICES)).into_iter().flatten().flatten();
    let mut units: Vec<Unit> = entries.filter_map(|e| unit(&e.path())).collect();
    units.sort_by(|a, b| a.name.cmp(&b.name));
    units
}

fn unit(folder: &Path) -> Option<Unit> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'_'))
    };
    let (imc, umc) = (numbered("uncore_imc"), numbered("amd_umc"));
    let text = |file: &str| fs::read_to_string(folder.join(file)).ok().map(|t| t.trim().to_owned());
    let formats: BTreeMap<String, String> = fs::read_dir(folder.join("format"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let name = e.file_name().to_str()?.to_owned();
            Some((name.clone(), text(&format!("format/{name}"))?))
        })
        .collect();
    let event = |names: [&str; 2], otherwise: Option<&str>, writes: bool| {
        let listed = names.iter().find_map(|n| Some((*n, text(&format!("events/{n}"))?)));
        let (words, bytes) = match (listed, otherwise) {
            (Some((name, words)), _) => {
                (words, bytes_of(text(&format!("events/{name}.scale")), text(&format!("events/{name}.unit"))))
            }
            (None, Some(words)) => (words.to_owned(), LINE_BYTES as f64),
            (None, None) => return None,
        };
        Some((events::config(&words, &formats)?, bytes, writes))
    };
    let events: Vec<(u64, f64, bool)> = if imc {
        // Free-running counters have their own names (data_read) and unit.
        vec![
            event(["cas_count_read", "data_read"], None, false)?,
            event(["cas_count_write", "data_write"], None, true)?,
        ]
    } else if umc {
        // The kernel lists no events of amd_umc; these are perf's umc_cas_cmd.rd and .wr.
        vec![
            event(["umc_cas_cmd.rd", "-"], Some("event=0x0a,rdwrmask=0x1"), false)?,
            event(["umc_cas_cmd.wr", "-"], Some("event=0x0a,rdwrmask=0x2"), true)?,
        ]
    } else {
        return None;
    };
    Some(Unit { type_: text("type")?.parse().ok()?, cpus: text("cpumask")?.parse().ok()?, events, name })
}

/// Bytes of one count, from the files `.scale` and `.unit`; a line where there are none.
fn bytes_of(scale: Option<String>, unit: Option<String>) -> f64 {
    let scale: Option<f64> = scale.and_then(|s| s.parse().ok());
    match (scale, unit.as_deref()) {
        (Some(scale), Some("MiB")) => (scale * f64::from(1 << 20)).round(),
        (Some(scale), Some("Bytes")) => scale,
        _ => LINE_BYTES as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn controllers_are_found_with_their_events_and_bytes() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("uncore_imc_1/type", "23\n"),
            ("uncore_imc_1/cpumask", "0,20\n"),
            ("uncore_imc_1/format/event", "config:0-7\n"),
            ("uncore_imc_1/format/umask", "config:8-15\n"),
            ("uncore_imc_1/events/cas_count_read", "event=0x04,umask=0x03\n"),
            ("uncore_imc_1/events/cas_count_read.scale", "6.103515625e-5\n"),
            ("uncore_imc_1/events/cas_count_read.unit", "MiB\n"),
            ("uncore_imc_1/events/cas_count_write", "event=0x04,umask=0x0c\n"),
            ("amd_umc_0/type", "40\n"),
            ("amd_umc_0/cpumask", "0\n"),
            ("amd_umc_0/format/event", "config:0-7\n"),
            ("amd_umc_0/format/rdwrmask", "config:8-9\n"),
            ("uncore_imc_free_running/type", "9\n"),
            ("cpu/type", "4\n"),
        ] {
            write(root.path(), &format!("{DEVICES}/{path}"), text);
        }
        let found = units(root.path());
        let seen: Vec<_> =
            found.iter().map(|u| (u.name.as_str(), u.type_, u.cpus.to_string(), u.events.clone())).collect();
        assert_eq!(
            seen,
            [
                ("amd_umc_0", 40, "0".to_owned(), vec![(0x10a, 64.0, false), (0x20a, 64.0, true)]),
                ("uncore_imc_1", 23, "0,20".to_owned(), vec![(0x304, 64.0, false), (0xc04, 64.0, true)]),
            ]
        );
    }

    #[test]
    fn a_controller_is_of_a_node_only_where_its_package_has_one() {
        let machine = Machine::from_shape("2x2").unwrap();
        assert_eq!((node_of_unit(&machine, 0), node_of_unit(&machine, 3)), (Ok(0), Ok(1)));
        let mut clustered = machine.clone();
        clustered.nodes.iter_mut().for_each(|n| n.package = Some(0));
        assert!(node_of_unit(&clustered, 3).unwrap_err().contains("0, 1"));
        assert!(node_of_unit(&machine, 99).is_err());
    }
}
