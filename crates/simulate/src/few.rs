//! The lines that one access pushes out of a cache, or writes to memory.

/// At most four lines, without an allocation.
#[derive(Debug, Default)]
pub(super) struct FewLines {
    lines: [u64; 4],
    len: usize,
}

impl FewLines {
    #[inline(always)]
    pub fn push(&mut self, line: u64) {
        self.lines[self.len] = line;
        self.len += 1;
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[u64] {
        &self.lines[..self.len]
    }
}
