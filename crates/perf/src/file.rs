//! perf.data: the records of a file, or of a pipe that was written to one, compressed or not.
//!
//! Read here and not by the crate linux-perf-data (0.13), for three reasons: it reserves what a file's
//! numbers say, so that a damaged header takes all memory; it ends at the first damaged record, where
//! this one says at which byte and goes on if it can; and it refuses files of several events that perf
//! itself reads. Samples are decoded here in any case, because that crate leaves out data source and latency.

use super::attr::{Attr, LEAST_BYTES, bits};
use super::features::{feature, text};
use super::records::kind;
use super::sample::Cursor;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

const MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED: &[u8; 8] = b"2ELIFREP";
/// Size of the header of a file, and of a pipe.
const FILE_HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
/// Most events, numbers of each, and bytes of the header's parts together. // chosen: a machine of 1024 cpus has a number per cpu
const MOST_EVENTS: usize = 4096;
const MOST_IDS: u64 = 1 << 20;
const MOST_FEATURES: u64 = 64 << 20;
/// Bytes that are taken out of a compressed record at a time.
const CHUNK: usize = 256 << 10;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Another format.
    #[error("it is not perf.data (it does not begin with PERFILE2)")]
    Foreign,
    /// Of a machine with the other byte order.
    #[error("it was written on a big-endian machine, which is not supported")]
    BigEndian,
    /// The header cannot be.
    #[error("its header is damaged: {0}")]
    Header(String),
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An event of the file.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Its attribute.
    pub attr: Attr,
    /// Its name; `event N` if the file has none.
    pub name: String,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Kind ([`kind`]).
    pub kind: u32,
    /// Flags.
    pub misc: u16,
    /// Byte of the file at which it begins, or the compressed record that has it.
    pub at: u64,
}

/// A perf.data file being read.
pub struct PerfData<R> {
    reader: R,
    /// Bytes of the data that are left; `None`: until the end.
    left: Option<u64>,
    at: u64,
    /// Its events.
    pub events: Vec<Event>,
    by_id: HashMap<u64, usize>,
    /// Parts of the header by their number.
    pub features: BTreeMap<u16, Vec<u8>>,
    /// What is damaged, in words, with its place.
    pub damage: Vec<String>,
    /// Written by `perf record -o -`.
    pub pipe: bool,
    unpack: Option<Decoder<'static>>,
    unpacked: Vec<u8>,
    /// Where in `unpacked` the next record begins.
    next: usize,
    packed: Vec<u8>,
    packed_next: usize,
    packed_at: u64,
}

impl<R: Read + Seek> PerfData<R> {
    /// Reads the header of a file of `length` bytes.
    ///
    /// # Errors
    /// See [`FileError`]. What can be read without is in [`PerfData::damage`].
    pub fn open(mut reader: R, length: u64) -> Result<PerfData<R>, FileError> {
        let mut magic = [0; 16];
        reader.read_exact(&mut magic).map_err(|_| FileError::Foreign)?;
        match &magic[..8] {
            m if m == MAGIC => {}
            m if m == SWAPPED => return Err(FileError::BigEndian),
            _ => return Err(FileError::Foreign),
        }
        let size = u64::from_le_bytes(magic[8..].try_into().expect("eight bytes"));
        let mut data = PerfData {
            reader,
            left: None,
            at: PIPE_HEADER,
            events: Vec::new(),
            by_id: HashMap::new(),
            features: BTreeMap::new(),
            damage: Vec::new(),
            pipe: size == PIPE_HEADER,
            unpack: None,
            unpacked: Vec::new(),
            next: 0,
            packed: Vec::new(),
            packed_next: 0,
            packed_at: 0,
        };
        match size {
            PIPE_HEADER => {}
            s if s >= FILE_HEADER => data.file_header(length)?,
            s => return Err(FileError::Header(format!("its header says that it has {s} bytes"))),
        }
        Ok(data)
    }

    fn file_header(&mut self, length: u64) -> Result<(), FileError> {
        let damaged = |why: &str| FileError::Header(why.to_owned());
        let mut head = [0; FILE_HEADER as usize - 16];
        self.reader.read_exact(&mut head).map_err(|_| damaged("it ends in its header"))?;
        let word = |i: usize| u64::from_le_bytes(head[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
        let (attr_size, attrs_at, attrs_bytes) = (word(0), word(1), word(2));
        let (data_at, data_bytes) = (word(3), word(4));
        let flags = [word(7), word(8), word(9), word(10)];
        let within = |at: u64, bytes: u64| at.checked_add(bytes).is_some_and(|end| end <= length);
        if !(LEAST_BYTES as u64 + 16..=4096).contains(&attr_size) || !within(attrs_at, attrs_bytes) {
            return Err(damaged("the list of its events is not in the file"));
        }
        let events = usize::try_from(attrs_bytes / attr_size).unwrap_or(usize::MAX);
        if events == 0 || events > MOST_EVENTS {
            return Err(damaged(&format!("it says that it has {events} events")));
        }
        let attrs = self.section(attrs_at, attr_size * events as u64)?;
        for each in attrs.chunks_exact(attr_size as usize) {
            let attr = Attr::read(each).ok_or_else(|| damaged("an event is cut off"))?;
            let mut c = Cursor::new(&each[attr_size as usize - 16..]);
            let (ids_at, ids_bytes) = (c.u64().unwrap_or(0), c.u64().unwrap_or(0));
            let ids = match within(ids_at, ids_bytes) && ids_bytes / 8 <= MOST_IDS {
                true => self.section(ids_at, ids_bytes)?,
                false => {
                    self.damage
                        .push(format!("the numbers of event {} are not in the file", self.events.len()));
                    Vec::new()
                }
            };
            self.add_event(attr, ids.chunks_exact(8));
        }
        if data_at > length {
            return Err(damaged("its records are not in the file"));
        }
        // A recorder that was killed has not written how much it wrote.
        let there = length - data_at;
        let bytes = if data_bytes == 0 || data_bytes > there { there } else { data_bytes };
        if data_bytes == 0 || data_bytes > there {
            self.damage.push(format!(
                "the file ends before its records do (it has {there} bytes of them, and its header says {data_bytes}): perf was \
                 killed, or the file was cut off"
            ));
        } else {
            self.read_features(data_at + data_bytes, length, flags);
        }
        self.reader.seek(SeekFrom::Start(data_at))?;
        (self.at, self.left) = (data_at, Some(bytes));
        Ok(())
    }

    fn section(&mut self, at: u64, bytes: u64) -> Result<Vec<u8>, FileError> {
        self.reader.seek(SeekFrom::Start(at))?;
        let mut section = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.reader.read_exact(&mut section)?;
        Ok(section)
    }

    fn read_features(&mut self, at: u64, length: u64, flags: [u64; 4]) {
        let set = (0u16..256).filter(|bit| flags[usize::from(bit / 64)] >> (bit % 64) & 1 == 1);
        let mut room = MOST_FEATURES;
        for (i, number) in set.enumerate() {
            let Ok(place) = self.section(at + 16 * i as u64, 16) else {
                self.damage.push("the table of the header's parts is cut off".into());
                return;
            };
            let mut c = Cursor::new(&place);
            let (from, bytes) = (c.u64().unwrap_or(0), c.u64().unwrap_or(0));
            if from.checked_add(bytes).is_none_or(|end| end > length) || bytes > room {
                self.damage.push(format!("part {number} of the header is not in the file"));
                continue;
            }
            room -= bytes;
            if let Ok(part) = self.section(from, bytes) {
                self.add_feature(number, part);
            }
        }
    }
}

impl<R: Read> PerfData<R> {
    fn add_event<'a>(&mut self, attr: Attr, ids: impl Iterator<Item = &'a [u8]>) {
        let number = self.events.len();
        for id in ids {
            self.by_id.insert(u64::from_le_bytes(id.try_into().expect("eight bytes")), number);
        }
        let name = attr.software_name().map_or_else(|| format!("event {number}"), str::to_owned);
        self.events.push(Event { attr, name });
    }

    fn add_feature(&mut self, number: u16, part: Vec<u8>) {
        if number == feature::EVENT_DESC && self.name_events(&part).is_none() {
            self.damage.push("the names of the events are cut off".into());
        }
        self.features.insert(number, part);
    }

    fn name_events(&mut self, part: &[u8]) -> Option<()> {
        let mut c = Cursor::new(part);
        let (n, attr_bytes) = (c.u32()?, c.u32()? as usize);
        for i in 0..n as usize {
            c.take(attr_bytes)?;
            let ids = c.u32()?;
            let name = text(&mut c)?;
            c.take((ids as usize).checked_mul(8)?)?;
            // A pipe has the events themselves as records before.
            if let Some(event) = self.events.get_mut(i).filter(|_| !name.is_empty()) {
                event.name = name;
            }
        }
        Some(())
    }

    /// The event that a record belongs to; `None` if the file does not say.
    pub fn event_of(&self, head: Head, body: &[u8]) -> Option<usize> {
        if self.events.len() == 1 {
            return Some(0);
        }
        let first = &self.events.first()?.attr;
        let word = |at: usize| -> Option<u64> {
            body.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
        };
        let id = if head.kind == kind::SAMPLE {
            word(sample_id_at(first)?)
        } else {
            word(body.len().checked_sub(trailer_id_from_end(first)?)?)
        };
        // What perf adds itself has no number, or 0.
        Some(id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0))
    }

    /// Whether all events have their number at the same place: else records cannot be told apart.
    pub fn is_told_apart(&self) -> bool {
        let place = |e: &Event| (sample_id_at(&e.attr), trailer_id_from_end(&e.attr), e.attr.sample_id_all());
        self.events.len() < 2
            || self.events.iter().all(|e| place(e).0.is_some() && place(e) == place(&self.events[0]))
    }

    /// The next record; its body is put into `body`. `None` at the end, or where nothing more can be read.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Option<Head> {
        loop {
            let head = match self.next_unpacked(body) {
                Some(head) => head,
                None if self.unpack_more() => continue,
                None => self.next_in_file(body)?,
            };
            match head.kind {
                kind::HEADER_ATTR => self.attr_record(body),
                kind::EVENT_UPDATE => self.update(body),
                kind::HEADER_FEATURE => {
                    let number = body.get(..8).map(|b| b[0] as u16 | (b[1] as u16) << 8);
                    if let (Some(number), Some(part)) = (number, body.get(8..)) {
                        self.add_feature(number, part.to_vec());
                    }
                }
                kind::COMPRESSED => self.begin_unpacking(head.at, body),
                kind::COMPRESSED2 => {
                    let mut c = Cursor::new(body);
                    let bytes = c.u64().and_then(|n| usize::try_from(n).ok());
                    match bytes.and_then(|n| c.take(n)) {
                        Some(packed) => self.begin_unpacking(head.at, packed),
                        None => self.damage.push(format!("byte {}: a compressed record is cut off", head.at)),
                    }
                }
                kind::AUXTRACE => {
                    let bytes = Cursor::new(body).u64().unwrap_or(0);
                    self.skip(bytes, head.at)?;
                }
                kind::TRACING_DATA => {
                    let bytes = Cursor::new(body).u32().unwrap_or(0);
                    self.skip(u64::from(bytes).next_multiple_of(8), head.at)?;
                }
                _ => return Some(head),
            }
        }
    }

    fn next_in_file(&mut self, body: &mut Vec<u8>) -> Option<Head> {
        if self.left == Some(0) {
            return None;
        }
        let at = self.at;
        let mut head = [0; 8];
        let got = read_up_to(&mut self.reader, &mut head);
        if got == 0 && self.left.is_none() {
            return None;
        }
        let (kind, misc, size) = taken_apart(head);
        if got < 8 || size < 8 {
            let why = if got < 8 {
                "the file ends in a record"
            } else {
                "a record says that it has less than 8 bytes"
            };
            self.damage.push(format!("byte {at}: {why}; what follows cannot be read"));
            self.left = Some(0);
            return None;
        }
        body.resize(size - 8, 0);
        if read_up_to(&mut self.reader, body) < size - 8 {
            self.damage.push(format!("byte {at}: the file ends in a record"));
            self.left = Some(0);
            return None;
        }
        self.at += size as u64;
        self.left = self.left.map(|left| left.saturating_sub(size as u64));
        Some(Head { kind, misc, at })
    }

    fn skip(&mut self, bytes: u64, at: u64) -> Option<()> {
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink()).unwrap_or(0);
        self.at = self.at.saturating_add(bytes);
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        if skipped < bytes {
            self.damage.push(format!("byte {at}: the file ends in the bytes that belong to a record"));
            self.left = Some(0);
            return None;
        }
        Some(())
    }

    fn begin_unpacking(&mut self, at: u64, packed: &[u8]) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        (self.packed_next, self.packed_at) = (0, at);
    }

    /// Takes more out of the compressed record; `false` if there is nothing more in it.
    fn unpack_more(&mut self) -> bool {
        if self.packed_next >= self.packed.len() {
            return false;
        }
        if self.unpack.is_none() {
            self.unpack = Decoder::new().ok();
        }
        let Some(decoder) = &mut self.unpack else {
            self.packed.clear();
            return false;
        };
        self.unpacked.drain(..self.next);
        self.next = 0;
        let from = self.unpacked.len();
        self.unpacked.resize(from + CHUNK, 0);
        let mut input = InBuffer::around(&self.packed[self.packed_next..]);
        let mut output = OutBuffer::around(&mut self.unpacked[from..]);
        let result = decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.truncate(from + written);
        self.packed_next += read;
        if result.is_err() || (read == 0 && written == 0) {
            self.damage.push(format!("byte {}: a compressed record cannot be unpacked", self.packed_at));
            self.packed.clear();
            self.unpacked.clear();
            return false;
        }
        true
    }

    fn next_unpacked(&mut self, body: &mut Vec<u8>) -> Option<Head> {
        let rest = &self.unpacked[self.next..];
        let head: [u8; 8] = rest.get(..8)?.try_into().ok()?;
        let (kind, misc, size) = taken_apart(head);
        if size < 8 {
            self.damage.push(format!(
                "byte {}: a compressed record has a record of less than 8 bytes; what follows in it is left out",
                self.packed_at
            ));
            self.unpacked.clear();
            self.next = 0;
            self.packed.clear();
            return None;
        }
        let whole = rest.get(8..size)?;
        body.clear();
        body.extend_from_slice(whole);
        self.next += size;
        Some(Head { kind, misc, at: self.packed_at })
    }

    fn attr_record(&mut self, body: &[u8]) {
        // The attribute has its own size in its second word.
        let bytes = body.get(4..8).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four")) as usize);
        let Some(attr) = body.get(..bytes).and_then(Attr::read).filter(|_| self.events.len() < MOST_EVENTS)
        else {
            self.damage.push("an event is cut off".into());
            return;
        };
        let ids = body[bytes..].to_vec();
        self.add_event(attr, ids.chunks_exact(8));
    }

    fn update(&mut self, body: &[u8]) {
        const NAME: u64 = 2;
        let mut c = Cursor::new(body);
        if let (Some(NAME), Some(id)) = (c.u64(), c.u64())
            && let Some(bytes) = c.take(c.left())
            && let Some(&event) = self.by_id.get(&id)
        {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            self.events[event].name = String::from_utf8_lossy(&bytes[..end]).into_owned();
        }
    }
}

fn taken_apart(head: [u8; 8]) -> (u32, u16, usize) {
    let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    (kind, u16::from_le_bytes([head[4], head[5]]), usize::from(u16::from_le_bytes([head[6], head[7]])))
}

/// Reads until `to` is full or nothing more comes; gives the bytes read.
fn read_up_to(reader: &mut impl Read, to: &mut [u8]) -> usize {
    let mut got = 0;
    while got < to.len() {
        match reader.read(&mut to[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    got
}

/// Where in the body of a sample its event's number is.
fn sample_id_at(attr: &Attr) -> Option<usize> {
    if attr.has(bits::IDENTIFIER) {
        return Some(0);
    }
    let before = [bits::IP, bits::TID, bits::TIME, bits::ADDR];
    attr.has(bits::ID).then(|| 8 * before.iter().filter(|bit| attr.has(**bit)).count())
}

/// How far before the end of another record it is.
fn trailer_id_from_end(attr: &Attr) -> Option<usize> {
    if !attr.sample_id_all() {
        return None;
    }
    if attr.has(bits::IDENTIFIER) {
        return Some(8);
    }
    let behind = [bits::STREAM_ID, bits::CPU];
    attr.has(bits::ID).then(|| 8 + 8 * behind.iter().filter(|bit| attr.has(**bit)).count())
}
