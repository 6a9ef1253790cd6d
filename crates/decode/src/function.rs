//! A function's instructions, and how control reaches each of them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use iced_x86::{Decoder as X86, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

use super::FunctionCode;

/// How far before `ip` decoding starts where no instruction boundary is known.
/// x86 code falls into step with itself after a few instructions.
const WINDOW_BEFORE: usize = 256;
/// How far behind `ip` such a window goes.
const WINDOW_BEHIND: usize = 512;
/// Beyond this a "function" is a stripped text section: look at a window of it.
const MAX_FUNCTION: usize = 1 << 20;

pub(super) struct Function {
    pub start: u64,
    pub instructions: Vec<Instruction>,
    /// rbp is set from rsp somewhere: a frame pointer, not a general register.
    pub frame_pointer: bool,
    /// These are all its instructions: nothing else jumps into it.
    pub whole: bool,
    /// Jumps by the index of their target.
    jumps: HashMap<u32, Vec<u32>>,
    /// Ranges of its loops, found when they are first asked for.
    loops: OnceCell<Vec<RangeInclusive<usize>>>,
}

/// An instruction on the way that led to the sample, latest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub index: usize,
    /// No other way could have been taken from here to the sample.
    pub certain: bool,
}

impl Function {
    /// Decodes the code around `ip`; `None` where `ip` lies outside.
    /// The flag says whether the result serves every other `ip` in it as well.
    pub fn around(code: &FunctionCode<'_>, ip: u64) -> Option<(Function, bool)> {
        let offset = usize::try_from(ip.checked_sub(code.start)?).ok()?;
        if offset >= code.bytes.len() {
            return None;
        }
        if code.synced && code.bytes.len() <= MAX_FUNCTION {
            let whole = Function { whole: true, ..Function::decode(code.start, code.bytes) };
            if whole.index(ip).is_some() {
                return Some((whole, true));
            }
        }
        let first = resynchronise(code, offset);
        let last = code.bytes.len().min(offset + WINDOW_BEHIND);
        let start = code.start.wrapping_add(first as u64);
        Some((Function::decode(start, &code.bytes[first..last]), false))
    }

    /// The innermost loop around `ip` and nothing else, where the bounds of its function are not known. An instruction begins at `ip`, so
    /// those behind it are certain up to the jump back, and so are those from where that goes. `None` if there is none, or if it
    /// belongs to another one that begins in front of it.
    pub fn looped(code: &FunctionCode<'_>, ip: u64) -> Option<Function> {
        let offset = |address: u64| usize::try_from(address.checked_sub(code.start)?).ok();
        let behind = X86::with_ip(64, code.bytes.get(offset(ip)?..)?, ip, DecoderOptions::NONE);
        // Its first address, and the one behind it.
        let mut span: Option<(u64, u64)> = None;
        for instruction in behind {
            if instruction.is_invalid() || instruction.flow_control() == FlowControl::Return {
                break;
            }
            let Some(target) = jump_target(&instruction) else { continue };
            match &mut span {
                None if (code.start..=ip).contains(&target) => span = Some((target, instruction.next_ip())),
                // Another way back, or code that two loops share.
                Some((head, end)) if (*head..*end).contains(&target) => *end = instruction.next_ip(),
                _ => {}
            }
        }
        let (head, end) = span?;
        let function = Function::decode(head, code.bytes.get(offset(head)?..offset(end)?)?);
        let of_another =
            |i: &Instruction| i.is_invalid() || jump_target(i).is_some_and(|target| target < head);
        (function.index(ip).is_some() && !function.instructions.iter().any(of_another)).then_some(function)
    }

    fn decode(start: u64, bytes: &[u8]) -> Function {
        let instructions: Vec<Instruction> =
            X86::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
        let frame_pointer = instructions.iter().any(|instruction| {
            matches!(instruction.mnemonic(), Mnemonic::Mov)
                && instruction.op0_register() == Register::RBP
                && instruction.op1_register() == Register::RSP
        });
        let mut function = Function {
            start,
            instructions,
            frame_pointer,
            whole: false,
            jumps: HashMap::new(),
            loops: OnceCell::new(),
        };
        let mut jumps: HashMap<u32, Vec<u32>> = HashMap::new();
        for (source, instruction) in function.instructions.iter().enumerate() {
            if let Some(target) = function.target(instruction) {
                jumps.entry(target as u32).or_default().push(source as u32);
            }
        }
        function.jumps = jumps;
        function
    }

    /// The ranges of its loops, by index of the instructions.
    pub fn loops(
        &self,
        find: impl FnOnce(&Function) -> Vec<RangeInclusive<usize>>,
    ) -> &[RangeInclusive<usize>] {
        self.loops.get_or_init(|| find(self))
    }

    /// The instruction that begins at `ip`.
    pub fn index(&self, ip: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&ip, Instruction::ip).ok()
    }

    /// The way to `ip`: what retired before it, backwards, at most `limit` steps.
    ///
    /// A loop head is reached from its back edge rather than from above; the
    /// walk ends at calls, whose callees are unknown, and once around a loop.
    pub fn backwards(&self, at: usize, limit: usize) -> Vec<Step> {
        let mut path: Vec<Step> = Vec::new();
        let mut current = at;
        let mut certain = true;
        let mut wrapped = false;
        while path.len() < limit {
            let sources = self.jumps.get(&(current as u32)).map_or(&[][..], |s| s);
            let mut back = sources.iter().filter(|source| **source as usize >= current);
            let above = current.checked_sub(1).filter(|index| self.falls_through(*index));
            let next = match (back.next(), back.next(), above) {
                (Some(edge), None, _) if !wrapped => {
                    wrapped = true;
                    certain &= current == at || above.is_none();
                    *edge as usize
                }
                (_, _, Some(above)) => {
                    certain &= sources.is_empty() || current == at;
                    above
                }
                _ => match sources {
                    [] => break,
                    [first, others @ ..] => {
                        certain &= others.is_empty();
                        *first as usize
                    }
                },
            };
            if !self.passable(next) || path.iter().any(|step| step.index == next) {
                break;
            }
            path.push(Step { index: next, certain });
            current = next;
        }
        path
    }

    /// The way from `ip`, itself first: jumps are followed, conditional ones
    /// only backwards, as loops do. The instruction that leaves is included.
    pub fn forwards(&self, at: usize, limit: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut current = at;
        while path.len() < limit && current < self.instructions.len() && !path.contains(&current) {
            path.push(current);
            let instruction = &self.instructions[current];
            let target = self.target(instruction);
            current = match (instruction.flow_control(), target) {
                (FlowControl::UnconditionalBranch, Some(target)) => target,
                (FlowControl::ConditionalBranch, Some(target)) if target <= current => target,
                _ if self.falls_through(current) && self.passable(current) => current + 1,
                _ => break,
            };
        }
        path
    }

    /// Whether a direct jump goes to the instruction.
    pub fn is_target(&self, index: usize) -> bool {
        self.jumps.contains_key(&(index as u32))
    }

    /// The index that a direct jump goes to, if it is in this function.
    pub fn target(&self, instruction: &Instruction) -> Option<usize> {
        self.index(jump_target(instruction)?)
    }

    pub fn falls_through(&self, index: usize) -> bool {
        let instruction = &self.instructions[index];
        !instruction.is_invalid()
            && matches!(
                instruction.flow_control(),
                FlowControl::Next
                    | FlowControl::ConditionalBranch
                    | FlowControl::Call
                    | FlowControl::IndirectCall
                    | FlowControl::XbeginXabortXend
            )
    }

    /// Nothing unknown happens between this instruction and the next.
    fn passable(&self, index: usize) -> bool {
        !matches!(
            self.instructions[index].flow_control(),
            FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::Interrupt
                | FlowControl::Exception
                | FlowControl::Return
        )
    }
}

/// Where a direct jump goes.
fn jump_target(instruction: &Instruction) -> Option<u64> {
    let jump = matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
    );
    (jump && instruction.near_branch_target() != 0).then(|| instruction.near_branch_target())
}

/// The offset to decode from so that an instruction begins at `offset`: of 16
/// neighbouring starts, the first of those that agree on the predecessor.
fn resynchronise(code: &FunctionCode<'_>, offset: usize) -> usize {
    let begin = offset.saturating_sub(WINDOW_BEFORE);
    let mut votes: HashMap<u64, (usize, usize)> = HashMap::new();
    for first in begin..offset.min(begin + 16) {
        let start = code.start.wrapping_add(first as u64);
        let decoder = X86::with_ip(64, &code.bytes[first..offset], start, DecoderOptions::NONE);
        if let Some(last) = decoder.into_iter().last().filter(|last| !last.is_invalid()) {
            let vote = votes.entry(last.ip()).or_insert((0, first));
            vote.0 += 1;
        }
    }
    // Ties go to the earliest start, so that the answer does not depend on the map's order.
    votes
        .into_values()
        .max_by_key(|(count, first)| (*count, usize::MAX - first))
        .map_or(offset, |(_, first)| first)
}
