//! What the decoder is given, and what it says.

use nearfar_recording::{Access, Resolution};

/// The general registers of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// In x86 encoding order: rax rcx rdx rbx rsp rbp rsi rdi r8 … r15.
    pub gpr: [u64; 16],
    /// The instruction that would have run next.
    pub ip: u64,
}

/// The code of the function around an address.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCode<'a> {
    /// Virtual address of the first byte.
    pub start: u64,
    /// The code.
    pub bytes: &'a [u8],
    /// `start` is known to begin an instruction (a symbol or an unwind entry). If
    /// not, decoding falls into step with the code before it reaches the sample.
    pub synced: bool,
}

/// What a sample says about memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// How the address was found.
    pub resolution: Resolution,
    /// What the instruction at `operand_ip` does there; unknown without an address.
    pub access: Access,
    /// The data address; for [`Resolution::Object`] the base register's value; 0 if none.
    pub address: u64,
    /// The instruction whose operand it is; the sampled one if none was found.
    pub operand_ip: u64,
}
