//! Floating-point operations of the program's instructions, counted as processors' own counters do:
//! additions, subtractions, multiplications, divisions, square roots, minima and maxima are one for each
//! number in the register, fused multiply-adds and dot products two (Intel's events
//! FP_ARITH_INST_RETIRED.*, Software Developer's Manual vol. 3). Conversions, comparisons and moves are
//! none; numbers that a mask leaves out are counted, as those events do.

use iced_x86::{Instruction, Mnemonic, OpKind};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What has run when a block has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ran {
    /// Instructions.
    pub instructions: u16,
    /// Operations in double precision; those of the x87 too, whatever theirs is.
    pub f64_ops: u16,
    /// In single precision.
    pub f32_ops: u16,
}

impl Ran {
    /// Of these instructions.
    pub fn of(block: &[Instruction]) -> Ran {
        let mut ran = Ran { instructions: block.len() as u16, ..Ran::default() };
        for instruction in block {
            let (double, ops) = operations(instruction);
            let sum = if double { &mut ran.f64_ops } else { &mut ran.f32_ops };
            // A block has at most 512 instructions of at most 32 operations.
            *sum += ops;
        }
        ran
    }

    fn pack(self) -> u64 {
        u64::from(self.instructions) | u64::from(self.f64_ops) << 16 | u64::from(self.f32_ops) << 32
    }

    fn unpack(word: u64) -> Ran {
        Ran { instructions: word as u16, f64_ops: (word >> 16) as u16, f32_ops: (word >> 32) as u16 }
    }
}

/// From this number on, what an execution tells is a place in the table; below it is a number of
/// instructions without operations, which most blocks are.
pub const TABLE: u16 = 1 << 15;

/// Different blocks, by what they tell. Written once per place, before any block that names it can run.
static RANS: [AtomicU64; TABLE as usize] = [const { AtomicU64::new(0) }; TABLE as usize];
static PLACES: Mutex<Option<HashMap<Ran, u16>>> = Mutex::new(None);
/// The table was full: operations are not counted any more, and so not known at all.
static FULL: AtomicBool = AtomicBool::new(false);

/// The number by which an execution tells of a block.
pub fn number(ran: Ran) -> u16 {
    if ran.f64_ops == 0 && ran.f32_ops == 0 {
        return ran.instructions;
    }
    let mut places = PLACES.lock().unwrap_or_else(|e| e.into_inner());
    let places = places.get_or_insert_default();
    let next = places.len() as u16;
    if next == TABLE && !places.contains_key(&ran) {
        FULL.store(true, Ordering::Relaxed);
        return ran.instructions;
    }
    let place = *places.entry(ran).or_insert(next);
    RANS[usize::from(place)].store(ran.pack(), Ordering::Relaxed);
    TABLE | place
}

/// What [`number`] gave a number at or above [`TABLE`] for.
#[inline]
pub fn behind(number: u16) -> Ran {
    Ran::unpack(RANS[usize::from(number & (TABLE - 1))].load(Ordering::Relaxed))
}

/// Whether all operations were counted so far.
pub fn counted() -> bool {
    !FULL.load(Ordering::Relaxed)
}

/// Whether it computes in double precision, and how many operations.
fn operations(instruction: &Instruction) -> (bool, u16) {
    let mnemonic = instruction.mnemonic();
    if let Some(one) = x87(mnemonic) {
        return (true, one);
    }
    if instruction.op_count() == 0
        || instruction.op0_kind() != OpKind::Register
        || !instruction.op0_register().is_vector_register()
    {
        return (true, 0);
    }
    let name = format!("{mnemonic:?}");
    let name = name.strip_prefix('V').map_or_else(|| name.to_lowercase(), str::to_lowercase);
    let (stem, kind) = name.split_at(name.len().saturating_sub(2));
    let lanes = |bytes: usize| (instruction.op0_register().size() / bytes) as u16;
    let (double, count) = match kind {
        "pd" => (true, lanes(8)),
        "ps" => (false, lanes(4)),
        "sd" => (true, 1),
        "ss" => (false, 1),
        _ => return (true, 0),
    };
    (double, count * each(stem))
}

/// Operations for each number, of a mnemonic without its type and the V of AVX.
fn each(stem: &str) -> u16 {
    let fused = ["fmadd", "fmsub", "fnmadd", "fnmsub", "fmaddsub", "fmsubadd"];
    match stem {
        "add" | "sub" | "mul" | "div" | "sqrt" | "min" | "max" | "hadd" | "hsub" | "addsub" | "rcp"
        | "rsqrt" | "rcp14" | "rsqrt14" => 1,
        "dp" => 2,
        // fmadd231 has its order behind it; that of four operands (FMA4) has none.
        _ if fused.contains(&stem.trim_end_matches(|c: char| c.is_ascii_digit())) => 2,
        _ => 0,
    }
}

/// Operations of an x87 instruction; `None` for all others.
fn x87(mnemonic: Mnemonic) -> Option<u16> {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Fadd | Faddp
            | Fiadd
            | Fsub
            | Fsubp
            | Fisub
            | Fsubr
            | Fsubrp
            | Fisubr
            | Fmul
            | Fmulp
            | Fimul
            | Fdiv
            | Fdivp
            | Fidiv
            | Fdivr
            | Fdivrp
            | Fidivr
            | Fsqrt
    )
    .then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    #[test]
    fn operations_are_those_that_processors_count() {
        let cases: &[(&str, &[u8], bool, u16)] = &[
            ("addsd %xmm1,%xmm0", &[0xf2, 0x0f, 0x58, 0xc1], true, 1),
            ("mulss %xmm1,%xmm0", &[0xf3, 0x0f, 0x59, 0xc1], false, 1),
            ("addpd %xmm1,%xmm0", &[0x66, 0x0f, 0x58, 0xc1], true, 2),
            ("vmulps (%rdi),%ymm1,%ymm0", &[0xc5, 0xf4, 0x59, 0x07], false, 8),
            ("vfmadd231pd %ymm2,%ymm1,%ymm0", &[0xc4, 0xe2, 0xf5, 0xb8, 0xc2], true, 8),
            ("vfmadd213ps %ymm2,%ymm1,%ymm0", &[0xc4, 0xe2, 0x75, 0xa8, 0xc2], false, 16),
            ("vfnmadd231sd %xmm2,%xmm1,%xmm0", &[0xc4, 0xe2, 0xf1, 0xbd, 0xc2], true, 2),
            ("sqrtsd %xmm1,%xmm0", &[0xf2, 0x0f, 0x51, 0xc1], true, 1),
            ("maxpd %xmm1,%xmm0", &[0x66, 0x0f, 0x5f, 0xc1], true, 2),
            ("fadd %st(1),%st", &[0xd8, 0xc1], true, 1),
            // Not: integers, moves, conversions, comparisons, logic.
            ("paddd %xmm1,%xmm0", &[0x66, 0x0f, 0xfe, 0xc1], true, 0),
            ("movapd %xmm1,%xmm0", &[0x66, 0x0f, 0x28, 0xc1], true, 0),
            ("movsd (%rdi),%xmm0", &[0xf2, 0x0f, 0x10, 0x07], true, 0),
            ("cvtsi2sd %eax,%xmm0", &[0xf2, 0x0f, 0x2a, 0xc0], true, 0),
            ("ucomisd %xmm1,%xmm0", &[0x66, 0x0f, 0x2e, 0xc1], true, 0),
            ("xorpd %xmm1,%xmm0", &[0x66, 0x0f, 0x57, 0xc1], true, 0),
            ("add %rax,%rbx", &[0x48, 0x01, 0xc3], true, 0),
            ("ret", &[0xc3], true, 0),
        ];
        for (text, bytes, double, count) in cases {
            let (is_double, found) = operations(&decode(bytes, 0x401000));
            assert_eq!(found, *count, "{text}");
            assert!(found == 0 || is_double == *double, "{text}");
        }
    }

    #[test]
    fn numbers_lead_back_to_what_they_stand_for() {
        let plain = Ran { instructions: 512, ..Ran::default() };
        assert_eq!(number(plain), 512);
        let one = Ran { instructions: 20, f64_ops: 0, f32_ops: 8192 };
        let other = Ran { instructions: 21, f64_ops: 4, f32_ops: 0 };
        let (a, b) = (number(one), number(other));
        assert!(a >= TABLE && b >= TABLE && a != b);
        assert_eq!((behind(a), behind(b), number(one)), (one, other, a));
        assert!(counted());
    }
}
