//! Memory that several processes share.

use super::Spaces;
use crate::hash::hash_of;
use crate::input::Input;
use nearfar_machine::LINE_BYTES;

/// Bit of `flags` in the mappings table: MAP_SHARED.
const SHARED: u8 = 8;
/// What the kernel calls shared memory that has no name of its own, so that two pieces of it may have the same one.
const NAMELESS: [&str; 2] = ["/dev/zero", "/SYSV"];

impl Spaces {
    /// A cache line, the same one in all processes that share it: what stands for its address space, and its number there. A shared
    /// file's is known by its name and place in the file; memory without a name is that of the first process that mapped it.
    pub fn line(&self, input: &Input, space: u32, address: u64, time: u64) -> (u32, u64) {
        let own = (space, address / LINE_BYTES);
        if self.spaces.len() < 2 {
            return own;
        }
        let m = &input.mappings;
        let shared = |space: u32, time: u64| {
            self.mapping_row(space, address, time).filter(|&row| m.flags[row] & SHARED != 0)
        };
        let Some(row) = shared(space, time) else { return own };
        let name = m.name[row].trim_end_matches(" (deleted)");
        if name.starts_with('/') && !NAMELESS.iter().any(|nameless| name.starts_with(nameless)) {
            // Above what numbers of address spaces get to.
            let file = hash_of(name) as u32 | 1 << 31;
            return (file, (address - m.start[row]).saturating_add(m.offset[row]) / LINE_BYTES);
        }
        // A child may have mapped memory of its own there since.
        let first = self.ancestry(space, time).take_while(|&(s, t)| shared(s, t).is_some()).last();
        (first.map_or(space, |(first, _)| first), own.1)
    }
}
