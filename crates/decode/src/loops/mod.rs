//! Loops of machine code: what an iteration adds to registers and addresses, and what it costs where caches answer at once.
//!
//! Two samples of one thread in one loop say how many iterations lie between them, if a register counts them. So the
//! recorder asks here, for each sample, which loop it is in and how far its registers are ([`InLoop`]).

mod cores;
mod cost;
mod nest;
mod paths;
mod steps;
mod work;

pub use cores::{Core, core};
pub use cost::{Cost, LoopOperand};

use super::function::Function;
use super::linear::Linear;
use super::value::Registers;
use iced_x86::{InstructionInfoFactory, Mnemonic};
use nearfar_recording::Access;
use std::ops::RangeInclusive;
use steps::{Left, Steps};

/// Streams of a loop that are kept.
const MOST_STREAMS: usize = 64;

/// A loop of machine code.
#[derive(Clone, Debug)]
pub struct CodeLoop {
    /// Its first instruction.
    pub head: u64,
    /// Its last jump back.
    pub last: u64,
    /// First and last instruction of its function.
    pub function: [u64; 2],
    /// Instructions between them, both included.
    pub instructions: usize,
    /// The memory that it goes through.
    pub streams: Vec<LoopStream>,
    /// What tells how far it is; `None` if nothing does.
    pub position: Option<Position>,
    /// Cycles of an iteration that no overlap can go below, also where some instructions have no cost; `None` for a core whose
    /// figures are not known.
    pub issue: Option<f64>,
    /// Cycles of an iteration; an error says why they are not known.
    pub cost: Result<Cost, String>,
    /// Its instructions that access memory; none on a core whose figures are not known.
    pub operands: Vec<LoopOperand>,
    forms: Vec<Option<Linear>>,
    counter: Option<Linear>,
    left: Option<Left>,
    /// Its instructions that every iteration executes, by address, if one of them is a `pause`; else none.
    pauses: Vec<u64>,
}

/// Memory that a loop goes through with one set of address registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopStream {
    /// First instruction that uses it.
    pub ip: u64,
    /// What the loop does there.
    pub access: Access,
    /// Bytes that one iteration touches.
    pub bytes: u64,
    /// What an iteration adds to the address; `None` where that is not constant.
    pub step: Option<i64>,
    /// Whether every iteration accesses it.
    pub always: bool,
}

/// What tells how far a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream whose address it is; `None`: a register that counts.
    pub stream: Option<usize>,
    /// What an iteration adds.
    pub step: i64,
}

/// How far a thread was in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLoop {
    /// The loop's first instruction.
    pub head: u64,
    /// Value of its [`Position`].
    pub position: u64,
    /// Another stream and its address: each in turn.
    pub other: Option<(usize, u64)>,
    /// Iterations that were left; `None` where nothing counts them.
    pub left: Option<u64>,
}

impl CodeLoop {
    /// The instructions of the innermost loop around one of them; `None` if there is none whose speed could be told.
    pub(super) fn range(function: &Function, at: usize) -> Option<RangeInclusive<usize>> {
        nest::innermost(function, at)
    }

    /// The loop of these instructions, as [`CodeLoop::range`] finds them.
    pub(super) fn of(
        function: &Function,
        span: RangeInclusive<usize>,
        core: Option<&'static Core>,
        factory: &mut InstructionInfoFactory,
    ) -> CodeLoop {
        let body = nest::body(function, span);
        let steps = Steps::of(function, &body, factory);
        let (mut found, by_ip) = steps::streams(function, &body, &steps, factory);
        found.truncate(MOST_STREAMS);
        let left = Left::of(function, &body, &steps);
        let counter = counter(&steps);
        let by_stream = found
            .iter()
            .enumerate()
            .filter(|(_, s)| s.address.is_some() && s.always && s.step.is_some_and(|step| step != 0))
            .max_by_key(|(i, s)| (s.operands, std::cmp::Reverse(*i)));
        let position = match (by_stream, counter) {
            (Some((i, s)), _) => s.step.map(|step| Position { stream: Some(i), step }),
            (None, Some((_, step))) => Some(Position { stream: None, step }),
            (None, None) => None,
        };
        let always = || body.span.clone().zip(&body.always).filter(|(_, always)| **always);
        let instruction = |(i, _): (usize, &bool)| &function.instructions[i];
        let pauses = always().map(instruction).any(|i| i.mnemonic() == Mnemonic::Pause);
        let costs = cost::of(function, &body, &found, &by_ip, core, factory);
        CodeLoop {
            head: function.instructions[*body.span.start()].ip(),
            last: function.instructions[*body.span.end()].ip(),
            function: [0, function.instructions.len() - 1].map(|i| function.instructions[i].ip()),
            instructions: body.always.len(),
            streams: found
                .iter()
                .map(|s| LoopStream {
                    ip: s.ip,
                    access: s.access,
                    bytes: s.bytes,
                    step: s.step,
                    always: s.always,
                })
                .collect(),
            position,
            issue: costs.issue,
            cost: costs.cost,
            operands: costs.operands,
            forms: found.into_iter().map(|s| s.address).collect(),
            counter: counter.map(|(register, _)| Linear::register(register)),
            left,
            pauses: if pauses { always().map(instruction).map(|i| i.ip()).collect() } else { Vec::new() },
        }
    }

    /// Whether an iteration that executes the instruction at `ip` pauses the processor (`pause`), as loops do that wait for another thread
    /// (Intel's optimization manual asks for it there).
    pub fn pauses_at(&self, ip: u64) -> bool {
        self.pauses.binary_search(&ip).is_ok()
    }

    /// Whether it writes to one place after the other: it copies, or works on an array.
    pub fn writes_along(&self) -> bool {
        let writes = |s: &LoopStream| matches!(s.access, Access::Store | Access::LoadStore);
        self.streams.iter().any(|s| writes(s) && s.step.is_some_and(|step| step != 0))
    }

    /// How far it is by the registers of a sample in it. `turn`: which of the other streams is asked.
    pub fn at(&self, registers: &Registers, turn: usize) -> Option<InLoop> {
        let position = self.position?;
        let form = match position.stream {
            Some(stream) => self.forms.get(stream)?.as_ref()?,
            None => self.counter.as_ref()?,
        };
        let others: Vec<usize> = (0..self.forms.len())
            .filter(|i| Some(*i) != position.stream && self.forms[*i].is_some())
            .filter(|i| self.streams[*i].step.is_some_and(|step| step != 0))
            .collect();
        let other = others.get(turn.checked_rem(others.len()).unwrap_or(0)).copied();
        Some(InLoop {
            head: self.head,
            position: form.evaluate(&registers.gpr),
            other: other.and_then(|i| Some((i, self.forms[i].as_ref()?.evaluate(&registers.gpr)))),
            left: self.left.as_ref().and_then(|left| left.at(&registers.gpr)),
        })
    }
}

/// A register that each iteration changes by the same: the one that takes the smallest steps, which counts iterations.
fn counter(steps: &Steps) -> Option<(u8, i64)> {
    (0..16u8)
        .filter(|&r| r != 4)
        .filter_map(|r| {
            Some((r, steps.of[usize::from(r)].filter(|s| *s != 0 && steps.held[usize::from(r)])?))
        })
        .min_by_key(|(r, step)| (step.unsigned_abs(), *r))
}
