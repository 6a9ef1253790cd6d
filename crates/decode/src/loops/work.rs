//! What an instruction does beside its memory operands, and what that costs.

use super::cores::{Core, Range};
use iced_x86::{FlowControl, Instruction, OpKind, Register};

/// What an instruction does, beside its memory operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Jump, or nothing.
    None,
    /// A copy of a register, which may cost nothing; or only a load or store.
    Move {
        vector: bool,
    },
    Integer(Range),
    Vector(Range),
    Addition,
    Product,
    Fused,
    /// Divisions and roots: cycles until the next one can begin, and until the result is there.
    Division {
        each: Range,
        latency: Range,
        vector: bool,
    },
}

/// `xor eax, eax` and its kind: the result does not wait for the operands, on some of the cores at least (a chain through one is
/// no bound from below).
pub(super) fn zeroes(instruction: &Instruction) -> bool {
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let same = match instruction.op_count() {
        2 => instruction.op0_register() == instruction.op1_register(),
        3 => instruction.op1_register() == instruction.op2_register(),
        _ => false,
    };
    same && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && ["xor", "sub", "sbb", "pxor", "psub", "pcmpeq", "pcmpgt", "pandn", "pternlog"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// What an instruction does; an error for those that the table leaves out.
pub(super) fn work(core: &Core, instruction: &Instruction) -> Result<Work, String> {
    let unknown = |what: &str| {
        Err(format!("it has {what} (`{}`)", format!("{:?}", instruction.mnemonic()).to_lowercase()))
    };
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => return Ok(Work::None),
        FlowControl::Call | FlowControl::IndirectCall => return unknown("a call"),
        _ => return unknown("an instruction whose cost is not known"),
    }
    if instruction.has_lock_prefix() || instruction.is_string_instruction() {
        return unknown("an instruction whose cost is not known");
    }
    let full = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let vector = (0..instruction.op_count()).any(|n| {
        instruction.op_kind(n) == OpKind::Register && instruction.op_register(n).is_vector_register()
    });
    let name = if vector { full.strip_prefix('v').unwrap_or(&full) } else { &full };
    // The type at the end: ps, pd, ss, sd.
    let float = ["ps", "pd", "ss", "sd"].iter().find_map(|end| name.strip_suffix(end));
    if !vector {
        return Ok(match name {
            "nop" | "endbr64" | "prefetcht0" | "prefetcht1" | "prefetcht2" | "prefetchnta" | "prefetchw" => {
                Work::None
            }
            "mov" | "movzx" | "movsx" | "movsxd" => Work::Move { vector: false },
            "add" | "sub" | "and" | "or" | "xor" | "cmp" | "test" | "inc" | "dec" | "neg" | "not" | "shl"
            | "sal" | "sar" | "shr" | "andn" | "cdqe" | "cwde" | "cqo" | "cdq" | "movbe" => {
                Work::Integer((1.0, 1.0))
            }
            "lea" | "rol" | "ror" | "rorx" | "shlx" | "sarx" | "shrx" | "bt" | "bswap" | "adc" | "sbb"
            | "blsr" | "blsi" | "bzhi" | "adox" | "adcx" => Work::Integer((1.0, 3.0)),
            "imul" | "mul" | "mulx" => Work::Integer((3.0, 5.0)),
            "popcnt" | "lzcnt" | "tzcnt" | "bsr" | "bsf" | "crc32" => Work::Integer((1.0, 4.0)),
            name if name.starts_with("set") || name.starts_with("cmov") => Work::Integer((1.0, 2.0)),
            "div" | "idiv" => {
                let bytes = instruction.memory_size().size().max(instruction.op0_register().size());
                let most = if bytes > 4 { core.division_64 } else { core.division_32 };
                Work::Division { each: (4.0, most), latency: (7.0, most), vector: false }
            }
            _ => return unknown("an instruction whose cost is not known"),
        });
    }
    if let Some("div" | "sqrt") = float {
        return Ok(division(core, instruction, name));
    }
    if name.contains("div") || name.contains("sqrt") || name.starts_with("rcp") {
        return unknown("a division");
    }
    if name.contains("gather") || name.contains("scatter") {
        return unknown("a gather or scatter");
    }
    Ok(match (float, name) {
        (Some("add" | "sub" | "addsub"), _) => Work::Addition,
        (Some("mul"), _) => Work::Product,
        (Some(op), _) if op.starts_with("fmadd") || op.starts_with("fmsub") || op.starts_with("fnm") => {
            Work::Fused
        }
        // On AMD's cores these take one cycle, on Intel's four.
        (Some("min" | "max"), _) => Work::Vector((1.0, 4.0)),
        (Some(op), _) if op.starts_with("cmp") || matches!(op, "comi" | "ucomi") => Work::Vector((1.0, 5.0)),
        (Some("mova" | "movu" | "mov" | "movnt" | "movl" | "movh"), _) if !merges(instruction) => {
            Work::Move { vector: true }
        }
        (Some("and" | "andn" | "or" | "xor" | "blend" | "unpckl" | "unpckh" | "shuf"), _) => {
            Work::Vector((1.0, 1.0))
        }
        (
            Some(
                "blendv" | "perm" | "permil" | "permi2" | "permt2" | "movl" | "movh" | "mov" | "movlh"
                | "movhl",
            ),
            _,
        ) => Work::Vector((1.0, 5.0)),
        (
            _,
            "movdqa" | "movdqu" | "movdqa32" | "movdqa64" | "movdqu8" | "movdqu16" | "movdqu32" | "movdqu64"
            | "lddqu" | "movntdq" | "movddup" | "movshdup" | "movsldup",
        ) => Work::Move { vector: true },
        (_, "movd" | "movq") => Work::Vector((0.0, 5.0)),
        (_, name) if name.starts_with("cvt") => Work::Vector((3.0, 12.0)),
        (_, name)
            if name.starts_with("broadcast")
                || name.starts_with("extract")
                || name.starts_with("insert")
                || name.starts_with("perm")
                || name.starts_with("pbroadcast")
                || name.starts_with("pinsr")
                || name.starts_with("pextr")
                || name.starts_with("pmov") =>
        {
            Work::Vector((1.0, 8.0))
        }
        (_, name) if name.starts_with("pmul") || name.starts_with("pmadd") || name.starts_with("psadbw") => {
            Work::Vector((3.0, 10.0))
        }
        (_, name)
            if [
                "padd", "psub", "pand", "por", "pxor", "pcmp", "psll", "psrl", "psra", "punpck", "pshuf",
                "pack", "pmin", "pmax", "pabs", "palignr", "pblend", "pavg", "ptest", "psign", "pternlog",
                "ptern",
            ]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Work::Vector((1.0, 4.0))
        }
        _ => return unknown("an instruction whose cost is not known"),
    })
}

/// A division or root of floating point.
fn division(core: &Core, instruction: &Instruction, name: &str) -> Work {
    let lanes = |register: Register| {
        if register.is_zmm() { 4.0 } else { 1.0 + f64::from(u8::from(register.is_ymm())) }
    };
    let width =
        if name.ends_with("ps") || name.ends_with("pd") { lanes(instruction.op0_register()) } else { 1.0 };
    // Those of 256 and 512 bits are done in parts, one after the other.
    let of_both = |range: Range| (range.0 * width, range.1 * width);
    let (each, latency) = match name.ends_with('d') {
        true => (core.division_f64, core.division_f64_latency),
        false => (core.division_f32, core.division_f32_latency),
    };
    Work::Division { each: of_both(each), latency: (latency.0, latency.1 * width), vector: true }
}

/// A move between registers that keeps a part of its destination.
fn merges(instruction: &Instruction) -> bool {
    let registers = (0..instruction.op_count()).all(|n| instruction.op_kind(n) == OpKind::Register);
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    registers && (name.ends_with("ss") || name.ends_with("sd"))
}
