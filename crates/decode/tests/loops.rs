//! Loops of hand-assembled code: what an iteration adds, and what it costs on a core of Zen 4.

use nearfar_decode::loops::{CodeLoop, InLoop, core};
use nearfar_decode::{Decoder, FunctionCode, Registers};
use nearfar_recording::Access;
use std::sync::Arc;

const START: u64 = 0x5555_0000_1000;
const HEAP: u64 = 0x7f00_0000_0000;
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;
const RSI: usize = 6;
const RDI: usize = 7;
const R12: usize = 12;

/// `movsd xmm0,[rdi+rax*8]; mulsd xmm0,xmm2; addsd xmm0,[rsi+rax*8]; movsd [rdx+rax*8],xmm0; add rax,1; cmp rax,rcx; jne`
const TRIAD: &str = "f20f1004c7 f20f59c2 f20f5804c6 f20f1104c2 4883c001 4839c8 75e4 c3";
/// `addsd xmm0,[rdi]; add rdi,8; cmp rdi,rsi; jne`
const ROWS: &str = "f20f5807 4883c708 4839f7 75f3 c3";
/// `imul rax,r8; add rax,r9; mov rcx,rax; shr rcx,40; add rdx,[rdi+rcx*8]; dec rsi; jnz`
const RANDOM: &str = "490fafc0 4c01c8 4889c1 48c1e928 480314cf 48ffce 75e9 c3";
/// `mov rax,[rdi]; test rax,rax; je over; add rbx,rax; over: add rdi,8; cmp rdi,rsi; jne`
const BRANCHY: &str = "488b07 4885c0 7403 4801c3 4883c708 4839f7 75ec c3";
/// `mov rdi,[rbx]; call …; add rbx,8; dec r12; jnz`
const CALLING: &str = "488b3b e8a0ffffff 4883c308 49ffcc 75ef c3";
/// `outer: xor eax,eax; inner: add rdx,[rdi+rax*8]; inc rax; cmp rax,rcx; jne inner; add rdi,800; dec rsi; jnz outer`
const NESTED: &str = "31c0 480314c7 48ffc0 4839c8 75f4 4881c720030000 48ffce 75e6 c3";
/// `movsd xmm0,[rdi]; addsd xmm0,xmm1; movsd [rdi+8],xmm0; add rdi,8; dec rsi; jnz`
const IN_PLACE: &str = "f20f1007 f20f58c1 f20f114708 4883c708 48ffce 75ea c3";
/// `movsd xmm0,[rax]; add rax,8; mulsd xmm0,xmm2; addsd xmm0,xmm1; movsd [rax-8],xmm0; cmp rax,rdx; jne`
const UPDATE: &str = "f20f1000 4883c008 f20f59c2 f20f58c1 f20f1140f8 4839d0 75e6 c3";
/// `mov rax,[rcx]; add rdx,1; add rax,1; mov [rcx],rax; cmp r12,rdx; jne`
const COUNTING: &str = "488b01 4883c201 4883c001 488901 4939d4 75ed c3";
/// `add dword [rcx],1; add dword [rcx+8],1; cmp dword [rcx+32],0; dec rsi; jnz`
const COUNTING_TWICE: &str = "830101 83410801 83792000 48ffce 75f0 c3";
/// `lock add qword [rcx],1; dec rsi; jnz`
const ATOMIC: &str = "f048830101 48ffce 75f6 c3";
/// `divsd xmm0,[rdi]; add rdi,8; dec rsi; jnz`
const DIVIDING: &str = "f20f5e07 4883c708 48ffce 75f3 c3";

/// `pcmpeqd xmm0,xmm0; psrlq xmm0,1; paddq xmm0,[rdi]; add rdi,16; dec rsi; jnz`
const ALL_ONES: &str = "660f76c0 660f73d001 660fd407 4883c710 48ffce 75ea c3";
/// `top: cmp dword [rdi],0; jne out; pause; jmp top; out: ret`
const WAITING: &str = "833f00 7504 f390 ebf7 c3";
/// `top: lock cmpxchg [rdi],rcx; jne slow; mov rax,[rsi]; add rax,[rsi+8]; ret; slow: pause; jmp top`
const LOCKING: &str = "f0480fb10f 7508 488b06 48034608 c3 f390 ebed";

/// The loop around the instruction at an offset.
fn at(code: &str, offset: u64) -> Option<Arc<CodeLoop>> {
    between("", code, "", offset)
}

/// The same where nothing says which function the instruction is in: other code is in front of it and behind it, and what is in front ends
/// in the middle of an instruction, `mov rax, imm64`.
fn unbounded(code: &str, offset: u64) -> Option<Arc<CodeLoop>> {
    between("f20f1004c7 48b8 1122", code, "488b07 4883c708 75f7 c3", offset)
}

/// The loop around the instruction at an offset of code that begins at `START`; its function begins there only if nothing is in front.
fn between(before: &str, code: &str, behind: &str, offset: u64) -> Option<Arc<CodeLoop>> {
    let hex: String = [before, code, behind].concat().split(' ').collect();
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let start = START - before.replace(' ', "").len() as u64 / 2;
    let mut decoder = Decoder::new();
    decoder.core = core("AuthenticAMD", 0x19, 0x11, "");
    let registers = Registers { ip: START + offset, ..Registers::default() };
    let synced = before.is_empty();
    decoder.resolve(1, &registers, |_| Some(FunctionCode { start, bytes: &bytes, synced }));
    decoder.loop_around(1, START + offset)
}

#[test]
fn a_loop_of_generated_code_is_the_one_that_its_jump_back_says() {
    // Offsets of all instructions.
    let cases: [(&str, &[u64]); 4] = [
        (TRIAD, &[0, 5, 9, 14, 19, 23, 26]),
        (ROWS, &[0, 4, 8, 11]),
        (BRANCHY, &[0, 3, 6, 8, 11, 15, 18]),
        // Its inner loop.
        (NESTED, &[2, 6, 9, 12]),
    ];
    for (code, offsets) in cases {
        for &offset in offsets {
            let (known, found) = (at(code, offset).unwrap(), unbounded(code, offset));
            let found = found.unwrap_or_else(|| panic!("{code}: none at {offset}"));
            assert_eq!(
                (found.head, found.last, found.instructions),
                (known.head, known.last, known.instructions)
            );
            assert_eq!(
                (&found.streams, &found.cost, found.position),
                (&known.streams, &known.cost, known.position)
            );
        }
    }
    // The outer loop's own instructions.
    let (known, found) = (at(NESTED, 0).unwrap(), unbounded(NESTED, 14).unwrap());
    assert_eq!((found.head, found.last), (known.head, known.last));
    // `ret` at the end: not in a loop; and code that is left by a jump to in front of the loop belongs to another one.
    assert!(unbounded(TRIAD, 28).is_none());
    // `head: mov rax,[rdi]; test rax,rax; je -20; add rdi,8; dec rsi; jnz head`
    assert!(unbounded("488b07 4885c0 74e6 4883c708 48ffce 75ef c3", 8).is_none());
    assert!(unbounded("488b07 4885c0 90 90 4883c708 48ffce 75ef c3", 8).is_some());
}

fn sampled(code: &CodeLoop, values: &[(usize, u64)]) -> InLoop {
    let mut registers = Registers::default();
    values.iter().for_each(|&(register, value)| registers.gpr[register] = value);
    code.at(&registers, 0).unwrap()
}

#[test]
fn a_triad_has_three_streams_and_is_bound_by_its_instructions() {
    let code = at(TRIAD, 5).unwrap();
    assert_eq!((code.head, code.last - START, code.instructions), (START, 0x1a, 7));
    let streams: Vec<_> = code.streams.iter().map(|s| (s.ip - START, s.access, s.bytes, s.step)).collect();
    let [load, store] = [Access::Load, Access::Store];
    assert_eq!(streams, [(0, load, 8, Some(8)), (9, load, 8, Some(8)), (14, store, 8, Some(8))]);
    let cost = code.cost.clone().unwrap();
    // Six instructions of six a cycle; the comparison and its jump are one.
    assert_eq!((cost.issue, cost.chain), (1.0, 1.0));
    assert!(cost.high < 2.0, "{cost:?}");
    let values = [(RAX, 100), (RCX, 1000), (RDI, HEAP), (RSI, HEAP + 8000), (RDX, HEAP + 16000)];
    let place = sampled(&code, &values);
    assert_eq!((place.position, place.left), (HEAP + 800, Some(900)));
    assert_eq!(place.other, Some((1, HEAP + 8800)));
    // All instructions share the loop.
    assert_eq!(at(TRIAD, 0x17).unwrap().head, START);
    assert!(at(TRIAD, 0x1c).is_none(), "the return is in no loop");
}

#[test]
fn a_place_that_looks_another_after_its_register_was_changed_is_the_same() {
    let code = at(UPDATE, 4).unwrap();
    let streams: Vec<_> = code.streams.iter().map(|s| (s.access, s.bytes, s.step)).collect();
    assert_eq!(streams, [(Access::LoadStore, 8, Some(8))]);
    // No iteration loads what one before it stored.
    assert!(code.cost.clone().unwrap().high < 3.0, "{:?}", code.cost);
    assert!(at(IN_PLACE, 0).unwrap().cost.clone().unwrap().high > 15.0);
}

#[test]
fn additions_that_wait_for_each_other_are_a_chain() {
    let code = at(ROWS, 4).unwrap();
    let cost = code.cost.clone().unwrap();
    assert_eq!((cost.issue, cost.chain, cost.high), (1.0, 3.0, 3.0));
    assert_eq!(sampled(&code, &[(RDI, HEAP), (RSI, HEAP + 80)]).left, Some(10));
}

#[test]
fn what_begins_anew_with_all_bits_set_is_no_chain() {
    assert_eq!(at(ALL_ONES, 0).unwrap().cost.clone().unwrap().chain, 1.0);
}

#[test]
fn random_access_has_no_stream_but_a_register_that_counts() {
    let code = at(RANDOM, 0x12).unwrap();
    assert_eq!(code.streams.iter().map(|s| s.step).collect::<Vec<_>>(), [None]);
    let position = code.position.unwrap();
    assert_eq!((position.stream, position.step), (None, -1));
    // A multiplication and an addition.
    assert_eq!(code.cost.clone().unwrap().chain, 4.0);
    let place = sampled(&code, &[(RSI, 77)]);
    assert_eq!((place.position, place.left, place.other), (77, Some(77), None));
}

#[test]
fn what_only_some_iterations_execute_costs_nothing_from_below_and_a_misprediction_from_above() {
    let cost = at(BRANCHY, 0).unwrap().cost.clone().unwrap();
    assert_eq!((cost.issue, cost.chain), (1.0, 1.0));
    assert!(cost.high > 20.0, "{cost:?}");
}

#[test]
fn a_call_has_no_cost_and_leaves_the_registers_that_it_preserves() {
    let code = at(CALLING, 8).unwrap();
    assert_eq!(code.cost.clone().unwrap_err(), "it has a call (`call`)");
    // What its other instructions take, it takes at least.
    assert!(code.issue.unwrap() >= 1.0);
    let place = sampled(&code, &[(RBX, HEAP), (R12, 5)]);
    assert_eq!((place.position, place.left), (HEAP, Some(5)));
}

#[test]
fn a_quotient_that_is_divided_again_is_a_chain_of_divisions() {
    let cost = at(DIVIDING, 0).unwrap().cost.clone().unwrap();
    assert_eq!((cost.issue, cost.chain, cost.high), (4.0, 13.0, 21.0));
}

#[test]
fn each_operand_has_the_time_that_its_instruction_takes_once_all_before_it_are_done() {
    let hits = |code: &str, inside: u64| -> Vec<(u64, f64)> {
        let operands = &at(code, inside).unwrap().operands;
        operands.iter().filter_map(|o| Some((o.ip - START, o.hit_cycles?))).collect()
    };
    // Loads of vectors take 8 cycles at most, the multiplication with one 3 more; the store's data are there.
    assert_eq!(hits(TRIAD, 5), [(0, 8.0), (9, 11.0), (14, 1.0)]);
    // What an iteration loads the one before it stored.
    assert_eq!(hits(IN_PLACE, 0), [(0, 16.0), (8, 9.0)]);
    assert!(at(TRIAD, 5).unwrap().operands.iter().all(|o| o.step == Some(8)));
    assert_eq!(at(RANDOM, 0x12).unwrap().operands[0].step, None);
    // Also beside a call, which has no cost.
    assert!(!hits(CALLING, 8).is_empty());
}

#[test]
fn processors_that_are_not_known_have_no_cost_and_what_they_can_do_says_more_than_their_model() {
    assert_eq!(core("AuthenticAMD", 0x15, 1, ""), None);
    // Two kinds of core: Alder Lake.
    assert_eq!(core("GenuineIntel", 6, 0x97, "avx2"), None);
    // A hypervisor that calls it Rocket Lake.
    let named = |flags| core("GenuineIntel", 6, 0xa7, flags).unwrap().name;
    assert_eq!(named("avx2 avx512f"), "Ice Lake");
    assert_eq!(named("avx2 amx_tile avx512_fp16"), "Sapphire Rapids to Granite Rapids");
}

#[test]
fn of_two_loops_the_inner_one_counts_and_the_outer_one_has_no_cost() {
    let inner = at(NESTED, 6).unwrap();
    assert_eq!((inner.head - START, inner.instructions), (2, 4));
    assert_eq!(sampled(&inner, &[(RAX, 3), (RCX, 100), (RDI, HEAP)]).position, HEAP + 24);
    let outer = at(NESTED, 0xe).unwrap();
    assert_eq!(outer.head, START);
    assert_eq!(outer.cost.clone().unwrap_err(), "another loop is inside it");
    // The inner loop's index begins anew: only the pointer and the counter are the outer one's.
    assert!(outer.position.is_some_and(|p| p.step == 800 || p.step == -1), "{:?}", outer.position);
}

#[test]
fn what_goes_through_memory_from_one_iteration_to_the_next_may_take_a_whole_path() {
    let cost = at(IN_PLACE, 0).unwrap().cost.clone().unwrap();
    assert!(cost.issue == 1.0 && cost.high >= 18.0, "{cost:?}");
}

#[test]
fn fixed_places_are_streams_of_their_own_and_cost_less_where_stores_are_at_hand() {
    let code = at(COUNTING, 3).unwrap();
    let places = |code: &CodeLoop| -> Vec<_> {
        code.streams.iter().map(|s| (s.ip - START, s.access, s.bytes, s.step)).collect()
    };
    assert_eq!(places(&code), [(0, Access::LoadStore, 8, Some(0))]);
    let cost = code.cost.clone().unwrap();
    assert!(cost.high >= 13.0, "through memory: {cost:?}");
    assert!(cost.in_place.is_some_and(|cycles| (1.0..2.5).contains(&cycles)), "{cost:?}");
    assert_eq!(sampled(&code, &[(RDX, 10), (R12, 100)]).left, Some(90));
    let code = at(COUNTING_TWICE, 3).unwrap();
    let [both, load] = [Access::LoadStore, Access::Load];
    assert_eq!(places(&code), [(0, both, 4, Some(0)), (3, both, 4, Some(0)), (7, load, 4, Some(0))]);
    assert!(code.cost.clone().unwrap().in_place.is_some());
    // Atomic ones have no cost, and other loops have places that move.
    assert!(at(ATOMIC, 0).unwrap().cost.is_err());
    assert_eq!(at(ROWS, 0).unwrap().cost.clone().unwrap().in_place, None);
}

/// `_PyEval_EvalFrameDefault` once kept the recorder busy for fourteen times the program's time.
#[test]
fn interpreters_and_very_long_loops_are_not_looked_at() {
    // Jumps to themselves, and no-operations with a jump back over all of them.
    let jumps = |count: usize| "ebfe".repeat(count);
    assert!(at(&jumps(1000), 10).is_some());
    assert!(at(&jumps(1100), 10).is_none());
    let long = |count: usize| {
        let back = -(count as i32 + 6);
        let back: String = back.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
        format!("{}0f85{back}", "90".repeat(count))
    };
    assert!(at(&long(1000), 10).is_some());
    assert!(at(&long(1100), 10).is_none());
}

#[test]
fn what_an_iteration_with_a_pause_executes_waits_and_what_it_jumps_over_does_not() {
    let pauses = |code, offset| at(code, offset).is_some_and(|found| found.pauses_at(START + offset));
    for offset in [0, 3, 5, 7] {
        assert!(pauses(WAITING, offset), "{offset}");
    }
    // The lock is waited for; what is done while it is held is not waiting, though it lies between.
    for (offset, waits) in
        [(0, true), (5, true), (7, false), (10, false), (14, false), (15, true), (17, true)]
    {
        assert_eq!(pauses(LOCKING, offset), waits, "{offset}");
    }
    assert!(!pauses(TRIAD, 0));
}

#[test]
fn a_loop_that_writes_to_one_place_after_the_other_is_told_from_one_that_only_reads() {
    let writes = |code| at(code, 0).is_some_and(|found| found.writes_along());
    for (code, expected) in [
        (TRIAD, true),
        (IN_PLACE, true),
        (UPDATE, true),
        (ROWS, false),
        (RANDOM, false),
        // The same place each time.
        (COUNTING, false),
        (WAITING, false),
    ] {
        assert_eq!(writes(code), expected, "{code}");
    }
    // `rep movsb`, and `movsb` alone.
    for (bytes, expected) in [(&[0xf3, 0xa4, 0xc3][..], true), (&[0xa4, 0xc3], false)] {
        let mut decoder = Decoder::new();
        let registers = Registers { ip: START, ..Registers::default() };
        decoder.resolve(1, &registers, |_| Some(FunctionCode { start: START, bytes, synced: true }));
        assert_eq!(decoder.writes_along(1, START), expected, "{bytes:?}");
    }
}

/// `top: mov rax,[rdi]; add rdi,8; test rax,rax; je over; add rbx,1; add rbx,2; add rbx,3; over: cmp rdi,rsi; jne top; ret`
const SKIPPING: &str = "488b07 4883c708 4885c0 740c 4883c301 4883c302 4883c303 4839f7 75e3 c3";

#[test]
fn between_two_executions_of_an_instruction_lies_the_shortest_way() {
    let around = |code: &str, inside: u64| -> Vec<_> {
        let operands = &at(code, inside).unwrap().operands;
        operands.iter().map(|o| (o.ip - START, o.bytes, o.around, o.around_all)).collect()
    };
    // Seven instructions, of which the jump ends together with the comparison: five beside each.
    let triad = around(TRIAD, 5);
    let five = |at, bytes| (at, Some(bytes), Some(5), Some(5));
    assert_eq!(triad, [five(0, 5), five(9, 5), five(14, 5)]);
    // The jump skips the three additions: two instructions before it and the comparison are the shortest way.
    assert_eq!(around(SKIPPING, 3), [(0, Some(3), Some(3), Some(3))]);
    // Of an inner loop the outer one's instructions do not count; once around it is the shortest way of the function, too.
    assert_eq!(around(NESTED, 2), [(2, Some(4), Some(2), Some(2))]);
    // Another function that is called returns; one that calls itself comes back at its first instruction.
    let call = |target: &str| around(&CALLING.replace("a0ffffff", target), 8);
    assert_eq!(call("a0ffffff"), [(0, Some(3), Some(3), Some(3)), (3, None, Some(3), Some(3))]);
    assert_eq!(call("f8ffffff"), [(0, Some(3), Some(1), Some(1)), (3, None, Some(1), Some(1))]);
    // An indirect jump may go anywhere, and so may code that is not known.
    let mut switching = RANDOM.to_owned();
    switching.push_str(" ffe0");
    assert_eq!(around(&switching, 0x12)[0].2, None);
    assert_eq!(unbounded(TRIAD, 5).unwrap().operands[0].around, None);
    // Samples behind an instruction blame it only if nothing jumps there.
    let over = "488b07 4885c0 7404 488b5f08 4803c3 4883c708 4839f7 75e8 c3";
    let bytes: Vec<_> = at(over, 3).unwrap().operands.iter().map(|o| o.bytes).collect();
    assert_eq!(bytes, [Some(3), None]);
}
