//! Which instructions a loop consists of, and which of them every iteration executes.

use crate::function::Function;
use std::ops::RangeInclusive;

/// A loop's instructions, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Body {
    /// From its first instruction to its last jump back.
    pub span: RangeInclusive<usize>,
    /// Whether every iteration executes the instruction: by position in the span.
    pub always: Vec<bool>,
    /// Whether another loop is inside it.
    pub nested: bool,
    /// Conditional jumps whose two ways both stay in the loop: a mispredicted one costs time.
    pub branches: usize,
}

/// Jumps backwards of a function whose loops are looked for: an interpreter has thousands, and none of its loops has a
/// speed. // chosen
const MOST_JUMPS: usize = 1024;
/// Instructions of a loop whose iterations are looked at: the recorder does it while the program runs. // chosen
const LONGEST: usize = 1024;

/// The innermost loop around an instruction: the smallest range of a jump backwards that holds it.
pub(super) fn innermost(function: &Function, at: usize) -> Option<RangeInclusive<usize>> {
    let holding = function.loops(spans).iter().filter(|span| span.contains(&at));
    let span = holding.min_by_key(|span| span.end() - span.start())?;
    (span.end() - span.start() < LONGEST).then(|| span.clone())
}

/// What an innermost loop consists of.
pub(super) fn body(function: &Function, span: RangeInclusive<usize>) -> Body {
    let all = function.loops(spans);
    let inner: Vec<_> = all
        .iter()
        .filter(|other| **other != span && span.contains(other.start()) && span.contains(other.end()))
        .collect();
    let (head, last) = (*span.start(), *span.end());
    let mut always = vec![true; last - head + 1];
    let mut branches = 0;
    for source in span.clone() {
        let Some(target) = function.target(&function.instructions[source]) else { continue };
        let skipped = match span.contains(&target) {
            // An iteration that goes back here leaves out the rest.
            true if target == head => source + 1..last + 1,
            true if target > source => source + 1..target,
            _ => continue,
        };
        branches += usize::from(function.falls_through(source) && source != last);
        skipped.for_each(|i| always[i - head] = false);
    }
    for other in &inner {
        (*other).clone().for_each(|i| always[i - head] = false);
    }
    Body { nested: !inner.is_empty(), span, always, branches }
}

/// The ranges of all jumps backwards. Those with one head are one loop with several ways back; of two that overlap, code of
/// one belongs to the other: they are one, too.
fn spans(function: &Function) -> Vec<RangeInclusive<usize>> {
    let jumps = function.instructions.iter().enumerate();
    let mut spans: Vec<(usize, usize)> = jumps
        .filter_map(|(source, instruction)| Some((function.target(instruction)?, source)))
        .filter(|(target, source)| target <= source)
        .collect();
    if spans.len() > MOST_JUMPS {
        return Vec::new();
    }
    loop {
        spans.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for &(head, last) in &spans {
            let over = merged.iter_mut().find(|m| m.0 == head || (m.0 < head && head <= m.1 && m.1 < last));
            match over {
                Some(m) => m.1 = m.1.max(last),
                None => merged.push((head, last)),
            }
        }
        if merged.len() == spans.len() {
            return merged.into_iter().map(|(head, last)| head..=last).collect();
        }
        spans = merged;
    }
}
