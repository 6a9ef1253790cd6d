//! How much a thread executes at least between two executions of one of a loop's instructions, of the loop and of its function.
//!
//! Each time, control goes around in the loop, or leaves it and enters it again. The shortest of all such ways is looked for; what is
//! executed outside of the loop (or of the function) does not count. So it is a bound from below, however the program branches.

use crate::function::Function;
use iced_x86::{FlowControl, Instruction, Mnemonic};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Instructions of a loop or function whose ways are looked at: the recorder does it while the program runs. // chosen
const LONGEST: usize = 1024;

/// Ways through a loop, or through a function.
pub(super) struct Paths {
    /// Index of the loop's first instruction.
    head: usize,
    /// By position in the loop: what may be executed next in it.
    next: Vec<Vec<usize>>,
    /// By position: instructions that are executed before it since the loop was entered; `None` if it is not reached.
    entered: Vec<Option<u32>>,
    /// By position: whether control may leave the loop there: the code behind it is outside, or a call may come back to the
    /// function.
    leaves: Vec<bool>,
    /// By position: 1 if the core ends the instruction as one of its own.
    counts: Vec<u32>,
}

impl Paths {
    /// Those of these instructions; `None` where code that is not known may jump to them.
    pub fn of(function: &Function, span: &RangeInclusive<usize>) -> Option<Paths> {
        let indirect = |i: &Instruction| i.flow_control() == FlowControl::IndirectBranch;
        let long = span.end() - span.start() >= LONGEST;
        if long || !function.whole || function.instructions.iter().any(indirect) {
            return None;
        }
        let head = *span.start();
        let body = &function.instructions[span.clone()];
        let inside = |index: usize| span.contains(&index).then(|| index - head);
        let mut next = vec![Vec::new(); body.len()];
        let mut leaves = vec![false; body.len()];
        for (at, instruction) in body.iter().enumerate() {
            let target = function.target(instruction);
            let on = function.falls_through(head + at).then_some(head + at + 1);
            let ways: Vec<usize> = on.into_iter().chain(target).collect();
            let jumps_away = jumps(instruction) && target.is_none();
            leaves[at] = ways.is_empty() || jumps_away || comes_back(function, instruction);
            for way in ways {
                match inside(way) {
                    Some(way) => next[at].push(way),
                    None => leaves[at] = true,
                }
            }
        }
        let outside = function.instructions.iter().enumerate().filter(|(i, _)| !span.contains(i));
        let entries = outside.filter_map(|(_, i)| inside(function.target(i)?));
        let counts = body.iter().map(|i| u32::from(ends_alone(i))).collect();
        let mut paths = Paths { head, next, entered: Vec::new(), leaves, counts };
        paths.entered = paths.from(std::iter::once(0).chain(entries));
        Some(paths)
    }

    /// Instructions at least that a core ends between two executions of the one at this index of the function.
    pub fn around(&self, index: usize) -> Option<u32> {
        let at = index - self.head;
        let from_here = self.from(self.next[at].iter().copied());
        let again = from_here[at];
        let leaving = (0..self.next.len())
            .filter(|&i| self.leaves[i])
            .filter_map(|i| if i == at { Some(0) } else { Some(from_here[i]? + self.counts[i]) })
            .min();
        let entered_again = leaving.zip(self.entered[at]).map(|(out, entered)| out + entered);
        again.into_iter().chain(entered_again).min()
    }

    /// By position: instructions that are executed before it at least, if control begins at one of these. (A way may
    /// pass an instruction several times, which makes it longer: the shortest one does not.)
    fn from(&self, starts: impl Iterator<Item = usize>) -> Vec<Option<u32>> {
        let mut found: Vec<Option<u32>> = vec![None; self.next.len()];
        let mut queue: VecDeque<(usize, u32)> = starts.map(|at| (at, 0)).collect();
        while let Some((at, before)) = queue.pop_front() {
            if found[at].is_some_and(|known| known <= before) {
                continue;
            }
            found[at] = Some(before);
            for &way in &self.next[at] {
                match self.counts[at] {
                    0 => queue.push_front((way, before)),
                    count => queue.push_back((way, before + count)),
                }
            }
        }
        found
    }
}

fn jumps(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}

/// Whether what is called may come back to the loop before it returns: the function calls itself, or something that is not known.
fn comes_back(function: &Function, instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::IndirectCall => true,
        FlowControl::Call => instruction.near_branch_target() == function.start,
        _ => false,
    }
}

/// Whether a core ends the instruction as one of its own: a conditional jump is one with the comparison in front of it, and what does
/// nothing (`nop`, `endbr64`) may be one with its neighbour.
fn ends_alone(instruction: &Instruction) -> bool {
    let nothing = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64);
    instruction.flow_control() != FlowControl::ConditionalBranch && !nothing
}
