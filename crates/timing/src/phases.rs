//! Epochs in which every core does the same kind of work are timed as one.
//!
//! An epoch is a bin of each core's own clock, and that clock knows nothing of
//! saturated resources. Cores whose memory is far fall behind by it: when the
//! others have passed a barrier's distance and wait, they still have bins to go.
//! Taken one by one, the early bins would be timed with all cores contending, the
//! late ones with half of the machine idle. In truth contention makes the near
//! ones nearly as slow as the far ones, and both finish together. So what
//! is alike is added up first, and contention decides afterwards who waits.

use super::parameters::Parameters;
use super::unwaited::WAITING;
use super::work::{CoreWork, Work};

/// Largest difference between the kinds of work of a core that counts as alike:
/// the part of its time that is spent elsewhere.
const ALIKE: f64 = 0.15;
/// Cores busy for less than this part of the busiest core's time say nothing
/// about kinds.
const TOO_LITTLE: f64 = 0.05;
/// Adds up neighbouring epochs that are alike.
pub(super) fn phases(parameters: &Parameters, epochs: Vec<Work>) -> Vec<Work> {
    let mut found: Vec<Work> = Vec::new();
    for epoch in epochs {
        let join = found.last().is_some_and(|last| {
            last.last_epoch + 1 == epoch.first_epoch
                && alike(parameters, last, &epoch)
                && !waits(last, &epoch)
        });
        match found.last_mut() {
            Some(last) if join => last.add(&epoch),
            _ => found.push(epoch),
        }
    }
    found
}

fn alike(parameters: &Parameters, a: &Work, b: &Work) -> bool {
    let enough = |work: &Work, core: &CoreWork| core.busy_ns >= TOO_LITTLE * work.busiest_ns();
    let pairs = a.cores.iter().zip(&b.cores).enumerate();
    pairs.filter(|(_, (x, y))| enough(a, x) && enough(b, y) && !x.is_idle() && !y.is_idle()).all(
        |(core, (x, y))| {
            let node = parameters.places[core].node;
            let (x, y) = (kind(parameters, node, x), kind(parameters, node, y));
            let apart: f64 = x.iter().zip(&y).map(|(x, y)| (x - y).abs()).sum();
            apart / 2.0 <= ALIKE
        },
    )
}

/// What a core's time goes to, in parts of 1: computing, then reading from and
/// writing to each node.
fn kind(parameters: &Parameters, node: usize, core: &CoreWork) -> Vec<f64> {
    let mut kind = vec![parameters.core_ns(core)];
    for page_node in 0..parameters.nodes.len() {
        let work = core.page_nodes.get(page_node).copied().unwrap_or_default();
        let ns = parameters.latency[node][page_node] / parameters.outstanding;
        let part = |lines: f64| if lines > 0.0 { lines * ns } else { 0.0 };
        kind.push(part(work.requests()));
        kind.push(part(work.writes));
    }
    let all: f64 = kind.iter().sum();
    if all > 0.0 {
        kind.iter_mut().for_each(|k| *k /= all);
    }
    kind
}

/// Whether cores would have to wait for each other in turns: adding up would lose the waiting.
fn waits(a: &Work, b: &Work) -> bool {
    let busiest = a.cores.iter().zip(&b.cores).map(|(x, y)| x.busy_ns + y.busy_ns).fold(0.0, f64::max);
    let before = a.wait_factor().max(b.wait_factor());
    busiest > 0.0 && (a.elapsed_ns + b.elapsed_ns) / busiest > WAITING.max(before)
}
