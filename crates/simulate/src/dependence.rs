//! Which lines had to wait for the one before.
//!
//! Addresses alone do not show that an address was computed from the value loaded
//! before it. Two rules, each of which can be too low but seldom too high:
//!
//! 1. **Chains.** Where the code itself shows that a load's address comes from
//!    what the same instruction loaded before ([`super::Access::chain`]), its lines
//!    wait. Of several chains within one reorder window, only one counts: the others overlap with it.
//! 2. **Lone lines.** A demanded line that continues no stream, lies next to no
//!    recently missed line, and has no other demanded line within a reorder window
//!    of instructions before and after it, has nothing to overlap with.
//!
//! What they miss: a tight chase in code that was not looked at (rule 2 takes it
//! for independent accesses, since an array indexed by random numbers looks the
//! same), and chains through several instructions or through registers that are
//! saved in memory.

/// Instructions that a core looks ahead: the reorder buffer of Skylake (224);
/// Broadwell has 192, Zen 3 256, Golden Cove 512.
const WINDOW: u64 = 224;
/// Missed lines remembered, and how near to one of them a line belongs to it.
const RECENT: usize = 16;
const NEAR: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Lone {
    instruction: u64,
    latency: f64,
}

/// Judges the lines that a cpu demands from memory.
#[derive(Debug)]
pub(super) struct Dependence {
    recent: [u64; RECENT],
    next: usize,
    last: Option<u64>,
    /// Chain that counts, and when it missed last.
    leader: (u32, u64),
    /// A line that had nothing before it, and may get something after it.
    lone: Option<Lone>,
    lines: u64,
    /// Latency of lone lines, ns.
    lone_ns: f64,
}

impl Dependence {
    pub fn new() -> Dependence {
        Dependence {
            recent: [u64::MAX - NEAR; RECENT],
            next: 0,
            last: None,
            leader: (0, 0),
            lone: None,
            lines: 0,
            lone_ns: 0.0,
        }
    }

    /// A demanded line comes from memory. Whether rule 1 says that it waited.
    pub fn line(&mut self, line: u64, load: bool, streams: bool, chain: u32, now: u64, latency: f64) -> bool {
        (self.lines, self.lone_ns) = self.settled(now);
        let alone = self.last.is_none_or(|last| now - last > WINDOW);
        self.last = Some(now);
        self.lone = None;
        if chain != 0 && load {
            let (id, at) = self.leader;
            let leads = id == chain || id == 0 || now - at > WINDOW;
            if leads {
                self.leader = (chain, now);
                self.lines += 1;
            }
            return leads;
        }
        if load && alone && !streams && !self.recent.iter().any(|r| r.abs_diff(line) <= NEAR) {
            self.lone = Some(Lone { instruction: now, latency });
        }
        self.recent[self.next % RECENT] = line;
        self.next += 1;
        false
    }

    /// Lines that waited, and the latency of the lone ones among them, at instruction `now`.
    pub fn settled(&self, now: u64) -> (u64, f64) {
        match self.lone {
            Some(lone) if now - lone.instruction > WINDOW => (self.lines + 1, self.lone_ns + lone.latency),
            _ => (self.lines, self.lone_ns),
        }
    }
}
