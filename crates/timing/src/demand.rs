//! What a piece of work asks of each resource: the five lower bounds of its time,
//! and the inputs of the queueing network.

use super::parameters::Parameters;
use super::stations::Layout;
use super::value::Binding;
use super::work::{CoreWork, NodeWork, Work};

/// How latency grows with the load of the busiest resource on the way, below
/// saturation: by this times the square of its load. Fitted to the loaded latencies
/// of four two-socket Xeons (Haswell to Ice Lake, MLC): 14 to 16 % at half load,
/// 30 to 60 % at 0.8 to 0.87. Queueing at one server does not give this: a memory
/// is many slow servers (banks, channels), of which some are busy early.
const LOADED: f64 = 0.6;
/// The same for lines fetched ahead, which hide a part of it. Fitted to how the
/// bandwidth of one to five cores adds up (kerncraft's likwid-bench curves of
/// Haswell and Broadwell).
const LOADED_STREAM: f64 = 0.25;

/// A shared resource, one server of the network: memory of a node, a direction of
/// a link, the data of one pair of nodes in one direction, a port of some cores, a
/// node's buffers for lines of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Station {
    /// What is said to bind if this does.
    pub binds: Binding,
    /// Time that all work takes on it, ns.
    pub busy_ns: f64,
}

/// What one core asks, per line that it requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    /// Lines that it requests.
    pub requests: f64,
    /// Lines that it has in flight, on average over its kinds of access.
    pub population: f64,
    /// Position of its node.
    pub node: usize,
    /// Unloaded latency less the time on stations, ns, by node of the page.
    pub delays: Vec<(u32, f64)>,
    /// By how much that grows as the busiest station on the way fills, ns, by node of the page.
    pub growth: Vec<(u32, f64)>,
    /// Time on shared stations, ns.
    pub demands: Vec<(u32, f64)>,
    /// Time on the core itself, ns.
    pub core: f64,
    /// Time on its page walkers, ns.
    pub walk: f64,
    /// Sum of the latencies of its lines, ns.
    pub waited_ns: f64,
    /// Time computing, whether it requests lines or not, ns in all.
    pub core_ns: f64,
    /// Time of its page walks, ns in all.
    pub walk_ns: f64,
    /// Time if only latencies and lines in flight limited it, ns in all.
    pub latency_ns: f64,
}

/// Bytes over a direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Carried {
    /// Lines only.
    pub data: f64,
    /// With control bytes.
    pub all: f64,
}

/// Everything asked by a piece of work.
#[derive(Clone, Debug, Default)]
pub(super) struct Demands {
    pub stations: Vec<Station>,
    pub classes: Vec<Class>,
    /// Bytes read from and written to memory, by position of the node.
    pub memory: Vec<(f64, f64)>,
    /// By direction of the routes.
    pub links: Vec<Carried>,
}

impl Parameters {
    /// Computing and hits in the caches, ns; as many hits overlap as misses do.
    pub(super) fn core_ns(&self, core: &CoreWork) -> f64 {
        let hits = core.hits.iter().zip(&self.cache_ns).skip(1);
        let waiting: f64 = hits.map(|(hits, ns)| hits * ns).sum();
        core.instructions * self.ns_per_instruction + waiting / self.outstanding
    }

    /// Latency of lines of a kind, ns: what a cache of the own node supplies is
    /// as near as its last level.
    fn transfer_ns(&self, node: usize, page_node: usize) -> f64 {
        match self.cache_ns.last() {
            Some(&ns) if node == page_node && ns > 0.0 => ns,
            _ => self.latency[node][page_node],
        }
    }
}

/// Adds up what `work` asks.
pub(super) fn demands(p: &Parameters, work: &Work) -> Demands {
    let layout = &p.layout;
    let mut d = Demands {
        stations: stations(p, layout),
        classes: Vec::with_capacity(work.cores.len()),
        memory: vec![(0.0, 0.0); layout.nodes],
        links: vec![Carried::default(); layout.directions],
    };
    let line_ns = memory_ns(p, work, &mut d);
    let mut row = vec![0.0; layout.count()];
    let mut links = vec![Carried::default(); layout.directions];
    for (core, place) in work.cores.iter().zip(&p.places) {
        links.fill(Carried::default());
        for (page_node, w) in core.used() {
            let directory = if page_node == place.node { 0.0 } else { w.reads * p.directory_writes };
            row[layout.memory(page_node)] +=
                (w.reads + w.writes + w.streams + directory) * line_ns[page_node];
            messages(p, place.node, page_node, w, &mut links);
            let (inward, outward) = ((w.reads + w.transfers) * p.line, (w.writes + w.streams) * p.line);
            if let Some(rate) = p.pairs[place.node][page_node] {
                row[layout.pair(place.node, page_node, false)] += inward / rate;
                row[layout.pair(place.node, page_node, true)] += outward / rate;
            }
            if let Some(lines) = p.window.filter(|_| page_node != place.node) {
                row[layout.window(place.node)] += w.requests() * p.latency[place.node][page_node] / lines;
            }
            if let Some(port) = p.port {
                row[layout.port(place.port, false)] += port.read.map_or(0.0, |r| w.reads * p.line / r);
                row[layout.port(place.port, true)] += port.write.map_or(0.0, |r| outward / r);
            }
        }
        for (i, carried) in links.iter().enumerate() {
            d.links[i].data += carried.data;
            d.links[i].all += carried.all;
            row[layout.link(i)] += p.routes.directions[i].rate.map_or(0.0, |r| carried.all / r);
        }
        d.classes.push(class(p, &line_ns, core, place.node, &mut row, &mut d.stations));
    }
    d
}

fn stations(p: &Parameters, layout: &Layout) -> Vec<Station> {
    let mut binds = vec![Binding::Core; layout.count()];
    for (node, &id) in p.nodes.iter().enumerate() {
        binds[layout.memory(node)] = Binding::Memory { node: id };
        binds[layout.window(node)] = Binding::Concurrency;
        for (page_node, &to) in p.nodes.iter().enumerate() {
            binds[layout.pair(node, page_node, false)] = Binding::Link { from: to, to: id };
            binds[layout.pair(node, page_node, true)] = Binding::Link { from: id, to };
        }
    }
    for (i, direction) in p.routes.directions.iter().enumerate() {
        binds[layout.link(i)] = Binding::Link { from: direction.from, to: direction.to };
    }
    for place in &p.places {
        let node = p.nodes[place.node];
        binds[layout.port(place.port, false)] = Binding::Link { from: node, to: node };
        binds[layout.port(place.port, true)] = Binding::Link { from: node, to: node };
    }
    binds.into_iter().map(|binds| Station { binds, busy_ns: 0.0 }).collect()
}

/// Time of a line at each memory, ns. It depends on the mix of reads and writes
/// there, and on how many nodes the lines come from: streams of several nodes
/// break each other's open rows (η), in full when the largest takes half or less.
fn memory_ns(p: &Parameters, work: &Work, d: &mut Demands) -> Vec<f64> {
    let count = p.nodes.len();
    let mut from = vec![vec![0.0; count]; count];
    for (core, place) in work.cores.iter().zip(&p.places) {
        for (page_node, w) in core.used() {
            let written = w.writes + w.streams;
            d.memory[page_node].0 += w.reads * p.line;
            d.memory[page_node].1 += written * p.line;
            from[page_node][place.node] += w.reads + written;
        }
    }
    (0..count)
        .map(|page_node| {
            let (read, written) = d.memory[page_node];
            let (bandwidth, factor) = &p.memory[page_node];
            let share = if read + written > 0.0 { written / (read + written) } else { 0.0 };
            let rate = bandwidth.rate(share).unwrap_or(f64::INFINITY) * factor;
            let all: f64 = from[page_node].iter().sum();
            let largest = from[page_node].iter().copied().fold(0.0, f64::max);
            let mixed = if all > 0.0 { (2.0 * (1.0 - largest / all)).min(1.0) } else { 0.0 };
            p.line / rate * (1.0 + (p.eta - 1.0) * mixed)
        })
        .collect()
}

/// Time of one line, read alone, on all stations between `page_node` and a core of `node`.
fn service_ns(p: &Parameters, line_ns: &[f64], node: usize, page_node: usize) -> f64 {
    let over = |from, to, bytes: f64| -> f64 {
        let rates = p.routes.way(from, to).iter().filter_map(|&d| p.routes.directions[d].rate);
        rates.map(|rate| bytes / rate).sum()
    };
    let links = if node == page_node {
        0.0
    } else {
        over(page_node, node, p.line + p.control) + over(node, page_node, p.control)
    };
    let pair = p.pairs[node][page_node].map_or(0.0, |rate| p.line / rate);
    let port = p.port.and_then(|port| port.read).map_or(0.0, |rate| p.line / rate);
    let window =
        p.window.filter(|_| node != page_node).map_or(0.0, |lines| p.latency[node][page_node] / lines);
    line_ns[page_node] + links + pair + port + window
}

/// Messages over links: a request and a line back for each one read; a line and an
/// acknowledgement for each one written; and what the node of the page asks other caches.
fn messages(p: &Parameters, node: usize, page_node: usize, w: &NodeWork, links: &mut [Carried]) {
    let mut send = |from: usize, to: usize, messages: f64, data: f64| {
        for &direction in p.routes.way(from, to) {
            links[direction].data += messages * data;
            links[direction].all += messages * (data + p.control);
        }
    };
    if node != page_node {
        let (inward, outward) = (w.reads + w.transfers, w.writes + w.streams);
        send(node, page_node, inward, 0.0);
        send(page_node, node, inward, p.line);
        send(node, page_node, outward, p.line);
        send(page_node, node, outward, 0.0);
    }
    if p.probes > 0.0 {
        let asked = (w.reads + w.streams) * p.probes;
        for other in (0..p.nodes.len()).filter(|&other| other != page_node && other != node) {
            send(page_node, other, asked, 0.0);
            send(other, node, asked, 0.0);
        }
    }
}

/// One core's class; clears `row` and adds it to the stations' times.
fn class(
    p: &Parameters,
    line_ns: &[f64],
    core: &CoreWork,
    node: usize,
    row: &mut [f64],
    stations: &mut [Station],
) -> Class {
    let total = |f: fn(&NodeWork) -> f64| core.used().map(|(_, w)| f(w)).sum::<f64>();
    let requests = total(NodeWork::requests);
    let written = total(|w| w.writes + w.streams);
    let demanded = total(|w| w.reads - w.prefetches + w.transfers);
    let mut class = Class { requests, node, core_ns: p.core_ns(core), ..Class::default() };
    // A chase has one line in flight, demanded lines have as many as the core has
    // buffers, and streams what was measured of one core.
    let chased = if demanded > 0.0 { (core.dependent / demanded).min(1.0) } else { 0.0 };
    let (reading, updating) = p.streams[node];
    let writes = written / (total(|w| w.reads) + written).max(1.0);
    let streams = reading + (updating - reading) * (2.0 * writes).min(1.0);
    let buffers = p.outstanding.min(reading);
    for (page_node, w) in core.used() {
        let (far, near) = (p.latency[node][page_node], p.transfer_ns(node, page_node));
        let demanded = (w.reads - w.prefetches) * far + w.transfers * near;
        let streamed = (w.prefetches + w.streams) * far;
        class.latency_ns += demanded * (chased + (1.0 - chased) / buffers) + streamed / streams;
        class.waited_ns += demanded + streamed;
        if requests > 0.0 && demanded + streamed > 0.0 {
            // The unloaded latency has the line's own time on the stations in it.
            let fetched = w.reads + w.streams + if node == page_node { 0.0 } else { w.transfers };
            let own = (fetched * service_ns(p, line_ns, node, page_node)).min(0.9 * (demanded + streamed));
            let page_node = page_node as u32;
            class.delays.push((page_node, (demanded + streamed - own) / requests));
            class.growth.push((page_node, (LOADED * demanded + LOADED_STREAM * streamed) / requests));
        }
    }
    class.population =
        if class.latency_ns > 0.0 { (class.waited_ns / class.latency_ns).max(1.0) } else { 1.0 };
    let parallel = chased + (1.0 - chased) / p.walkers;
    class.walk_ns = total(|w| w.walks) * p.walk_ns * parallel;
    for (at, ns) in row.iter_mut().enumerate().filter(|(_, ns)| **ns > 0.0) {
        stations[at].busy_ns += *ns;
        if requests > 0.0 {
            class.demands.push((at as u32, *ns / requests));
        }
        *ns = 0.0;
    }
    if requests > 0.0 {
        class.core = class.core_ns / requests;
        class.walk = class.walk_ns / requests;
    }
    class
}
