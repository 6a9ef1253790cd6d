//! perf.data to events.

use super::events::{Seen, as_event, purpose, put};
use super::feed::Feed;
use super::machine;
use anyhow::{Result, bail};
use nearfar_machine::Machine;
use nearfar_perf::features::{Blocks, feature, text, texts};
use nearfar_perf::file::{Head, PerfData};
use nearfar_perf::records::kind;
use nearfar_perf::sample::{self, Cursor};
use nearfar_perf::{Vendor, records};
use nearfar_recording::SourceReport;
use std::io::{Read, Seek};

/// A perf.data file whose header is read.
pub(super) struct Data<R> {
    data: PerfData<R>,
    /// The first record, which was read to know the header of a pipe.
    first: Option<(Head, Vec<u8>)>,
    machine: Machine,
    machine_known: bool,
}

impl<R: Read + Seek> Data<R> {
    /// Reads the header.
    pub(super) fn open(file: R, length: u64, machine: Option<&Machine>) -> Result<Data<R>> {
        let mut data = PerfData::open(file, length)?;
        // A pipe has its header as records before all others.
        let mut body = Vec::new();
        let first = if data.pipe { data.next(&mut body).map(|head| (head, body)) } else { None };
        if data.events.is_empty() {
            bail!("it has no events");
        }
        if !data.is_told_apart() {
            bail!("it has several events, and no number in their samples that tells whose they are");
        }
        let found = Self::machine_of(&data);
        let known = machine.is_some() || found.1;
        let machine = machine.cloned().unwrap_or(found.0);
        Ok(Data { data, first, machine, machine_known: known })
    }

    fn machine_of(data: &PerfData<R>) -> (Machine, bool) {
        let part = |number: u16| data.features.get(&number).map(Vec::as_slice);
        let line = |number: u16| part(number).and_then(|bytes| text(&mut Cursor::new(bytes)));
        let name = line(feature::CPUDESC).filter(|t| !t.is_empty()).unwrap_or_else(|| "imported".into());
        let found = machine::from_features(&name, part(feature::NUMA_TOPOLOGY), part(feature::CPU_TOPOLOGY));
        let cpus = part(feature::NRCPUS).and_then(|bytes| Cursor::new(bytes).u32()).unwrap_or(1);
        let known = found.is_some();
        (found.unwrap_or_else(|| machine::of_cpus(&name, cpus)), known)
    }
}

impl<R: Read> Data<R> {
    /// The machine.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The command that perf ran, if its command line has one.
    pub(super) fn command(&self) -> Vec<String> {
        let all = self.data.features.get(&feature::CMDLINE).and_then(|part| texts(part)).unwrap_or_default();
        match all.iter().position(|word| word == "--") {
            Some(at) => all[at + 1..].to_vec(),
            None => all,
        }
    }

    fn line(&self, number: u16) -> Option<String> {
        self.data.features.get(&number).and_then(|bytes| text(&mut Cursor::new(bytes)))
    }

    fn vendor(&self) -> Vendor {
        let by_id = self.line(feature::CPUID).map(|id| Vendor::from_cpuid(&id));
        let by_name = || self.line(feature::CPUDESC).map(|name| Vendor::from_description(&name));
        by_id.filter(|v| *v != Vendor::Other).or_else(by_name).unwrap_or(Vendor::Other)
    }

    /// Feeds all records; gives what the file had.
    ///
    /// # Errors
    /// None so far: what is damaged is named.
    pub(super) fn feed(mut self, feed: &mut Feed) -> Result<Vec<SourceReport>> {
        let vendor = self.vendor();
        let blocks = self.data.features.get(&feature::MEM_TOPOLOGY).and_then(|part| Blocks::read(part));
        let mut seen = Seen::default();
        let mut body = Vec::new();
        let mut next = self.first.take();
        loop {
            let head = match next.take() {
                Some((head, first)) => {
                    body = first;
                    head
                }
                None => match self.data.next(&mut body) {
                    Some(head) => head,
                    None => break,
                },
            };
            self.data.damage.drain(..).for_each(|what| feed.damaged(what));
            let number = self.data.event_of(head, &body).unwrap_or(0);
            let event = &self.data.events[number];
            seen.by_event.resize(self.data.events.len(), 0);
            match head.kind {
                kind::FINISHED_ROUND => feed.round(),
                kind::SAMPLE => {
                    let Some(sample) = sample::read(&body, &event.attr) else {
                        feed.damaged(format!("byte {}: a sample of {} is cut off", head.at, event.name));
                        continue;
                    };
                    seen.by_event[number] += 1;
                    let purpose = purpose(&event.attr, &sample);
                    seen.add(purpose, &event.attr);
                    if let Some((event, weight)) =
                        as_event(&sample, &event.attr, purpose, vendor, blocks.as_ref())
                    {
                        feed.event(event, weight);
                    }
                }
                other if other < kind::HEADER_ATTR => {
                    match records::read(other, head.misc, &body, &event.attr) {
                        Some((time, record)) => {
                            if let Err(why) = put(record, time.unwrap_or(0), feed) {
                                feed.damaged(format!("byte {}: {why}", head.at));
                            }
                        }
                        None if KNOWN.contains(&other) => {
                            feed.damaged(format!("byte {}: a record of kind {other} is cut off", head.at));
                        }
                        None => {}
                    }
                }
                _ => {}
            }
        }
        self.data.damage.drain(..).for_each(|what| feed.damaged(what));
        if !self.machine_known {
            feed.lose_machine();
        }
        Ok(seen.sources(&self.data.events.iter().map(|e| e.name.as_str()).collect::<Vec<_>>()))
    }
}

/// Records that are read, if they are whole.
const KNOWN: [u32; 7] =
    [kind::MMAP, kind::MMAP2, kind::COMM, kind::FORK, kind::EXIT, kind::LOST, kind::LOST_SAMPLES];
