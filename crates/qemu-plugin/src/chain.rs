//! Loads that wait for themselves: `p = p->next`, `i = next[i]`.
//!
//! Such a load's address comes, by registers, from what the same instruction loaded before. Then no two
//! of its misses can be in flight together. Several loads in turn, as in a list that is walked by an unrolled loop,
//! are one chain, known by the first of them. What can be told from one translation block: exactly, if the block is a
//! whole loop; else only the plainest form, a load into the register that its address is made of.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

/// For each instruction of a block that is such a load, the position of the first load of its chain.
pub fn chained(block: &[Instruction], factory: &mut InstructionInfoFactory) -> Vec<Option<usize>> {
    let effects: Vec<Effect> = block.iter().map(|i| Effect::of(i, factory)).collect();
    let (Some(first), Some(last)) = (block.first(), block.last()) else { return Vec::new() };
    let is_loop = (last.is_jcc_short_or_near() || last.is_jmp_short_or_near())
        && last.near_branch_target() == first.ip();
    // What comes from the value loaded at `from` when the loop has come to `to`, again or later in the same round.
    let reaches = |from: usize, to: usize| {
        let after =
            if from < to { (from + 1..to).chain(0..0) } else { (from + 1..effects.len()).chain(0..to) };
        follow(effects[from].written, after.map(|j| &effects[j])) & effects[to].address != 0
    };
    let alone: Vec<bool> = (0..effects.len())
        .map(|i| {
            let load = &effects[i];
            if !load.loads || load.written & load.address == 0 && !is_loop {
                return false;
            }
            if is_loop {
                reaches(i, i)
            } else {
                effects[..i].iter().all(|before| before.written & load.written & load.address == 0)
            }
        })
        .collect();
    let first = |i: usize| match is_loop {
        true => (0..i).find(|&k| alone[k] && reaches(k, i)).unwrap_or(i),
        false => i,
    };
    (0..effects.len()).map(|i| alone[i].then(|| first(i))).collect()
}

/// The registers whose values come from those in `from`, after these instructions.
fn follow<'a>(from: u16, instructions: impl Iterator<Item = &'a Effect>) -> u16 {
    instructions.fold(from, |from, i| if i.read & from != 0 { from | i.written } else { from & !i.written })
}

/// What an instruction does to general registers, one bit for each; without the stack pointer.
#[derive(Clone, Copy, Debug, Default)]
struct Effect {
    loads: bool,
    address: u16,
    read: u16,
    written: u16,
}

impl Effect {
    fn of(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Effect {
        let mut effect = Effect::default();
        let info = factory.info(instruction);
        for used in info.used_registers() {
            let bit = bit(used.register());
            if reads(used.access()) {
                effect.read |= bit;
            }
            if writes(used.access()) {
                effect.written |= bit;
            }
        }
        for memory in info.used_memory() {
            effect.loads |= reads(memory.access());
            effect.address |= bit(memory.base()) | bit(memory.index());
        }
        effect
    }
}

fn bit(register: Register) -> u16 {
    let full = register.full_register();
    match full.is_gpr64() && full != Register::RSP {
        true => 1 << full.number(),
        false => 0,
    }
}

fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(bytes: &[u8]) -> Vec<Option<usize>> {
        let block: Vec<Instruction> =
            Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).iter().collect();
        assert!(block.iter().all(|i| !i.is_invalid()));
        chained(&block, &mut InstructionInfoFactory::new())
    }

    #[test]
    fn a_list_in_a_loop_is_a_chain() {
        // mov (%rax),%rax; test %rax,%rax; jne back
        assert_eq!(of(&[0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8]), [Some(0), None, None]);
    }

    #[test]
    fn a_chain_through_other_registers_is_one() {
        // mov (%rbx,%rax,8),%rcx; lea 1(%rcx),%rax; dec %rdx; jne back
        let bytes = [0x48, 0x8b, 0x0c, 0xc3, 0x48, 0x8d, 0x41, 0x01, 0x48, 0xff, 0xca, 0x75, 0xf3];
        assert_eq!(of(&bytes), [Some(0), None, None, None]);
    }

    #[test]
    fn an_unrolled_list_is_one_chain_and_two_lists_are_two() {
        // mov (%rdi),%rdx; mov (%rdx),%rdx; mov (%rdx),%rdi; dec %rax; jne back
        let bytes = [0x48, 0x8b, 0x17, 0x48, 0x8b, 0x12, 0x48, 0x8b, 0x3a, 0x48, 0xff, 0xc8, 0x75, 0xf2];
        assert_eq!(of(&bytes), [Some(0), Some(0), Some(0), None, None]);
        // mov (%rdi),%rdi; mov (%rsi),%rsi; dec %rax; jne back
        let bytes = [0x48, 0x8b, 0x3f, 0x48, 0x8b, 0x36, 0x48, 0xff, 0xc8, 0x75, 0xf5];
        assert_eq!(of(&bytes), [Some(0), Some(1), None, None]);
    }

    #[test]
    fn an_indirect_access_in_a_loop_is_none() {
        // mov (%rbx,%rcx,8),%rax; mov (%rax),%rax; add %rax,%rdx; inc %rcx; cmp %rsi,%rcx; jne back:
        // the second load's address comes from the first, which is another each time.
        let bytes = [
            0x48, 0x8b, 0x04, 0xcb, 0x48, 0x8b, 0x00, 0x48, 0x01, 0xc2, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1,
            0x75, 0xee,
        ];
        assert_eq!(of(&bytes), [None; 6]);
        // The same without the jump: a block of a larger loop.
        assert_eq!(of(&bytes[..16]), [None; 5]);
    }

    #[test]
    fn a_step_down_a_tree_is_a_chain_although_the_loop_is_longer() {
        // cmp %rcx,(%rax); mov 16(%rax),%rax
        assert_eq!(of(&[0x48, 0x39, 0x08, 0x48, 0x8b, 0x40, 0x10]), [None, Some(1)]);
    }

    #[test]
    fn a_stream_is_none() {
        // movsd (%rax),%xmm0; movsd %xmm0,(%rcx); add $8,%rax; add $8,%rcx; cmp %rdx,%rax; jne back
        let bytes = [
            0xf2, 0x0f, 0x10, 0x00, 0xf2, 0x0f, 0x11, 0x01, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x83, 0xc1, 0x08,
            0x48, 0x39, 0xd0, 0x75, 0xeb,
        ];
        assert_eq!(of(&bytes), [None; 6]);
    }
}
