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
use super::paths::Paths;
use super::steps::Stream;
use super::work::{Work, work, zeroes};
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

/// What is known of a loop's time.
pub(super) struct Costs {
    /// Cycles of an iteration that no overlap can go below; what has no cost is left out. `None` for an unknown core.
    pub issue: Option<f64>,
    /// Cycles of an iteration; an error says which instruction has none.
    pub cost: Result<Cost, String>,
    /// Its instructions that access memory.
    pub operands: Vec<LoopOperand>,
}

/// An instruction of a loop that accesses memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopOperand {
    /// The instruction.
    pub ip: u64,
    /// Cycles at most from when all before it are done until it is, where the first-level cache answers; `None` if its cost is not known.
    pub hit_cycles: Option<f64>,
    /// What an iteration adds to its address; `None` where that is not constant.
    pub step: Option<i64>,
    /// Bytes of the instruction; `None` if the next one is also jumped to or returned to: a sample there need not have waited for this one.
    pub bytes: Option<u8>,
    /// Instructions of the loop at least that a core ends between two executions of this one; `None` if unknown.
    pub around: Option<u32>,
    /// The same of the whole function.
    pub around_all: Option<u32>,
}

/// What the loop's code says of its time. `by_ip`: what an iteration adds to the address of each instruction that accesses memory.
pub(super) fn of(
    function: &Function,
    body: &Body,
    streams: &[Stream],
    by_ip: &HashMap<u64, Option<i64>>,
    core: Option<&Core>,
    factory: &mut InstructionInfoFactory,
) -> Costs {
    let Some(core) = core else {
        let cost = Err("the processor is not among those whose figures nearfar has".into());
        return Costs { issue: None, cost, operands: Vec::new() };
    };
    let step = |(i, &always): (usize, &bool)| {
        Step::of(&function.instructions[i], always, function.frame_pointer, core, factory)
    };
    let all: Vec<Step> = body.span.clone().zip(&body.always).map(step).collect();
    let issue = throughput(core, all.iter().filter(|s| s.always), false);
    let forwarded = if through_memory(streams) { FORWARDED } else { 0.0 };
    let paths = Paths::of(function, &body.span);
    let all_paths = Paths::of(function, &(0..=function.instructions.len() - 1));
    let around = |paths: &Option<Paths>, at: usize| paths.as_ref().and_then(|paths| paths.around(at));
    let operand = |(s, at): (&Step, usize)| {
        (s.loads + s.stores > 0.0).then(|| LoopOperand {
            ip: s.ip,
            hit_cycles: s.unknown.is_none().then(|| s.alone(core) + forwarded),
            step: by_ip.get(&s.ip).copied().flatten(),
            bytes: is_alone_before(function, at).then(|| function.instructions[at].len() as u8),
            around: around(&paths, at),
            around_all: around(&all_paths, at),
        })
    };
    let operands = all.iter().zip(body.span.clone()).filter_map(operand).collect();
    let unknown = all.iter().find_map(|s| s.unknown.clone());
    let cost = match unknown {
        _ if body.nested => Err("another loop is inside it".into()),
        Some(why) => Err(why),
        None => Ok(bounds(core, &all, issue, body, streams)),
    };
    Costs { issue: Some(issue), cost, operands }
}

/// Whether nothing else comes before the next instruction.
fn is_alone_before(function: &Function, at: usize) -> bool {
    function.instructions[at].flow_control() == FlowControl::Next && !function.is_target(at + 1)
}

/// Cycles of an iteration whose instructions all have a cost.
fn bounds(core: &Core, all: &[Step], issue: f64, body: &Body, streams: &[Stream]) -> Cost {
    let chain = issue.max(self::chain(core, all, false));
    let busy = throughput(core, all.iter(), true) * UNEVEN;
    let mut high = busy.max(self::chain(core, all, true));
    let mispredicted = body.branches as f64 * MISPREDICTED;
    let words = all.iter().all(|s| s.loads + s.stores == 0.0 || !s.vector && matches!(s.bytes, 4 | 8));
    let fixed = !streams.is_empty() && streams.iter().all(|s| s.step == Some(0));
    let in_place = (fixed && words).then(|| high.max(path(core, all, false)) + mispredicted);
    if through_memory(streams) {
        high = high.max(path(core, all, true) + FORWARDED);
    }
    high += mispredicted;
    Cost { issue, chain, high: high.max(chain), in_place }
}

/// An instruction of the body.
struct Step {
    ip: u64,
    always: bool,
    jump: bool,
    /// Why its cost is not known; then `work` is none.
    unknown: Option<String>,
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
        core: &Core,
        factory: &mut InstructionInfoFactory,
    ) -> Step {
        let (work, unknown) = match work(core, instruction) {
            Ok(work) => (work, None),
            Err(why) => (Work::None, Some(why)),
        };
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
        Step {
            ip: instruction.ip(),
            always,
            unknown,
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
        }
    }

    /// Cycles at most until it is done once all before it are, with its memory in the first-level cache.
    fn alone(&self, core: &Core) -> f64 {
        let load = match (self.loads > 0.0, self.vector) {
            (false, _) => 0.0,
            (true, false) => core.load.1,
            (true, true) => core.vector_load.1,
        };
        let own = match self.work {
            Work::Move { .. } => 0.0,
            _ => self.latency(core).1,
        };
        (load + own).max(1.0)
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
            Work::Division { latency, .. } => latency,
        }
    }
}

/// Cycles by the pipes.
/// `high`: with the slower figures.
fn throughput<'a>(core: &Core, steps: impl Iterator<Item = &'a Step>, high: bool) -> f64 {
    let mut sum = [0.0f64; 10];
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
            // One unit of each kind, which others cannot use meanwhile.
            Work::Division { each, vector, .. } => {
                sum[if vector { 8 } else { 9 }] += if high { each.1 } else { each.0 };
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
        1.0,
        1.0,
    ];
    // No loop takes less than a cycle.
    sum.iter().zip(per_cycle).map(|(n, pipes)| n / pipes).fold(1.0, f64::max)
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
            let (Some(a), Some(b), Some(step)) = (&store.start, &load.start, store.step) else {
                // Where either goes is not known.
                return store.step.is_none() && load.step.is_none();
            };
            let apart = a.constant.wrapping_sub(b.constant);
            let bytes = store.bytes.max(load.bytes);
            // So many iterations later the load is where the store was.
            let meets = |later: i64| apart.wrapping_sub(step.wrapping_mul(later)).unsigned_abs() < bytes;
            a.terms == b.terms && (1..=NEAR).any(meets)
        })
    })
}
