//! Shares of the whole: from samples, with intervals, or from counts of every line.

use super::counters::Counters;
use super::nodes::CLASSES;
use super::nodes::class;
use super::nodes::{NodeIndex, Nodes};
use super::stats::share_interval;
use super::traffic::Traffic;
use super::value::{DistanceShare, Interval};
use nearfar_machine::DistanceClass;

/// The report's shares of everything.
#[derive(Debug)]
pub struct Shares {
    /// Remote, of what has a known node.
    pub remote: Option<f64>,
    /// Its interval.
    pub remote_ci: Option<Interval>,
    /// Remote, of all but waiting for other threads.
    pub remote_of_all: Option<f64>,
    /// Its interval.
    pub remote_of_all_ci: Option<Interval>,
    /// By distance.
    pub distance: Vec<DistanceShare>,
    /// Node of the cpu × node of the memory, of all.
    pub matrix: Vec<Vec<f64>>,
    /// Whether all of it was counted.
    pub exact: bool,
}

/// Widest 95 % interval of a share from samples that is still told: one sample that happens to be near must not
/// be read as "0 % remote". Wider than half of everything, it tells nothing. // chosen
pub(super) const WIDEST_TOLD: f64 = 0.5;

impl Shares {
    /// A share as the report tells it: `None` (unknown) if it is of so few samples that it says nothing.
    pub fn told(&self, share: Option<f64>, interval: Option<Interval>) -> Option<f64> {
        share.filter(|_| self.exact || interval.is_some_and(|i| i.high - i.low <= WIDEST_TOLD))
    }

    /// Takes into account that no more than `most` of the time can have gone to far memory: samples on far pages
    /// say where pages are, and the share of the time is somewhere below.
    pub fn bounded(&mut self, most: f64) {
        if let Some(sampled) = self.remote_of_all_ci {
            self.remote_of_all = None;
            self.remote_of_all_ci = Some(Interval { low: 0.0, high: sampled.high.min(most) });
        }
    }

    /// Takes into account that samples on far pages did not wait for memory, a share of the time.
    pub fn without(&mut self, settled: f64) {
        let less = |share: f64| (share - settled).max(0.0);
        self.remote_of_all = self.remote_of_all.map(less);
        self.remote_of_all_ci = self
            .remote_of_all_ci
            .map(|sampled| Interval { low: less(sampled.low), high: less(sampled.high) });
    }

    /// Takes into account that samples on far pages may not have waited for memory; how many of `open`, a share of the time, is
    /// unknown. Where that decides on which side of `limit` the share of the time lies, the share is unknown.
    pub fn lowered(&mut self, open: f64, limit: f64) {
        if let Some(sampled) = &mut self.remote_of_all_ci {
            sampled.low = (sampled.low - open).max(0.0);
            let (without, with) = (sampled.high - open, sampled.low + open);
            let decides = sampled.low <= limit && sampled.high > limit && (without <= limit || with > limit);
            self.remote_of_all = self.remote_of_all.filter(|_| !decides);
        }
    }

    /// Takes into account that none of the samples on far pages may have waited for memory: the share of the time is unknown, and somewhere
    /// below what samples show.
    pub fn open_below(&mut self) {
        self.remote_of_all = None;
        self.remote_of_all_ci = self.remote_of_all_ci.map(|sampled| Interval { low: 0.0, ..sampled });
    }

    /// From samples.
    pub fn of_samples(counters: &Counters, nodes: &Nodes) -> Shares {
        let total = counters.total.weight.max(1) as f64;
        let far = nodes.count > 1 && counters.known.weight > 0;
        let row = |row: &[u64]| row.iter().map(|&w| w as f64 / total).collect();
        Shares {
            remote: far.then(|| counters.remote as f64 / counters.known.weight as f64),
            remote_ci: if far { share_interval(&counters.known_blocks, &counters.known) } else { None },
            remote_of_all: far.then(|| counters.remote as f64 / counters.working.weight.max(1) as f64),
            remote_of_all_ci: if far {
                share_interval(&counters.working_blocks, &counters.working).map(|i| with_rest(i, counters))
            } else {
                None
            },
            distance: distance(&counters.by_class, counters.known.weight),
            matrix: counters.matrix.chunks(nodes.count.max(1)).map(row).collect(),
            exact: false,
        }
    }

    /// From counts. Lines of which one end is unknown may be near or far: they widen the interval.
    pub fn of_counts(traffic: &Traffic, nodes: &Nodes) -> Shares {
        let (known, remote, unknown) = (traffic.known(), traffic.remote(), traffic.unknown);
        let all = (known + unknown).max(1) as f64;
        let far = nodes.count > 1 && known > 0;
        let bounds = Interval { low: remote as f64 / all, high: (remote + unknown) as f64 / all };
        let mut by_class = [0; 4];
        let mut matrix = vec![vec![0.0; nodes.count]; nodes.count];
        for (from, row) in matrix.iter_mut().enumerate() {
            for (page_node, cell) in row.iter_mut().enumerate() {
                let (from, page_node) = (from as NodeIndex, page_node as NodeIndex);
                let lines = traffic.flow(from, page_node).dram();
                by_class[class(nodes.class(from, page_node))] += lines;
                *cell = lines as f64 / all;
            }
        }
        Shares {
            remote: far.then(|| share(remote, known)),
            remote_ci: far.then_some(bounds),
            remote_of_all: far.then_some(bounds.low),
            remote_of_all_ci: far.then_some(bounds),
            distance: distance(&by_class, known),
            matrix,
            exact: true,
        }
    }
}

/// A share that is 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Shares by distance: the classes that occur, and the local one.
pub fn distance(by_class: &[u64; 4], known: u64) -> Vec<DistanceShare> {
    let shares = CLASSES.iter().zip(by_class);
    shares
        .filter(|&(c, &w)| w > 0 || (known > 0 && *c == DistanceClass::Local))
        .map(|(&class, &w)| DistanceShare { class, share: share(w, known) })
        .collect()
}

/// What loops that compute may wait for all the same may be far.
fn with_rest(sampled: Interval, counters: &Counters) -> Interval {
    let rest = counters.computing_waits as f64 / counters.working.weight.max(1) as f64;
    Interval { high: (sampled.high + rest).min(1.0), ..sampled }
}
