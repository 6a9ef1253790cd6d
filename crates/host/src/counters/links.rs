//! Bytes over the links between sockets: Intel's UPI. AMD's xGMI is not counted: nearfar has no encoding of it that was
//! checked against a source.

use super::call::{Counting, explain, open, whole};
use super::controllers::DEVICES;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_observed::live::events::config;
use nearfar_observed::live::reading::Source;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

/// UNC_UPI_TxL_FLITS.ALL_DATA (perf's tables of events), and bytes of a flit's data: nine flits carry a line of 64 bytes.
const EVENT: &str = "event=0x02,umask=0x0f";
const BYTES: f64 = 64.0 / 9.0;

/// The counters of all links, open: by package, what its links send.
pub struct Links {
    counters: Vec<(u32, OwnedFd)>,
}

impl Links {
    /// Opens a counter for each link that sysfs lists.
    ///
    /// # Errors
    /// Why they are not counted, in words.
    pub fn open(root: &Path, machine: &Machine) -> Result<Links, String> {
        let units = units(root);
        if units.is_empty() {
            return Err("this machine shows no counters of links between sockets (uncore_upi), as is usual in virtual \
                        machines; AMD's xGMI links are not counted"
                .to_owned());
        }
        let mut counters = Vec::new();
        for (type_, cpus, config) in units {
            for cpu in cpus.iter() {
                let node = machine.node_of_cpu(cpu).and_then(|id| machine.node(id));
                let package =
                    node.and_then(|n| n.package).ok_or("the sockets of this machine are not known")?;
                let fd =
                    open(&Counting::of_cpu(type_, config, cpu), None).map_err(|error| explain(&error))?;
                counters.push((package, fd));
            }
        }
        Ok(Links { counters })
    }

    /// Bytes that each package's links sent so far.
    pub fn sent(&self) -> Source<BTreeMap<u32, u64>> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for (package, fd) in &self.counters {
            match whole(fd) {
                Ok(flits) => *sums.entry(*package).or_default() += (flits as f64 * BYTES) as u64,
                // A sum without one of its links would be too small.
                Err(why) => return Source::Not(why),
            }
        }
        Source::of(sums, "uncore_upi", "this machine has no links to count")
    }
}

/// Type, cpus to count on, and config of each link's unit.
fn units(root: &Path) -> Vec<(u32, CpuList, u64)> {
    let unit = |folder: &Path| {
        let name = folder.file_name()?.to_str()?;
        name.strip_prefix("uncore_upi_").filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?;
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok().map(|t| t.trim().to_owned());
        let formats: BTreeMap<String, String> = ["event", "umask"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), text(&format!("format/{name}"))?)))
            .collect();
        Some((text("type")?.parse().ok()?, text("cpumask")?.parse().ok()?, config(EVENT, &formats)?))
    };
    let entries = fs::read_dir(root.join(DEVICES)).into_iter().flatten().flatten();
    entries.filter_map(|e| unit(&e.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_with_their_event() {
        let root = tempfile::tempdir().unwrap();
        assert!(Links::open(root.path(), &Machine::from_shape("2x2").unwrap()).is_err());
        for (path, text) in [
            ("uncore_upi_0/type", "31\n"),
            ("uncore_upi_0/cpumask", "0,2\n"),
            ("uncore_upi_0/format/event", "config:0-7\n"),
            ("uncore_upi_0/format/umask", "config:8-15\n"),
            ("uncore_upi_x/type", "32\n"),
        ] {
            let path = root.path().join(DEVICES).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found: Vec<_> = units(root.path()).into_iter().map(|(t, c, e)| (t, c.to_string(), e)).collect();
        assert_eq!(found, [(31, "0,2".to_owned(), 0xf02)]);
    }
}
