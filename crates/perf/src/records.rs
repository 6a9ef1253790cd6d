//! Records that are not samples: mappings, names, threads, losses; with the time that stands behind them.

use super::attr::{Attr, bits};
use super::sample::Cursor;

/// Kinds of records that the kernel writes, and those that perf adds (from 64 on).
pub mod kind {
    /// A mapping.
    pub const MMAP: u32 = 1;
    /// Records that were lost.
    pub const LOST: u32 = 2;
    /// A thread's name.
    pub const COMM: u32 = 3;
    /// A thread's end.
    pub const EXIT: u32 = 4;
    /// The kernel held events back.
    pub const THROTTLE: u32 = 5;
    /// A new thread or process.
    pub const FORK: u32 = 7;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A mapping with its file's number or build id.
    pub const MMAP2: u32 = 10;
    /// Samples that were lost.
    pub const LOST_SAMPLES: u32 = 13;
    /// An event's attribute (pipe).
    pub const HEADER_ATTR: u32 = 64;
    /// Descriptions of tracepoints (pipe); their bytes follow.
    pub const TRACING_DATA: u32 = 66;
    /// Everything before the round before is in the file.
    pub const FINISHED_ROUND: u32 = 68;
    /// Bytes of an AUX buffer; they follow.
    pub const AUXTRACE: u32 = 71;
    /// A property of an event, such as its name.
    pub const EVENT_UPDATE: u32 = 78;
    /// A part of the header (pipe).
    pub const HEADER_FEATURE: u32 = 80;
    /// Compressed records.
    pub const COMPRESSED: u32 = 81;
    /// The same with their size.
    pub const COMPRESSED2: u32 = 83;
}

/// Bit of `misc`: the mapping has a build id instead of its file's number.
const MISC_BUILD_ID: u16 = 1 << 14;
/// Bit of `misc`: the name comes from exec.
const MISC_EXEC: u16 = 1 << 13;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A mapping.
    Mmap(Mapped),
    /// A name.
    Comm {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Name.
        name: String,
        /// From exec.
        exec: bool,
    },
    /// A new thread or process.
    Fork {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The process that made it.
        parent: u32,
    },
    /// A thread's end.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// Records that were lost.
    Lost(u64),
    /// The kernel held events back.
    Throttled,
}

/// A mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Process; `u32::MAX` for the kernel.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// File offset.
    pub offset: u64,
    /// Device of the file, as (major, minor); zeros if unknown.
    pub device: (u32, u32),
    /// Number of the file there.
    pub inode: u64,
    /// Build id; empty if unknown.
    pub build_id: Vec<u8>,
    /// PROT_ bits; 4 (code) in records that do not say.
    pub protection: u32,
    /// MAP_ bits.
    pub flags: u32,
    /// Name.
    pub name: String,
}

impl Mapped {
    /// What is wrong with a mapping whose last address or last byte of the file is beyond 2^64: no kernel makes one.
    pub fn impossible(&self) -> Option<String> {
        let Mapped { start, bytes, offset, .. } = *self;
        if start.checked_add(bytes).is_none() {
            return Some(format!("a mapping of {bytes:#x} bytes at {start:#x} ends beyond 2^64"));
        }
        let beyond =
            || format!("a mapping of {bytes:#x} bytes of a file from {offset:#x} on ends beyond 2^64");
        offset.checked_add(bytes).is_none().then(beyond)
    }
}

/// Bytes behind a record that is not a sample.
fn trailer_bytes(attr: &Attr) -> usize {
    if !attr.sample_id_all() {
        return 0;
    }
    let each = [bits::TID, bits::TIME, bits::ID, bits::STREAM_ID, bits::CPU, bits::IDENTIFIER];
    8 * each.iter().filter(|bit| attr.has(**bit)).count()
}

/// Where in that the time is, from its begin.
fn trailer_time(attr: &Attr) -> Option<usize> {
    (attr.sample_id_all() && attr.has(bits::TIME)).then(|| if attr.has(bits::TID) { 8 } else { 0 })
}

/// Reads a record of an event, and its time; `None` for kinds that are of no use, and for what is cut off.
pub fn read(kind_of: u32, misc: u16, body: &[u8], attr: &Attr) -> Option<(Option<u64>, Record)> {
    let trailer = body.len().checked_sub(trailer_bytes(attr))?;
    let (own, behind) = body.split_at(trailer);
    let mut time = trailer_time(attr)
        .and_then(|at| behind.get(at..at + 8))
        .and_then(|b| b.try_into().ok())
        .map(u64::from_le_bytes);
    let mut c = Cursor::new(own);
    let text = |c: &mut Cursor<'_>| -> Option<String> {
        let bytes = c.take(c.left())?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let record = match kind_of {
        kind::MMAP | kind::MMAP2 => {
            let (pid, tid) = (c.u32()?, c.u32()?);
            let (start, bytes, offset) = (c.u64()?, c.u64()?, c.u64()?);
            let mut m = Mapped { pid, tid, start, bytes, offset, protection: 4, ..Mapped::default() };
            if kind_of == kind::MMAP2 {
                let id = c.take(24)?;
                if misc & MISC_BUILD_ID != 0 {
                    m.build_id = id[4..].get(..usize::from(id[0]))?.to_vec();
                } else {
                    let mut id = Cursor::new(id);
                    m.device = (id.u32()?, id.u32()?);
                    m.inode = id.u64()?;
                }
                (m.protection, m.flags) = (c.u32()?, c.u32()?);
            }
            m.name = text(&mut c)?;
            Record::Mmap(m)
        }
        kind::COMM => {
            let (pid, tid) = (c.u32()?, c.u32()?);
            Record::Comm { pid, tid, name: text(&mut c)?, exec: misc & MISC_EXEC != 0 }
        }
        kind::FORK | kind::EXIT => {
            let (pid, parent, tid) = (c.u32()?, c.u32()?, c.u32()?);
            c.u32()?;
            time = Some(c.u64()?);
            match kind_of {
                kind::FORK => Record::Fork { pid, tid, parent },
                _ => Record::Exit { pid, tid },
            }
        }
        kind::LOST => {
            c.u64()?;
            Record::Lost(c.u64()?)
        }
        kind::LOST_SAMPLES => Record::Lost(c.u64()?),
        kind::THROTTLE => Record::Throttled,
        _ => return None,
    };
    Some((time, record))
}
