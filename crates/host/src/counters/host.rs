//! What is counted of the host and not of a program, in one reading: bytes of the memory controllers, of the links, and of
//! the cpus as resctrl monitors them; pages placed on each node.

use super::controllers::Controllers;
use super::links::Links;
use super::{activity, resctrl};
use nearfar_machine::Machine;
use nearfar_observed::live::reading::Source;
use nearfar_recording::{Counter, NONE};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of what is counted, in the table `counters`.
const BYTES_READ: &str = "bytes read";
const BYTES_WRITTEN: &str = "bytes written";
const BYTES_SENT: &str = "bytes sent to other sockets";
const BYTES_MOVED: &str = "bytes moved by its cpus";
const BYTES_LOCAL: &str = "bytes moved from and to local memory";
const NUMASTAT: &str = "numastat of the node";

/// The counters of a host, open.
pub struct HostCounters {
    root: PathBuf,
    machine: Machine,
    controllers: Result<Controllers, String>,
    links: Result<Links, String>,
    before: Reading,
}

/// What was counted up to a moment: by place and name, the value and where it is from.
#[derive(Default)]
struct Reading {
    at_ns: u64,
    values: BTreeMap<(Place, String), (u64, String)>,
    /// Names that have no value, and why.
    missing: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Node(u32),
    Socket(u32),
}

impl HostCounters {
    /// Opens what there is, and reads it for the first time.
    pub fn open(root: &Path, machine: &Machine, at_ns: u64) -> HostCounters {
        let mut counters = HostCounters {
            root: root.to_owned(),
            machine: machine.clone(),
            controllers: Controllers::open(root, machine),
            links: Links::open(root, machine),
            before: Reading::default(),
        };
        counters.before = counters.look(at_ns);
        counters
    }

    fn look(&self, at_ns: u64) -> Reading {
        let mut now = Reading { at_ns, ..Reading::default() };
        let refused = |why: &String| Source::Not(why.clone());
        let controllers = self.controllers.as_ref().map_or_else(refused, Controllers::moved);
        now.add(controllers, &[BYTES_READ, BYTES_WRITTEN], |node, moved| {
            (Place::Node(node), vec![moved.read, moved.written])
        });
        let links = self.links.as_ref().map_or_else(|why| Source::Not(why.clone()), Links::sent);
        now.add(links, &[BYTES_SENT], |socket, sent| (Place::Socket(socket), vec![sent]));
        now.add(resctrl::read(&self.root, &self.machine), &[BYTES_MOVED, BYTES_LOCAL], |node, bytes| {
            (Place::Node(node), vec![bytes.total, bytes.local])
        });
        for (node, counts) in activity::read_below(&self.root, &self.machine).placement {
            for (name, pages) in counts {
                now.values.insert((Place::Node(node), name), (pages, NUMASTAT.to_owned()));
            }
        }
        now
    }

    /// What was counted since the last reading, as rows.
    pub fn read(&mut self, at_ns: u64) -> Vec<Counter> {
        let now = self.look(at_ns);
        let mut rows = Vec::new();
        for ((place, name), (value, source)) in &now.values {
            // A counter that is new has no beginning.
            let Some((then, _)) = self.before.values.get(&(*place, name.clone())) else { continue };
            let counted = value.checked_sub(*then);
            rows.push(Counter {
                value: counted.map_or(f64::NAN, |v| v as f64),
                unit: if source == NUMASTAT { "pages" } else { "bytes" }.to_owned(),
                why: if counted.is_none() { "the counter went backwards".to_owned() } else { String::new() },
                node: match place {
                    Place::Node(node) => i16::try_from(*node).unwrap_or(-1),
                    Place::Socket(_) => -1,
                },
                place: match place {
                    Place::Node(node) => format!("node {node}"),
                    Place::Socket(socket) => format!("socket {socket}"),
                },
                source: source.clone(),
                ..row(at_ns, at_ns - self.before.at_ns, name)
            });
        }
        self.before = now;
        rows
    }

    /// What has no value, as rows with the reason.
    pub fn missing(&self, at_ns: u64) -> Vec<Counter> {
        let missing = self.before.missing.iter();
        missing
            .map(|(name, why)| Counter {
                why: why.clone(),
                unit: "bytes".into(),
                place: "the host".into(),
                ..row(at_ns, 0, name)
            })
            .collect()
    }
}

impl Reading {
    /// Adds a source's numbers: by place, one for each name.
    fn add<K, V: Copy>(
        &mut self,
        source: Source<BTreeMap<K, V>>,
        names: &[&'static str],
        of: impl Fn(K, V) -> (Place, Vec<u64>),
    ) {
        match source {
            Source::Not(why) => self.missing.extend(names.iter().map(|name| (*name, why.clone()))),
            Source::Is(sums, source) => {
                for (key, value) in sums {
                    let (place, values) = of(key, value);
                    for (name, value) in names.iter().zip(values) {
                        self.values.insert((place, (*name).to_owned()), (value, source.clone()));
                    }
                }
            }
        }
    }
}

/// A row without a value.
pub fn row(time_ns: u64, interval_ns: u64, name: &str) -> Counter {
    Counter {
        time_ns,
        cpu: u16::MAX,
        node: -1,
        name: name.to_owned(),
        value: f64::NAN,
        unit: String::new(),
        place: String::new(),
        running_share: -1.0,
        source: String::new(),
        why: String::new(),
        thread: NONE,
        interval_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn rows_are_differences_and_what_is_missing_has_its_reason() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("sys/devices/system/node/node0/numastat");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "numa_hit 100\nnuma_miss 7\n").unwrap();
        let machine = Machine::from_shape("1x1").unwrap();
        let mut counters = HostCounters::open(root.path(), &machine, 10);
        fs::write(&file, "numa_hit 150\nnuma_miss 5\n").unwrap();
        let rows = counters.read(30);
        let seen: Vec<_> =
            rows.iter().map(|r| (r.place.as_str(), r.name.as_str(), r.value, r.interval_ns)).collect();
        assert_eq!(seen[0], ("node 0", "numa_hit", 50.0, 20));
        assert!(
            seen[1].2.is_nan() && !rows[1].why.is_empty(),
            "a counter that went back is unknown, not negative"
        );
        let missing = counters.missing(30);
        let names: Vec<&str> = missing.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, [BYTES_READ, BYTES_WRITTEN, BYTES_SENT, BYTES_MOVED, BYTES_LOCAL]);
        assert!(missing.iter().all(|r| r.value.is_nan() && !r.why.is_empty()));
    }
}
