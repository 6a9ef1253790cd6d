//! What translations and those who run them agree on.

/// Where the words of the segment gs are, bytes from its base.
pub mod words {
    /// Address of the next word to write down.
    pub const NEXT: u32 = 0;
    /// Three registers of the program.
    pub const KEPT: [u32; 3] = [8, 16, 24];
    /// The program's address that a jump leads to.
    pub const TARGET: u32 = 32;
    /// The translation's address that a jump leads to.
    pub const JUMP: u32 = 40;
}

/// Entries of the table of blocks; an entry is the negated address of the program and the address of its translation, 8 bytes each.
/// The lower 16 bits of the program's address select it.
pub const TABLE: usize = 1 << 16;

/// A breakpoint instruction in a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its offset in the code.
    pub at: u32,
    /// What it is for.
    pub to: To,
}

/// Why a translation is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// For the block at this address of the program.
    Block {
        /// Address of the program.
        target: u64,
        /// Offset of the four bytes that say how far to jump, from their end.
        patch: u32,
    },
    /// For the block whose address is in [`words::TARGET`].
    Computed,
    /// For a system call; the program goes on at this address.
    Call(u64),
    /// The instruction at this address of the program cannot be translated.
    Unknown(u64),
}
