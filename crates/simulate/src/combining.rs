//! Write-combining buffers: non-temporal stores on their way to memory.
//!
//! A line that is full goes out at once. A partial one goes out when its buffer
//! is needed or its line is accessed otherwise, and counts as one line too: it
//! costs the controller a burst. What the rest of it brings later is another.

#[derive(Clone, Copy, Debug)]
struct Buffer {
    line: u64,
    /// A bit per byte.
    bytes: u64,
    used: u64,
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Combined {
    /// It is the first to its line: no cache may keep that.
    pub began: bool,
    /// Lines that went to memory: a partial one for its buffer, and this one if it is full.
    pub pushed_out: Option<u64>,
    pub full: bool,
}

#[derive(Debug)]
pub(super) struct Combining {
    buffers: Vec<Buffer>,
    capacity: usize,
    now: u64,
}

impl Combining {
    pub fn new(capacity: usize) -> Combining {
        Combining { buffers: Vec::with_capacity(capacity), capacity, now: 0 }
    }

    /// `bytes` bytes from `offset` of a line; within the line.
    pub fn store(&mut self, line: u64, offset: u32, bytes: u32) -> Combined {
        self.now += 1;
        let mask = if bytes >= 64 { u64::MAX } else { ((1 << bytes) - 1) << offset };
        let mut combined = Combined::default();
        let at = match self.buffers.iter().rposition(|b| b.line == line) {
            Some(at) => at,
            None => {
                combined.began = true;
                if self.buffers.len() == self.capacity {
                    let oldest = self.buffers.iter().enumerate().min_by_key(|(_, b)| b.used);
                    let oldest = oldest.map_or(0, |(at, _)| at);
                    combined.pushed_out = Some(self.buffers.swap_remove(oldest).line);
                }
                self.buffers.push(Buffer { line, bytes: 0, used: 0 });
                self.buffers.len() - 1
            }
        };
        let buffer = &mut self.buffers[at];
        buffer.bytes |= mask;
        buffer.used = self.now;
        if buffer.bytes == u64::MAX {
            self.buffers.swap_remove(at);
            combined.full = true;
        }
        combined
    }

    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Another kind of access to the line: whether a buffer had to go.
    pub fn evict(&mut self, line: u64) -> bool {
        let at = self.buffers.iter().position(|b| b.line == line);
        at.map(|at| self.buffers.swap_remove(at)).is_some()
    }

    /// All lines still in buffers.
    pub fn drain(&mut self) -> Vec<u64> {
        self.buffers.drain(..).map(|b| b.line).collect()
    }
}
