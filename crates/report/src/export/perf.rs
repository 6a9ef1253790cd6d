//! perf.data of a recording: `perf script` and `perf mem report` read it and show the same sums.

use super::samples::{Sample, Samples, Weight};
use nearfar_perf::data_source::bits_of;
use nearfar_perf::features::Node;
use nearfar_perf::records::Mapped;
use nearfar_perf::write::{Header, PerfWriter, Sample as Written};
use nearfar_recording::{Access, Served};
use std::io::{self, Seek, Write};

/// Mapped code of a process.
#[derive(Clone, Debug)]
pub struct Code {
    /// Where.
    pub mapped: Mapped,
    /// Since when, ns.
    pub time_ns: u64,
}

/// What is written beside the samples.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The host's or machine's name.
    pub machine: String,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Mapped code.
    pub code: Vec<Code>,
    /// Version of nearfar.
    pub version: String,
}

/// Names of the events that the samples belong to, one for each kind of sample.
pub fn events(samples: &Samples) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for s in &samples.samples {
        let name = name(s);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        names.push("nearfar-samples".into());
    }
    names
}

fn name(s: &Sample) -> &'static str {
    match (s.from, s.access) {
        ("hardware", Some(Access::Store)) => "cpu/mem-stores/",
        ("hardware", _) => "cpu/mem-loads/",
        ("simulated", _) => "nearfar-lines",
        ("signal", _) => "nearfar-signal",
        _ => "nearfar-clock",
    }
}

/// Which of these a sample belongs to.
pub fn event_of(names: &[String], s: &Sample) -> usize {
    let name = name(s);
    names.iter().position(|known| known == name).unwrap_or(0)
}

/// The data source of a sample: as the processor gave it, or as it was found out; `None` where nothing is known of its memory.
pub fn source_bits(s: &Sample) -> Option<u64> {
    if s.data_src != 0 {
        return Some(s.data_src);
    }
    // A line that was counted came from memory. Where a clock's sample was answered is not known.
    let served = match (s.served, s.from, s.remote) {
        (Some(served), _, _) => served,
        (None, "simulated", Some(true)) => Served::RemoteMemory,
        (None, "simulated", Some(false)) => Served::LocalMemory,
        _ => return None,
    };
    Some(bits_of(served, s.access.unwrap_or(Access::Unknown)))
}

/// Writes the file. A sample's period and weight are its weight `by`, so that the sums of `perf report` and `perf mem report`
/// are ours.
///
/// # Errors
/// Those of the writer.
pub fn write<W: Write + Seek>(to: W, samples: &Samples, around: &Around, by: Weight) -> io::Result<W> {
    let events = events(samples);
    let header = Header {
        host: around.machine.clone(),
        version: around.version.clone(),
        arch: "x86_64".into(),
        processor: around.machine.clone(),
        command: samples.command.clone(),
        nodes: around.nodes.clone(),
        events: events.clone(),
    };
    let mut file = PerfWriter::begin(to, header)?;
    let first = samples.samples.iter().map(|s| s.time_ns).min().unwrap_or(0);
    let named = |name: &str| if name.is_empty() { "?".to_owned() } else { name.to_owned() };
    for thread in &samples.threads {
        file.comm(thread.pid, thread.tid, &named(&thread.name), first.saturating_sub(1))?;
    }
    for code in &around.code {
        file.mmap(&code.mapped, code.time_ns.min(first))?;
    }
    let mut callers = Vec::new();
    for s in &samples.samples {
        let Some(weight) = samples.weight(s, by) else { continue };
        let thread = samples.threads.get(s.thread as usize).cloned().unwrap_or_default();
        callers.clear();
        // Inlined functions have the address of the one that has them.
        let addresses = s.stack.iter().filter_map(|&f| samples.frames.get(f as usize)).map(|f| f.address);
        callers.extend(addresses);
        callers.dedup();
        let ip = callers.first().copied().unwrap_or(0);
        file.sample(&Written {
            event: event_of(&events, s),
            ip,
            pid: thread.pid,
            tid: thread.tid,
            time_ns: s.time_ns,
            address: s.address,
            cpu: u32::from(s.cpu),
            period: weight,
            callers: callers.get(1..).unwrap_or_default(),
            weight,
            data_src: source_bits(s).unwrap_or(nearfar_perf::data_source::NOTHING_KNOWN),
        })?;
    }
    file.finish()
}
