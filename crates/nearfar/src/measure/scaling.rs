//! Triad with more and more threads, packed onto few nodes or spread over all: what the first
//! thread of a node adds and what the last one adds are different things.

use super::Effort;
use super::bandwidth::Field;
use nearfar_model::machine::NodeId;
use nearfar_model::measured::{Kernel, Layout, Threads};

/// 1, 2, 4 … threads and all of them, in both layouts. `nodes`: each node and its usable cpus.
pub fn measure(nodes: &[(NodeId, Vec<u32>)], part: usize, only: bool, effort: &Effort) -> Vec<Threads> {
    let layouts: &[Layout] =
        if nodes.len() > 1 { &[Layout::Compact, Layout::Scatter] } else { &[Layout::Compact] };
    let mut all = Vec::new();
    for &layout in layouts {
        let order = order(nodes, layout);
        for threads in counts(order.len()) {
            let used = &order[..threads];
            let result = Field::local(used, part, only).and_then(|f| f.measure(Kernel::Triad, effort));
            let on = |node: &(NodeId, Vec<u32>)| used.iter().filter(|c| c.1 == node.0).count() as u32;
            all.push(Threads {
                layout,
                threads: threads as u32,
                per_node: nodes.iter().map(on).collect(),
                gb_per_s: result.as_ref().ok().map(|r| r.0),
                why: result.err(),
            });
        }
    }
    all
}

/// Powers of two up to `most`, and `most`.
fn counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < most).collect();
    counts.extend((most > 0).then_some(most));
    counts
}

/// The cpus in the order in which threads take them.
fn order(nodes: &[(NodeId, Vec<u32>)], layout: Layout) -> Vec<(u32, NodeId)> {
    let compact: Vec<(usize, u32, NodeId)> =
        nodes.iter().flat_map(|(node, cpus)| cpus.iter().enumerate().map(|(i, &c)| (i, c, *node))).collect();
    let mut order = compact;
    if layout == Layout::Scatter {
        // Stable: among the cpus of equal rank the nodes keep their order.
        order.sort_by_key(|c| c.0);
    }
    order.into_iter().map(|(_, cpu, node)| (cpu, node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_fills_a_node_and_scatter_takes_turns() {
        let nodes = [(0, vec![0, 1, 2]), (3, vec![4, 5])];
        let cpus = |layout| order(&nodes, layout).into_iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(cpus(Layout::Compact), [0, 1, 2, 4, 5]);
        assert_eq!(cpus(Layout::Scatter), [0, 4, 1, 5, 2]);
        assert_eq!(counts(5), [1, 2, 4, 5]);
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(0), Vec::<usize>::new());
    }
}
