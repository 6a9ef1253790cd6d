//! What an instruction means for the counting, from its bytes, when QEMU translates it.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};
use std::ops::Range;

/// `nopl 0x4e464442(%rax)`: the load behind it is a hypercall's.
pub const MARK: [u8; 7] = [0x0f, 0x1f, 0x80, 0x42, 0x44, 0x46, 0x4e];
/// `mov (%rdi),%al`.
pub const MARKED_LOAD: [u8; 2] = [0x8a, 0x07];
/// `mov OFFSET(%rsi),%rsp` in `__switch_to_asm`: the next task's stack, from its `task_struct`.
const NEXT_STACK: [u8; 3] = [0x48, 0x8b, 0xa6];
/// `pop %r15`: the first touch of the new stack in `__switch_to_asm`.
const POP_R15: [u8; 2] = [0x41, 0x5f];
/// `pause`.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// How far into `__switch_to_asm` the stack is switched. With every mitigation it is 0x70 bytes long.
const SWITCH_BYTES: u64 = 0x100;

/// Where the kernel's addresses begin.
pub const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Kinds of the kernel's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCode {
    /// Nothing.
    Other,
    /// It reads where the next task's stack is, so far into that task's `task_struct`.
    ReadsNextTask(u32),
    /// It touches the next task's stack.
    SwitchedStack,
    /// It makes translations invalid.
    FlushesTranslations,
    /// `swapgs`: on the way from a program, or back to one.
    SwapsGs,
    /// It reads the address at which a page was missing.
    PageFaults,
    /// It belongs to the function that wakes a task.
    Wakes,
    /// It belongs to the function that sets a new task going.
    Starts,
    /// It is the first of those that clear a huge page.
    ClearsHuge,
    /// It passes the time while all vCPUs are to answer the kernel.
    AwaitsAll,
    /// It passes the time until another vCPU has released a lock, or has answered.
    Pauses,
}

/// Where the guest's kernel does what tells of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFunctions {
    /// `__switch_to_asm`, its beginning.
    pub switch: u64,
    /// `try_to_wake_up`.
    pub wake: Range<u64>,
    /// `wake_up_new_task`.
    pub start: Range<u64>,
    /// `smp_call_function_many_cond`; empty if not known.
    pub call: Range<u64>,
    /// `clear_huge_page`, its beginning; `None` if not known.
    pub huge: Option<u64>,
}

/// Finds the instructions of the kernel that tell of task and address space.
pub fn kernel_code(bytes: &[u8], address: u64, functions: &KernelFunctions) -> KernelCode {
    if (functions.switch..functions.switch + SWITCH_BYTES).contains(&address) {
        if bytes.starts_with(&POP_R15) {
            return KernelCode::SwitchedStack;
        }
        if let Some(&[a, b, c, d]) = bytes.strip_prefix(&NEXT_STACK) {
            return KernelCode::ReadsNextTask(u32::from_le_bytes([a, b, c, d]));
        }
    }
    if bytes == PAUSE {
        let all = functions.call.contains(&address);
        return if all { KernelCode::AwaitsAll } else { KernelCode::Pauses };
    }
    if functions.huge == Some(address) {
        return KernelCode::ClearsHuge;
    }
    if functions.wake.contains(&address) {
        return KernelCode::Wakes;
    }
    if functions.start.contains(&address) {
        return KernelCode::Starts;
    }
    let prefixes = bytes.iter().take_while(|b| matches!(b, 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f)).count();
    let (prefix, opcode) = bytes.split_at(prefixes);
    match opcode {
        // mov to cr3 or cr4 (to cr0 only when booting); the register number is in the middle of ModRM.
        [0x0f, 0x22, modrm, ..] if matches!(modrm >> 3 & 7, 3 | 4) => KernelCode::FlushesTranslations,
        // mov from cr2.
        [0x0f, 0x20, modrm, ..] if modrm >> 3 & 7 == 2 => KernelCode::PageFaults,
        [0x0f, 0x01, 0xf8, ..] => KernelCode::SwapsGs,
        // invlpg m8: /7 with a memory operand.
        [0x0f, 0x01, modrm, ..] if modrm >> 3 & 7 == 7 && modrm >> 6 != 3 => KernelCode::FlushesTranslations,
        // 66 0F 38 82: invpcid.
        [0x0f, 0x38, 0x82, ..] if prefix.contains(&0x66) => KernelCode::FlushesTranslations,
        _ => KernelCode::Other,
    }
}

/// Kinds of a program's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCode {
    /// It stores past the caches.
    pub streams: bool,
    /// It reads and writes a line at once.
    pub locks: bool,
    /// Each execution makes exactly one access that is reported once.
    pub one_access: bool,
    /// It ends in the kernel by its own will.
    pub syscall: bool,
}

/// An instruction of a program, decoded. What cannot be decoded is an invalid instruction.
pub fn decode(bytes: &[u8], address: u64) -> Instruction {
    Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode()
}

/// Its kind.
pub fn user_code(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> UserCode {
    UserCode {
        streams: streams(instruction),
        locks: locks(instruction),
        one_access: one_access(instruction, factory),
        syscall: instruction.mnemonic() == Mnemonic::Syscall,
    }
}

/// With a `lock` prefix, or an `xchg` with memory, which needs none.
fn locks(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Xchg
            && [instruction.op0_kind(), instruction.op1_kind()].contains(&OpKind::Memory)
}

/// Non-temporal stores. MOVNTDQA is a load, which on write-back memory is an ordinary one.
fn streams(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        instruction.mnemonic(),
        Movnti
            | Movntq
            | Movntdq
            | Movntps
            | Movntpd
            | Movntss
            | Movntsd
            | Vmovntdq
            | Vmovntps
            | Vmovntpd
            | Maskmovq
            | Maskmovdqu
            | Vmaskmovdqu
    )
}

/// Only what is certain: one memory operand of at most eight bytes, read or written, not both, always and
/// not repeated. QEMU reports larger ones in pieces of eight, and operations on memory twice.
fn one_access(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
    if instruction.code() == Code::INVALID || instruction.is_vsib() {
        return false;
    }
    let info = factory.info(instruction);
    let [memory] = info.used_memory() else { return false };
    matches!(memory.access(), OpAccess::Read | OpAccess::Write)
        && matches!(memory.memory_size().size(), 1 | 2 | 4 | 8)
        // Their one operand may be touched several times, never, or is not a memory access in QEMU.
        && !instruction.has_rep_prefix()
        && !instruction.has_repne_prefix()
        && !instruction.has_lock_prefix()
        && matches!(
            instruction.mnemonic(),
            Mnemonic::Mov | Mnemonic::Movsx | Mnemonic::Movzx | Mnemonic::Movsxd | Mnemonic::Movsd | Mnemonic::Movss
                | Mnemonic::Vmovsd | Mnemonic::Vmovss | Mnemonic::Movq | Mnemonic::Vmovq | Mnemonic::Push | Mnemonic::Pop
                | Mnemonic::Add | Mnemonic::Sub | Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Imul
                | Mnemonic::Addsd | Mnemonic::Subsd | Mnemonic::Mulsd | Mnemonic::Divsd
                | Mnemonic::Vaddsd | Mnemonic::Vsubsd | Mnemonic::Vmulsd | Mnemonic::Vdivsd
                | Mnemonic::Addss | Mnemonic::Subss | Mnemonic::Mulss
                | Mnemonic::Vaddss | Mnemonic::Vsubss | Mnemonic::Vmulss
                | Mnemonic::Vfmadd132sd | Mnemonic::Vfmadd213sd | Mnemonic::Vfmadd231sd
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: KernelFunctions =
        KernelFunctions { switch: KERNEL, wake: 0..0, start: 0..0, call: 0..0, huge: None };

    fn user(bytes: &[u8]) -> UserCode {
        user_code(&decode(bytes, 0x401000), &mut InstructionInfoFactory::new())
    }

    #[test]
    fn every_non_temporal_store_streams() {
        let stores: &[(&str, &[u8])] = &[
            ("movnti %eax,(%rdi)", &[0x0f, 0xc3, 0x07]),
            ("movnti %rax,(%rdi)", &[0x48, 0x0f, 0xc3, 0x07]),
            ("movntps %xmm0,(%rdi)", &[0x0f, 0x2b, 0x07]),
            ("movntpd %xmm0,(%rdi)", &[0x66, 0x0f, 0x2b, 0x07]),
            ("movntdq %xmm0,(%rdi)", &[0x66, 0x0f, 0xe7, 0x07]),
            ("movntq %mm0,(%rdi)", &[0x0f, 0xe7, 0x07]),
            ("vmovntdq %ymm0,(%rdi)", &[0xc5, 0xfd, 0xe7, 0x07]),
            ("vmovntps %ymm0,(%rdi)", &[0xc5, 0xfc, 0x2b, 0x07]),
            ("vmovntpd %ymm0,(%rdi)", &[0xc5, 0xfd, 0x2b, 0x07]),
        ];
        for (text, bytes) in stores {
            assert!(user(bytes).streams, "{text}");
        }
        let others: &[(&str, &[u8])] = &[
            ("movdqa %xmm0,(%rdi)", &[0x66, 0x0f, 0x7f, 0x07]),
            ("movntdqa (%rdi),%xmm0", &[0x66, 0x0f, 0x38, 0x2a, 0x07]),
            ("mov %rax,(%rdi)", &[0x48, 0x89, 0x07]),
            ("prefetchnta (%rdi)", &[0x0f, 0x18, 0x07]),
        ];
        for (text, bytes) in others {
            assert!(!user(bytes).streams, "{text}");
        }
    }

    #[test]
    fn only_instructions_with_one_certain_access_say_so() {
        let one: &[(&str, &[u8])] = &[
            ("mov (%rdi),%rax", &[0x48, 0x8b, 0x07]),
            ("movsd %xmm0,(%rdi)", &[0xf2, 0x0f, 0x11, 0x07]),
            ("mulsd (%rdi),%xmm0", &[0xf2, 0x0f, 0x59, 0x07]),
            ("push %rax", &[0x50]),
            ("cmp %rax,(%rdi)", &[0x48, 0x39, 0x07]),
        ];
        for (text, bytes) in one {
            assert!(user(bytes).one_access, "{text}");
        }
        let others: &[(&str, &[u8])] = &[
            ("add %rax,(%rdi)", &[0x48, 0x01, 0x07]),
            ("movsd %xmm0,%xmm1", &[0xf2, 0x0f, 0x10, 0xc8]),
            ("movsq (string)", &[0x48, 0xa5]),
            ("rep stosb", &[0xf3, 0xaa]),
            ("vmovupd (%rdi),%ymm0", &[0xc5, 0xfd, 0x10, 0x07]),
            ("movdqa (%rdi),%xmm0", &[0x66, 0x0f, 0x6f, 0x07]),
            ("vgatherdpd", &[0xc4, 0xe2, 0xed, 0x92, 0x04, 0xcf]),
            ("lea (%rdi),%rax", &[0x48, 0x8d, 0x07]),
            ("prefetcht0 (%rdi)", &[0x0f, 0x18, 0x0f]),
            ("nop", &[0x90]),
            ("lock xadd", &[0xf0, 0x48, 0x0f, 0xc1, 0x07]),
            ("push (%rdi)", &[0xff, 0x37]),
            ("syscall", &[0x0f, 0x05]),
        ];
        for (text, bytes) in others {
            assert!(!user(bytes).one_access, "{text}");
        }
    }

    #[test]
    fn what_locks_its_line_says_so() {
        let locked: &[(&str, &[u8])] = &[
            ("lock xadd %rax,(%rdi)", &[0xf0, 0x48, 0x0f, 0xc1, 0x07]),
            ("lock addq $1,(%rdi)", &[0xf0, 0x48, 0x83, 0x07, 0x01]),
            ("lock cmpxchg %ecx,(%rdi)", &[0xf0, 0x0f, 0xb1, 0x0f]),
            ("xchg %eax,(%rdi)", &[0x87, 0x07]),
        ];
        for (text, bytes) in locked {
            assert!(user(bytes).locks, "{text}");
        }
        let others: &[(&str, &[u8])] = &[
            ("add %rax,(%rdi)", &[0x48, 0x01, 0x07]),
            ("xchg %eax,%edi", &[0x87, 0xc7]),
            ("mov %rax,(%rdi)", &[0x48, 0x89, 0x07]),
        ];
        for (text, bytes) in others {
            assert!(!user(bytes).locks, "{text}");
        }
    }

    #[test]
    fn only_a_syscall_is_a_syscall() {
        assert!(user(&[0x0f, 0x05]).syscall);
        assert!(!user(&[0x0f, 0x34]).syscall);
    }

    #[test]
    fn what_makes_translations_invalid_is_seen_in_all_encodings() {
        let flushes: &[(&str, &[u8])] = &[
            ("mov %rax,%cr3", &[0x0f, 0x22, 0xd8]),
            ("mov %r8,%cr3", &[0x41, 0x0f, 0x22, 0xd8]),
            ("mov %rdi,%cr4", &[0x0f, 0x22, 0xe7]),
            ("invlpg (%rax)", &[0x0f, 0x01, 0x38]),
            ("invlpg (%r8)", &[0x41, 0x0f, 0x01, 0x38]),
            ("invpcid (%rsp),%rdx", &[0x66, 0x0f, 0x38, 0x82, 0x14, 0x24]),
        ];
        for (text, bytes) in flushes {
            assert_eq!(kernel_code(bytes, KERNEL, &NOWHERE), KernelCode::FlushesTranslations, "{text}");
        }
        let others: &[(&str, &[u8])] = &[
            ("mov %rax,%cr0", &[0x0f, 0x22, 0xc0]),
            ("mov %rax,%cr2", &[0x0f, 0x22, 0xd0]),
            ("mov %cr3,%rax", &[0x0f, 0x20, 0xd8]),
            ("rdtscp", &[0x0f, 0x01, 0xf9]),
            ("invept (%rsp),%rdx", &[0x66, 0x0f, 0x38, 0x80, 0x14, 0x24]),
        ];
        for (text, bytes) in others {
            assert_eq!(kernel_code(bytes, KERNEL, &NOWHERE), KernelCode::Other, "{text}");
        }
    }

    #[test]
    fn reads_of_the_missing_pages_address_are_seen() {
        for bytes in [&[0x0f, 0x20, 0xd0][..], &[0x41, 0x0f, 0x20, 0xd4]] {
            assert_eq!(kernel_code(bytes, KERNEL, &NOWHERE), KernelCode::PageFaults, "{bytes:x?}");
        }
    }

    #[test]
    fn swaps_of_gs_are_seen() {
        assert_eq!(kernel_code(&[0x0f, 0x01, 0xf8], KERNEL, &NOWHERE), KernelCode::SwapsGs);
    }

    #[test]
    fn the_stack_is_switched_only_in_the_switch() {
        let switch = 0xffff_ffff_8100_3270;
        let functions = KernelFunctions { switch, ..NOWHERE };
        let at = |bytes: &[u8], address| kernel_code(bytes, address, &functions);
        assert_eq!(at(&POP_R15, switch + 0x20), KernelCode::SwitchedStack);
        assert_eq!(at(&POP_R15, switch + SWITCH_BYTES), KernelCode::Other);
        assert_eq!(at(&POP_R15, switch - 2), KernelCode::Other);
        assert_eq!(at(&[0x41, 0x5e], switch + 0x20), KernelCode::Other);
        // mov 0x1918(%rsi),%rsp; the store before it, mov %rsp,0x1918(%rdi), tells nothing.
        let next = [0x48, 0x8b, 0xa6, 0x18, 0x19, 0, 0];
        assert_eq!(at(&next, switch + 0xf), KernelCode::ReadsNextTask(0x1918));
        assert_eq!(at(&next, switch - 7), KernelCode::Other);
        assert_eq!(at(&[0x48, 0x89, 0xa7, 0x18, 0x19, 0, 0], switch + 8), KernelCode::Other);
    }

    #[test]
    fn wakes_and_starts_are_in_their_functions() {
        let functions = KernelFunctions {
            wake: KERNEL + 0x100..KERNEL + 0x180,
            start: KERNEL + 0x200..KERNEL + 0x280,
            ..NOWHERE
        };
        let at = |address| kernel_code(&[0x8b, 0x47, 0x18], KERNEL + address, &functions);
        assert_eq!(at(0xff), KernelCode::Other);
        assert_eq!(at(0x100), KernelCode::Wakes);
        assert_eq!(at(0x180), KernelCode::Other);
        assert_eq!(at(0x27f), KernelCode::Starts);
    }

    #[test]
    fn who_pauses_in_a_call_of_all_cpus_awaits_them() {
        let functions = KernelFunctions { call: KERNEL + 0x300..KERNEL + 0x380, ..NOWHERE };
        let at = |bytes: &[u8], address| kernel_code(bytes, KERNEL + address, &functions);
        assert_eq!(at(&PAUSE, 0x310), KernelCode::AwaitsAll);
        assert_eq!(at(&[0x90], 0x310), KernelCode::Other);
        // Elsewhere it waits for one lock.
        assert_eq!(at(&PAUSE, 0x380), KernelCode::Pauses);
    }
}
