//! What serves lines, by number: memory, directions of links, pairs of nodes, ports, windows.

use super::routes::Routes;

/// A core: where it is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Position of its node.
    pub node: usize,
    /// Its port's number, ascending over the machine.
    pub port: usize,
    /// Its cpus.
    pub cpus: Vec<u32>,
}

/// Numbers of the stations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) nodes: usize,
    pub(super) directions: usize,
    ports: usize,
}

impl Layout {
    pub(super) fn new(nodes: usize, routes: &Routes, places: &[Place]) -> Layout {
        let ports = places.last().map_or(0, |place| place.port + 1);
        Layout { nodes, directions: routes.directions.len(), ports }
    }

    pub(super) fn memory(&self, node: usize) -> usize {
        node
    }
    pub(super) fn link(&self, direction: usize) -> usize {
        self.nodes + direction
    }
    /// Data that cores of `node` read from `page_node`, or write to it.
    pub(super) fn pair(&self, node: usize, page_node: usize, write: bool) -> usize {
        self.nodes + self.directions + 2 * (node * self.nodes + page_node) + usize::from(write)
    }
    pub(super) fn port(&self, port: usize, write: bool) -> usize {
        self.pair(self.nodes, 0, false) + 2 * port + usize::from(write)
    }
    /// Lines that a node has in flight to others.
    pub(super) fn window(&self, node: usize) -> usize {
        self.port(self.ports, false) + node
    }
    pub(super) fn count(&self) -> usize {
        self.window(self.nodes)
    }

    /// The stations whose load delays a line from `page_node` to a core of `node`.
    pub(super) fn way(&self, routes: &Routes, node: usize, page_node: usize) -> Vec<u32> {
        let mut way = vec![self.memory(page_node)];
        if node != page_node {
            way.extend(routes.way(page_node, node).iter().map(|&l| self.link(l)));
            way.push(self.pair(node, page_node, false));
        }
        way.into_iter().map(|at| at as u32).collect()
    }
}
