//! The text of `perf script` to events.
//!
//! The text is read twice: its header, which names events and machine, may be anywhere before the first sample, and
//! the recording's machine has to be known before its first row.

use super::events::{Seen, as_event, purpose, put};
use super::feed::Feed;
use super::machine;
use anyhow::{Context, Result};
use nearfar_machine::Machine;
use nearfar_perf::features::Node;
use nearfar_perf::records::Record;
use nearfar_perf::sample::Sample;
use nearfar_perf::script::{self, Header, Line};
use nearfar_perf::{Attr, Vendor};
use nearfar_recording::SourceReport;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Longest line that is read, bytes. perf's longest have a name of a path and one of a symbol. // chosen
const LONGEST_LINE: u64 = 1 << 16;
/// Lines at a file's begin in which a line of perf must be, or it is another file. // chosen
const LINES_TRIED: usize = 1000;
/// Most frames of a sample that are kept: as many as the kernel takes (kernel.perf_event_max_stack).
const MOST_FRAMES: usize = 127;
/// Most events by name. // chosen
const MOST_EVENTS: usize = 4096;

/// A text whose header is read.
pub(super) struct Text {
    lines: Lines<BufReader<File>>,
    head: Head,
    machine: Machine,
    machine_known: bool,
}

/// What the comments say.
#[derive(Default)]
struct Head {
    processor: Option<String>,
    vendor: Option<String>,
    cpus: Option<u32>,
    command: Vec<String>,
    events: HashMap<String, Attr>,
    nodes: BTreeMap<u32, Node>,
    packages: BTreeMap<u32, u32>,
}

impl Head {
    fn add(&mut self, header: Header) {
        let node = |id| Node { id, memory_bytes: 0, cpus: Default::default() };
        match header {
            Header::Processor(name) => self.processor = Some(name),
            Header::CpuId(id) => self.vendor = Some(id),
            Header::Cpus(n) => self.cpus = Some(n),
            Header::Command(line) => {
                let words = line.split_ascii_whitespace().map(str::to_owned);
                let all: Vec<String> = words.collect();
                let at = all.iter().position(|word| word == "--").map_or(0, |at| at + 1);
                self.command = all[at..].to_vec();
            }
            Header::Event { name, attr } if self.events.len() < MOST_EVENTS => {
                self.events.insert(name, attr);
            }
            Header::Event { .. } => {}
            Header::Memory { node: id, bytes } => {
                self.nodes.entry(id).or_insert_with(|| node(id)).memory_bytes = bytes;
            }
            Header::Node(n) => self.nodes.entry(n.id).or_insert_with(|| node(n.id)).cpus = n.cpus,
            Header::Package { cpu, package } => {
                self.packages.insert(cpu, package);
            }
        }
    }

    fn machine(&self) -> Option<Machine> {
        if self.nodes.values().all(|node| node.cpus.is_empty()) {
            return None;
        }
        let last = self.packages.last_key_value().map_or(0, |(&cpu, _)| cpu as usize + 1);
        let packages: Option<Vec<u32>> =
            (0..last as u32).map(|cpu| self.packages.get(&cpu).copied()).collect();
        let name = self.processor.as_deref().unwrap_or("imported");
        Some(machine::machine(name, self.nodes.values().cloned().collect(), packages.as_deref()))
    }
}

/// Whether a file that begins so may be text of `perf script`: it has no zeros.
pub(super) fn may_be(begin: &[u8]) -> bool {
    !begin.is_empty() && !begin.contains(&0)
}

impl Text {
    /// Reads the header, and whether it is what `perf script` prints; `None` if it is not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn open(mut file: File, machine: Option<&Machine>) -> Result<Option<Text>> {
        file.seek(SeekFrom::Start(0))?;
        let mut lines = Lines::new(BufReader::with_capacity(1 << 20, file));
        let (mut head, mut known, mut tried) = (Head::default(), false, 0);
        while let Some(line) = lines.next()? {
            match line {
                Line::Header(header) => head.add(header),
                Line::Sample { .. } | Line::Record { .. } => {
                    known = true;
                    break;
                }
                Line::Nothing | Line::Frame { .. } | Line::Damaged(_) => {
                    tried += 1;
                    if tried > LINES_TRIED {
                        break;
                    }
                }
            }
        }
        if !known {
            return Ok(None);
        }
        lines.again()?;
        let found = head.machine();
        let machine_known = machine.is_some() || found.is_some();
        let of_cpus =
            || machine::of_cpus(head.processor.as_deref().unwrap_or("imported"), head.cpus.unwrap_or(1));
        let machine = machine.cloned().or(found).unwrap_or_else(of_cpus);
        Ok(Some(Text { lines, head, machine, machine_known }))
    }

    /// The machine.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The command that perf ran, if the header has its command line.
    pub(super) fn command(&self) -> Vec<String> {
        self.head.command.clone()
    }

    fn vendor(&self) -> Vendor {
        let by_id = self.head.vendor.as_deref().map(Vendor::from_cpuid);
        let name = self.head.processor.as_deref().unwrap_or(&self.machine.name);
        by_id.filter(|v| *v != Vendor::Other).unwrap_or_else(|| Vendor::from_description(name))
    }

    /// Feeds all lines; gives what the text had.
    ///
    /// # Errors
    /// If it cannot be read to its end.
    pub(super) fn feed(mut self, feed: &mut Feed) -> Result<Vec<SourceReport>> {
        let vendor = self.vendor();
        let mut told = Told { seen: Seen::default(), names: Vec::new(), maps: Maps::default(), vendor };
        let mut waiting: Option<(String, Sample)> = None;
        while let Some(line) = self.lines.next()? {
            match (line, &mut waiting) {
                (Line::Frame { at, file }, Some((_, sample))) => {
                    if sample.chain.len() < MOST_FRAMES {
                        let frame = told.maps.address(sample.pid, at, file.as_deref());
                        sample.chain.extend(frame);
                    }
                    continue;
                }
                (Line::Damaged(why), _) => feed.damaged(format!("line {}: {why}", self.lines.number)),
                (line, _) => {
                    if let Some((event, sample)) = waiting.take() {
                        told.sample(&event, sample, &self.head, feed);
                    }
                    match line {
                        Line::Sample { event, sample } => waiting = Some((event, sample)),
                        Line::Record { time_ns, record } => {
                            told.maps.add(&record);
                            if let Err(why) = put(record, time_ns, feed) {
                                feed.damaged(format!("line {}: {why}", self.lines.number));
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        if let Some((event, sample)) = waiting.take() {
            told.sample(&event, sample, &self.head, feed);
        }
        if !self.machine_known {
            feed.lose_machine();
        }
        if self.head.events.is_empty() {
            feed.lose(
                0,
                "what events count",
                0,
                "the text has no header, so an event is known by its name alone: perf script --header -I prints it",
            );
        }
        if told.maps.of.is_empty() {
            feed.lose(
                0,
                "mappings",
                0,
                "the text has no mappings, so functions and variables are not known: perf script --show-mmap-events \
                 --show-task-events prints them",
            );
        }
        if vendor == Vendor::Other && told.seen.has_memory() {
            feed.lose(
                0,
                "the processor's vendor",
                0,
                "the text does not say whose processor it was, on which the meaning of a data source depends: perf \
                 script --header says it, or name the machine with --as",
            );
        }
        Ok(told.seen.sources(&told.names.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

struct Told {
    seen: Seen,
    names: Vec<String>,
    maps: Maps,
    vendor: Vendor,
}

impl Told {
    fn sample(&mut self, event: &str, mut sample: Sample, head: &Head, feed: &mut Feed) {
        if sample.ip == 0 {
            sample.ip = sample.chain.first().copied().unwrap_or(0);
        }
        // The header has the name without what follows a colon, or with it.
        let attr = head.events.get(event).or_else(|| head.events.get(event.split(':').next()?));
        let attr = attr.copied().unwrap_or_else(|| script::event_by_name(event));
        let number = self.names.iter().position(|name| name == event).unwrap_or_else(|| {
            if self.names.len() < MOST_EVENTS {
                self.names.push(event.to_owned());
            }
            self.names.len() - 1
        });
        self.seen.by_event.resize(self.names.len(), 0);
        self.seen.by_event[number] += 1;
        let purpose = purpose(&attr, &sample);
        self.seen.add(purpose, &attr);
        if let Some((event, weight)) = as_event(&sample, &attr, purpose, self.vendor, None) {
            feed.event(event, weight);
        }
    }
}

/// Code that is mapped: perf prints the frames of a program as offsets in their files.
#[derive(Default)]
struct Maps {
    of: HashMap<u32, Arc<Files>>,
}

/// By file: first byte, bytes, offset in the file.
type Files = HashMap<String, Vec<(u64, u64, u64)>>;

impl Maps {
    fn add(&mut self, record: &Record) {
        match record {
            Record::Mmap(m) if m.protection & 4 != 0 && m.impossible().is_none() => {
                let files = Arc::make_mut(self.of.entry(m.pid).or_default());
                let all = files.entry(m.name.clone()).or_default();
                all.retain(|&(start, ..)| start != m.start);
                all.push((m.start, m.bytes, m.offset));
            }
            // A child has its parent's until it maps its own.
            Record::Fork { pid, parent, .. } if pid != parent => {
                if let Some(files) = self.of.get(parent).cloned() {
                    self.of.insert(*pid, files);
                }
            }
            Record::Comm { pid, exec: true, .. } => {
                self.of.remove(pid);
            }
            _ => {}
        }
    }

    /// A frame's address; `None` where its file's place is not known.
    fn address(&self, pid: u32, at: u64, file: Option<&str>) -> Option<u64> {
        let Some(file) = file else { return Some(at) };
        let inside = |&&(_, bytes, offset): &&(u64, u64, u64)| at >= offset && at - offset < bytes;
        let (start, _, offset) = self.of.get(&pid)?.get(file)?.iter().rev().find(inside)?;
        Some(start + (at - offset))
    }
}

/// Lines of a text, each at most so long.
struct Lines<R> {
    file: R,
    /// Of the last line, from 1.
    number: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead + Seek> Lines<R> {
    fn new(file: R) -> Lines<R> {
        Lines { file, number: 0, buffer: Vec::new() }
    }

    fn again(&mut self) -> Result<()> {
        self.number = 0;
        self.file.seek(SeekFrom::Start(0))?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Line>> {
        self.buffer.clear();
        let got = (&mut self.file).take(LONGEST_LINE).read_until(b'\n', &mut self.buffer);
        if got.context("the text cannot be read to its end")? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() != Some(&b'\n') && self.buffer.len() as u64 == LONGEST_LINE {
            self.skip_rest()?;
            return Ok(Some(Line::Damaged("a line of more than 64 KiB")));
        }
        let text = String::from_utf8_lossy(&self.buffer);
        Ok(Some(script::line(text.trim_end_matches(['\n', '\r']))))
    }

    fn skip_rest(&mut self) -> Result<()> {
        loop {
            let available = self.file.fill_buf()?;
            let (n, ends) = match available.iter().position(|&b| b == b'\n') {
                Some(at) => (at + 1, true),
                None => (available.len(), available.is_empty()),
            };
            self.file.consume(n);
            if ends {
                return Ok(());
            }
        }
    }
}
