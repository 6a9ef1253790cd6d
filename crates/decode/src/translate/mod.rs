//! x86-64 code to code that does the same and writes down which addresses it accesses.
//!
//! A block ends at its first jump, call, return or system call. Its translation begins with a word that names the block;
//! then each instruction stands as it was, and in front of one that accesses memory the address is written down. The words go
//! to a buffer whose end is not mapped: the fault there says that it is full. What needs a place to keep a register in uses
//! the segment gs, which no program on x86-64 Linux uses, so that neither the stack nor a register of the program is
//! touched, and only `mov`, `lea`, `movzx` and `jrcxz`, so that its flags are not either.
//!
//! A jump that leads to a block without a translation ends at a breakpoint instruction; the caller translates that block and
//! patches the jump. Jumps to addresses that registers or memory give look in a table of blocks first.

mod emit;
mod parts;

pub use parts::{Exit, TABLE, To, words};

use emit::Emitter;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};

/// Instructions of a block at most. // chosen: longer ones are translated in parts
const MOST: usize = 64;
/// Bytes that an instruction has at most.
const LONGEST: usize = 15;

/// What is written down for one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Address of an access.
    Access {
        /// Its size, bytes.
        bytes: u16,
        /// Whether memory is written.
        writes: bool,
        /// Whether the thread's own base (the segment fs) has to be added.
        of_thread: bool,
    },
    /// Address of the first of several accesses, one behind the other: their number is the next [`Word::Count`], or, behind a
    /// comparison, that less the [`Word::Left`].
    Run {
        /// Size of each, bytes.
        bytes: u16,
        /// Whether memory is written.
        writes: bool,
    },
    /// How many times a repeated instruction runs at most.
    Count,
    /// How many times it was still to run at its end.
    Left,
}

/// A block's translation.
#[derive(Debug)]
pub struct Block {
    /// Address behind its last instruction, in the program.
    pub end: u64,
    /// Instructions.
    pub instructions: u32,
    /// Words that an execution writes down, the first one of the block not counted.
    pub words: Vec<Word>,
    /// Accesses whose addresses are not written down: elements of gathers and scatters.
    pub elements: u32,
    /// Instructions that only waiting threads execute (`pause`).
    pub pauses: u32,
    /// Where a call at its end returns to.
    pub returns_to: Option<u64>,
    /// Code.
    pub code: Vec<u8>,
    /// Where it is left.
    pub exits: Vec<Exit>,
}

/// Translates the block at `start`, of which `bytes` are the first ones, to code that is put at `at`. `number` names it;
/// `table` is the address of the table of blocks. `None` without a whole instruction.
pub fn block(bytes: &[u8], start: u64, at: u64, number: u32, table: u64) -> Option<Block> {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut emitter = Emitter::new(at, table);
    let mut block = Block {
        end: start,
        instructions: 0,
        words: Vec::new(),
        elements: 0,
        pauses: 0,
        returns_to: None,
        code: Vec::new(),
        exits: Vec::new(),
    };
    emitter.named(number);
    for index in 0.. {
        if index == MOST || !decoder.can_decode() || decoder.position() + LONGEST > bytes.len() && index > 0 {
            emitter.jump(block.end);
            break;
        }
        let from = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() && index == 0 && bytes.len() < LONGEST {
            return None;
        }
        let raw = bytes.get(from..decoder.position()).unwrap_or_default();
        let before = emitter.code.len();
        match one(&instruction, raw, &mut factory, &mut emitter, &mut block) {
            Some(goes_on) => {
                block.instructions += 1;
                block.end = instruction.next_ip();
                let calls =
                    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
                block.returns_to = (calls && !goes_on).then_some(block.end);
                if !goes_on {
                    break;
                }
            }
            None => {
                emitter.code.truncate(before);
                emitter.leave(To::Unknown(instruction.ip()));
                break;
            }
        }
    }
    emitter.finish();
    block.code = emitter.code;
    block.exits = emitter.exits;
    Some(block)
}

/// Translates one instruction; whether the block goes on behind it. `None` where it cannot be translated.
fn one(
    instruction: &Instruction,
    raw: &[u8],
    factory: &mut InstructionInfoFactory,
    emitter: &mut Emitter,
    block: &mut Block,
) -> Option<bool> {
    let info = factory.info(instruction);
    let own = |register: Register| matches!(register, Register::GS);
    if instruction.is_invalid()
        || own(instruction.segment_prefix())
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Wrgsbase
                | Mnemonic::Wrfsbase
                | Mnemonic::Xbegin
                | Mnemonic::Xabort
                | Mnemonic::Senduipi
        )
        || info.used_registers().iter().any(|used| own(used.register()))
        || instruction.is_privileged()
    {
        return None;
    }
    block.pauses +=
        u32::from(matches!(instruction.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait));
    let mut words = Vec::new();
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let string = instruction.is_string_instruction() && repeated;
    for memory in info.used_memory() {
        if memory.access() == OpAccess::NoMemAccess || memory.access() == OpAccess::None {
            continue;
        }
        if is_vector(memory.index()) {
            block.elements += elements(memory);
            continue;
        }
        let writes = matches!(
            memory.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        let bytes = bytes(memory.memory_size());
        words.push(if string {
            Word::Run { bytes, writes }
        } else {
            Word::Access { bytes, writes, of_thread: memory.segment() == Register::FS }
        });
        emitter.address(instruction, memory)?;
    }
    if string {
        emitter.register(Register::RCX);
        words.push(Word::Count);
    }
    let goes_on = match instruction.flow_control() {
        FlowControl::Next => {
            if instruction.is_ip_rel_memory_operand() {
                emitter.elsewhere(instruction, factory)?;
            } else {
                emitter.code.extend_from_slice(raw);
            }
            if string
                && matches!(
                    instruction.mnemonic(),
                    Mnemonic::Cmpsb
                        | Mnemonic::Cmpsw
                        | Mnemonic::Cmpsd
                        | Mnemonic::Cmpsq
                        | Mnemonic::Scasb
                        | Mnemonic::Scasw
                        | Mnemonic::Scasd
                        | Mnemonic::Scasq
                )
            {
                emitter.register(Register::RCX);
                words.push(Word::Left);
            }
            true
        }
        FlowControl::UnconditionalBranch if near(instruction) => {
            emitter.jump(instruction.near_branch_target());
            false
        }
        FlowControl::ConditionalBranch if near(instruction) => {
            emitter.conditional(instruction, raw)?;
            false
        }
        FlowControl::Call if near(instruction) => {
            emitter.push(instruction.next_ip());
            emitter.jump(instruction.near_branch_target());
            false
        }
        FlowControl::IndirectBranch | FlowControl::IndirectCall if !far(instruction) => {
            emitter.target(instruction)?;
            if instruction.flow_control() == FlowControl::IndirectCall {
                emitter.push(instruction.next_ip());
            }
            emitter.computed();
            false
        }
        FlowControl::Return if matches!(instruction.code(), Code::Retnq | Code::Retnq_imm16) => {
            let popped = if instruction.op_count() == 1 { instruction.immediate(0) } else { 0 };
            emitter.returned(popped as u32);
            emitter.computed();
            false
        }
        FlowControl::Call if instruction.code() == Code::Syscall => {
            emitter.leave(To::Call(instruction.next_ip()));
            false
        }
        _ => return None,
    };
    block.words.append(&mut words);
    Some(goes_on)
}

fn near(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::NearBranch64
}

fn far(instruction: &Instruction) -> bool {
    instruction.is_jmp_far_indirect()
        || instruction.is_call_far_indirect()
        || instruction.is_jmp_far()
        || instruction.is_call_far()
}

fn is_vector(register: Register) -> bool {
    register.is_vector_register()
}

/// Bytes of an access; of what saves many registers at once, one cache line.
fn bytes(size: MemorySize) -> u16 {
    match size.size() {
        0 => 64,
        bytes => u16::try_from(bytes).unwrap_or(512),
    }
}

/// Elements of a gather or scatter at most: indices have four bytes or eight.
fn elements(memory: &UsedMemory) -> u32 {
    (memory.index().size() / 4).max(1) as u32
}
