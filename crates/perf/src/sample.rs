//! The bytes of a sample (`PERF_RECORD_SAMPLE`) as a value.
//!
//! The order of the parts is that of the comment on `PERF_RECORD_SAMPLE` in linux/perf_event.h. Every
//! read is checked: what is cut off anywhere is not a sample.

use super::attr::{Attr, bits};

/// A sample. What its event does not carry is `None`, 0 or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Instruction.
    pub ip: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Time, ns of the clock that the event uses; `None` without one.
    pub time_ns: Option<u64>,
    /// Data address.
    pub address: Option<u64>,
    /// Number of the event.
    pub id: Option<u64>,
    /// Cpu.
    pub cpu: Option<u32>,
    /// Events that it stands for.
    pub period: Option<u64>,
    /// Call chain with the context marks taken out, `ip` first.
    pub chain: Vec<u64>,
    /// Registers of the program, in the order of the event's mask; empty if the kernel had none.
    pub registers: Vec<u64>,
    /// A piece of the program's stack.
    pub stack: Vec<u8>,
    /// Latency, cycles (`WEIGHT`, or the first number of `WEIGHT_STRUCT`).
    pub latency: Option<u64>,
    /// The second and the third number of `WEIGHT_STRUCT`.
    pub weights: Option<(u16, u16)>,
    /// `DATA_SRC`.
    pub data_src: Option<u64>,
    /// Physical data address.
    pub physical: Option<u64>,
    /// Size of the data's page, bytes.
    pub page_bytes: Option<u64>,
}

/// Reads words of a record; every read is checked.
pub struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(n)?;
        self.bytes = rest;
        Some(head)
    }
    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    /// Bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }
    /// `n` words, if there are so many.
    fn words(&mut self, n: u64) -> Option<Vec<u64>> {
        let n = usize::try_from(n).ok().filter(|n| *n <= self.left() / 8)?;
        (0..n).map(|_| self.u64()).collect()
    }
}

/// Values from here on in a call chain mark the context that follows (`PERF_CONTEXT_MAX`).
const CONTEXT: u64 = (-4095i64) as u64;
/// `PERF_SAMPLE_BRANCH_HW_INDEX` and `PERF_SAMPLE_BRANCH_COUNTERS`.
const BRANCH_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

/// Reads the body of a sample (what follows its header) of an event; `None` if it is cut off.
pub fn read(body: &[u8], attr: &Attr) -> Option<Sample> {
    let mut c = Cursor::new(body);
    let mut s = Sample::default();
    let has = |bit| attr.has(bit);
    if has(bits::IDENTIFIER) {
        s.id = Some(c.u64()?);
    }
    if has(bits::IP) {
        s.ip = c.u64()?;
    }
    if has(bits::TID) {
        (s.pid, s.tid) = (c.u32()?, c.u32()?);
    }
    if has(bits::TIME) {
        s.time_ns = Some(c.u64()?);
    }
    if has(bits::ADDR) {
        s.address = Some(c.u64()?);
    }
    if has(bits::ID) {
        s.id = Some(c.u64()?);
    }
    if has(bits::STREAM_ID) {
        c.u64()?;
    }
    if has(bits::CPU) {
        s.cpu = Some(c.u32()?);
        c.u32()?;
    }
    if has(bits::PERIOD) {
        s.period = Some(c.u64()?);
    }
    if has(bits::READ) {
        skip_counters(&mut c, attr.read_format)?;
    }
    if has(bits::CALLCHAIN) {
        let n = c.u64()?;
        s.chain = c.words(n)?;
        s.chain.retain(|&frame| frame < CONTEXT);
    }
    if has(bits::RAW) {
        let size = c.u32()? as usize;
        c.take(size)?;
    }
    if has(bits::BRANCH_STACK) {
        let n = c.u64()?;
        if attr.branch_type & BRANCH_INDEX != 0 {
            c.u64()?;
        }
        let words = if attr.branch_type & BRANCH_COUNTERS != 0 { 4 } else { 3 };
        c.words(n.checked_mul(words)?)?;
    }
    if has(bits::REGS_USER) && c.u64()? != 0 {
        s.registers = c.words(u64::from(attr.regs_user.count_ones()))?;
    }
    if has(bits::STACK_USER) {
        let size = usize::try_from(c.u64()?).ok()?;
        if size > 0 {
            let copy = c.take(size)?;
            let filled = usize::try_from(c.u64()?).ok()?.min(size);
            s.stack = copy[..filled].to_vec();
        }
    }
    if has(bits::WEIGHT) {
        s.latency = Some(c.u64()?);
    } else if has(bits::WEIGHT_STRUCT) {
        let word = c.u64()?;
        s.latency = Some(word & 0xffff_ffff);
        s.weights = Some(((word >> 32) as u16, (word >> 48) as u16));
    }
    if has(bits::DATA_SRC) {
        s.data_src = Some(c.u64()?);
    }
    if has(bits::TRANSACTION) {
        c.u64()?;
    }
    if has(bits::REGS_INTR) && c.u64()? != 0 {
        c.words(u64::from(attr.regs_intr.count_ones()))?;
    }
    if has(bits::PHYS_ADDR) {
        s.physical = Some(c.u64()?);
    }
    if has(bits::CGROUP) {
        c.u64()?;
    }
    if has(bits::DATA_PAGE_SIZE) {
        s.page_bytes = Some(c.u64()?);
    }
    Some(s)
}

/// Bits of `read_format`.
const TIME_ENABLED: u64 = 1;
const TIME_RUNNING: u64 = 2;
const FORMAT_ID: u64 = 4;
const GROUP: u64 = 8;
const FORMAT_LOST: u64 = 16;

fn skip_counters(c: &mut Cursor<'_>, format: u64) -> Option<()> {
    let has = |bit: u64| u64::from(format & bit != 0);
    let each = 1 + has(FORMAT_ID) + has(FORMAT_LOST);
    let times = has(TIME_ENABLED) + has(TIME_RUNNING);
    let words = match format & GROUP != 0 {
        true => c.u64()?.checked_mul(each)?.checked_add(times)?,
        false => each + times,
    };
    c.words(words).map(drop)
}
