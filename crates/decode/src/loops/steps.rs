//! What one iteration adds to registers and addresses.

use super::nest::Body;
use crate::effect::{self, Effects};
use crate::function::Function;
use crate::linear::{self, Linear, State};
use crate::operand;
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpKind};
use nearfar_machine::LINE_BYTES;
use nearfar_recording::Access;
use std::collections::HashMap;

/// Registers that a call may change (System V ABI for x86-64, section 3.2.1): rax rcx rdx rsi rdi r8 to r11.
const CALL_CHANGES: [u8; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];
/// The stack pointer.
const RSP: u8 = 4;

/// Memory that a loop goes through with one set of address registers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stream {
    /// First instruction that uses it.
    pub ip: u64,
    /// What the loop does there.
    pub access: Access,
    /// Bytes that one iteration touches.
    pub bytes: u64,
    /// What an iteration adds to the address; `None` where that is not constant.
    pub step: Option<i64>,
    /// Every iteration accesses it.
    pub always: bool,
    /// The address over the registers of any sample in the loop, exact to one step; `None` where registers do not hold it
    /// throughout.
    pub address: Option<Linear>,
    /// The address over the registers when an iteration begins; `None` where that is not known.
    pub start: Option<Linear>,
    /// How many operands it stands for.
    pub operands: usize,
}

/// What is constant from iteration to iteration.
pub(super) struct Steps {
    /// What an iteration adds to each register; `None` where that is not constant.
    pub of: [Option<i64>; 16],
    /// Registers that hold their value, or the next one, all through the iteration.
    pub held: [bool; 16],
    /// The registers before each instruction of the body over those at its head.
    before: Vec<State>,
}

impl Steps {
    /// Follows the registers through one iteration.
    pub fn of(function: &Function, body: &Body, factory: &mut InstructionInfoFactory) -> Steps {
        let mut state = linear::identity();
        let mut written = [false; 16];
        let mut before = Vec::new();
        for (i, always) in body.span.clone().zip(&body.always) {
            before.push(state.clone());
            let instruction = &function.instructions[i];
            let effects = Effects::of(instruction, factory.info(instruction));
            effects.registers().for_each(|r| written[usize::from(r)] = true);
            match always {
                true => effects.advance(&mut state),
                false => effects.registers().for_each(|r| state[usize::from(r)] = None),
            }
            if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
                for r in CALL_CHANGES {
                    state[usize::from(r)] = None;
                    written[usize::from(r)] = true;
                }
            }
        }
        let mut of: [Option<i64>; 16] = [None; 16];
        let mut held = [false; 16];
        for r in 0..16 {
            let own = state[r].as_ref().and_then(Linear::single).filter(|(from, _)| usize::from(*from) == r);
            of[r] = if written[r] { own.map(|(_, constant)| constant) } else { Some(0) };
            held[r] = of[r].is_some();
        }
        // Registers that are computed anew from those: copies, and indexes that are widened.
        let known = of;
        for r in (0..16).filter(|&r| known[r].is_none()) {
            of[r] = state[r].as_ref().and_then(|form| step(form, &known));
        }
        Steps { of, held, before }
    }
}

/// What an iteration adds to a form over registers.
fn step(form: &Linear, of: &[Option<i64>; 16]) -> Option<i64> {
    form.terms.iter().try_fold(0i64, |sum, term| {
        Some(sum.wrapping_add(of[usize::from(term.register & 15)]?.wrapping_mul(term.factor)))
    })
}

/// The memory that the loop goes through, the stack's fixed places left out; and what an iteration adds to the address of each
/// instruction that accesses it, `None` where that is not constant.
pub(super) fn streams(
    function: &Function,
    body: &Body,
    steps: &Steps,
    factory: &mut InstructionInfoFactory,
) -> (Vec<Stream>, HashMap<u64, Option<i64>>) {
    struct One {
        form: Option<Linear>,
        stream: Stream,
    }
    let mut all: Vec<One> = Vec::new();
    for (at, i) in body.span.clone().enumerate() {
        let instruction = &function.instructions[i];
        let info = factory.info(instruction);
        for (found, bytes) in operand::all(instruction, info, function.frame_pointer) {
            if found.spill || instruction.is_stack_instruction() {
                continue;
            }
            let form = found.address;
            let start = form.as_ref().and_then(|form| form.substitute(&steps.before[at]));
            let step = start.as_ref().and_then(|start| step(start, &steps.of));
            let stack = form.as_ref().is_some_and(|form| form.mentions(RSP));
            if stack && step == Some(0) {
                continue;
            }
            let held = |form: &Linear| form.terms.iter().all(|t| steps.held[usize::from(t.register & 15)]);
            let address = form.clone().filter(|form| step.is_some() && held(form));
            let stream = Stream {
                ip: instruction.ip(),
                access: found.access,
                bytes: bytes as u64,
                step,
                always: body.always[at],
                address,
                start: start.clone(),
                operands: 1,
            };
            // Where a register was changed on the way, two places that look apart may be one.
            all.push(One { form: start.or(form), stream });
        }
    }
    let mut by_ip: HashMap<u64, Option<i64>> = HashMap::new();
    for (ip, step) in all.iter().map(|one| (one.stream.ip, one.stream.step)) {
        let of_all = by_ip.entry(ip).or_insert(step);
        *of_all = of_all.filter(|known| Some(*known) == step);
    }
    // Operands that one line or its neighbour holds are one stream. Each fixed place is a stream of its own: which thread uses which place
    // decides whether they share a line.
    let mut streams: Vec<One> = Vec::new();
    all.sort_by_key(|one| one.form.as_ref().map_or(0, |form| form.constant));
    for one in all {
        let near = streams.iter_mut().rev().find(|other| match (&one.form, &other.form) {
            (Some(a), Some(b)) => {
                a.terms == b.terms
                    && other.stream.address.is_some()
                    && one.stream.address.is_some()
                    && match one.stream.step {
                        Some(0) => a.constant == b.constant,
                        _ => {
                            a.constant.wrapping_sub(b.constant.wrapping_add(other.stream.bytes as i64))
                                <= LINE_BYTES as i64
                        }
                    }
            }
            _ => false,
        });
        match (near, &one.form) {
            (Some(other), Some(form)) => {
                let begin = other.form.as_ref().map_or(0, |f| f.constant);
                let end = form.constant.wrapping_sub(begin) + one.stream.bytes as i64;
                let s = &mut other.stream;
                s.bytes = s.bytes.max(end.max(0) as u64);
                s.access = both(s.access, one.stream.access);
                s.always |= one.stream.always;
                s.operands += 1;
                s.ip = s.ip.min(one.stream.ip);
            }
            _ => streams.push(one),
        }
    }
    let mut streams: Vec<Stream> = streams.into_iter().map(|one| one.stream).collect();
    streams.sort_by_key(|s| s.ip);
    (streams, by_ip)
}

fn both(a: Access, b: Access) -> Access {
    match a == b {
        true => a,
        false if a == Access::Unknown => b,
        false if b == Access::Unknown => a,
        false => Access::LoadStore,
    }
}

/// How many iterations are left by the comparison that the last jump rests on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Left {
    /// What an iteration brings towards zero.
    distance: Linear,
    /// By how much.
    step: i64,
    /// Of a 32-bit comparison.
    narrow: bool,
}

impl Left {
    /// Finds the comparison; `None` where it is of something that registers do not count.
    pub fn of(function: &Function, body: &Body, steps: &Steps) -> Option<Left> {
        let last = *body.span.end();
        let sets = |i: &usize| function.instructions[*i].rflags_modified() != 0;
        let at = (*body.span.start()..last).rev().find(sets)?;
        let instruction = &function.instructions[at];
        let first = effect::number(instruction.op0_register())
            .filter(|_| instruction.op0_kind() == OpKind::Register)?;
        let distance = match instruction.mnemonic() {
            Mnemonic::Cmp => Linear::register(first).plus(&effect::second_operand(instruction)?, -1),
            Mnemonic::Test if instruction.op0_register() == instruction.op1_register() => {
                Linear::register(first)
            }
            Mnemonic::Sub | Mnemonic::Add | Mnemonic::Inc | Mnemonic::Dec => Linear::register(first),
            _ => return None,
        };
        // What is compared must be what samples elsewhere in the loop have in these registers.
        let held = distance.terms.iter().all(|t| steps.held[usize::from(t.register & 15)]);
        let step = step(&distance, &steps.of).filter(|s| *s != 0 && held)?;
        Some(Left { distance, step, narrow: instruction.op0_register().is_gpr32() })
    }

    /// Iterations after a sample with these registers; `None` if the comparison does not count them.
    pub fn at(&self, registers: &[u64; 16]) -> Option<u64> {
        let distance = self.distance.evaluate(registers);
        let distance = if self.narrow { i64::from(distance as u32 as i32) } else { distance as i64 };
        let left = distance.checked_neg()?.checked_div(self.step)?;
        u64::try_from(left).ok().filter(|n| *n < 1 << 48)
    }
}
