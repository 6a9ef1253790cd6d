//! From an agent's bytes to its records. Bytes come from a program's memory and may be anything; what is not a record
//! is `None`.

use super::records::{AgentBody, Allocation, AllocationKind, LostWhy, PhaseCall, PhaseCount, PythonFrame};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

const MAX_RECORD: usize = 65536;

/// Structures of `agent/protocol.h`.
///
/// # Safety
/// Only for `repr(C)` types of numbers without padding: any bytes are a value.
unsafe trait Plain: Copy {}

macro_rules! mirrored {
    ($($name:ident = $bytes:literal { $($field:ident: $type:ty),+ })+) => { $(
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct $name { $($field: $type),+ }
        // SAFETY: repr(C) numbers; the size assertion below leaves no room for padding.
        unsafe impl Plain for $name {}
        const _: () = assert!(size_of::<$name>() == $bytes && $bytes == 0 $(+ size_of::<$type>())+);
    )+ };
}
mirrored! {
    RawRecord = 24 { kind: u16, flags: u16, size: u32, tid: u32, cpu: u32, time: u64 }
    RawHello = 24 { pid: u32, parent: u32, parent_generation: u64, path_bytes: u32, unused: u32 }
    RawStack = 16 { low: u64, high: u64 }
    RawAlloc = 80 { address: u64, bytes: u64, represents: u64, previous: u64, site: u64, rip: u64, rsp: u64, rbp: u64, born: u64, stack_bytes: u32, unused: u32 }
    RawGroup = 24 { site: u64, count: u64, bytes: u64 }
    RawRange = 24 { address: u64, bytes: u64, to: u64 }
    RawPageNodes = 24 { address: u64, stride: u64, runs: u32, unused: u32 }
    RawRun = 8 { node: i16, unused: u16, pages: u32 }
    RawSample = 152 { ip: u64, registers: [u64; 16], weight_ns: u64, chain: u32, unused: u32 }
    RawLost = 16 { count: u64, why: u32, unused: u32 }
    RawPhase = 24 { time: u64, site: u64, id: u32, bytes: u16, place: u16 }
    RawPhaseCount = 48 { calls: u64, inclusive_ns: u64, sum: f64, least: f64, most: f64, tid: u32, bytes: u32 }
    RawPython = 16 { site: u64, bytes: u32, unused: u32 }
    RawMetric = 24 { time: u64, value: f64, bytes: u32, unused: u32 }
}

/// What every record begins with, as far as the reader needs it.
pub(super) struct Head {
    pub(super) tid: u32,
    pub(super) time: u64,
}

fn take<T: Plain>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: `head` is as long as T, read without alignment, and any bytes are a T (`Plain`).
    Some((unsafe { head.as_ptr().cast::<T>().read_unaligned() }, rest))
}

fn blob(bytes: &[u8], length: u64) -> Option<&[u8]> {
    bytes.get(..usize::try_from(length).ok()?)
}

/// The first record and what follows it; the record is `None` for padding. `None`: not a record.
#[allow(clippy::type_complexity, reason = "a name would hide the two meanings of None")]
pub(super) fn split(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let kind = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let size = u32::from_ne_bytes(bytes.get(4..8)?.try_into().ok()?) as usize;
    if size < 8 || !size.is_multiple_of(8) || size > bytes.len() || size > MAX_RECORD {
        return None;
    }
    let (record, rest) = bytes.split_at(size);
    Some(((kind != 0).then_some(record), rest))
}

/// The value of a record; `None` for kinds of a later version and for malformed ones.
pub(super) fn parse(record: &[u8]) -> Option<(Head, AgentBody)> {
    let (head, rest) = take::<RawRecord>(record)?;
    let named = || -> Option<(RawRange, &[u8])> {
        let (range, rest) = take::<RawRange>(rest)?;
        Some((range, blob(rest, range.to)?))
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let body = match head.kind {
        1 | 2 => {
            let (hello, rest) = take::<RawHello>(rest)?;
            let path = blob(rest, hello.path_bytes.into())?.to_vec();
            match head.kind {
                1 => AgentBody::Hello { parent: hello.parent, executable: OsString::from_vec(path).into() },
                _ => AgentBody::Fork { parent: hello.parent, parent_generation: hello.parent_generation },
            }
        }
        3 => AgentBody::Exec,
        4 => AgentBody::Exit,
        5 => {
            let (stack, _) = take::<RawStack>(rest)?;
            AgentBody::ThreadStart { stack_low: stack.low, stack_high: stack.high }
        }
        6 => AgentBody::ThreadEnd,
        7 => AgentBody::Alloc(allocation(head.flags, rest)?),
        8 => {
            let (range, _) = take::<RawRange>(rest)?;
            AgentBody::Free {
                address: range.address,
                bytes: range.bytes,
                died_ns: range.to,
                reallocated: head.flags & 1 != 0,
            }
        }
        9 => {
            let (range, _) = take::<RawRange>(rest)?;
            let kind = u8::try_from(head.flags).ok()?;
            AgentBody::Range { kind, address: range.address, bytes: range.bytes, to: range.to }
        }
        10 => AgentBody::PhaseBegin(phase(head.flags, rest)?),
        11 => AgentBody::PhaseEnd(phase(head.flags, rest)?),
        12 => AgentBody::RoiBegin,
        13 => AgentBody::RoiEnd,
        14 => {
            let (range, name) = named()?;
            AgentBody::Name { address: range.address, bytes: range.bytes, name: text(name) }
        }
        15 => {
            let (page_nodes, mut rest) = take::<RawPageNodes>(rest)?;
            let mut runs = Vec::new();
            for _ in 0..page_nodes.runs {
                let (run, after) = take::<RawRun>(rest)?;
                runs.push((run.node, run.pages));
                rest = after;
            }
            AgentBody::PageNodes { address: page_nodes.address, stride: page_nodes.stride, runs }
        }
        16 => {
            let (sample, rest) = take::<RawSample>(rest)?;
            let chain = blob(rest, u64::from(sample.chain) * 8)?;
            AgentBody::Sample {
                cpu: head.cpu,
                ip: sample.ip,
                registers: sample.registers,
                weight_ns: sample.weight_ns,
                chain: chain
                    .chunks_exact(8)
                    .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
                    .collect(),
            }
        }
        17 => {
            let (lost, _) = take::<RawLost>(rest)?;
            let why = match lost.why {
                1 => LostWhy::PageNodesRefused,
                2 => LostWhy::PageNodesBudget,
                3 => LostWhy::SigprofTaken,
                4 => LostWhy::TimerRefused,
                5 => LostWhy::SmallSignalStack,
                6 => LostWhy::Sandbox,
                other => LostWhy::Other(other),
            };
            AgentBody::Lost { count: lost.count, why }
        }
        18 => AgentBody::Maps { text: named()?.1.to_vec(), more: head.flags & 1 != 0 },
        19 => {
            let (group, _) = take::<RawGroup>(rest)?;
            AgentBody::Group { site: group.site, count: group.count, bytes: group.bytes }
        }
        20 => {
            let (raw, rest) = take::<RawPhaseCount>(rest)?;
            let path = text(blob(rest, raw.bytes.into())?);
            let metric = head.flags & 0x20 != 0;
            let (source, values) = ((head.flags & 15) as u8, [raw.sum, raw.least, raw.most]);
            let (calls, inclusive_ns) = (raw.calls, raw.inclusive_ns);
            AgentBody::PhaseCount(PhaseCount {
                tid: raw.tid,
                path,
                source,
                metric,
                calls,
                inclusive_ns,
                values,
            })
        }
        21 => {
            let (raw, rest) = take::<RawMetric>(rest)?;
            let name = text(blob(rest, raw.bytes.into())?);
            AgentBody::Metric { time_ns: raw.time, name, value: raw.value }
        }
        22 => {
            let (raw, rest) = take::<RawPython>(rest)?;
            let text = text(blob(rest, raw.bytes.into())?);
            AgentBody::Python {
                site: raw.site,
                frames: text.split('\u{1e}').filter_map(python_frame).collect(),
            }
        }
        _ => return None,
    };
    Some((Head { tid: head.tid, time: head.time }, body))
}

/// A line of Python of the agent's text.
fn python_frame(text: &str) -> Option<PythonFrame> {
    let mut words = text.splitn(3, '\u{1f}');
    let line = words.next()?.parse().ok()?;
    Some(PythonFrame { line, file: words.next()?.to_owned(), function: words.next()?.to_owned() })
}

fn phase(flags: u16, bytes: &[u8]) -> Option<PhaseCall> {
    let (raw, rest) = take::<RawPhase>(bytes)?;
    let name = blob(rest, raw.bytes.into())?;
    let place = blob(&rest[name.len()..], raw.place.into())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(PhaseCall {
        time_ns: raw.time,
        site: raw.site,
        id: raw.id,
        name: text(name),
        place: text(place),
        source: (flags & 15) as u8,
        inherited: flags & 0x10 != 0,
        how: (flags >> 8) as u8,
    })
}

fn allocation(flags: u16, bytes: &[u8]) -> Option<Allocation> {
    let (raw, rest) = take::<RawAlloc>(bytes)?;
    let kind = match flags & 15 {
        1 => AllocationKind::Heap,
        2 => AllocationKind::Small,
        3 => AllocationKind::Mapping,
        _ => return None,
    };
    let flag = |bit: u16| flags & bit != 0;
    Some(Allocation {
        kind,
        address: raw.address,
        bytes: raw.bytes,
        represents: raw.represents,
        previous: raw.previous,
        restored: flag(0x10),
        untracked: flag(0x20),
        shared: flag(0x40),
        file: flag(0x80),
        reservation: flag(0x100),
        huge: flag(0x200),
        zeroed: flag(0x400),
        site: raw.site,
        ip: raw.rip,
        sp: raw.rsp,
        bp: raw.rbp,
        born_ns: raw.born,
        stack: blob(rest, raw.stack_bytes.into())?.to_vec(),
    })
}
