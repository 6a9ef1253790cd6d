//! A closed queueing network: each core has so many lines in flight and no more,
//! so that queues grow until they slow the cores down to what the resources can
//! do. Nothing can exceed a capacity, and no limit has to be set by hand.
//!
//! Schweitzer's approximation of mean value analysis, one class per core. A line
//! that arrives at a station finds the queues of all cores there, less its own
//! part of its core's:
//!
//! ```text
//! R = D (1 + Σ Q − Q_own / N)      X = N / (L + Σ R)      Q = X R
//! ```
//!
//! with D the time that the line takes there, N the core's lines in flight and L
//! the rest of its latency, which grows with load (`demand`). A core that needs time to compute between lines is a
//! station of its own.

use super::demand::Class;
use super::group::{Group, groups};

/// Relative change at which the iteration ends.
const SETTLED: f64 = 3e-4;
/// Most steps. Where two saturated stations share the lines in flight, these drift
/// between the two for long after the rates are right; capacities hold anyway.
const STEPS: usize = 100;
/// Cores that finish within this of each other contend until the last of them is done.
const TOGETHER: f64 = 1.05;
/// Part of all traffic whose end lets the others run faster; less changes nothing
/// worth solving for again.
const GONE: f64 = 0.1;

/// What came out for each class.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    /// When it was done, ns.
    pub finish_ns: Vec<f64>,
    /// The least time it needs if it never queues, with the latency under this
    /// load, ns.
    pub alone_ns: Vec<f64>,
}

/// Lets all classes run until the last is done; a class that is done leaves the rest to
/// the others. `ways` are the stations between each node and node of the page.
pub(super) fn run(ways: &[Vec<Vec<u32>>], classes: &[Class], stations: usize) -> Solved {
    let own = |c: &Class| if c.requests > 0.0 { 0.0 } else { c.core_ns.max(c.walk_ns) };
    let mut solved =
        Solved { finish_ns: classes.iter().map(own).collect(), alone_ns: classes.iter().map(own).collect() };
    let mut left: Vec<f64> = classes.iter().map(|c| c.requests).collect();
    let groups = groups(classes);
    let mut network = Network::new(ways, &groups, stations);
    let mut active: Vec<(usize, usize)> =
        groups.iter().enumerate().flat_map(|(g, group)| group.members.iter().map(move |&c| (g, c))).collect();
    let mut now = 0.0;
    let mut gone = f64::INFINITY;
    while !active.is_empty() {
        if gone > GONE * network.flowing() {
            network.settle();
            gone = 0.0;
        }
        let needs: Vec<f64> = active.iter().map(|&(g, c)| left[c] / network.flows[g].rate).collect();
        // With figures at the ends of arithmetic nothing flows any more, or no number says how fast: then no
        // core would ever be done, and the time is not known.
        if needs.iter().any(|ns| !ns.is_finite()) {
            active.iter().for_each(|&(_, c)| solved.finish_ns[c] = f64::INFINITY);
            break;
        }
        let least = needs.iter().copied().fold(f64::INFINITY, f64::min);
        let step = needs.iter().copied().filter(|&ns| ns <= least * TOGETHER).fold(least, f64::max);
        let mut rest = Vec::with_capacity(active.len());
        for (&(g, c), ns) in active.iter().zip(needs) {
            let flow = &mut network.flows[g];
            let lines = (flow.rate * step).min(left[c]);
            solved.alone_ns[c] += lines * flow.alone(&classes[c]);
            if ns <= least * TOGETHER {
                solved.finish_ns[c] = now + ns;
                flow.members -= 1.0;
                gone += flow.rate;
            } else {
                left[c] -= lines;
                rest.push((g, c));
            }
        }
        active = rest;
        now += step;
    }
    solved
}

struct Network<'a> {
    flows: Vec<Flow<'a>>,
    loads: Vec<f64>,
    totals: Vec<f64>,
}

/// A class with its state: the lines of one member at each place.
struct Flow<'a> {
    class: &'a Class,
    ways: &'a [Vec<u32>],
    members: f64,
    queues: Vec<f64>,
    core: f64,
    walk: f64,
    rate: f64,
    delay: f64,
}

impl<'a> Network<'a> {
    fn new(ways: &'a [Vec<Vec<u32>>], groups: &'a [Group], stations: usize) -> Network<'a> {
        let flow = |group: &'a Group| {
            let class = &group.class;
            Flow {
                class,
                ways: &ways[class.node],
                members: group.members.len() as f64,
                queues: vec![class.population / (class.demands.len() + 2) as f64; class.demands.len()],
                core: 0.0,
                walk: 0.0,
                rate: 0.0,
                delay: 0.0,
            }
        };
        let flows = groups.iter().map(flow).collect();
        Network { flows, loads: vec![0.0; stations], totals: vec![0.0; stations] }
    }

    /// Lines per ns of all cores.
    fn flowing(&self) -> f64 {
        self.flows.iter().map(|f| f.members * f.rate).sum()
    }

    /// Iterates until the rates settle, from where they were.
    fn settle(&mut self) {
        for step in 0..STEPS {
            self.totals.fill(0.0);
            for flow in self.flows.iter().filter(|f| f.members > 0.0) {
                for (&(at, _), q) in flow.class.demands.iter().zip(&flow.queues) {
                    self.totals[at as usize] += flow.members * q;
                }
            }
            let mut change: f64 = 0.0;
            for flow in self.flows.iter_mut().filter(|f| f.members > 0.0) {
                let before = flow.rate;
                flow.step(&self.totals, &self.loads);
                change = change.max((flow.rate - before).abs() / flow.rate);
            }
            self.load();
            if change < SETTLED && step > 2 {
                break;
            }
        }
    }

    /// The stations' loads, half way to the new ones, or latency and load would
    /// chase each other.
    fn load(&mut self) {
        self.totals.fill(0.0);
        for flow in self.flows.iter().filter(|f| f.members > 0.0) {
            for &(at, ns) in &flow.class.demands {
                self.totals[at as usize] += flow.members * flow.rate * ns;
            }
        }
        for (load, now) in self.loads.iter_mut().zip(&self.totals) {
            *load += (now - *load) / 2.0;
        }
    }
}

impl Flow<'_> {
    /// Time that one of the lines of `class` takes if it never queues, with the
    /// latency under the present load, ns.
    fn alone(&self, class: &Class) -> f64 {
        let served: f64 = class.demands.iter().map(|(_, ns)| ns).sum();
        let cycle = (self.delay + served + class.core + class.walk) / class.population;
        cycle.max(class.core).max(class.walk)
    }

    /// A new rate from all queues; the own queues move half way.
    fn step(&mut self, totals: &[f64], loads: &[f64]) {
        let n = self.class.population;
        let load = |page_node: u32| {
            let way = self.ways[page_node as usize].iter();
            way.map(|&at| loads[at as usize]).fold(0.0, f64::max).min(1.0)
        };
        let grown: f64 = self.class.growth.iter().map(|&(page_node, ns)| ns * load(page_node).powi(2)).sum();
        self.delay = self.class.delays.iter().map(|(_, ns)| ns).sum::<f64>() + grown;
        let residence = |(at, ns): (u32, f64), q: f64| ns * (1.0 + totals[at as usize] - q / n);
        let alone = |ns: f64, q: f64| ns * (1.0 + q * (1.0 - 1.0 / n));
        let (core, walk) = (alone(self.class.core, self.core), alone(self.class.walk, self.walk));
        let pairs = self.class.demands.iter().zip(&self.queues);
        let queued: f64 = pairs.map(|(&demand, &q)| residence(demand, q)).sum();
        self.rate = n / (self.delay + queued + core + walk);
        for (&demand, q) in self.class.demands.iter().zip(&mut self.queues) {
            *q = (*q + self.rate * residence(demand, *q)) / 2.0;
        }
        self.core = (self.core + self.rate * core) / 2.0;
        self.walk = (self.walk + self.rate * walk) / 2.0;
    }
}
