//! `struct perf_event_attr`, as far as it is needed to read its event's samples.

/// Bits of `sample_type` (include/uapi/linux/perf_event.h, `enum perf_event_sample_format`).
pub mod bits {
    /// Instruction.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// Time.
    pub const TIME: u64 = 1 << 2;
    /// Data address.
    pub const ADDR: u64 = 1 << 3;
    /// Values of counters.
    pub const READ: u64 = 1 << 4;
    /// Call chain.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// Number of the event.
    pub const ID: u64 = 1 << 6;
    /// Cpu.
    pub const CPU: u64 = 1 << 7;
    /// Events since the last sample.
    pub const PERIOD: u64 = 1 << 8;
    /// Number of the stream.
    pub const STREAM_ID: u64 = 1 << 9;
    /// Raw bytes.
    pub const RAW: u64 = 1 << 10;
    /// Branches taken.
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// Registers of the program.
    pub const REGS_USER: u64 = 1 << 12;
    /// A piece of the program's stack.
    pub const STACK_USER: u64 = 1 << 13;
    /// Latency.
    pub const WEIGHT: u64 = 1 << 14;
    /// Where the data came from.
    pub const DATA_SRC: u64 = 1 << 15;
    /// Number of the event, first of all.
    pub const IDENTIFIER: u64 = 1 << 16;
    /// Transaction.
    pub const TRANSACTION: u64 = 1 << 17;
    /// Registers at the interrupt.
    pub const REGS_INTR: u64 = 1 << 18;
    /// Physical data address.
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// Bytes of an AUX buffer.
    pub const AUX: u64 = 1 << 20;
    /// Control group.
    pub const CGROUP: u64 = 1 << 21;
    /// Size of the data's page.
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    /// Size of the code's page.
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    /// Latency and two more numbers.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// `PERF_TYPE_SOFTWARE`.
pub const SOFTWARE: u32 = 1;

/// An event's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Kind: 0 hardware, 1 software, 2 tracepoint, 3 cache, 4 raw, 5 breakpoint; more are units of the machine.
    pub kind: u32,
    /// Which event of its kind.
    pub config: u64,
    /// Period, or frequency where `freq` is set.
    pub period: u64,
    /// What its samples carry: [`bits`].
    pub sample_type: u64,
    /// Format of counters in samples.
    pub read_format: u64,
    /// The flags' word.
    pub flags: u64,
    /// What its branches carry.
    pub branch_type: u64,
    /// Registers of the program in its samples, as bits.
    pub regs_user: u64,
    /// Registers at the interrupt, as bits.
    pub regs_intr: u64,
}

/// Position of `freq` in the flags.
const FREQ: u32 = 10;
/// Position of `sample_id_all`.
const SAMPLE_ID_ALL: u32 = 18;
/// Smallest attribute: that of the first version.
pub const LEAST_BYTES: usize = 64;

impl Attr {
    /// Reads the bytes of an attribute of any version; `None` if they are too few.
    pub fn read(bytes: &[u8]) -> Option<Attr> {
        if bytes.len() < LEAST_BYTES {
            return None;
        }
        let u64_at = |at: usize| -> u64 {
            bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
        };
        Some(Attr {
            kind: u64_at(0) as u32,
            config: u64_at(8),
            period: u64_at(16),
            sample_type: u64_at(24),
            read_format: u64_at(32),
            flags: u64_at(40),
            branch_type: u64_at(72),
            regs_user: u64_at(80),
            regs_intr: u64_at(96),
        })
    }

    /// Whether it has this bit of [`bits`].
    pub fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Samples per second and thread, where it was opened so.
    pub fn hz(&self) -> Option<u64> {
        (self.flags >> FREQ & 1 == 1).then_some(self.period)
    }

    /// Its period is a frequency.
    pub fn set_frequency(&mut self) {
        self.flags |= 1 << FREQ;
    }

    /// Whether records that are not samples carry thread, time and number, too.
    pub fn sample_id_all(&self) -> bool {
        self.flags >> SAMPLE_ID_ALL & 1 == 1
    }

    /// Its name, as perf calls it, where it is one of the kernel's software events.
    pub fn software_name(&self) -> Option<&'static str> {
        const NAMES: [&str; 11] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
        ];
        let at = usize::try_from(self.config).ok()?;
        if self.kind == SOFTWARE { NAMES.get(at).copied() } else { None }
    }
}
