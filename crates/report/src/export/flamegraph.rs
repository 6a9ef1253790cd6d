//! Collapsed stacks: a line for each stack with its weight, for flamegraph.pl, inferno and speedscope.

use super::samples::{Samples, Weight};
use std::collections::BTreeMap;

/// `thread;outermost;…;innermost;[object] weight`, in the order of the text. With `objects`, the object that was touched
/// is the innermost frame, in brackets.
pub fn collapsed(samples: &Samples, by: Weight, objects: bool) -> String {
    let mut sums: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for s in &samples.samples {
        let Some(weight) = samples.weight(s, by).filter(|w| *w > 0) else { continue };
        let thread = samples.threads.get(s.thread as usize);
        let mut stack = vec![clean(thread.map_or("?", |t| if t.name.is_empty() { "?" } else { &t.name }))];
        let frames = s.stack.iter().rev().filter_map(|&f| samples.frames.get(f as usize));
        stack.extend(frames.map(|f| clean(&f.function)));
        if objects && let Some(name) = s.object.and_then(|o| samples.objects.get(o as usize)) {
            stack.push(format!("[{}]", clean(name)));
        }
        let sum = sums.entry(stack).or_default();
        *sum = sum.saturating_add(weight);
    }
    let line = |(stack, weight): (Vec<String>, u64)| format!("{} {weight}\n", stack.join(";"));
    sums.into_iter().map(line).collect()
}

/// A name that cannot be taken for several: the format has no escapes.
fn clean(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
