//! The memory operands of an instruction.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpAccess, Register, UsedMemory};

use super::effect;
use super::linear::Linear;
use nearfar_recording::Access;

/// One memory operand, over the registers before its instruction.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The address; `None` where it needs what cannot be sampled (FS, GS, vector indexes).
    pub address: Option<Linear>,
    /// What may be the pointer to the object, best first.
    pub pointers: Vec<Linear>,
    pub access: Access,
    /// 32-bit address size: the sum wraps at 4 GiB.
    pub narrow: bool,
    /// At a constant distance from the stack or frame pointer: most likely a
    /// spilled register, which is in the cache.
    pub spill: bool,
}

/// The operand that is blamed for the time of an instruction.
///
/// With two of them (`movs`, `cmps`, `push [m]`, `call [m]`, `pop [m]`) the read
/// is blamed, since a store retires into the store buffer without waiting for
/// memory; of two reads or two writes the one not on the stack, then the first.
pub(super) fn blamed(
    instruction: &Instruction,
    info: &InstructionInfo,
    frame_pointer: bool,
) -> Option<Operand> {
    let implicit = |memory: &UsedMemory| instruction.is_stack_instruction() && memory.base() == Register::RSP;
    let memory = accesses(instruction, info)
        .into_iter()
        .min_by_key(|(memory, access)| (implicit(memory), *access == Access::Store))?;
    Some(describe(&memory.0, memory.1, frame_pointer))
}

/// What the instruction does to memory, all operands together.
pub(super) fn access(instruction: &Instruction, info: &InstructionInfo) -> Access {
    accesses(instruction, info).into_iter().fold(Access::Unknown, |sum, (_, access)| match (sum, access) {
        (Access::Unknown, access) => access,
        (sum, access) if sum == access => sum,
        _ => Access::LoadStore,
    })
}

/// All memory operands, with their sizes in bytes.
pub(super) fn all(
    instruction: &Instruction,
    info: &InstructionInfo,
    frame_pointer: bool,
) -> Vec<(Operand, usize)> {
    let all = accesses(instruction, info).into_iter();
    all.map(|(memory, access)| (describe(&memory, access, frame_pointer), memory.memory_size().size()))
        .collect()
}

fn accesses(instruction: &Instruction, info: &InstructionInfo) -> Vec<(UsedMemory, Access)> {
    match instruction.mnemonic() {
        Mnemonic::Lea | Mnemonic::Nop => Vec::new(),
        // Not an access to iced, as a prefetch cannot fault; but it waits like one.
        Mnemonic::Prefetch
        | Mnemonic::Prefetchw
        | Mnemonic::Prefetchwt1
        | Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2 => vec![(prefetched(instruction), Access::Load)],
        _ => info.used_memory().iter().filter_map(|memory| Some((*memory, kind(memory.access())?))).collect(),
    }
}

fn kind(access: OpAccess) -> Option<Access> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(Access::Load),
        OpAccess::Write | OpAccess::CondWrite => Some(Access::Store),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(Access::LoadStore),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

fn prefetched(instruction: &Instruction) -> UsedMemory {
    UsedMemory::new(
        instruction.memory_segment(),
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64(),
        instruction.memory_size(),
        OpAccess::Read,
    )
}

fn describe(memory: &UsedMemory, access: Access, frame_pointer: bool) -> Operand {
    let thread_local = matches!(memory.segment(), Register::FS | Register::GS);
    let (base, index) = (memory.base(), memory.index());
    let address = effect::address(base, index, memory.scale(), memory.displacement());
    let stack_base = base == Register::RSP || (frame_pointer && base == Register::RBP);
    let mut pointers = Vec::new();
    if !thread_local {
        pointers.extend(effect::number(base).map(Linear::register));
        // `[rax + rbx]`: either may be the pointer; its value will tell.
        if memory.scale() == 1 {
            pointers.extend(effect::number(index).map(Linear::register));
        }
        // `table(,%rax,8)` of a program at a fixed address.
        if base == Register::None && index != Register::None {
            pointers.push(Linear::constant(memory.displacement() as i64));
        }
    }
    Operand {
        address: address.filter(|_| !thread_local),
        pointers,
        access,
        narrow: memory.address_size() == iced_x86::CodeSize::Code32,
        spill: stack_base && index == Register::None,
    }
}
