//! The instructions that a translation adds to the program's own.

use super::parts::{Exit, To, words};
use iced_x86::{
    Code, ConditionCode, Encoder, Instruction, InstructionInfoFactory, MemoryOperand, Register, UsedMemory,
};

/// A register by its number in the encoding of instructions.
type Number = u8;
const RAX: Number = 0;
const RCX: Number = 1;
const RDX: Number = 2;

/// Registers that can stand in for the address of the next instruction.
const SPARE: [Register; 8] = [
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
];

pub(super) struct Emitter {
    at: u64,
    table: u64,
    pub code: Vec<u8>,
    pub exits: Vec<Exit>,
    /// Jumps to blocks: where they say how far, and the block.
    jumps: Vec<(u32, u64)>,
}

impl Emitter {
    pub fn new(at: u64, table: u64) -> Emitter {
        Emitter { at, table, code: Vec::with_capacity(1024), exits: Vec::new(), jumps: Vec::new() }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// `mov` between a register and a word of ours.
    fn word(&mut self, code: u8, register: Number, word: u32) {
        self.bytes(&[0x65, 0x48 | (register >> 3) << 2, code, 0x04 | (register & 7) << 3, 0x25]);
        self.bytes(&word.to_le_bytes());
    }

    fn keep(&mut self, register: Number, word: u32) {
        self.word(0x89, register, word);
    }

    fn load(&mut self, register: Number, word: u32) {
        self.word(0x8b, register, word);
    }

    /// `mov` of a constant.
    fn constant(&mut self, register: Number, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            if register >= 8 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xb8 | register & 7]);
            return self.bytes(&value.to_le_bytes());
        }
        self.bytes(&[0x48 | register >> 3, 0xb8 | register & 7]);
        self.bytes(&value.to_le_bytes());
    }

    fn begin(&mut self) {
        self.keep(RAX, words::KEPT[0]);
        self.keep(RCX, words::KEPT[1]);
    }

    /// Writes rax down, and takes both registers back.
    fn end(&mut self) {
        self.load(RCX, words::NEXT);
        // mov [rcx], rax; lea rcx, [rcx + 8]
        self.bytes(&[0x48, 0x89, 0x01, 0x48, 0x8d, 0x49, 0x08]);
        self.keep(RCX, words::NEXT);
        self.load(RCX, words::KEPT[1]);
        self.load(RAX, words::KEPT[0]);
    }

    /// Writes the block's number down.
    pub fn named(&mut self, number: u32) {
        self.begin();
        self.constant(RAX, number.into());
        self.end();
    }

    /// Writes a register down, rax and rcx included.
    pub fn register(&mut self, register: Register) {
        self.begin();
        let number = register.number() as Number;
        // mov rax, register
        self.bytes(&[0x48 | (number >> 3) << 2, 0x89, 0xc0 | (number & 7) << 3]);
        self.end();
    }

    /// Writes the address of an operand down, without the segment's base.
    pub fn address(&mut self, instruction: &Instruction, memory: &UsedMemory) -> Option<()> {
        self.begin();
        let (base, index) = (memory.base(), memory.index());
        if instruction.is_ip_rel_memory_operand()
            && matches!(base, Register::None | Register::RIP | Register::EIP)
        {
            self.constant(RAX, instruction.ip_rel_memory_address());
        } else if base == Register::None && index == Register::None {
            self.constant(RAX, memory.displacement());
        } else {
            // Of four bytes in both cases; the encoder's word for them when addresses have eight is 8.
            let size = if base.is_gpr32() || index.is_gpr32() { 4 } else { 8 };
            let displacement = memory.displacement() as i64;
            let operand = MemoryOperand::new(
                base,
                index,
                memory.scale().max(1),
                displacement,
                size,
                false,
                Register::None,
            );
            let lea = Instruction::with2(Code::Lea_r64_m, Register::RAX, operand).ok()?;
            self.encode(&lea)?;
        }
        self.end();
        Some(())
    }

    fn encode(&mut self, instruction: &Instruction) -> Option<()> {
        let mut encoder = Encoder::new(64);
        encoder.encode(instruction, self.at + self.code.len() as u64).ok()?;
        self.code.append(&mut encoder.take_buffer());
        Some(())
    }

    /// An instruction whose operand is so far from itself: by a register in place of the instruction pointer.
    pub fn elsewhere(
        &mut self,
        instruction: &Instruction,
        factory: &mut InstructionInfoFactory,
    ) -> Option<()> {
        let used = factory.info(instruction).used_registers();
        let spare = SPARE
            .into_iter()
            .find(|spare| used.iter().all(|used| used.register().full_register() != *spare))?;
        let number = spare.number() as Number;
        self.keep(number, words::KEPT[2]);
        self.constant(number, instruction.ip_rel_memory_address());
        let mut by_register = *instruction;
        by_register.set_memory_base(spare);
        by_register.set_memory_displacement64(0);
        by_register.set_memory_displ_size(0);
        self.encode(&by_register)?;
        self.load(number, words::KEPT[2]);
        Some(())
    }

    /// Puts the address that an indirect jump or call leads to in its word.
    pub fn target(&mut self, instruction: &Instruction) -> Option<()> {
        self.keep(RAX, words::KEPT[0]);
        if instruction.op0_kind() == iced_x86::OpKind::Register {
            let number = instruction.op0_register().number() as Number;
            self.bytes(&[0x48 | (number >> 3) << 2, 0x89, 0xc0 | (number & 7) << 3]);
        } else if instruction.is_ip_rel_memory_operand() {
            self.constant(RAX, instruction.ip_rel_memory_address());
            // mov rax, [rax]
            self.bytes(&[0x48, 0x8b, 0x00]);
        } else {
            let operand = MemoryOperand::new(
                instruction.memory_base(),
                instruction.memory_index(),
                instruction.memory_index_scale(),
                instruction.memory_displacement64() as i64,
                instruction.memory_displ_size(),
                false,
                instruction.segment_prefix(),
            );
            let load = Instruction::with2(Code::Mov_r64_rm64, Register::RAX, operand).ok()?;
            self.encode(&load)?;
        }
        self.keep(RAX, words::TARGET);
        self.load(RAX, words::KEPT[0]);
        Some(())
    }

    /// Takes the address that a return leads to from the stack, and `popped` bytes beyond it.
    pub fn returned(&mut self, popped: u32) {
        self.keep(RAX, words::KEPT[0]);
        // mov rax, [rsp]
        self.bytes(&[0x48, 0x8b, 0x04, 0x24]);
        self.keep(RAX, words::TARGET);
        self.load(RAX, words::KEPT[0]);
        // lea rsp, [rsp + 8 + popped]
        self.bytes(&[0x48, 0x8d, 0xa4, 0x24]);
        self.bytes(&(8 + popped).to_le_bytes());
    }

    /// Pushes an address of the program, as a call does.
    pub fn push(&mut self, address: u64) {
        let (low, high) = (address as u32, (address >> 32) as u32);
        // push low; mov dword ptr [rsp + 4], high
        self.bytes(&[0x68]);
        self.bytes(&low.to_le_bytes());
        self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
        self.bytes(&high.to_le_bytes());
    }

    /// A jump to a block.
    pub fn jump(&mut self, target: u64) {
        self.bytes(&[0xe9]);
        self.far(target);
    }

    fn far(&mut self, target: u64) {
        self.jumps.push((self.code.len() as u32, target));
        self.bytes(&[0; 4]);
    }

    /// A jump that happens or not.
    pub fn conditional(&mut self, instruction: &Instruction, raw: &[u8]) -> Option<()> {
        let (there, behind) = (instruction.near_branch_target(), instruction.next_ip());
        if instruction.condition_code() != ConditionCode::None && instruction.is_jcc_short_or_near() {
            // The condition is the lower half of the last byte of the code, in both forms of the jump.
            let code = *raw
                .iter()
                .find(|byte| !matches!(byte, 0x2e | 0x3e | 0x66 | 0xf2 | 0xf3 | 0x0f | 0x40..=0x4f))?;
            self.bytes(&[0x0f, 0x80 | code & 0x0f]);
            self.far(there);
        } else if instruction.is_jcx_short() || instruction.is_loop() || instruction.is_loopcc() {
            self.short(raw, there);
        } else {
            return None;
        }
        self.jump(behind);
        Some(())
    }

    /// A jump of two bytes, over one that leads past the jump of five bytes behind it.
    fn short(&mut self, raw: &[u8], there: u64) {
        // As it was, but to the jump that leads `there`; else past that.
        self.bytes(&raw[..raw.len() - 1]);
        self.bytes(&[0x02, 0xeb, 0x05]);
        self.jump(there);
    }

    /// A jump to the block whose address is in its word.
    pub fn computed(&mut self) {
        self.keep(RAX, words::KEPT[0]);
        self.keep(RCX, words::KEPT[1]);
        self.keep(RDX, words::KEPT[2]);
        self.load(RAX, words::TARGET);
        // movzx ecx, ax
        self.bytes(&[0x0f, 0xb7, 0xc8]);
        self.constant(RDX, self.table);
        // lea rdx, [rdx + rcx * 8], twice: an entry has 16 bytes
        self.bytes(&[0x48, 0x8d, 0x14, 0xca, 0x48, 0x8d, 0x14, 0xca]);
        // mov rcx, [rdx]; lea rcx, [rcx + rax]
        self.bytes(&[0x48, 0x8b, 0x0a, 0x48, 0x8d, 0x0c, 0x01]);
        // jrcxz over what leaves: three loads of nine bytes and a breakpoint
        self.bytes(&[0xe3, 28]);
        self.take_back();
        self.leave(To::Computed);
        // mov rcx, [rdx + 8]
        self.bytes(&[0x48, 0x8b, 0x4a, 0x08]);
        self.keep(RCX, words::JUMP);
        self.take_back();
        // jmp gs:[JUMP]
        self.bytes(&[0x65, 0xff, 0x24, 0x25]);
        self.bytes(&words::JUMP.to_le_bytes());
    }

    fn take_back(&mut self) {
        self.load(RAX, words::KEPT[0]);
        self.load(RCX, words::KEPT[1]);
        self.load(RDX, words::KEPT[2]);
    }

    /// A breakpoint.
    pub fn leave(&mut self, to: To) {
        self.exits.push(Exit { at: self.code.len() as u32, to });
        self.bytes(&[0xcc]);
    }

    /// Puts a breakpoint behind the code for each jump to a block, and lets the jump lead there.
    pub fn finish(&mut self) {
        for (patch, target) in std::mem::take(&mut self.jumps) {
            let distance = self.code.len() as u32 - (patch + 4);
            self.code[patch as usize..][..4].copy_from_slice(&distance.to_le_bytes());
            self.leave(To::Block { target, patch });
        }
    }
}
