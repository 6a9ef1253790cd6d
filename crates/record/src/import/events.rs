//! Samples and records of perf's files as the recorder's events.

use super::feed::Feed;
use crate::collect::events::in_kernel;
use crate::collect::perf::event::{Body, Event, MemoryAccess};
use nearfar_host::proc::FileId;
use nearfar_perf::attr::{Attr, SOFTWARE, bits};
use nearfar_perf::features::Blocks;
use nearfar_perf::records::Record;
use nearfar_perf::sample::Sample;
use nearfar_perf::{DataSource, Vendor};
use nearfar_recording::{Source, SourceReport, UNCOUNTED};

/// What an event of the file is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Its samples say where data came from.
    Memory,
    /// Each stands for CPU time: ns per event of its period, or ns per sample.
    Clock { ns_per_event: bool, ns: u32 },
    /// First touches: each one.
    Faults,
    /// Not used.
    None,
}

/// What a sample of an event is good for.
pub(super) fn purpose(attr: &Attr, sample: &Sample) -> Use {
    // Software events carry the field, too, with nothing in it.
    if sample.data_src.is_some_and(|bits| DataSource::from_bits(bits).is_access()) {
        return Use::Memory;
    }
    const CPU_CLOCK: u64 = 0;
    const TASK_CLOCK: u64 = 1;
    const FAULTS: [u64; 3] = [2, 5, 6];
    const CYCLES: u64 = 0;
    match (attr.kind, attr.config) {
        (SOFTWARE, CPU_CLOCK | TASK_CLOCK) => Use::Clock { ns_per_event: true, ns: 1 },
        (SOFTWARE, config) if FAULTS.contains(&config) && attr.has(bits::ADDR) => {
            if attr.period == 1 && attr.hz().is_none() { Use::Faults } else { Use::None }
        }
        // The kernel keeps to the rate that was asked for: a sample stands for its share of a second.
        (0, CYCLES) => match attr.hz().filter(|hz| *hz > 0) {
            Some(hz) => Use::Clock { ns_per_event: false, ns: (1_000_000_000 / hz) as u32 },
            None => Use::Clock { ns_per_event: false, ns: 1 },
        },
        _ => Use::None,
    }
}

/// A sample as the recorder's event, and what CPU time it stands for.
pub(super) fn as_event(
    s: &Sample,
    attr: &Attr,
    purpose: Use,
    vendor: Vendor,
    blocks: Option<&Blocks>,
) -> Option<(Event, u32)> {
    // Threads that had ended have no number.
    if s.pid == u32::MAX || s.tid == u32::MAX {
        return None;
    }
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let chain: Vec<u64> = s.chain.iter().copied().filter(|&frame| !in_kernel(frame)).collect();
    let (body, weight_ns) = match purpose {
        Use::None => return None,
        Use::Memory => (Body::Memory(MemoryAccess::of(s, vendor, blocks, attr.period)?), 0),
        Use::Clock { ns_per_event, ns } => {
            let weight =
                if ns_per_event { number(s.period.unwrap_or(attr.period)).max(1) } else { ns.max(1) };
            let registers = if in_kernel(s.ip) { Vec::new() } else { registers(s, attr) };
            (Body::Clock { ip: s.ip, cpu_ns: UNCOUNTED, registers, chain, stack: Vec::new() }, weight)
        }
        Use::Faults => {
            let page_bytes = s.page_bytes.filter(|b| b.is_power_of_two()).unwrap_or(0);
            (Body::Fault { ip: s.ip, address: s.address?, page_bytes }, 0)
        }
    };
    let cpu = s.cpu.unwrap_or(u32::from(u16::MAX));
    Some((Event { time_ns: time(s.time_ns), pid: s.pid, tid: s.tid, cpu, body }, weight_ns))
}

/// A time that a recording can have.
pub(super) fn time(ns: Option<u64>) -> u64 {
    ns.unwrap_or(0).min(1 << 62)
}

/// The registers that rule P needs, in the order in which the recorder has them; empty if one is missing.
fn registers(s: &Sample, attr: &Attr) -> Vec<u64> {
    // ax bx cx dx si di bp sp ip, then r8 to r15 (enum perf_event_x86_regs).
    const WANTED: u64 = 0x1ff | 0xff << 16;
    if attr.regs_user & WANTED != WANTED || s.registers.is_empty() {
        return Vec::new();
    }
    (0..64)
        .filter(|bit| WANTED >> bit & 1 == 1)
        .filter_map(|bit| s.registers.get((attr.regs_user & ((1 << bit) - 1)).count_ones() as usize).copied())
        .collect()
}

/// Feeds a record that is not a sample.
///
/// # Errors
/// What is wrong with it; then it is left out.
pub(super) fn put(record: Record, time_ns: u64, feed: &mut Feed) -> Result<(), String> {
    let time_ns = time(Some(time_ns));
    let event = |pid, tid, body| Event { time_ns, pid, tid, cpu: 0, body };
    let event = match record {
        // The kernel's own.
        Record::Mmap(m) if m.pid == u32::MAX || in_kernel(m.start) || m.bytes == 0 => return Ok(()),
        Record::Mmap(m) => {
            if let Some(why) = m.impossible() {
                return Err(why);
            }
            let file = FileId { device: libc::makedev(m.device.0, m.device.1), inode: m.inode };
            event(
                m.pid,
                m.tid,
                Body::Mmap {
                    start: m.start,
                    bytes: m.bytes,
                    offset: m.offset,
                    protection: m.protection,
                    flags: m.flags,
                    file,
                    name: m.name,
                },
            )
        }
        Record::Comm { pid, .. } | Record::Fork { pid, .. } | Record::Exit { pid, .. } if pid == u32::MAX => {
            return Ok(());
        }
        Record::Comm { pid, tid, name, exec } => event(pid, tid, Body::Comm { name, exec }),
        Record::Fork { pid, tid, parent } => event(pid, tid, Body::Fork { parent_pid: parent }),
        Record::Exit { pid, tid } => event(pid, tid, Body::Exit),
        Record::Lost(count) => event(0, 0, Body::Lost { count }),
        Record::Throttled => event(0, 0, Body::Throttled),
    };
    feed.event(event, 0);
    Ok(())
}

/// What the file had.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) by_event: Vec<u64>,
    memory: u64,
    clock: u64,
    faults: u64,
    sampled_faults: bool,
    hz: f64,
    equal_weights: bool,
}

impl Seen {
    pub(super) fn add(&mut self, purpose: Use, attr: &Attr) {
        match purpose {
            Use::Memory => self.memory += 1,
            Use::Clock { ns_per_event, ns } => {
                self.clock += 1;
                self.hz = attr.hz().map_or(self.hz, |hz| hz.min(1 << 40) as f64);
                self.equal_weights |= !ns_per_event && ns == 1;
            }
            Use::Faults => self.faults += 1,
            Use::None => self.sampled_faults |= attr.kind == SOFTWARE && [2, 5, 6].contains(&attr.config),
        }
    }

    /// Whether there were memory samples.
    pub(super) fn has_memory(&self) -> bool {
        self.memory > 0
    }

    pub(super) fn sources(&self, events: &[&str]) -> Vec<SourceReport> {
        let had: Vec<String> = events
            .iter()
            .zip(self.by_event.iter().chain(std::iter::repeat(&0)))
            .map(|(name, n)| format!("{name} ({n})"))
            .collect();
        let had = had.join(", ");
        let source = |source, active, why: String, hz| SourceReport { source, active, why, hz };
        vec![
            source(
                Source::Hardware,
                self.memory > 0,
                match self.memory {
                    0 => format!(
                        "the imported file has no memory samples, so it does not say where data came from; it has samples of \
                         {had}. `perf mem record` takes memory samples"
                    ),
                    _ => format!("imported memory samples: {had}"),
                },
                0.0,
            ),
            source(
                Source::Clock,
                self.clock > 0,
                match (self.clock, self.equal_weights) {
                    (0, _) => "the imported file has no samples of a clock or of cycles".into(),
                    (_, true) => "cycles at a fixed period: every sample counts as much as another".into(),
                    (_, false) => "imported; samples without registers name functions but no data".into(),
                },
                self.hz,
            ),
            source(
                Source::Pages,
                self.faults > 0,
                match (self.faults, self.sampled_faults) {
                    (0, true) => {
                        "the imported file has sampled page faults, and first touches need each one \
                                  (perf record -e page-faults -c 1 -d)"
                            .into()
                    }
                    (0, false) => "the imported file has no page faults with addresses".into(),
                    _ => "every page fault of the imported file".into(),
                },
                0.0,
            ),
        ]
    }
}
