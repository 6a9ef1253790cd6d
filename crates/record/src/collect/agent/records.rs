//! The agent's records: from bytes to values. Bytes come from a program's memory and
//! may be anything; what is not a record is `None`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const MAX_RECORD: usize = 65536;

/// One record of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRecord {
    /// Kernel process id.
    pub pid: u32,
    /// Which image of it: grows with every fork and exec, over all processes.
    pub generation: u64,
    /// Kernel thread id.
    pub tid: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// What happened.
    pub body: AgentBody,
}

/// What an [`AgentRecord`] tells. The order of ends and beginnings is explained in `agent/protocol.h`.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentBody {
    /// A new image begins (exec, or the first process).
    Hello {
        /// Parent process id.
        parent: u32,
        /// Path of the executable; empty if unknown.
        executable: PathBuf,
    },
    /// A copy of another process begins.
    Fork {
        /// The process it is a copy of.
        parent: u32,
        /// That process's generation.
        parent_generation: u64,
    },
    /// An exec is about to be tried; it may fail.
    Exec,
    /// The process ends; destructors may still write records.
    Exit,
    /// A thread begins.
    ThreadStart {
        /// Its stack's lowest address; 0 if unknown.
        stack_low: u64,
        /// Its stack's end; 0 if unknown.
        stack_high: u64,
    },
    /// The thread ends.
    ThreadEnd,
    /// Memory was allocated or mapped.
    Alloc(Allocation),
    /// A recorded object is about to end.
    Free {
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u64,
        /// When it ended, ns of CLOCK_MONOTONIC, where that is recorded late; else 0.
        died_ns: u64,
        /// Because realloc was called on it: an `Alloc` with this `previous` follows.
        reallocated: bool,
    },
    /// A call that changes what later faults in a range mean.
    Range {
        /// Code of `nearfar_recording`'s `RangeKind`.
        kind: u8,
        /// First byte.
        address: u64,
        /// Size.
        bytes: u64,
        /// New first byte for a move; else 0.
        to: u64,
    },
    /// The program begins a phase on this thread.
    PhaseBegin(PhaseCall),
    /// The program ends one.
    PhaseEnd(PhaseCall),
    /// Phases that were only counted.
    PhaseCount(PhaseCount),
    /// A value of the program's.
    Metric {
        /// When, ns of CLOCK_MONOTONIC.
        time_ns: u64,
        /// Its name.
        name: String,
        /// The value.
        value: f64,
    },
    /// The lines of Python that a site was called from, innermost first.
    Python {
        /// The site's key.
        site: u64,
        /// Line, file and function of each.
        frames: Vec<PythonFrame>,
    },
    /// The region of interest begins.
    RoiBegin,
    /// The region of interest ends.
    RoiEnd,
    /// The program names a range.
    Name {
        /// First byte.
        address: u64,
        /// Size.
        bytes: u64,
        /// Its name.
        name: String,
    },
    /// Where pages of an object were when it ended.
    PageNodes {
        /// The first page looked at.
        address: u64,
        /// Bytes between pages looked at.
        stride: u64,
        /// Runs of (node, pages); node −1: not present.
        runs: Vec<(i16, u32)>,
    },
    /// A sample of the signal source.
    Sample {
        /// Kernel index of the cpu.
        cpu: u32,
        /// The interrupted instruction.
        ip: u64,
        /// rax rbx rcx rdx rsi rdi rbp rsp r8..r15.
        registers: [u64; 16],
        /// CPU time of the thread since its last sample.
        weight_ns: u64,
        /// Return addresses by frame pointers, innermost first.
        chain: Vec<u64>,
    },
    /// Something was not recorded.
    Lost {
        /// How much; 0 if not countable.
        count: u64,
        /// Why.
        why: LostWhy,
    },
    /// A piece of /proc/PID/maps.
    Maps {
        /// Its text; lines may be cut at piece ends.
        text: Vec<u8>,
        /// More pieces follow.
        more: bool,
    },
    /// Allocations that were not told one by one.
    Group {
        /// Key of their call chain; 0: of sites beyond those that are counted apart.
        site: u64,
        /// How many.
        count: u64,
        /// Their bytes in all.
        bytes: u64,
    },
}

/// An allocation or mapping and its site.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Which call made it.
    pub kind: AllocationKind,
    /// Its address.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of allocations that it stands for.
    pub represents: u64,
    /// Address it was reallocated from; else 0. May equal `address`.
    pub previous: u64,
    /// realloc, mremap or munmap failed: the object at `previous` lives on.
    pub restored: bool,
    /// The agent could not note it: no `Free` will come.
    pub untracked: bool,
    /// Mapping: MAP_SHARED.
    pub shared: bool,
    /// Mapping: of a file.
    pub file: bool,
    /// Mapping: PROT_NONE.
    pub reservation: bool,
    /// Mapping: MAP_HUGETLB.
    pub huge: bool,
    /// calloc.
    pub zeroed: bool,
    /// Key of its call chain, valid in the sending process and its fork descendants.
    pub site: u64,
    /// Return address of the allocating call: the innermost frame, unless in a runtime library.
    pub ip: u64,
    /// Stack pointer after the return.
    pub sp: u64,
    /// Frame pointer of the caller.
    pub bp: u64,
    /// When it was made, ns of CLOCK_MONOTONIC, where that is recorded late; else 0.
    pub born_ns: u64,
    /// Memory from `sp` upwards; empty if this key's stack was sent before.
    pub stack: Vec<u8>,
}

/// A call that begins or ends a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCall {
    /// When, ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Return address of the call; 0 if unknown.
    pub site: u64,
    /// The thread's number of it.
    pub id: u32,
    /// Its name; of an end only where it is not in this thread.
    pub name: String,
    /// File and line as the program gave them.
    pub place: String,
    /// Of a beginning: whose word it is, a `PhaseSource`.
    pub source: u8,
    /// Of a beginning: it was begun before the fork, in the parent.
    pub inherited: bool,
    /// Of an end: how, `NF_PHASE_ENDED` and so on, in the protocol's numbers.
    pub how: u8,
}

/// Phases or values of one path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCount {
    /// Whose.
    pub tid: u32,
    /// Names, U+001F between them.
    pub path: String,
    /// Whose word it is.
    pub source: u8,
    /// Values of a metric, not phases.
    pub metric: bool,
    /// How many.
    pub calls: u64,
    /// Their time, ns.
    pub inclusive_ns: u64,
    /// Sum, least and most of the values.
    pub values: [f64; 3],
}

/// Which call made an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationKind {
    /// malloc and its relatives, of at least the recorded size.
    Heap,
    /// A sampled smaller one: no `Free` will come.
    Small,
    /// mmap.
    Mapping,
}

/// Why something was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// The ring was full.
    RingFull,
    /// A signal handler met the writer's lock.
    Busy,
    /// move_pages is not allowed.
    PageNodesRefused,
    /// Looking up nodes of pages would have cost too much time.
    PageNodesBudget,
    /// The program uses SIGPROF itself.
    SigprofTaken,
    /// A thread got no timer; the count is the error number.
    TimerRefused,
    /// The thread's alternate signal stack is too short for a handler; the count is its bytes.
    SmallSignalStack,
    /// The program shut itself in with a seccomp filter.
    Sandbox,
    /// A code of a later version.
    Other(u32),
}

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
                frames: text.split('\u{1e}').filter_map(PythonFrame::parse).collect(),
            }
        }
        _ => return None,
    };
    Some((Head { tid: head.tid, time: head.time }, body))
}

/// A line of Python.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PythonFrame {
    /// Its number.
    pub line: u32,
    /// The file, as the interpreter names it.
    pub file: String,
    /// The function; `<module>` outside of any.
    pub function: String,
}

impl PythonFrame {
    /// Of the agent's text.
    fn parse(text: &str) -> Option<PythonFrame> {
        let mut words = text.splitn(3, '\u{1f}');
        let line = words.next()?.parse().ok()?;
        Some(PythonFrame { line, file: words.next()?.to_owned(), function: words.next()?.to_owned() })
    }
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
