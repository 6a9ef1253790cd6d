//! Which links a message between two nodes takes: the way of fewest links, of
//! those the widest. Real routing tables are as fixed, though not always so.

use nearfar_machine::file::Link;
use nearfar_machine::{Machine, NodeId};

/// A direction of the link or links between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Direction {
    pub from: NodeId,
    pub to: NodeId,
    /// Bytes per ns; `None` where no link is described and only the traffic between
    /// two nodes can be told.
    pub rate: Option<f64>,
}

/// All directions, and the ones on the way between each pair of nodes.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    pub directions: Vec<Direction>,
    ways: Vec<Vec<Vec<usize>>>,
}

/// An edge of the graph that is searched.
struct Edge {
    a: usize,
    b: usize,
    /// Total rate one way; `None` if joined on the die.
    rate: Option<f64>,
}

impl Routes {
    /// The routes of a machine, with `rate` giving what parallel links carry
    /// together, and `seen` what was measured to come through between two positions.
    /// Where a link serves these two nodes only, it carries no more than that.
    pub(super) fn new(
        machine: &Machine,
        rate: impl Fn(&Link) -> f64,
        seen: impl Fn(usize, usize) -> Option<f64>,
    ) -> Routes {
        let count = machine.nodes.len();
        let mut edges = edges(machine, rate);
        let joined: Vec<usize> = edges.iter().filter(|e| e.rate.is_none()).flat_map(|e| [e.a, e.b]).collect();
        for edge in edges.iter_mut().filter(|e| !joined.contains(&e.a) && !joined.contains(&e.b)) {
            let seen = [seen(edge.a, edge.b), seen(edge.b, edge.a)];
            let most = seen.into_iter().flatten().reduce(f64::max);
            edge.rate = edge.rate.map(|rate| most.map_or(rate, |most| rate.min(most)));
        }
        let mut routes = Routes { directions: Vec::new(), ways: vec![vec![Vec::new(); count]; count] };
        for edge in edges.iter().filter(|e| e.rate.is_some()) {
            for (from, to) in [(edge.a, edge.b), (edge.b, edge.a)] {
                let (from, to) = (machine.nodes[from].id, machine.nodes[to].id);
                routes.directions.push(Direction { from, to, rate: edge.rate });
            }
        }
        for from in 0..count {
            let ways = search(&edges, from, count);
            for (to, way) in ways.into_iter().enumerate().filter(|&(to, _)| to != from) {
                routes.ways[from][to] = match way {
                    Some(hops) => hops
                        .into_iter()
                        .filter_map(|(a, b)| routes.direction(machine.nodes[a].id, machine.nodes[b].id))
                        .collect(),
                    None => {
                        let (from, to) = (machine.nodes[from].id, machine.nodes[to].id);
                        routes.directions.push(Direction { from, to, rate: None });
                        vec![routes.directions.len() - 1]
                    }
                };
            }
        }
        routes
    }

    /// Directions on the way between two positions; empty within a node, or a die.
    pub(super) fn way(&self, from: usize, to: usize) -> &[usize] {
        &self.ways[from][to]
    }

    fn direction(&self, from: NodeId, to: NodeId) -> Option<usize> {
        self.directions.iter().position(|d| (d.from, d.to) == (from, to) && d.rate.is_some())
    }
}

/// Links, parallel ones as one, and what is joined on a die: nodes of one package
/// that have no links among them, and memory without cpus and without a link.
fn edges(machine: &Machine, rate: impl Fn(&Link) -> f64) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for link in &machine.figures.links {
        let (Some(a), Some(b)) = (machine.position(link.from), machine.position(link.to)) else { continue };
        let (a, b) = (a.min(b), a.max(b));
        let gbs = rate(link);
        match edges.iter_mut().find(|e| (e.a, e.b) == (a, b)) {
            Some(edge) => edge.rate = edge.rate.map(|r| r + gbs),
            None => edges.push(Edge { a, b, rate: Some(gbs) }),
        }
    }
    if edges.is_empty() {
        return edges;
    }
    let nodes = &machine.nodes;
    let package = |i: usize| nodes[i].package;
    let linked: Vec<Option<u32>> = edges
        .iter()
        .filter(|e| package(e.a) == package(e.b))
        .filter(|e| !nodes[e.a].cpus.is_empty() && !nodes[e.b].cpus.is_empty())
        .map(|e| package(e.a))
        .collect();
    let bare = |i: usize| nodes[i].cpus.is_empty() && edges.iter().any(|e| e.a == i || e.b == i);
    let mut joined = Vec::new();
    for a in 0..nodes.len() {
        for b in a + 1..nodes.len() {
            let same = package(a).is_some() && package(a) == package(b);
            if same && !linked.contains(&package(a)) && !bare(a) && !bare(b) {
                joined.push(Edge { a, b, rate: None });
            }
        }
    }
    edges.extend(joined);
    edges
}

/// Dijkstra from one node: fewest links, then the least sum of 1/rate, then the
/// lowest numbers. A way is a list of hops; those on a die have no direction.
fn search(edges: &[Edge], from: usize, count: usize) -> Vec<Option<Vec<(usize, usize)>>> {
    let mut best: Vec<Option<(u32, f64, usize)>> = vec![None; count];
    let mut done = vec![false; count];
    best[from] = Some((0, 0.0, from));
    loop {
        let next = (0..count)
            .filter(|&i| !done[i])
            .filter_map(|i| best[i].map(|(hops, cost, _)| (i, hops, cost)))
            .min_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2)).then(a.0.cmp(&b.0)));
        let Some((at, hops, cost)) = next else { break };
        done[at] = true;
        for edge in edges {
            let to = match () {
                () if edge.a == at => edge.b,
                () if edge.b == at => edge.a,
                () => continue,
            };
            let (hops, cost) = match edge.rate {
                Some(rate) => (hops + 1, cost + 1.0 / rate),
                None => (hops, cost),
            };
            let better = best[to].is_none_or(|(h, c, _)| (hops, cost) < (h, c));
            if !done[to] && better {
                best[to] = Some((hops, cost, at));
            }
        }
    }
    (0..count)
        .map(|to| {
            best[to]?;
            let mut hops = Vec::new();
            let mut at = to;
            while at != from {
                let (_, _, before) = best[at]?;
                hops.push((before, at));
                at = before;
            }
            hops.reverse();
            Some(hops)
        })
        .collect()
}
