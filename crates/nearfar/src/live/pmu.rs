//! Hardware counters: events of each cpu, and bytes of the memory controllers.
//!
//! Counters of whole cpus need kernel.perf_event_paranoid of 0 or less, or CAP_PERFMON. Events of one kind are one
//! group, which the kernel counts together, so that their ratios are of the same time. None of this was ever run on
//! hardware by this project: the machines that build it have no PMU.

use super::read::{add, source};
use crate::host::proc;
use nearfar_model::live::events::{self, Encoding, Event, Missing, Processor, encoding};
use nearfar_model::live::reading::{Count, Moved, Source};
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::{Machine, NodeId};
use perf_event_open_sys::bindings::*;
use perf_event_open_sys::perf_event_open;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Events that are counted together.
const GROUPS: [&[Event]; 4] = [
    &[Event::Cycles, Event::Instructions],
    &[Event::L2Hits, Event::L2Misses],
    &[Event::L3Hits, Event::L3Misses],
    &[Event::LocalLines, Event::RemoteLines],
];
const DEVICES: &str = "sys/bus/event_source/devices";
/// Bytes of a line that a memory controller moves at once.
const LINE: f64 = 64.0;

/// A group of events on a cpu: the first descriptor reads them all.
struct Group {
    cpu: u32,
    events: Vec<Event>,
    fds: Vec<OwnedFd>,
}

/// A counter of a memory controller.
struct Controller {
    node: NodeId,
    writes: bool,
    /// Bytes of one count.
    bytes: f64,
    fd: OwnedFd,
}

/// The counters of a machine, open.
pub struct Pmu {
    processor: Processor,
    groups: Vec<Group>,
    missing: BTreeMap<Event, Missing>,
    controllers: Result<(Vec<Controller>, String), String>,
}

impl Pmu {
    /// Opens what there is; what is not has its reason.
    pub fn open(root: &Path, machine: &Machine) -> Pmu {
        let processor = Processor::parse(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default());
        let mut pmu =
            Pmu { processor, groups: Vec::new(), missing: BTreeMap::new(), controllers: Err(String::new()) };
        for events in GROUPS {
            pmu.open_groups(events);
        }
        pmu.controllers = controllers(root, machine);
        pmu
    }

    /// The processor of the host.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Why events are not counted.
    pub fn missing(&self) -> &BTreeMap<Event, Missing> {
        &self.missing
    }

    fn open_groups(&mut self, wanted: &[Event]) {
        let encodings: Option<Vec<Encoding>> = wanted.iter().map(|e| encoding(&self.processor, *e)).collect();
        let opened = match encodings {
            None => Err(format!(
                "nearfar has no table of events for {}, and an event of another processor would count something else",
                self.processor.words()
            )),
            Some(encodings) => proc::online_cpus()
                .into_iter()
                .filter_map(|cpu| match open_group(cpu, &encodings) {
                    Ok(fds) => Some(Ok(Group { cpu, events: wanted.to_vec(), fds })),
                    // It went offline in between.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
                    Err(error) => Some(Err(explain(&error))),
                })
                .collect::<Result<Vec<Group>, String>>(),
        };
        match opened {
            Ok(groups) => self.groups.extend(groups),
            Err(why) => self.missing.extend(wanted.iter().map(|e| (*e, Missing { why: why.clone() }))),
        }
    }

    /// All events now.
    pub fn events(&self) -> BTreeMap<u32, BTreeMap<Event, Count>> {
        let mut all: BTreeMap<u32, BTreeMap<Event, Count>> = BTreeMap::new();
        for group in &self.groups {
            if let Ok(counts) = read_group(&group.fds[0], group.events.len()) {
                all.entry(group.cpu).or_default().extend(group.events.iter().copied().zip(counts));
            }
        }
        all
    }

    /// Bytes that the memory controllers moved so far.
    pub fn controllers(&self) -> Source<BTreeMap<NodeId, Moved>> {
        let (controllers, name) = match &self.controllers {
            Ok(is) => is,
            Err(why) => return Source::Not(why.clone()),
        };
        let mut sums = BTreeMap::new();
        for controller in controllers {
            let Ok(counts) = read_group(&controller.fd, 1) else { continue };
            let bytes = (counts[0].value as f64 * controller.bytes) as u64;
            add(&mut sums, controller.node, |moved: &mut Moved| match controller.writes {
                true => moved.written += bytes,
                false => moved.read += bytes,
            });
        }
        source(sums, name, "the counters of the memory controllers cannot be read any more".to_owned())
    }
}

/// What a refusal means for counters of whole cpus.
fn explain(error: &io::Error) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    let level = paranoid.and_then(|t| t.trim().parse::<i32>().ok());
    match (error.raw_os_error(), level) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) if level > 0 => format!(
            "kernel.perf_event_paranoid is {level}, and counting whole cpus needs 0 or less, or CAP_PERFMON: \
             `sudo sysctl kernel.perf_event_paranoid=0`"
        ),
        (Some(libc::EACCES | libc::EPERM), _) => format!(
            "perf_event_open is refused ({error}): probably a container's seccomp profile forbids it \
             (docker run --cap-add PERFMON --security-opt seccomp=unconfined)"
        ),
        (Some(libc::ENOENT | libc::EOPNOTSUPP), _) => {
            "this machine shows no hardware counters for it (usual in virtual machines)".to_owned()
        }
        (Some(libc::EMFILE), _) => "too many open files: raise `ulimit -n`".to_owned(),
        _ => format!("perf_event_open is refused: {error}"),
    }
}

fn open_group(cpu: u32, encodings: &[Encoding]) -> io::Result<Vec<OwnedFd>> {
    let mut fds: Vec<OwnedFd> = Vec::new();
    for encoding in encodings {
        let (type_, config) = match *encoding {
            Encoding::Generic(config) => (PERF_TYPE_HARDWARE, config),
            Encoding::Raw(config) => (PERF_TYPE_RAW, config),
        };
        fds.push(open(type_, config, cpu, fds.first())?);
    }
    Ok(fds)
}

fn open(type_: u32, config: u64, cpu: u32, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_,
        size: std::mem::size_of::<perf_event_attr>() as u32,
        config,
        read_format: u64::from(
            PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    let leader = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is initialised with its own size; -1 and the flag are valid arguments.
    let fd = unsafe { perf_event_open(&mut attr, -1, cpu as i32, leader, PERF_FLAG_FD_CLOEXEC as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The counts of a group of `number` events.
fn read_group(leader: &OwnedFd, number: usize) -> io::Result<Vec<Count>> {
    // nr, time_enabled, time_running, values (perf_event_open(2), PERF_FORMAT_GROUP).
    let mut words = vec![0u64; 3 + number];
    let bytes = words.len() * 8;
    // SAFETY: the buffer has that many bytes.
    let length = unsafe { libc::read(leader.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != bytes || words[0] != number as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(words[3..].iter().map(|&value| Count { value, enabled_ns: words[1], running_ns: words[2] }).collect())
}

/// Opens reads and writes of every memory controller that sysfs lists.
fn controllers(root: &Path, machine: &Machine) -> Result<(Vec<Controller>, String), String> {
    let found = units(root);
    if found.is_empty() {
        return Err(
            "this machine shows no counters of its memory controllers (uncore_imc, amd_umc), as is usual in \
                    virtual machines"
                .to_owned(),
        );
    }
    let mut open_ones = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for unit in found {
        for cpu in unit.cpus.iter() {
            let node = node_of_unit(machine, cpu)?;
            for (config, bytes, writes) in &unit.events {
                let fd = open(unit.type_, *config, cpu, None).map_err(|error| explain(&error))?;
                open_ones.push(Controller { node, writes: *writes, bytes: *bytes, fd });
            }
        }
        let kind = unit.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_').to_owned();
        if !names.contains(&kind) {
            names.push(kind);
        }
    }
    Ok((open_ones, format!("counters of the memory controllers ({})", names.join(", "))))
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
            (None, Some(words)) => (words.to_owned(), LINE),
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
        _ => LINE,
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

    #[test]
    fn a_group_of_software_events_is_read_as_one() {
        // This process's own events need no permission: the same reading as of hardware.
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: std::mem::size_of::<perf_event_attr>() as u32,
            config: PERF_COUNT_SW_TASK_CLOCK as u64,
            read_format: u64::from(
                PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
            ),
            ..Default::default()
        };
        attr.set_exclude_kernel(1);
        // SAFETY: as in `open`.
        let fd = unsafe { perf_event_open(&mut attr, 0, -1, -1, 0) };
        if fd < 0 {
            eprintln!("skipped: perf events: {}", io::Error::last_os_error());
            return;
        }
        // SAFETY: as in `open`.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let before = read_group(&fd, 1).unwrap()[0];
        let mut sum = 0u64;
        for i in 0..2_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i * i));
        }
        let after = read_group(&fd, 1).unwrap()[0];
        assert!(after.since(&before).unwrap() > 0.0, "{before:?} {after:?} {sum}");
        assert!(read_group(&fd, 2).is_err());
    }
}
