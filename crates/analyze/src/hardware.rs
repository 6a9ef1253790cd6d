//! Samples that the processor took itself: each says where its data came from.
//!
//! What counts are samples that memory answered, each for the accesses that it stands for. Where such a sample
//! is near or far is the processor's word, not the page's: a page may have moved since anybody looked. The page says which
//! node it was where the processor says only "another".
//!
//! How much of the time waits for memory is the clock's word. Its samples, taken beside, say how much
//! of the time goes to instructions that touch memory, and the latencies say which part of that memory answered. Both are no
//! more than an estimate (loads overlap, and the processor samples loads only); what the clock gives alone is the
//! upper bound that a clean verdict rests on.

use super::input::Judge;
use super::nodes::{NodeIndex, UNKNOWN};
use super::stats::{LEAST_SAMPLES, draws_interval};
use super::value::Interval;
use nearfar_figures::percent::percent;
use nearfar_machine::NodeKind;
use nearfar_recording::Served;

/// What the machine lets the processor's words mean.
#[derive(Debug, Default)]
pub struct Places {
    /// Each package has one node with cpus: what is local to the package is local to the node.
    whole_packages: bool,
    /// By node: the only other one that has memory, if it is the only one.
    other: Vec<NodeIndex>,
    /// The only node behind CXL.
    cxl: NodeIndex,
}

impl Places {
    /// Of the machine that the recording was made on.
    pub fn new(judge: &Judge) -> Places {
        let nodes = &judge.machine.nodes;
        let with_cpus = || nodes.iter().filter(|n| !n.cpus.is_empty());
        let mut packages: Vec<u32> = with_cpus().filter_map(|n| n.package).collect();
        packages.sort_unstable();
        // Where packages are not known, two nodes with cpus are taken for two.
        let whole_packages = match packages.len() == with_cpus().count() {
            true => packages.windows(2).all(|pair| pair[0] != pair[1]),
            false => with_cpus().count() <= 2,
        };
        let only = |mut of: Box<dyn Iterator<Item = usize> + '_>| match (of.next(), of.next()) {
            (Some(one), None) => one as NodeIndex,
            _ => UNKNOWN,
        };
        let memory = |n: usize| nodes[n].memory_bytes != Some(0) && nodes[n].kind != NodeKind::Cxl;
        let other = |own: usize| only(Box::new((0..nodes.len()).filter(move |&n| n != own && memory(n))));
        Places {
            whole_packages,
            other: (0..nodes.len()).map(other).collect(),
            cxl: only(Box::new((0..nodes.len()).filter(|&n| nodes[n].kind == NodeKind::Cxl))),
        }
    }

    /// Where the memory of an access is, and whether that is far: by what the processor said, the node of the cpu, and the
    /// node of the page.
    pub fn settle(&self, served: Served, node: NodeIndex, page: NodeIndex) -> (NodeIndex, Option<bool>) {
        match served {
            // Of a package with several nodes, "local" may be the neighbour's.
            Served::LocalMemory if !self.whole_packages => (page, None),
            Served::LocalMemory if node == UNKNOWN => (page, Some(false)),
            Served::LocalMemory => (node, Some(false)),
            Served::RemoteMemory if page != UNKNOWN && page != node => (page, Some(true)),
            Served::RemoteMemory => {
                (self.other.get(usize::from(node)).copied().unwrap_or(UNKNOWN), Some(true))
            }
            Served::Cxl if self.cxl != UNKNOWN => (self.cxl, None),
            _ => (page, None),
        }
    }
}

/// What was counted beside the samples that shares are of.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Hardware samples by code of [`Served`]: how many, the accesses that they stand for, and cycles of all these.
    pub served: [[u64; 3]; 8],
    /// Clock samples of working threads: how many, and their time; that of instructions that touch memory; of these, with a
    /// known page; and far.
    pub clock: [u64; 5],
    /// Samples of stores to far pages, and what they are a part of: of the clock's, all of working threads; of the
    /// processor's that no cache of the core answered, those whose page is known.
    pub stores: [[u64; 2]; 2],
    /// Samples of which processor and page say the same, and another.
    pub agree: [u64; 2],
    /// Whether only slow accesses or misses were sampled.
    pub filtered: bool,
}

impl Beside {
    /// Adds a hardware sample.
    pub fn add(&mut self, served: u8, period: u32, latency: u32) {
        let events = u64::from(period.max(1));
        let sum = &mut self.served[usize::from(served) % 8];
        sum[0] += 1;
        sum[1] = sum[1].saturating_add(events);
        sum[2] = sum[2].saturating_add(events * u64::from(latency));
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Beside) {
        for (to, from) in self.served.iter_mut().zip(&other.served) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = to.saturating_add(*from));
        }
        self.clock.iter_mut().zip(&other.clock).for_each(|(to, from)| *to += from);
        let stores = self.stores.iter_mut().flatten();
        stores.zip(other.stores.iter().flatten()).for_each(|(to, from)| *to += from);
        self.agree.iter_mut().zip(&other.agree).for_each(|(to, from)| *to += from);
    }

    /// Hardware samples in all, and those that memory answered.
    pub fn samples(&self) -> [u64; 2] {
        [self.sum(0, |_| true), self.sum(0, Served::is_memory)]
    }

    fn sum(&self, column: usize, of: impl Fn(Served) -> bool) -> u64 {
        let wanted = Served::ALL.iter().filter(|s| of(**s));
        wanted.fold(0, |sum, s| sum.saturating_add(self.served[*s as usize][column]))
    }

    /// Whether memory answered too few samples for shares of them.
    pub fn too_few(&self) -> bool {
        self.samples()[1] < LEAST_SAMPLES
    }

    /// Share of the time that waits for memory: an estimate, and what it cannot be above.
    ///
    /// # Errors
    /// Why it is not known, in words.
    pub fn waits(&self) -> Result<(f64, f64), String> {
        let [clock, working, touching, ..] = self.clock;
        if clock < LEAST_SAMPLES {
            return Err(format!(
                "it takes clock samples beside them, and there are {clock}; {LEAST_SAMPLES} are needed"
            ));
        }
        let most = touching as f64 / working.max(1) as f64;
        Ok((most * self.part(Served::is_memory).unwrap_or(0.0), most))
    }

    /// The part of all latencies that these have; `None` if unknown: without latencies, or where what caches answered was not
    /// sampled.
    fn part(&self, of: impl Fn(Served) -> bool) -> Option<f64> {
        let all = self.sum(2, |_| true);
        (all > 0 && !self.filtered).then(|| self.sum(2, of) as f64 / all as f64)
    }

    /// Largest share of the time that can have waited for lines in caches of other nodes; 0 if no sample was of one.
    pub fn between_nodes_at_most(&self) -> f64 {
        let other = |served| served == Served::OtherNodesCache;
        if self.sum(0, other) == 0 {
            return 0.0;
        }
        // Without a clock beside them, all of the time may have waited for loads.
        let most = self.waits().map_or(1.0, |(_, most)| most);
        self.at_most(most, other).unwrap_or(most)
    }

    /// Largest share that stores to far pages can have: of the time, or without a clock of the stores. No processor says where
    /// the line of a store came from, so the loads alone do not show that nothing is far. 0 if nothing is known of stores.
    pub fn far_stores_at_most(&self) -> f64 {
        let [clock, processor] = self.stores;
        let [far, all] = if self.clock[0] >= LEAST_SAMPLES { clock } else { processor };
        if far == 0 { 0.0 } else { draws_interval(far, all).map_or(1.0, |interval| interval.high) }
    }

    /// Largest share of the time that can have waited for memory where memory answered few samples; `None` if unknown.
    pub fn waits_at_most(&self) -> Option<f64> {
        self.at_most(self.waits().ok()?.1, Served::is_memory)
    }

    /// What part of `most` these can have at most, by their number and their latencies; `None` without latencies. Where fast
    /// accesses were not sampled, it is an upper bound as well: they would take away from it.
    fn at_most(&self, most: f64, of: impl Fn(Served) -> bool + Copy) -> Option<f64> {
        let mean = |cycles: u64, n: u64| cycles as f64 / n.max(1) as f64;
        let [all, these] = [self.sum(0, |_| true), self.sum(0, of)];
        let (of_these, of_all) = (self.sum(2, of), self.sum(2, |_| true));
        if of_all == 0 {
            return None;
        }
        // One more than was seen: that none was among few proves nothing.
        let high = draws_interval(these, all)?.high;
        let longer = mean(of_these.max(of_all / all.max(1)), these.max(1)) / mean(of_all, all);
        Some((most * high * longer.max(1.0)).min(1.0))
    }

    /// Far share of the clock's samples on memory whose page is known, with its interval.
    pub fn by_clock(&self) -> Option<(f64, Interval)> {
        let [n, _, memory, known, far] = self.clock;
        if n < LEAST_SAMPLES || known == 0 || memory == 0 {
            return None;
        }
        let share = far as f64 / known as f64;
        let draws = (n as f64 * known as f64 / self.clock[1].max(1) as f64) as u64;
        Some((share, draws_interval((share * draws as f64).round() as u64, draws.max(1))?))
    }

    /// What they say, for notes.
    pub fn notes(&self, remote: Option<f64>, interval: Option<Interval>) -> Vec<String> {
        let [all, memory] = self.samples();
        if all == 0 {
            return Vec::new();
        }
        let events = self.sum(1, |_| true).max(1);
        let part = |s: &Served| {
            let [n, stands_for, _] = self.served[*s as usize];
            (n > 0).then(|| format!("{} {}", s.text(), percent(stands_for as f64 / events as f64)))
        };
        let parts: Vec<String> = Served::ALL.iter().filter_map(part).collect();
        let mut notes = vec![format!(
            "{all} accesses were sampled by the processor, and memory answered {memory} of them. By the accesses that they \
             stand for: {}.",
            parts.join(", ")
        )];
        let [same, other] = self.agree;
        if other * 20 > same + other {
            notes.push(format!(
                "Of {} samples that memory answered and whose page was looked at, {other} came from another node than the \
                 page was on then: pages moved, or the looks were too far apart.",
                same + other
            ));
        }
        if let (Some((clock, low_high)), Some(remote), Some(interval)) = (self.by_clock(), remote, interval) {
            let apart = low_high.low > interval.high || interval.low > low_high.high;
            notes.push(format!(
                "Clock samples beside them: {} of the time on memory is on far pages ({} to {}); the processor says {} of what \
                 memory answered ({} to {}). {}",
                percent(clock),
                percent(low_high.low),
                percent(low_high.high),
                percent(remote),
                percent(interval.low),
                percent(interval.high),
                match apart {
                    true => "They differ, since caches answer part of the time on far pages, or far accesses take longer.",
                    false => "They agree.",
                }
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::Machine;

    fn places(shape: &str) -> Places {
        Places::new(&Judge { machine: Machine::from_shape(shape).unwrap(), assume: None, whole: true })
    }

    #[test]
    fn the_processors_word_goes_before_the_pages() {
        let two = places("2x4");
        assert_eq!(two.settle(Served::LocalMemory, 1, 0), (1, Some(false)));
        assert_eq!(two.settle(Served::RemoteMemory, 1, 1), (0, Some(true)));
        assert_eq!(two.settle(Served::RemoteMemory, UNKNOWN, UNKNOWN), (UNKNOWN, Some(true)));
        assert_eq!(two.settle(Served::LocalMemory, UNKNOWN, UNKNOWN), (UNKNOWN, Some(false)));
        // Of four nodes, "another" is three: only the page can say which.
        let four = places("4x4");
        assert_eq!(four.settle(Served::RemoteMemory, 1, 3), (3, Some(true)));
        assert_eq!(four.settle(Served::RemoteMemory, 1, UNKNOWN), (UNKNOWN, Some(true)));
        // Two nodes to a package: local memory may be the neighbour's.
        let split = places("2x2x4");
        assert_eq!(split.settle(Served::LocalMemory, 1, 0), (0, None));
        assert_eq!(split.settle(Served::LocalMemory, 1, UNKNOWN), (UNKNOWN, None));
    }

    #[test]
    fn the_clock_bounds_what_waits_for_memory() {
        let mut beside = Beside::default();
        assert!(beside.waits().unwrap_err().contains("there are 0"));
        beside.clock = [1000, 1000, 600, 600, 60];
        (0..900).for_each(|_| beside.add(Served::Cache as u8, 1, 10));
        (0..100).for_each(|_| beside.add(Served::RemoteMemory as u8, 1, 300));
        let (estimate, most) = beside.waits().unwrap();
        assert!((most - 0.6).abs() < 1e-9 && (estimate - 0.6 * 30_000.0 / 39_000.0).abs() < 1e-9);
        assert!(beside.too_few() && beside.waits_at_most().unwrap() > estimate);
        assert_eq!(beside.samples(), [1000, 100]);
        let (share, interval) = beside.by_clock().unwrap();
        assert!((share - 0.1).abs() < 1e-9 && interval.low < 0.1 && interval.high > 0.1);
    }
}
