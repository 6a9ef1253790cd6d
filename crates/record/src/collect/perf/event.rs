//! perf records as values.

use nearfar_host::proc::FileId;
use nearfar_perf::attr::Attr;
use nearfar_perf::features::Blocks;
use nearfar_perf::sample::{self, Sample};
use nearfar_perf::{DataSource, Vendor, served};
use nearfar_recording::UNCOUNTED;
use perf_event_open_sys::bindings::*;
use std::collections::HashMap;

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A clock sample.
    Clock,
    /// A fault, without registers.
    Fault,
    /// A fault with registers and stack, to find its call chain.
    FaultChain,
    /// A sampled access of memory.
    Memory,
}

/// Which of a cpu's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingClass {
    /// Samples, faults, mappings, threads: what is lost here is missing.
    Complete = 0,
    /// Call chains of some faults.
    Chains = 1,
}

/// What is needed to read a sample of an event.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What the event is for.
    pub kind: Kind,
    /// Its PERF_SAMPLE_ bits.
    pub sample_type: u64,
    /// How many registers it carries.
    pub registers: usize,
    /// Whether the time that it was enabled is the CPU time of its thread.
    pub of_thread: bool,
}

/// Layouts of all events, by the kernel's event id.
///
/// A page fault can concern several events at once. Linux then fills one set of
/// sample data for all of them and keeps the id of the first (seen with 6.18:
/// `perf_prepare_sample` skips what is filled already), so for faults the id may
/// be another event's and the ring decides.
#[derive(Debug, Default)]
pub struct Layouts {
    by_id: HashMap<u64, Layout>,
    fault: Option<Layout>,
    chain: Option<Layout>,
    /// Whose processor it is, and which node has which physical memory.
    pub memory: Option<(Vendor, Blocks)>,
}

impl Layouts {
    /// Adds an event.
    pub fn insert(&mut self, id: u64, layout: Layout) {
        match layout.kind {
            Kind::Clock | Kind::Memory => {}
            Kind::Fault => self.fault = Some(layout),
            Kind::FaultChain => self.chain = Some(layout),
        }
        self.by_id.insert(id, layout);
    }

    fn of(&self, id: u64, class: RingClass) -> Option<Layout> {
        let layout = self.by_id.get(&id)?;
        match (layout.kind, class) {
            (Kind::Clock | Kind::Memory, _) => Some(*layout),
            (_, RingClass::Complete) => self.fault,
            (_, RingClass::Chains) => self.chain,
        }
    }
}

/// User registers of a sample in the order of the kernel's register mask.
pub type UserRegisters = Vec<u64>;

/// A record, with the time that orders it.
#[derive(Clone, Debug)]
pub struct Event {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Kernel process id.
    pub pid: u32,
    /// Kernel thread id.
    pub tid: u32,
    /// The cpu whose ring it came from.
    pub cpu: u32,
    /// The rest.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum Body {
    /// A clock sample.
    Clock {
        /// Interrupted instruction.
        ip: u64,
        /// CPU time that the thread has used since its events were opened, ns; [`UNCOUNTED`] if unknown.
        cpu_ns: u64,
        /// Registers; empty if the kernel had none to give.
        registers: UserRegisters,
        /// Frame-pointer chain, `ip` first; empty if not asked for.
        chain: Vec<u64>,
        /// Copy of the stack from the stack pointer on; empty if not asked for.
        stack: Vec<u8>,
    },
    /// A page fault.
    Fault {
        /// Faulting instruction.
        ip: u64,
        /// Faulting data address.
        address: u64,
        /// Size of the page mapped, bytes; 0 if unknown.
        page_bytes: u64,
    },
    /// A page fault, seen with its stack (it is also among the plain ones).
    FaultChain {
        /// Faulting instruction.
        ip: u64,
        /// Faulting data address.
        address: u64,
        /// Registers.
        registers: UserRegisters,
        /// Copy of the stack.
        stack: Vec<u8>,
    },
    /// A sampled access, with where its data came from.
    Memory(MemoryAccess),
    /// A mapping.
    Mmap {
        /// First byte.
        start: u64,
        /// Length in bytes.
        bytes: u64,
        /// File offset.
        offset: u64,
        /// PROT_ bits.
        protection: u32,
        /// MAP_ bits.
        flags: u32,
        /// Of the file; zeros if it has none.
        file: FileId,
        /// As in /proc/PID/maps.
        name: String,
    },
    /// A new name; `exec`: of a new program image.
    Comm {
        /// The name.
        name: String,
        /// Whether it comes from exec.
        exec: bool,
    },
    /// A new thread or process; the event's pid and tid are the new one's.
    Fork {
        /// The creator's process.
        parent_pid: u32,
    },
    /// A thread's end.
    Exit,
    /// Records that did not fit the ring.
    Lost {
        /// How many.
        count: u64,
    },
    /// Call chains of faults that did not fit their ring; the faults themselves are not lost.
    LostChains {
        /// How many.
        count: u64,
    },
    /// The kernel held events back for taking too much time.
    Throttled,
}

/// A sampled access of the processor's own (PEBS, IBS, SPE), live or imported.
#[derive(Clone, Debug, Default)]
pub struct MemoryAccess {
    /// The instruction that accessed memory.
    pub ip: u64,
    /// Data address; 0 if unknown.
    pub address: u64,
    /// Call chain, `ip` first; empty if not asked for.
    pub chain: Vec<u64>,
    /// `PERF_SAMPLE_DATA_SRC`.
    pub data_src: u64,
    /// Where the data came from, by the processor's vendor.
    pub served: u8,
    /// What it did: a code of [`nearfar_recording::Access`].
    pub access: u8,
    /// Cycles until the data was there; 0 if unknown.
    pub latency_cycles: u32,
    /// Events that it stands for.
    pub period: u32,
    /// Node of the physical address; −1 if unknown.
    pub page_node: i16,
}

/// Reads 8-byte words and parts of records; every read is checked.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(head)
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }
    /// NUL-terminated, padded to 8 bytes; what follows is the sample id.
    fn text(&mut self, trailer: usize) -> Option<String> {
        let length = self.bytes.len().checked_sub(trailer)?;
        let text = self.take(length)?;
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

/// Bytes of the id behind records that are not samples: pid+tid, time, identifier
/// (sample_id_all with TID | TIME | IDENTIFIER).
const TRAILER: usize = 24;

/// Turns the bytes of a record into an event; `None` for kinds that are of no use here.
pub fn parse(record: &[u8], cpu: u32, class: RingClass, layouts: &Layouts) -> Option<Event> {
    let kind = u32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?) as u32;
    let mut body = Cursor { bytes: &record[8..] };
    if kind == PERF_RECORD_SAMPLE {
        return parse_sample(&mut body, cpu, class, layouts);
    }
    let trailer_at = record.len().checked_sub(TRAILER)?;
    let mut trailer = Cursor { bytes: record.get(trailer_at..)? };
    let (pid, tid, time_ns) = (trailer.u32()?, trailer.u32()?, trailer.u64()?);
    let mut event = Event { time_ns, pid, tid, cpu, body: Body::Exit };
    event.body = match kind {
        PERF_RECORD_MMAP2 => {
            event.pid = body.u32()?;
            event.tid = body.u32()?;
            let (start, bytes, offset) = (body.u64()?, body.u64()?, body.u64()?);
            let (major, minor, inode, _generation) = (body.u32()?, body.u32()?, body.u64()?, body.u64()?);
            let file = FileId { device: libc::makedev(major, minor), inode };
            let (protection, flags) = (body.u32()?, body.u32()?);
            Body::Mmap { start, bytes, offset, protection, flags, file, name: body.text(TRAILER)? }
        }
        PERF_RECORD_COMM => {
            event.pid = body.u32()?;
            event.tid = body.u32()?;
            Body::Comm { name: body.text(TRAILER)?, exec: misc & PERF_RECORD_MISC_COMM_EXEC != 0 }
        }
        PERF_RECORD_FORK | PERF_RECORD_EXIT => {
            event.pid = body.u32()?;
            let parent_pid = body.u32()?;
            event.tid = body.u32()?;
            body.u32()?; // the creating thread
            event.time_ns = body.u64()?;
            if kind == PERF_RECORD_FORK { Body::Fork { parent_pid } } else { Body::Exit }
        }
        PERF_RECORD_LOST => {
            body.u64()?; // event id
            lost(body.u64()?, class)
        }
        PERF_RECORD_LOST_SAMPLES => lost(body.u64()?, class),
        PERF_RECORD_THROTTLE => Body::Throttled,
        _ => return None,
    };
    Some(event)
}

fn lost(count: u64, class: RingClass) -> Body {
    match class {
        RingClass::Complete => Body::Lost { count },
        RingClass::Chains => Body::LostChains { count },
    }
}

/// Reads a sample. The order of its parts is that of `struct perf_event_header`'s
/// documentation in linux/perf_event.h.
fn parse_sample(body: &mut Cursor<'_>, cpu: u32, class: RingClass, layouts: &Layouts) -> Option<Event> {
    let whole = body.bytes;
    let layout = layouts.of(body.u64()?, class)?;
    if layout.kind == Kind::Memory {
        return memory_sample(whole, cpu, layout.sample_type, layouts);
    }
    let has = |bit: perf_event_sample_format| layout.sample_type & bit as u64 != 0;
    let ip = body.u64()?;
    let (pid, tid) = (body.u32()?, body.u32()?);
    let time_ns = body.u64()?;
    let address = if has(PERF_SAMPLE_ADDR) { body.u64()? } else { 0 };
    // The event's value, and the time that it was enabled: while its thread ran, on whatever cpu.
    let cpu_ns = match has(PERF_SAMPLE_READ) {
        true => {
            body.u64()?;
            Some(body.u64()?).filter(|_| layout.of_thread).unwrap_or(UNCOUNTED)
        }
        false => UNCOUNTED,
    };
    let mut chain = Vec::new();
    if has(PERF_SAMPLE_CALLCHAIN) {
        for _ in 0..body.u64()? {
            let frame = body.u64()?;
            // Values at the top of the range are context marks (PERF_CONTEXT_USER, …).
            if frame < (-4095i64) as u64 {
                chain.push(frame);
            }
        }
    }
    let mut registers = Vec::new();
    if has(PERF_SAMPLE_REGS_USER) && body.u64()? != PERF_SAMPLE_REGS_ABI_NONE as u64 {
        for _ in 0..layout.registers {
            registers.push(body.u64()?);
        }
    }
    let mut stack = Vec::new();
    if has(PERF_SAMPLE_STACK_USER) {
        let size = body.u64()? as usize;
        if size > 0 {
            let copy = body.take(size)?;
            let filled = body.u64()? as usize;
            stack = copy[..filled.min(size)].to_vec();
        }
    }
    let page_bytes = if has(PERF_SAMPLE_DATA_PAGE_SIZE) { body.u64()? } else { 0 };
    let body = match layout.kind {
        Kind::Clock => Body::Clock { ip, cpu_ns, registers, chain, stack },
        Kind::Fault => Body::Fault { ip, address, page_bytes },
        Kind::FaultChain => Body::FaultChain { ip, address, registers, stack },
        Kind::Memory => return None,
    };
    Some(Event { time_ns, pid, tid, cpu, body })
}

/// Reads a sampled access, as an imported one is read. `None` for what is none: AMD samples instructions of all kinds.
fn memory_sample(body: &[u8], cpu: u32, sample_type: u64, layouts: &Layouts) -> Option<Event> {
    let (vendor, blocks) = layouts.memory.as_ref()?;
    let sample = sample::read(body, &Attr { sample_type, ..Attr::default() })?;
    let (time_ns, pid, tid) = (sample.time_ns?, sample.pid, sample.tid);
    let access = MemoryAccess::of(&sample, *vendor, Some(blocks), 1)?;
    Some(Event { time_ns, pid, tid, cpu, body: Body::Memory(access) })
}

impl MemoryAccess {
    /// A sample of a processor of `vendor`; one without a period stands for `period` events. `None` if it is no access.
    pub fn of(s: &Sample, vendor: Vendor, blocks: Option<&Blocks>, period: u64) -> Option<MemoryAccess> {
        let data_src = s.data_src?;
        let source = DataSource::from_bits(data_src);
        if !source.is_access() {
            return None;
        }
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let node = s.physical.and_then(|at| blocks?.node_of(at)).and_then(|n| i16::try_from(n).ok());
        Some(MemoryAccess {
            ip: s.ip,
            address: s.address.unwrap_or(0),
            chain: s.chain.iter().copied().filter(|frame| frame >> 63 == 0).collect(),
            data_src,
            served: served(data_src, vendor) as u8,
            access: source.access() as u8,
            latency_cycles: number(s.latency.unwrap_or(0)),
            period: number(s.period.unwrap_or(period).max(1)),
            page_node: node.unwrap_or(-1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::perf::memory::memory_sample_type;
    use nearfar_perf::data_source::{DataSource, lvl, num, op};
    use nearfar_recording::Served;

    /// The bytes that a kernel writes for a sampled load.
    fn record(id: u64, data_src: u64, physical: u64) -> Vec<u8> {
        let mut body: Vec<u64> = vec![id, 0x401000, 7 | 8 << 32, 1234, 0x7f00_0000_1000, 1000];
        body.extend([2, (-512i64) as u64, 0x401000]); // call chain
        body.push(300 | 11 << 32); // latency and the second weight
        body.push(data_src);
        body.push(physical);
        let mut record = Vec::new();
        record.extend_from_slice(&PERF_RECORD_SAMPLE.to_ne_bytes());
        record.extend_from_slice(&2u16.to_ne_bytes());
        record.extend_from_slice(&(8 + body.len() as u16 * 8).to_ne_bytes());
        body.iter().for_each(|word| record.extend_from_slice(&word.to_ne_bytes()));
        record
    }

    #[test]
    fn a_sampled_load_of_the_ring_has_source_latency_and_node() {
        let blocks = Blocks { block_bytes: 1 << 27, nodes: vec![(0, vec![1]), (1, vec![2])] };
        let far = DataSource {
            op: op::LOAD,
            lvl: lvl::HIT | lvl::REM_CCE1,
            lvl_num: num::ANY_CACHE,
            remote: 1,
            hops: 1,
            ..Default::default()
        };
        for (vendor, expected) in [(Vendor::Amd, Served::OtherCore), (Vendor::Intel, Served::OtherCore)] {
            let mut layouts = Layouts { memory: Some((vendor, blocks.clone())), ..Layouts::default() };
            let layout = Layout {
                kind: Kind::Memory,
                sample_type: memory_sample_type(true, true),
                registers: 0,
                of_thread: false,
            };
            layouts.insert(42, layout);
            let parsed = |source| parse(&record(42, source, (1 << 27) + 5), 3, RingClass::Complete, &layouts);
            let event = parsed(far.bits()).unwrap();
            assert_eq!((event.pid, event.tid, event.time_ns, event.cpu), (7, 8, 1234, 3));
            let Body::Memory(access) = event.body else { panic!("{:?}", event.body) };
            assert_eq!((access.served, access.latency_cycles, access.period), (expected as u8, 300, 1000));
            assert_eq!((access.ip, access.address, access.page_node), (0x401000, 0x7f00_0000_1000, 1));
            assert_eq!(access.chain, [0x401000]);
            let store = DataSource { op: op::STORE, hops: 2, ..far };
            let Body::Memory(stored) = parsed(store.bits()).unwrap().body else { panic!() };
            let known = if vendor == Vendor::Amd { Served::Unknown } else { Served::OtherNodesCache };
            assert_eq!(
                (stored.served, stored.page_node),
                (known as u8, 1),
                "{vendor:?}: the page's node stays"
            );
            // No access: an instruction that IBS sampled, and a software event.
            assert!(parsed(DataSource { op: op::NA, ..far }.bits()).is_none() && parsed(0).is_none());
            let whole = record(42, far.bits(), 0);
            (8..whole.len())
                .for_each(|n| assert!(parse(&whole[..n], 3, RingClass::Complete, &layouts).is_none()));
        }
    }
}
