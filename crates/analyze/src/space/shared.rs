//! Memory that several processes share.

use super::Spaces;
use crate::hash::hash_of;
use crate::input::Input;
use nearfar_machine::LINE_BYTES;

/// Bit of `flags` in the mappings table: MAP_SHARED.
const SHARED: u8 = 8;
/// In place of an address space: of lines that are the same in each process at the same address.
const INHERITED: u32 = u32::MAX;
/// What the kernel calls shared memory that has no name of its own, so that two pieces of it may have the same one.
const NAMELESS: [&str; 2] = ["/dev/zero", "/SYSV"];

impl Spaces {
    /// A cache line, the same one in all processes that share it: what stands for its address space, and its number there. A shared
    /// file's is known by its name and place in the file; memory without a name has the address at which a parent mapped it.
    pub fn line(&self, input: &Input, space: u32, address: u64, time: u64) -> (u32, u64) {
        let own = (space, address / LINE_BYTES);
        if self.spaces.len() < 2 {
            return own;
        }
        let Some(row) = self.mapping_row(space, address, time) else { return own };
        let m = &input.mappings;
        if m.flags[row] & SHARED == 0 {
            return own;
        }
        let name = m.name[row].trim_end_matches(" (deleted)");
        if NAMELESS.iter().any(|nameless| name.starts_with(nameless)) || !name.starts_with('/') {
            return (INHERITED, own.1);
        }
        // Above what numbers of address spaces get to.
        (hash_of(name) as u32 | 1 << 31, (address - m.start[row]).saturating_add(m.offset[row]) / LINE_BYTES)
    }
}
