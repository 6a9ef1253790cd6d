//! Triad with more and more threads, packed onto few nodes or spread over all, and with its memory
//! local, interleaved or on one node: what the first thread of a node adds and what the last one
//! adds are different things, and so are four cpus of one node and two of each.

use super::bandwidth::Field;
use super::bench::{Bench, PageNode};
use nearfar_machine::NodeId;
use nearfar_observed::measured::{Kernel, Layout, Measured, Placement, Threads};

/// What is measured: threads in the order in which they take cpus.
struct Row {
    layout: Layout,
    placement: Placement,
    threads: Vec<(u32, NodeId)>,
}

/// Local memory for 1, 2, 4 … threads and all of them in both layouts; interleaved and on the first
/// node for as many threads on each node.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let nodes = bench.nodes();
    let rows = rows(&nodes);
    let effort = bench.effort(30.0, 1.5, rows.len());
    let both: Vec<NodeId> = nodes.iter().map(|n| n.0).collect();
    for row in rows {
        bench.say(&format!("triad with {} threads", row.threads.len()));
        let per_node: Vec<u32> =
            nodes.iter().map(|n| row.threads.iter().filter(|t| t.1 == n.0).count() as u32).collect();
        let page_node = |own: NodeId| match (bench.page_node(own), row.placement) {
            (PageNode::Only, _) => PageNode::Only,
            (_, Placement::Local) => PageNode::Node(own),
            (_, Placement::OneNode(one)) => PageNode::Node(one),
            (_, Placement::Interleaved) => PageNode::Interleaved(both.clone()),
        };
        let threads: Vec<(u32, PageNode)> = row.threads.iter().map(|t| (t.0, page_node(t.1))).collect();
        // As STREAM wants it for the caches of the node with most threads.
        let most = per_node.iter().copied().max().unwrap_or(1).max(1);
        let caches = bench.caches_of(most as usize);
        let part = bench.array(caches, 1) / u64::from(most);
        let part = (part as usize).next_multiple_of(64).max(64);
        let room = nodes.iter().try_for_each(|&(node, _)| {
            let here = threads.iter().filter(|t| t.1 == PageNode::Node(node) || t.1 == PageNode::Only).count()
                as u64;
            bench.room(node, 3 * part as u64 * here)
        });
        let result = room
            .and_then(|()| Field::apart(&threads, part))
            .and_then(|field| field.measure(Kernel::Triad, &effort));
        measured.scaling.push(Threads {
            layout: row.layout,
            placement: row.placement,
            cpus: row.threads.iter().map(|t| t.0).collect(),
            per_node,
            moved_bytes: result.as_ref().ok().map(|r| r.1),
            gb_per_s: result.map(|r| r.0).into(),
            predicted: None,
        });
    }
}

fn rows(nodes: &[(NodeId, Vec<u32>)]) -> Vec<Row> {
    let mut rows = Vec::new();
    let layouts: &[Layout] =
        if nodes.len() > 1 { &[Layout::Compact, Layout::Scatter] } else { &[Layout::Compact] };
    for &layout in layouts {
        let order = order(nodes, layout);
        for count in counts(order.len()) {
            rows.push(Row { layout, placement: Placement::Local, threads: order[..count].to_vec() });
        }
    }
    if nodes.len() > 1 {
        let least = nodes.iter().map(|n| n.1.len()).min().unwrap_or(0);
        for each in counts(least) {
            for placement in [Placement::Interleaved, Placement::OneNode(nodes[0].0)] {
                let threads = nodes.iter().flat_map(|(node, cpus)| cpus[..each].iter().map(|&c| (c, *node)));
                rows.push(Row { layout: Layout::Scatter, placement, threads: threads.collect() });
            }
        }
    }
    rows
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

    #[test]
    fn placements_have_as_many_threads_on_every_node() {
        let rows = rows(&[(0, vec![0, 1, 2]), (3, vec![4, 5])]);
        let placed: Vec<_> = rows.iter().filter(|r| r.placement != Placement::Local).collect();
        assert_eq!(placed.len(), 4);
        assert_eq!(placed[3].threads, [(0, 0), (1, 0), (4, 3), (5, 3)]);
        assert_eq!(placed[3].placement, Placement::OneNode(0));
        assert!(self::rows(&[(0, vec![0, 1])]).iter().all(|r| r.placement == Placement::Local));
    }
}
