//! Hardware counters: events of each cpu, and bytes of the memory controllers.
//!
//! Counters of whole cpus need kernel.perf_event_paranoid of 0 or less, or CAP_PERFMON. Events of one kind are one
//! group, which the kernel counts together, so that their ratios are of the same time. None of this was ever run on
//! hardware by this project: the machines that build it have no PMU.

use super::call::{Counting, explain, open_group, read_group};
use super::controllers::Controllers;
use crate::proc;
use nearfar_machine::{Machine, NodeId};
use nearfar_observed::live::events::{Encoding, Event, Missing, Processor, encoding};
use nearfar_observed::live::reading::{Count, Moved, Source};
use perf_event_open_sys::bindings::{PERF_TYPE_HARDWARE, PERF_TYPE_RAW};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Events that are counted together.
const GROUPS: [&[Event]; 4] = [
    &[Event::Cycles, Event::Instructions],
    &[Event::L2Hits, Event::L2Misses],
    &[Event::L3Hits, Event::L3Misses],
    &[Event::LocalLines, Event::RemoteLines],
];
/// A group of events on a cpu: the first descriptor reads them all.
struct Group {
    cpu: u32,
    events: Vec<Event>,
    fds: Vec<OwnedFd>,
}

/// The counters of a machine, open.
pub struct Pmu {
    processor: Processor,
    groups: Vec<Group>,
    missing: BTreeMap<Event, Missing>,
    controllers: Result<Controllers, String>,
}

impl Pmu {
    /// Opens what there is; what is not has its reason.
    pub fn open(root: &Path, machine: &Machine) -> Pmu {
        let processor = Processor::parse(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default());
        let controllers = Controllers::open(root, machine);
        let mut pmu = Pmu { processor, groups: Vec::new(), missing: BTreeMap::new(), controllers };
        for events in GROUPS {
            pmu.open_groups(events);
        }
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
                .filter_map(|cpu| match open_group(&on(cpu, &encodings)) {
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
        match &self.controllers {
            Ok(controllers) => controllers.moved(),
            Err(why) => Source::Not(why.clone()),
        }
    }
}

/// How an encoding is asked for: type and config.
pub(super) fn type_of(encoding: Encoding) -> (u32, u64) {
    match encoding {
        Encoding::Generic(config) => (PERF_TYPE_HARDWARE, config),
        Encoding::Raw(config) => (PERF_TYPE_RAW, config),
    }
}

fn on(cpu: u32, encodings: &[Encoding]) -> Vec<Counting> {
    let counting = |encoding: &Encoding| {
        let (type_, config) = type_of(*encoding);
        Counting::of_cpu(type_, config, cpu)
    };
    encodings.iter().map(counting).collect()
}
