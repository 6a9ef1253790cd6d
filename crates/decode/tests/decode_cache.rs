//! The decoder around rule P: page faults, its memory, and code that is not code.

use std::cell::Cell;

use nearfar_decode::{Decoder, FunctionCode, Registers, supported};
use nearfar_recording::{Access, Resolution};

const START: u64 = 0x5555_0000_1000;
const HEAP: u64 = 0x7f00_0000_0000;
const RDI: usize = 7;

fn bytes(hex: &str) -> Vec<u8> {
    hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn code(bytes: &[u8]) -> FunctionCode<'_> {
    FunctionCode { start: START, bytes, synced: true }
}

#[test]
fn unknown_code_is_unresolved() {
    let registers = Registers { ip: START, ..Registers::default() };
    let found = Decoder::new().resolve(1, &registers, |_| None);
    assert_eq!(found.resolution, Resolution::Unresolved);
    assert_eq!((found.address, found.operand_ip), (0, START));
}

#[test]
fn a_fault_learns_what_its_instruction_does() {
    let cases = [
        ("48 8b 07", "mov rax, [rdi]", Access::Load),
        ("48 89 07", "mov [rdi], rax", Access::Store),
        ("f0 48 0f c1 07", "lock xadd [rdi], rax", Access::LoadStore),
        ("48 83 3f 00", "cmp qword ptr [rdi], 0", Access::Load),
        ("f3 48 ab", "rep stosq", Access::Store),
        ("f3 a4", "rep movsb", Access::LoadStore),
        ("50", "push rax", Access::Store),
        ("c3", "ret", Access::Load),
        ("c5 fd 2b 07", "vmovntpd [rdi], ymm0", Access::Store),
        ("48 8d 07", "lea rax, [rdi]", Access::Unknown),
        ("48 01 f8", "add rax, rdi", Access::Unknown),
    ];
    for (hex, text, access) in cases {
        let bytes = bytes(hex);
        let found = Decoder::new().access_at(START, Some(code(&bytes)));
        assert_eq!(found, access, "{text}");
    }
    assert_eq!(Decoder::new().access_at(START, None), Access::Unknown);
}

#[test]
fn code_is_asked_for_once_until_forgotten() {
    // mov rax, [rdi]; mov rax, [rsi]; nop
    let bytes = bytes("48 8b 07 48 8b 06 90");
    let mut decoder = Decoder::new();
    let asked = Cell::new(0);
    let answer = |_| {
        asked.set(asked.get() + 1);
        Some(code(&bytes))
    };
    let mut registers = Registers { ip: START + 3, ..Registers::default() };
    for offset in 0..10 {
        registers.gpr[RDI] = HEAP + offset;
        assert_eq!(decoder.resolve(1, &registers, answer).address, HEAP + offset);
    }
    assert_eq!(asked.get(), 1, "one place, one question");
    registers.ip = START + 6;
    decoder.resolve(1, &registers, answer);
    assert_eq!(asked.get(), 1, "the same function");
    decoder.resolve(2, &registers, answer);
    assert_eq!(asked.get(), 2, "another address space");
    decoder.forget(1);
    decoder.resolve(1, &registers, answer);
    decoder.resolve(2, &registers, answer);
    assert_eq!(asked.get(), 3, "only what was forgotten");
}

#[test]
fn any_bytes_are_survived() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..3000u32 {
        let bytes: Vec<u8> = (0..random() % 200 + 1).map(|_| random() as u8).collect();
        // Also where addresses wrap around.
        let start = if round % 2 == 0 { START } else { u64::MAX - random() % 300 };
        let mut decoder = Decoder::new();
        for _ in 0..8 {
            let registers = Registers {
                gpr: std::array::from_fn(|_| random() >> (random() % 64)),
                ip: start.wrapping_add(random() % 220),
            };
            let code = FunctionCode { start, bytes: &bytes, synced: random() % 2 == 0 };
            let found = decoder.resolve(round, &registers, |_| Some(code));
            let addressed = !matches!(found.resolution, Resolution::Unresolved | Resolution::Compute);
            assert_eq!(addressed, found.address != 0);
            decoder.access_at(registers.ip, Some(code));
        }
    }
}

#[test]
fn only_measured_architectures_are_supported() {
    assert!(supported("x86_64"));
    assert!(!supported("aarch64"));
}
