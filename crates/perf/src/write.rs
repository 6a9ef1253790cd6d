//! Writing perf.data that the distribution's `perf script` and `perf mem report` read.
//!
//! Every event carries the same parts, so that one reader's rule fits all samples: number, instruction,
//! thread, time, address, cpu, period, call chain, weight, data source.

use super::attr::bits;
use super::features::{Node, feature};
use super::records::{Mapped, kind};
use std::io::{self, Seek, SeekFrom, Write};

/// Size of `struct perf_event_attr` that is written (PERF_ATTR_SIZE_VER7): perf 5.19 and later know it.
const ATTR_BYTES: usize = 128;
/// What samples carry.
const SAMPLE_TYPE: u64 = bits::IDENTIFIER
    | bits::IP
    | bits::TID
    | bits::TIME
    | bits::ADDR
    | bits::CPU
    | bits::PERIOD
    | bits::CALLCHAIN
    | bits::WEIGHT
    | bits::DATA_SRC;
/// Longest record.
const MOST_RECORD: usize = 65_528;
/// Most frames of a chain in a record.
const MOST_FRAMES: usize = 1024;

/// What the header says.
#[derive(Clone, Debug, Default)]
pub struct Header {
    /// Name of the host.
    pub host: String,
    /// Version of the writer.
    pub version: String,
    /// Architecture, as `uname -m`.
    pub arch: String,
    /// Name of the processor or machine.
    pub processor: String,
    /// Command line.
    pub command: Vec<String>,
    /// Nodes with their cpus.
    pub nodes: Vec<Node>,
    /// Names of the events; a sample names its event by the place here.
    pub events: Vec<String>,
}

/// A sample to be written.
#[derive(Clone, Debug, Default)]
pub struct Sample<'a> {
    /// Which event.
    pub event: usize,
    /// Instruction.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Time, ns.
    pub time_ns: u64,
    /// Data address; 0 if unknown.
    pub address: u64,
    /// Cpu.
    pub cpu: u32,
    /// Events that it stands for.
    pub period: u64,
    /// Callers, innermost first, without `ip`.
    pub callers: &'a [u64],
    /// Weight.
    pub weight: u64,
    /// Data source.
    pub data_src: u64,
}

/// A perf.data being written.
pub struct PerfWriter<W> {
    to: W,
    data_at: u64,
    written: u64,
    header: Header,
    record: Vec<u8>,
}

impl<W: Write + Seek> PerfWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn begin(mut to: W, header: Header) -> io::Result<PerfWriter<W>> {
        let events = header.events.len();
        let ids_at = 104 + events * (ATTR_BYTES + 16);
        let data_at = (ids_at + 8 * events) as u64;
        let mut head = vec![0u8; 104];
        for event in 0..events {
            head.extend_from_slice(&attr());
            head.extend_from_slice(&((ids_at + 8 * event) as u64).to_le_bytes());
            head.extend_from_slice(&8u64.to_le_bytes());
        }
        (0..events).for_each(|event| head.extend_from_slice(&id(event).to_le_bytes()));
        to.write_all(&head)?;
        Ok(PerfWriter { to, data_at, written: 0, header, record: Vec::new() })
    }

    fn put(&mut self, kind: u32, misc: u16, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        record.extend_from_slice(&kind.to_le_bytes());
        record.extend_from_slice(&misc.to_le_bytes());
        record.extend_from_slice(&[0; 2]);
        fill(&mut record);
        let length = record.len();
        let fits = length <= MOST_RECORD;
        if fits {
            record[6..8].copy_from_slice(&(length as u16).to_le_bytes());
            self.to.write_all(&record)?;
            self.written += length as u64;
        }
        self.record = record;
        // A name longer than a record: its mapping is left out, and its addresses have no symbol.
        Ok(())
    }

    /// A thread's name.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn comm(&mut self, pid: u32, tid: u32, name: &str, time_ns: u64) -> io::Result<()> {
        self.put(kind::COMM, 0, |r| {
            r.extend_from_slice(&pid.to_le_bytes());
            r.extend_from_slice(&tid.to_le_bytes());
            // TASK_COMM_LEN is 16 with the zero at its end.
            let end = (0..=name.len().min(15)).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
            padded(r, &name.as_bytes()[..end]);
            trailer(r, pid, tid, time_ns);
        })
    }

    /// A mapping.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn mmap(&mut self, m: &Mapped, time_ns: u64) -> io::Result<()> {
        const USER: u16 = 2;
        let build_id = !m.build_id.is_empty() && m.build_id.len() <= 20;
        let misc = USER | if build_id { 1 << 14 } else { 0 };
        self.put(kind::MMAP2, misc, |r| {
            r.extend_from_slice(&m.pid.to_le_bytes());
            r.extend_from_slice(&m.tid.to_le_bytes());
            [m.start, m.bytes, m.offset].iter().for_each(|v| r.extend_from_slice(&v.to_le_bytes()));
            let mut file = [0u8; 24];
            if build_id {
                file[0] = m.build_id.len() as u8;
                file[4..4 + m.build_id.len()].copy_from_slice(&m.build_id);
            } else {
                file[..4].copy_from_slice(&m.device.0.to_le_bytes());
                file[4..8].copy_from_slice(&m.device.1.to_le_bytes());
                file[8..16].copy_from_slice(&m.inode.to_le_bytes());
            }
            r.extend_from_slice(&file);
            r.extend_from_slice(&m.protection.to_le_bytes());
            r.extend_from_slice(&m.flags.to_le_bytes());
            padded(r, m.name.as_bytes());
            trailer(r, m.pid, m.tid, time_ns);
        })
    }

    /// A sample.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn sample(&mut self, s: &Sample<'_>) -> io::Result<()> {
        const USER: u16 = 2;
        const CONTEXT_USER: u64 = (-512i64) as u64;
        self.put(kind::SAMPLE, USER, |r| {
            let mut word = |v: u64| r.extend_from_slice(&v.to_le_bytes());
            word(id(s.event));
            word(s.ip);
            word(u64::from(s.pid) | u64::from(s.tid) << 32);
            word(s.time_ns);
            word(s.address);
            word(u64::from(s.cpu));
            word(s.period);
            let callers = &s.callers[..s.callers.len().min(MOST_FRAMES)];
            word(callers.len() as u64 + 2);
            word(CONTEXT_USER);
            word(s.ip);
            callers.iter().for_each(|&frame| word(frame));
            word(s.weight);
            word(s.data_src);
        })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        let h = &self.header;
        let mut parts: Vec<(u16, Vec<u8>)> = vec![
            (feature::HOSTNAME, string(&h.host)),
            (feature::VERSION, string(&h.version)),
            (feature::ARCH, string(&h.arch)),
            (feature::CPUDESC, string(&h.processor)),
            (feature::CMDLINE, strings(&h.command)),
            (feature::EVENT_DESC, event_names(&h.events)),
        ];
        let cpus = h.nodes.iter().filter_map(|n| n.cpus.last()).max().map_or(0, |last| last + 1);
        if cpus > 0 {
            let both = [cpus.to_le_bytes(), cpus.to_le_bytes()].concat();
            parts.push((feature::NRCPUS, both));
        }
        if !h.nodes.is_empty() {
            parts.push((feature::NUMA_TOPOLOGY, topology(&h.nodes)));
        }
        parts.sort_by_key(|p| p.0);
        let table_at = self.data_at + self.written;
        let mut at = table_at + 16 * parts.len() as u64;
        let (mut table, mut bytes, mut flags) = (Vec::new(), Vec::new(), [0u64; 4]);
        for (number, part) in &parts {
            table.extend_from_slice(&at.to_le_bytes());
            table.extend_from_slice(&(part.len() as u64).to_le_bytes());
            at += part.len() as u64;
            bytes.extend_from_slice(part);
            flags[usize::from(number / 64)] |= 1 << (number % 64);
        }
        self.to.write_all(&table)?;
        self.to.write_all(&bytes)?;
        let events = self.header.events.len() as u64;
        let mut head = Vec::new();
        head.extend_from_slice(b"PERFILE2");
        let words = [
            104,
            ATTR_BYTES as u64 + 16,
            104,
            events * (ATTR_BYTES as u64 + 16),
            self.data_at,
            self.written,
            0,
            0,
        ];
        words.iter().chain(&flags).for_each(|w| head.extend_from_slice(&w.to_le_bytes()));
        self.to.seek(SeekFrom::Start(0))?;
        self.to.write_all(&head)?;
        self.to.flush()?;
        Ok(self.to)
    }
}

/// An attribute: of the raw kind, because perf asks no driver for it when it reads the file.
fn attr() -> [u8; ATTR_BYTES] {
    const RAW: u32 = 4;
    // mem_loads' number on Intel since Sandy Bridge; the event's name says what it is.
    const CONFIG: u64 = 0x1cd;
    const PERIOD: u64 = 1;
    let mut attr = [0u8; ATTR_BYTES];
    attr[..4].copy_from_slice(&RAW.to_le_bytes());
    attr[4..8].copy_from_slice(&(ATTR_BYTES as u32).to_le_bytes());
    // mmap (8), comm (9), task (13), mmap_data (17), sample_id_all (18), mmap2 (23), comm_exec (24)
    let flags = [8, 9, 13, 17, 18, 23, 24].iter().fold(0u64, |f, bit| f | 1 << bit);
    for (at, value) in [(8, CONFIG), (16, PERIOD), (24, SAMPLE_TYPE), (32, 4), (40, flags)] {
        attr[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    attr
}

/// Number of an event.
fn id(event: usize) -> u64 {
    event as u64 + 1
}

/// Bytes with a zero behind them, to a multiple of eight.
fn padded(to: &mut Vec<u8>, bytes: &[u8]) {
    let begin = to.len();
    to.extend(bytes.iter().filter(|&&b| b != 0));
    let length = (to.len() - begin + 1).next_multiple_of(8);
    to.resize(begin + length, 0);
}

/// What stands behind records that are not samples: thread, time, cpu, number.
fn trailer(to: &mut Vec<u8>, pid: u32, tid: u32, time_ns: u64) {
    for word in [u64::from(pid) | u64::from(tid) << 32, time_ns, 0, id(0)] {
        to.extend_from_slice(&word.to_le_bytes());
    }
}

/// A text of the header: its length, padded as perf does.
fn string(text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    [(bytes.len() as u32).to_le_bytes().as_slice(), &bytes].concat()
}

fn strings(all: &[String]) -> Vec<u8> {
    let mut bytes = (all.len() as u32).to_le_bytes().to_vec();
    all.iter().for_each(|text| bytes.extend(string(text)));
    bytes
}

fn event_names(events: &[String]) -> Vec<u8> {
    let mut bytes = [(events.len() as u32).to_le_bytes(), (ATTR_BYTES as u32).to_le_bytes()].concat();
    for (event, name) in events.iter().enumerate() {
        bytes.extend_from_slice(&attr());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend(string(name));
        bytes.extend_from_slice(&id(event).to_le_bytes());
    }
    bytes
}

fn topology(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = (nodes.len() as u32).to_le_bytes().to_vec();
    for node in nodes {
        bytes.extend_from_slice(&node.id.to_le_bytes());
        // Total and free, KiB; what is free was not recorded.
        bytes.extend_from_slice(&(node.memory_bytes / 1024).to_le_bytes());
        bytes.extend_from_slice(&0u64.to_le_bytes());
        bytes.extend(string(&node.cpus.to_string()));
    }
    bytes
}
