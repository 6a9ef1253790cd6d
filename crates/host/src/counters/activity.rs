//! The kernel's counters of page placement and migration.

use nearfar_machine::Machine;
use nearfar_observed::residency::activity::Activity;
use std::fs;
use std::path::Path;

/// Reads them now. What cannot be read is left out.
pub fn read(machine: &Machine) -> Activity {
    read_below(Path::new("/"), machine)
}

/// The same of a tree below `root`.
pub fn read_below(root: &Path, machine: &Machine) -> Activity {
    let vmstat = fs::read_to_string(root.join("proc/vmstat")).unwrap_or_default();
    let node = |id| {
        let file = root.join(format!("sys/devices/system/node/node{id}/numastat"));
        Some((id, fs::read_to_string(file).ok()?))
    };
    Activity::read(&vmstat, machine.nodes.iter().filter_map(|n| node(n.id)))
}
