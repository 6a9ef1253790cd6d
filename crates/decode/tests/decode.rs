//! Rule P on hand-assembled code. Each listing is bytes and what they mean.

use nearfar_decode::{Decoder, FunctionCode, Registers, Resolved};
use nearfar_recording::{Access, Resolution};

const START: u64 = 0x5555_0000_1000;
const HEAP: u64 = 0x7f00_0000_0000;
const OTHER: u64 = 0x7e00_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RSP: usize = 4;
const RSI: usize = 6;
const RDI: usize = 7;

struct Listing {
    bytes: Vec<u8>,
    places: Vec<u64>,
}

/// Instructions as (hex bytes, disassembly).
fn listing(instructions: &[(&str, &str)]) -> Listing {
    let mut bytes = Vec::new();
    let mut places = Vec::new();
    for (hex, _) in instructions {
        places.push(START + bytes.len() as u64);
        bytes.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    // Code goes on behind a sample.
    places.push(START + bytes.len() as u64);
    bytes.push(0x90);
    Listing { bytes, places }
}

impl Listing {
    /// Resolves a sample at the instruction with this number.
    fn sample(&self, at: usize, values: &[(usize, u64)]) -> Resolved {
        let mut registers = Registers { ip: self.places[at], ..Registers::default() };
        registers.gpr[RSP] = STACK;
        for (register, value) in values {
            registers.gpr[*register] = *value;
        }
        Decoder::new().resolve(1, &registers, |_| Some(self.code()))
    }

    fn code(&self) -> FunctionCode<'_> {
        FunctionCode { start: START, bytes: &self.bytes, synced: true }
    }

    fn check(&self, found: Resolved, resolution: Resolution, access: Access, address: u64, at: usize) {
        let expected = Resolved { resolution, access, address, operand_ip: self.places[at] };
        assert_eq!(found, expected);
    }
}

#[test]
fn a_load_just_before_the_sample_is_exact() {
    let code = listing(&[("48 8b 44 cf 10", "mov rax, [rdi + rcx*8 + 16]")]);
    let found = code.sample(1, &[(RDI, HEAP), (RCX, 3)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP + 40, 0);
}

#[test]
fn stores_and_updates_are_told_apart() {
    let code = listing(&[("0f 29 07", "movaps [rdi], xmm0"), ("48 83 07 01", "add qword ptr [rdi], 1")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Exact, Access::Store, HEAP, 0);
    let found = code.sample(2, &[(RDI, HEAP)]);
    code.check(found, Resolution::Exact, Access::LoadStore, HEAP, 1);
}

#[test]
fn a_static_variable_is_exact() {
    let code = listing(&[("48 8b 05 00 10 00 00", "mov rax, [rip + 0x1000]")]);
    let found = code.sample(1, &[]);
    code.check(found, Resolution::Exact, Access::Load, START + 7 + 0x1000, 0);
}

#[test]
fn a_coefficient_in_the_code_is_not_what_a_stencil_waits_for() {
    let code = listing(&[
        ("c5 f4 58 04 ce", "vaddps ymm0, ymm1, [rsi + rcx*8]"),
        ("c4 e2 6d 98 05 00 10 00 00", "vfmadd132ps ymm0, ymm2, [rip + 0x1000]"),
    ]);
    let found = code.sample(2, &[(RSI, HEAP), (RCX, 4)]);
    code.check(found, Resolution::Near, Access::Load, HEAP + 32, 0);
    // Where the grid's address is lost, the coefficient is still better than nothing.
    let found = code.sample(2, &[(RSI, 0), (RCX, 0)]);
    code.check(found, Resolution::Exact, Access::Load, code.places[2] + 0x1000, 1);
}

#[test]
fn push_and_pop_are_undone() {
    let code = listing(&[("53", "push rbx"), ("5b", "pop rbx")]);
    let found = code.sample(1, &[]);
    code.check(found, Resolution::Exact, Access::Store, STACK, 0);
    let found = code.sample(2, &[]);
    code.check(found, Resolution::Exact, Access::Load, STACK - 8, 1);
}

#[test]
fn of_two_operands_the_read_is_blamed() {
    let code = listing(&[("ff 37", "push qword ptr [rdi]"), ("48 a5", "movsq")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP, 0);
    let found = code.sample(2, &[(RDI, HEAP), (RSI, OTHER + 8)]);
    code.check(found, Resolution::Exact, Access::Load, OTHER, 1);
}

#[test]
fn a_prefetch_counts_as_a_load() {
    let code = listing(&[("0f 18 4f 40", "prefetcht0 [rdi + 64]")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP + 64, 0);
}

#[test]
fn an_overwritten_index_is_recomputed_from_its_source() {
    let code = listing(&[("48 63 c1", "movsxd rax, ecx"), ("48 8b 04 c7", "mov rax, [rdi + rax*8]")]);
    let found = code.sample(2, &[(RDI, HEAP), (RCX, 0xffff_fffe), (RAX, 99)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP - 16, 1);
}

#[test]
fn an_index_from_another_path_is_not_exact() {
    let code = listing(&[
        ("85 d2", "test edx, edx"),
        ("74 03", "je . + 5"),
        ("48 89 c8", "mov rax, rcx"),
        ("48 8b 04 c7", "mov rax, [rdi + rax*8]"),
    ]);
    let found = code.sample(4, &[(RDI, HEAP), (RCX, 2)]);
    code.check(found, Resolution::Object, Access::Load, HEAP, 3);
}

#[test]
fn a_pointer_chase_gives_the_next_node() {
    let code = listing(&[("48 8b 76 08", "mov rsi, [rsi + 8]")]);
    let found = code.sample(1, &[(RSI, HEAP)]);
    code.check(found, Resolution::Next, Access::Load, HEAP + 8, 0);
    // The last link is null: the list ends.
    let found = code.sample(1, &[(RSI, 0)]);
    code.check(
        Resolved { operand_ip: code.places[0], ..found },
        Resolution::Unresolved,
        Access::Unknown,
        0,
        0,
    );
}

#[test]
fn a_table_that_replaces_its_index_gives_the_object() {
    let code = listing(&[
        ("8b 04 87", "mov eax, [rdi + rax*4]"),
        ("8b 04 38", "mov eax, [rax + rdi]"),
        ("8b 04 85 00 40 40 00", "mov eax, [rax*4 + 0x404000]"),
    ]);
    for at in 0..2 {
        let found = code.sample(at + 1, &[(RDI, HEAP), (RAX, 77)]);
        code.check(found, Resolution::Object, Access::Load, HEAP, at);
    }
    let found = code.sample(3, &[(RAX, 77)]);
    code.check(found, Resolution::Object, Access::Load, 0x40_4000, 2);
}

#[test]
fn a_loop_that_follows_indexes_gives_the_next_one() {
    let follows =
        [("8b 04 87", "mov eax, [rdi + rax*4]"), ("83 e9 01", "sub ecx, 1"), ("75 f8", "jne . - 6")];
    let code = listing(&follows);
    // Both are behind the load, which the way from either leads to again.
    let found = code.sample(1, &[(RDI, HEAP), (RAX, 77)]);
    code.check(found, Resolution::Next, Access::Load, HEAP + 77 * 4, 0);
    // Something else comes into the register in between, or the base moves on.
    for (hex, _) in [("83 e0 07", "and eax, 7"), ("83 c7 40", "add edi, 64")] {
        let code = listing(&[follows[0], (hex, ""), ("83 e9 01", ""), ("75 f5", "jne . - 9")]);
        let found = code.sample(1, &[(RDI, HEAP), (RAX, 77)]);
        assert_ne!(found.resolution, Resolution::Next, "{hex}");
    }
}

#[test]
fn a_gather_gives_the_object() {
    let code = listing(&[("c4 e2 ed 93 04 cf", "vgatherqpd ymm0, [rdi + ymm1*8], ymm2")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Object, Access::Load, HEAP, 0);
}

#[test]
fn pointer_updates_between_load_and_sample_are_undone() {
    let code = listing(&[
        ("48 8b 07", "mov rax, [rdi]"),
        ("48 83 c7 08", "add rdi, 8"),
        ("48 8d 3c cf", "lea rdi, [rdi + rcx*8]"),
    ]);
    let found = code.sample(3, &[(RDI, HEAP + 24), (RCX, 2)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
}

#[test]
fn a_copied_pointer_is_found_in_its_copy() {
    let code =
        listing(&[("48 8b 07", "mov rax, [rdi]"), ("48 89 fa", "mov rdx, rdi"), ("31 ff", "xor edi, edi")]);
    let found = code.sample(3, &[(RDX, HEAP)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
}

#[test]
fn arithmetic_blames_the_load_it_waits_for() {
    let code = listing(&[
        ("48 8b 07", "mov rax, [rdi]"),
        ("48 8b 16", "mov rdx, [rsi]"),
        ("48 0f af c1", "imul rax, rcx"),
    ]);
    let found = code.sample(3, &[(RDI, HEAP), (RSI, OTHER)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
}

#[test]
fn spills_are_blamed_last() {
    let code = listing(&[
        ("48 8b 17", "mov rdx, [rdi]"),
        ("48 89 54 24 08", "mov [rsp + 8], rdx"),
        ("48 83 c1 01", "add rcx, 1"),
    ]);
    let found = code.sample(3, &[(RDI, HEAP)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
    // But right before the sample they are what retired.
    let found = code.sample(2, &[(RDI, HEAP)]);
    code.check(found, Resolution::Exact, Access::Store, STACK + 8, 1);
}

#[test]
fn an_operand_ahead_is_evaluated_where_it_will_be() {
    let code =
        listing(&[("31 c0", "xor eax, eax"), ("48 83 c7 08", "add rdi, 8"), ("48 8b 07", "mov rax, [rdi]")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Near, Access::Load, HEAP + 8, 2);
}

#[test]
fn a_comparison_fused_with_its_jump_is_exact() {
    let code = listing(&[("48 39 14 c7", "cmp [rdi + rax*8], rdx"), ("74 0e", "je . + 16")]);
    let found = code.sample(2, &[(RDI, HEAP), (RAX, 4)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP + 32, 0);
}

#[test]
fn a_loop_head_is_reached_from_its_back_edge() {
    let code = listing(&[
        ("48 8b 0e", "mov rcx, [rsi]"),
        // The loop begins here.
        ("48 83 c0 01", "add rax, 1"),
        ("48 39 14 c7", "cmp [rdi + rax*8], rdx"),
        ("75 f6", "jne . - 8"),
    ]);
    let found = code.sample(1, &[(RDI, HEAP), (RSI, OTHER), (RAX, 4)]);
    code.check(found, Resolution::Exact, Access::Load, HEAP + 32, 2);
}

#[test]
fn in_a_loop_the_previous_round_is_behind_the_head() {
    let code = listing(&[
        ("48 0f af c1", "imul rax, rcx"),
        ("48 8b 17", "mov rdx, [rdi]"),
        ("48 83 c7 08", "add rdi, 8"),
        ("48 ff ce", "dec rsi"),
        ("75 f0", "jne . - 14"),
    ]);
    let found = code.sample(1, &[(RDI, HEAP + 8), (RSI, 5)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 1);
}

#[test]
fn behind_a_jump_the_sample_was_jumped_to() {
    let code = listing(&[
        ("48 8b 07", "mov rax, [rdi]"),
        ("eb 03", "jmp . + 5"),
        ("48 8b 06", "mov rax, [rsi]"),
        ("90", "nop"),
    ]);
    let found = code.sample(3, &[(RDI, HEAP), (RSI, OTHER)]);
    // Of two ways here the straight one is taken.
    code.check(found, Resolution::Exact, Access::Load, OTHER, 2);
    let code = listing(&[("48 8b 07", "mov rax, [rdi]"), ("eb 01", "jmp . + 3"), ("c3", "ret")]);
    let found = code.sample(3, &[(RDI, HEAP)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
}

#[test]
fn a_call_hides_what_was_before_it() {
    let code = listing(&[
        ("48 8b 07", "mov rax, [rdi]"),
        ("e8 00 01 00 00", "call . + 0x105"),
        ("48 8b 16", "mov rdx, [rsi]"),
    ]);
    let found = code.sample(2, &[(RDI, HEAP), (RSI, OTHER)]);
    code.check(found, Resolution::Near, Access::Load, OTHER, 2);
}

#[test]
fn string_instructions_show_their_progress() {
    let code = listing(&[("48 8b 16", "mov rdx, [rsi]"), ("f3 a4", "rep movsb")]);
    let found = code.sample(1, &[(RDI, HEAP), (RSI, OTHER), (RCX, 100)]);
    code.check(found, Resolution::String, Access::Store, HEAP, 1);
    // Nothing left to copy: not the string instruction.
    let found = code.sample(1, &[(RDI, HEAP), (RSI, OTHER), (RCX, 0)]);
    code.check(found, Resolution::Exact, Access::Load, OTHER, 0);
    // Behind it: the last byte.
    let found = code.sample(2, &[(RDI, HEAP), (RSI, OTHER), (RCX, 0)]);
    code.check(found, Resolution::Exact, Access::Store, HEAP - 1, 1);
}

#[test]
fn lea_and_nop_touch_no_memory() {
    let code = listing(&[
        ("48 8d 47 08", "lea rax, [rdi + 8]"),
        ("0f 1f 40 00", "nop [rax]"),
        ("48 0f af c1", "imul rax, rcx"),
    ]);
    let found = code.sample(2, &[(RDI, HEAP)]);
    code.check(found, Resolution::Compute, Access::Unknown, 0, 2);
}

#[test]
fn thread_local_storage_is_known_but_not_found() {
    let code = listing(&[("64 48 8b 47 08", "mov rax, fs:[rdi + 8]")]);
    let found = code.sample(1, &[(RDI, HEAP)]);
    code.check(found, Resolution::Unresolved, Access::Unknown, 0, 1);
}

#[test]
fn impossible_addresses_are_not_believed() {
    let code = listing(&[("48 8b 07", "mov rax, [rdi]"), ("48 8b 16", "mov rdx, [rsi]")]);
    let found = code.sample(2, &[(RDI, HEAP), (RSI, 0xffff_8000_0000_0000)]);
    code.check(found, Resolution::Near, Access::Load, HEAP, 0);
}

#[test]
fn code_without_a_known_start_falls_into_step() {
    let code = listing(&[
        ("48 b8 48 8b 48 8b 48 8b 48 8b", "movabs rax, 0x8b488b488b488b48"),
        ("48 c7 c1 00 00 00 00", "mov rcx, 0"),
        ("48 c7 c2 01 00 00 00", "mov rdx, 1"),
        ("48 8b 87 34 12 00 00", "mov rax, [rdi + 0x1234]"),
    ]);
    let mut registers = Registers { ip: code.places[4], ..Registers::default() };
    registers.gpr[RDI] = HEAP;
    let found = Decoder::new().resolve(1, &registers, |_| {
        Some(FunctionCode { start: START + 3, bytes: &code.bytes[3..], synced: false })
    });
    code.check(found, Resolution::Exact, Access::Load, HEAP + 0x1234, 3);
}
