//! What an iteration costs where first-level caches answer every access: bounds, not a simulation.
//!
//! From below, two bounds: `issue` is what no core of this kind can do faster, whatever it overlaps (instructions, loads, stores
//! and operations that every iteration executes, over the pipes for them). `chain` is the larger of that and the chain of
//! results from one iteration to the next; it holds only where one entry into the loop is many iterations, because the
//! chains of two entries overlap. `high` is what a loop takes whose data is at hand: the same with the slower of the
//! published figures, all branches executed and mispredicted, values that go through memory from one iteration to the
//! next, and a third more for pipes that are not used evenly.

use super::cores::{Core, Range};
use super::nest::Body;
use super::steps::Stream;
use crate::function::Function;
use crate::operand;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};
use nearfar_recording::Access;
use std::collections::HashMap;

/// Cycles of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What no overlap can go below.
    pub issue: f64,
    /// The same for one entry of many iterations.
    pub chain: f64,
    /// What it takes at most where no access waits.
    pub high: f64,
    /// The same, where what an iteration stores is at hand for the next at once; only of loops that access fixed places of whole words.
    pub in_place: Option<f64>,
}

/// A mispredicted branch, cycles: 13 to 20 on the cores of the table (Agner Fog, "The microarchitecture", chapters on branch
/// prediction).
const MISPREDICTED: f64 = 20.0;
/// From a store to a load of the same place, cycles, at most on these cores (Agner Fog, ibid., "store forwarding").
const FORWARDED: f64 = 8.0;
/// What pipes that are not used evenly cost, beside the bound. // chosen
const UNEVEN: f64 = 1.3;
/// Iterations that the chain is followed for; what the first ones take is left out.
const FOLLOWED: usize = 48;
/// Iterations between a store and a load of its place that count as a chain through memory.
const NEAR: i64 = 16;

/// What an instruction does, beside its memory operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
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
}

/// Cycles of an iteration; an error says which instruction has none.
pub(super) fn of(
    function: &Function,
    body: &Body,
    streams: &[Stream],
    core: Option<&Core>,
    factory: &mut InstructionInfoFactory,
) -> Result<Cost, String> {
    let core = core.ok_or("the processor is not among those whose figures nearfar has")?;
    if body.nested {
        return Err("another loop is inside it".into());
    }
    let mut all = Vec::new();
    for (i, &always) in body.span.clone().zip(&body.always) {
        all.push(Step::of(&function.instructions[i], always, function.frame_pointer, factory)?);
    }
    let issue = throughput(core, all.iter().filter(|s| s.always), 1.0);
    let chain = issue.max(chain(core, &all, false));
    let busy = throughput(core, all.iter(), 1.0) * UNEVEN;
    let mut high = busy.max(self::chain(core, &all, true));
    let mispredicted = body.branches as f64 * MISPREDICTED;
    let words = all.iter().all(|s| s.loads + s.stores == 0.0 || !s.vector && matches!(s.bytes, 4 | 8));
    let fixed = !streams.is_empty() && streams.iter().all(|s| s.step == Some(0));
    let in_place = (fixed && words).then(|| high.max(path(core, &all, false)) + mispredicted);
    if through_memory(streams) {
        high = high.max(path(core, &all, true) + FORWARDED);
    }
    high += mispredicted;
    Ok(Cost { issue, chain, high: high.max(chain), in_place })
}

/// An instruction of the body.
struct Step {
    always: bool,
    jump: bool,
    work: Work,
    loads: f64,
    stores: f64,
    /// Whether what it loads or stores is a vector or of floating point.
    vector: bool,
    wide: bool,
    /// Bytes of its largest operand in memory.
    bytes: usize,
    /// Registers that its address is made of.
    address: Vec<Register>,
    /// Registers that it reads otherwise.
    reads: Vec<Register>,
    writes: Vec<Register>,
}

impl Step {
    fn of(
        instruction: &Instruction,
        always: bool,
        frame_pointer: bool,
        factory: &mut InstructionInfoFactory,
    ) -> Result<Step, String> {
        let work = work(instruction)?;
        let info = factory.info(instruction);
        let memory = operand::all(instruction, info, frame_pointer);
        let count = |with: fn(Access) -> bool| memory.iter().filter(|m| with(m.0.access)).count() as f64;
        let mut address = Vec::new();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for used in info.used_memory() {
            address.extend([used.base(), used.index()].map(Register::full_register));
        }
        for used in info.used_registers() {
            let register = used.register().full_register();
            let access = used.access();
            let (reading, writing) = match access {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write => (false, true),
                OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            if reading && !address.contains(&register) {
                reads.push(register);
            }
            if writing {
                writes.push(register);
            }
        }
        if zeroes(instruction) {
            reads.clear();
        }
        let size = memory.iter().map(|m| m.1).max().unwrap_or(0);
        let vector = (0..instruction.op_count()).any(|n| {
            instruction.op_kind(n) == OpKind::Register && instruction.op_register(n).is_vector_register()
        });
        let wide = size == 64
            || (0..instruction.op_count())
                .any(|n| instruction.op_kind(n) == OpKind::Register && instruction.op_register(n).is_zmm());
        Ok(Step {
            always,
            jump: instruction.flow_control() == FlowControl::ConditionalBranch,
            work,
            loads: count(|a| matches!(a, Access::Load | Access::LoadStore)),
            stores: count(|a| matches!(a, Access::Store | Access::LoadStore)),
            vector,
            wide,
            bytes: size,
            address,
            reads,
            writes,
        })
    }

    /// Cycles from its inputs to its result.
    fn latency(&self, core: &Core) -> Range {
        match self.work {
            Work::None => (0.0, 0.0),
            Work::Move { vector: false } => (0.0, 1.0),
            Work::Move { vector: true } => (0.0, 2.0),
            Work::Integer(range) | Work::Vector(range) => range,
            Work::Addition => core.addition,
            Work::Product => core.product,
            Work::Fused => core.fused,
        }
    }
}

/// Cycles by the pipes.
fn throughput<'a>(core: &Core, steps: impl Iterator<Item = &'a Step>, least: f64) -> f64 {
    let mut sum = [0.0f64; 8];
    for s in steps {
        let pipes = if s.wide { core.wide } else { 1.0 };
        // A jump is one instruction with the comparison before it.
        sum[0] += if s.jump { 0.0 } else { 1.0 };
        sum[1] += s.loads;
        sum[2] += if s.vector { s.loads } else { 0.0 };
        sum[3] += s.stores;
        match s.work {
            Work::None | Work::Move { .. } => {}
            Work::Integer(_) => sum[4] += 1.0,
            Work::Vector(_) => sum[5] += pipes,
            Work::Addition => {
                sum[5] += pipes;
                sum[6] += pipes;
            }
            Work::Product | Work::Fused => {
                sum[5] += pipes;
                sum[7] += pipes;
            }
        }
    }
    let per_cycle = [
        core.width,
        core.loads[0],
        core.loads[1],
        core.stores,
        core.integer,
        core.vector,
        core.additions,
        core.products,
    ];
    sum.iter().zip(per_cycle).map(|(n, pipes)| n / pipes).fold(least, f64::max)
}

/// Cycles that the chain of results takes from one iteration to the next. `high`: with the slower figures, and with what only
/// some iterations execute; otherwise such an instruction ends the chain.
fn chain(core: &Core, all: &[Step], high: bool) -> f64 {
    let mut ready: HashMap<Register, f64> = HashMap::new();
    let mut latest = [0.0f64; 2];
    for iteration in 0..FOLLOWED {
        for s in all {
            let done = done(core, s, &ready, high, true);
            for register in &s.writes {
                ready.insert(*register, if high || s.always { done } else { 0.0 });
            }
        }
        let now = ready.values().copied().fold(0.0, f64::max);
        if iteration + 1 == FOLLOWED / 2 {
            latest[0] = now;
        }
        latest[1] = now;
    }
    (latest[1] - latest[0]) / (FOLLOWED - FOLLOWED / 2) as f64
}

/// When an instruction's result is there. `loads`: what is loaded takes time.
fn done(core: &Core, s: &Step, ready: &HashMap<Register, f64>, high: bool, loads: bool) -> f64 {
    let pick = |range: Range| if high { range.1 } else { range.0 };
    let of = |registers: &[Register]| {
        registers.iter().filter_map(|r| ready.get(r)).copied().fold(0.0f64, f64::max)
    };
    let load = match (loads && s.loads > 0.0, s.vector) {
        (false, _) => 0.0,
        (true, false) => pick(core.load),
        (true, true) => pick(core.vector_load),
    };
    // What only loads or stores takes no time beside that.
    let only_moves = matches!(s.work, Work::Move { .. }) && s.loads + s.stores > 0.0;
    let own = if only_moves && !loads { 0.0 } else { pick(s.latency(core)) };
    // An instruction with an address but without memory is `lea`.
    (of(&s.address) + load).max(of(&s.reads)) + own
}

/// Cycles from the first input to the last result of one iteration. `loads`: what is loaded takes time.
fn path(core: &Core, all: &[Step], loads: bool) -> f64 {
    let mut ready: HashMap<Register, f64> = HashMap::new();
    let mut most = 0.0f64;
    for s in all {
        let done = done(core, s, &ready, true, loads);
        most = most.max(done);
        s.writes.iter().for_each(|register| {
            ready.insert(*register, done);
        });
    }
    most
}

/// Whether an iteration may load what one before it stored.
fn through_memory(streams: &[Stream]) -> bool {
    let stores = |s: &&Stream| matches!(s.access, Access::Store | Access::LoadStore);
    let loads = |s: &&Stream| matches!(s.access, Access::Load | Access::LoadStore);
    streams.iter().filter(stores).any(|store| {
        if store.access == Access::LoadStore
            && store.step.is_none_or(|step| step.unsigned_abs() < store.bytes)
        {
            return true;
        }
        streams.iter().filter(loads).filter(|load| load.ip != store.ip).any(|load| {
            let (Some(a), Some(b), Some(step)) = (&store.address, &load.address, store.step) else {
                // Where either goes is not known.
                return store.step.is_none() && load.step.is_none();
            };
            let apart = a.constant.wrapping_sub(b.constant).unsigned_abs();
            a.terms == b.terms && apart <= step.unsigned_abs().saturating_mul(NEAR as u64)
        })
    })
}

/// `xor eax, eax` and its kind: the result does not wait for the operands, on some of the cores at least (a chain through one is
/// no bound from below).
fn zeroes(instruction: &Instruction) -> bool {
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

/// What an instruction does; an error for those whose cost depends on their operands' values, or that the table leaves out.
fn work(instruction: &Instruction) -> Result<Work, String> {
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
            "div" | "idiv" => return unknown("a division"),
            _ => return unknown("an instruction whose cost is not known"),
        });
    }
    if name.contains("div") || name.contains("sqrt") || name.starts_with("rcp") || name.starts_with("rsqrt") {
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

/// A move between registers that keeps a part of its destination.
fn merges(instruction: &Instruction) -> bool {
    let registers = (0..instruction.op_count()).all(|n| instruction.op_kind(n) == OpKind::Register);
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    registers && (name.ends_with("ss") || name.ends_with("sd"))
}
