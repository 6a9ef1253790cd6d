//! The node × node matrix as it would be with the repairs.

use super::strips::{BINS, Used, repaired};
use crate::context::Context;
use crate::nodes::UNKNOWN;
use crate::value::{Repair, Repaired};

/// Moves the use of repaired objects to where their pages would be. `matrix` has shares; `whole` is the weight of all.
///
/// # Errors
/// In words, why the such is missing matrix.
pub(super) fn matrix(
    context: &Context,
    used: &[Used],
    matrix: &[Vec<f64>],
    whole: f64,
) -> Result<Repaired, String> {
    let mut moved: Vec<Vec<f64>> = matrix.to_vec();
    let mut objects = Vec::new();
    for one in used {
        let Some(part) = one.repair else { continue };
        if part.repair == Repair::SameSchedule {
            return Err("the repair moves the work and not the memory; record the changed program".to_owned());
        }
        let row = &context.rows.rows[one.row_use.row];
        let mut users = vec![super::strips::Parts::default(); BINS];
        one.flows.iter().for_each(|f| users[f.bin].add(f.user, f.weight));
        for flow in one.flows.iter().filter(|f| f.user != UNKNOWN && f.page_node != UNKNOWN) {
            let (user, page_node) = (usize::from(flow.user), usize::from(flow.page_node));
            let share = (flow.weight / whole.max(1.0)).min(moved[user][page_node]);
            moved[user][page_node] -= share;
            let (from, width) = (flow.bin as f64 / BINS as f64, 1.0 / BINS as f64);
            match repaired(context, row, part, from, width, &users[flow.bin]) {
                // A copy on each node.
                None => moved[user][user] += share,
                Some(mix) => {
                    let known: f64 = mix.shares().filter(|m| m.0 != UNKNOWN).map(|m| m.1).sum();
                    if known <= 0.0 {
                        moved[user][page_node] += share;
                    }
                    for (node, part) in mix.shares().filter(|m| m.0 != UNKNOWN && known > 0.0) {
                        moved[user][usize::from(node)] += share * part / known;
                    }
                }
            }
        }
        objects.push(one.row_use.name.clone());
    }
    if objects.is_empty() {
        return Err("no repair of an object is known".to_owned());
    }
    // What a cell lost piece by piece leaves a rest of the last digit.
    moved.iter_mut().flatten().filter(|share| **share < 1e-12).for_each(|share| *share = 0.0);
    let all: f64 = moved.iter().flatten().sum();
    let near: f64 = moved.iter().enumerate().map(|(at, row)| row[at]).sum();
    let remote_share = (all > 0.0).then(|| ((all - near) / all).clamp(0.0, 1.0));
    Ok(Repaired { node_matrix: moved, remote_share, objects })
}
