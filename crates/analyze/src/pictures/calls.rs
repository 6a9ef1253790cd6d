//! Calls between functions: the samples' call paths as two trees.

use crate::context::Context;
use crate::counters::{Counters, LineUse};
use crate::hash::FastMap;
use crate::sites::NAMELESS;
use crate::value::CallNode;

/// Nodes of a tree; those with the largest shares stay. // chosen
const NODES: usize = 600;

/// The tree from the outermost function inward (`callees`), or from the function that was sampled outward.
pub(super) fn tree(context: &Context, counters: &Counters, callees: bool) -> Vec<CallNode> {
    let total = counters.total.weight.max(1) as f64;
    let mut nodes: Vec<Grown> = Vec::new();
    let mut ids: FastMap<(usize, u32), usize> = FastMap::default();
    let mut names = Names::default();
    let mut calls: Vec<(&(u32, u32), &LineUse)> = counters.calls.iter().collect();
    // In an order that does not depend on which worker saw which sample.
    calls.sort_by_key(|c| *c.0);
    for (&(function, chain), used) in calls {
        let mut path: Vec<u32> =
            context.sites.frames(chain).iter().rev().map(|f| names.of(context, f.site)).collect();
        let own = names.of(context, function);
        if path.last() != Some(&own) {
            path.push(own);
        }
        path.dedup();
        if !callees {
            path.reverse();
        }
        let mut parent = usize::MAX;
        let last = path.len() - 1;
        for (depth, name) in path.into_iter().enumerate() {
            let at = *ids.entry((parent, name)).or_insert_with(|| {
                nodes.push(Grown { parent, name, ..Grown::default() });
                nodes.len() - 1
            });
            let node = &mut nodes[at];
            node.weight += used.sum.weight;
            node.known += used.known;
            node.remote += used.remote;
            node.own += if depth == if callees { last } else { 0 } { used.sum.weight } else { 0 };
            parent = at;
        }
    }
    // Shares fall from a node to its children, and a node is older than they: the largest form a tree.
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&n| (std::cmp::Reverse(nodes[n].weight), n));
    let mut kept: FastMap<usize, usize> = FastMap::default();
    let mut tree: Vec<CallNode> = Vec::new();
    for n in order {
        let node = &nodes[n];
        let parent = kept.get(&node.parent).copied();
        if tree.len() >= NODES || node.parent != usize::MAX && parent.is_none() {
            continue;
        }
        kept.insert(n, tree.len());
        tree.push(CallNode {
            function: names.list[node.name as usize].clone(),
            parent,
            share: node.weight as f64 / total,
            own_share: node.own as f64 / total,
            remote_share: (node.known > 0 && context.finder.nodes.count > 1)
                .then(|| node.remote as f64 / node.known as f64),
        });
    }
    tree
}

#[derive(Default)]
struct Grown {
    parent: usize,
    name: u32,
    weight: u64,
    own: u64,
    known: u64,
    remote: u64,
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    ids: FastMap<String, u32>,
    of_site: FastMap<u32, u32>,
}

impl Names {
    /// A function's name, once for all lines of it.
    fn of(&mut self, context: &Context, site: u32) -> u32 {
        if let Some(&name) = self.of_site.get(&site) {
            return name;
        }
        let about = context.sites.get(site);
        let name = about.function.clone().or_else(|| about.at.clone()).unwrap_or_else(|| NAMELESS.to_owned());
        let next = self.list.len() as u32;
        let id = *self.ids.entry(name.clone()).or_insert(next);
        if id == next {
            self.list.push(name);
        }
        self.of_site.insert(site, id);
        id
    }
}
