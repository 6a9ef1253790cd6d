//! The time of each of the program's phases by the time model, and what the best repair of a run would make of it: the best
//! that a placement file can say, so that `nearfar fix` does what was predicted; where that is nothing, the best of all.
//!
//! The time model knows epochs, bins of the cpus' simulated clocks, and a phase is what its samples say of them: an epoch
//! whose samples are nearly all of one phase is the phase's. Their work is timed as it was and with its memory moved, as
//! the whole run's is; which objects its lines are of, the phase's own samples say.

use super::{Chosen, Engine, ranged};
use crate::counters::{Cell, Counters, Halves};
use crate::hash::FastMap;
use crate::input::{Input, Judge};
use crate::timing::counted;
use crate::value::{PhaseGain, PhaseReport, Predicted, Repair};
use nearfar_figures::percent::percent;
use nearfar_recording::{Columns, CpuEpochs, EpochTraffics};
use nearfar_timing::Timeline;
use std::ops::RangeInclusive;

/// Phases that are looked at, those with most time. // chosen
const MOST: usize = 32;
/// Fewer samples do not say which objects a phase's lines are of. // chosen
const LEAST_SAMPLES: u64 = 100;
/// An epoch is a phase's if it has at least this part of the epoch's samples. // chosen
const NEARLY_ALL: f64 = 0.9;
/// A phase is predicted if at least this part of its time and of its samples is in epochs of its own. // chosen
const MOSTLY: f64 = 0.75;

/// A phase's work: the epochs of its own.
pub struct PhaseWork {
    /// Position in the report's paths.
    node: usize,
    /// Samples of its lines, by what they say of objects.
    cells: Vec<(Cell, Halves)>,
    timeline: Timeline,
}

/// Asks the time model for the phases that took longest, and says in the report what it answers.
pub fn timed(
    report: &mut PhaseReport,
    input: &Input,
    judge: &Judge,
    counters: &Counters,
) -> Vec<Result<PhaseWork, (usize, String)>> {
    let (cpus, traffic) = counted(input, judge);
    let mut longest: Vec<usize> = (1..report.nodes.len()).collect();
    longest.sort_by_key(|&i| (std::cmp::Reverse(report.nodes[i].all.inclusive.time_ns), i));
    longest.truncate(MOST);
    let all = Sampled::new(report, counters);
    let works: Vec<_> = longest
        .into_iter()
        .map(|node| {
            let timed = all.of(node).and_then(|own| all.work(node, own, judge, &cpus, &traffic));
            timed.map_err(|why| (node, why))
        })
        .collect();
    for (work, ns) in works.iter().flatten() {
        report.nodes[work.node].modelled_ns = Some(*ns);
    }
    works.into_iter().map(|work| work.map(|(work, _)| work)).collect()
}

/// The gains of the phases, or why none is predicted.
pub fn gains(
    works: Vec<Result<PhaseWork, (usize, String)>>,
    engine: Result<&Engine, &String>,
    placeable: &Chosen,
) -> Result<Vec<PhaseGain>, String> {
    let engine = engine.map_err(String::clone)?;
    let repairs = if placeable.is_empty() { &engine.best } else { placeable };
    if repairs.is_empty() {
        return Err("no repair was found that gains anything for the run".to_owned());
    }
    let of = |work: Result<PhaseWork, (usize, String)>| {
        let predicted = work.and_then(|work| {
            engine.of_phase(&work, repairs).map(|p| (work.node, p)).map_err(|why| (work.node, why))
        });
        match predicted {
            Ok((node, predicted)) => PhaseGain { node, predicted: Some(predicted), why: None },
            Err((node, why)) => PhaseGain { node, predicted: None, why: Some(why) },
        }
    };
    Ok(works.into_iter().map(of).collect())
}

/// The samples of counted lines, by path and epoch.
struct Sampled<'a> {
    phases: &'a PhaseReport,
    counters: &'a Counters,
    /// By epoch, ascending: samples of each path.
    epochs: Vec<(u32, Vec<(usize, u64)>)>,
}

/// A phase's part.
struct Own {
    epochs: Epochs,
    cells: Vec<(Cell, Halves)>,
}

/// Epochs, as ascending ranges that do not meet: a damaged recording may have 2³² of them between two samples.
#[derive(Default)]
struct Epochs(Vec<RangeInclusive<u32>>);

impl Epochs {
    /// Adds an epoch behind all others; what is between it and the last one too, if `joined`.
    fn push(&mut self, epoch: u32, joined: bool) {
        match self.0.last_mut().filter(|_| joined) {
            Some(last) => *last = *last.start()..=epoch,
            None => self.0.push(epoch..=epoch),
        }
    }

    fn contains(&self, epoch: u32) -> bool {
        let at = self.0.partition_point(|range| *range.end() < epoch);
        self.0.get(at).is_some_and(|range| range.contains(&epoch))
    }
}

impl<'a> Sampled<'a> {
    fn new(phases: &'a PhaseReport, counters: &'a Counters) -> Sampled<'a> {
        let mut all: Vec<(u32, usize, u64)> =
            counters.phases.epochs.iter().map(|(&(epoch, path), &n)| (epoch, path as usize, n)).collect();
        all.sort_unstable();
        let epochs = all.chunk_by(|a, b| a.0 == b.0);
        let epochs = epochs.map(|of| (of[0].0, of.iter().map(|x| (x.1, x.2)).collect())).collect();
        Sampled { phases, counters, epochs }
    }

    /// Whether a path is a phase, or in one.
    fn is_in(&self, mut path: usize, node: usize) -> bool {
        // A path is behind its parent.
        while path > node {
            path = self.phases.nodes[path].parent.unwrap_or(0);
        }
        path == node
    }

    fn of(&self, node: usize) -> Result<Own, String> {
        let (mut samples, mut inside) = (0, 0);
        let mut epochs = Epochs::default();
        let mut before = false;
        for (epoch, of) in &self.epochs {
            let all: u64 = of.iter().map(|x| x.1).sum();
            let own: u64 = of.iter().filter(|x| self.is_in(x.0, node)).map(|x| x.1).sum();
            samples += own;
            if (own as f64) < NEARLY_ALL * all as f64 {
                before = false;
                continue;
            }
            inside += own;
            // Epochs without a sample between two of the phase are the phase's, too: it computed.
            epochs.push(*epoch, before);
            before = true;
        }
        if samples < LEAST_SAMPLES {
            return Err(format!("{samples} samples of its lines are too few ({LEAST_SAMPLES} are needed)"));
        }
        if (inside as f64) < MOSTLY * samples as f64 {
            return Err(format!(
                "{} of its samples are in epochs that other phases share, so its time cannot be told from theirs",
                percent(1.0 - inside as f64 / samples as f64)
            ));
        }
        let mut cells: FastMap<Cell, Halves> = FastMap::default();
        for (&(path, cell), halves) in &self.counters.phase_cells {
            if self.is_in(path as usize, node) {
                let to = cells.entry(cell).or_default();
                to.iter_mut().flatten().zip(halves.iter().flatten()).for_each(|(to, n)| *to += n);
            }
        }
        let mut cells: Vec<(Cell, Halves)> = cells.into_iter().collect();
        cells.sort_by_key(|c| c.0);
        Ok(Own { epochs, cells })
    }

    /// A phase's epochs, timed, and its whole time by the time model, ns: epochs that it shares are taken to be as much
    /// longer by the model's clock than by the simulated one as those of its own.
    fn work(
        &self,
        node: usize,
        own: Own,
        judge: &Judge,
        all_cpus: &CpuEpochs,
        all_traffic: &EpochTraffics,
    ) -> Result<(PhaseWork, f64), String> {
        let (mut cpus, mut traffic) = (CpuEpochs::default(), EpochTraffics::default());
        all_cpus.rows().filter(|r| own.epochs.contains(r.epoch)).for_each(|r| cpus.push(r));
        all_traffic.rows().filter(|r| own.epochs.contains(r.epoch)).for_each(|r| traffic.push(r));
        let timeline = Timeline::new(&judge.machine, &cpus, &traffic).map_err(|e| e.to_string())?;
        let covered: f64 = timeline.pieces().iter().map(|work| work.elapsed_ns).sum();
        let time_ns = self.phases.nodes[node].spread.max;
        if covered < MOSTLY * time_ns {
            return Err(format!("only {} of its time is in epochs of its own", percent(covered / time_ns)));
        }
        let modelled = timeline.time().map_err(|e| e.to_string())?.seconds * 1e9 * time_ns / covered;
        Ok((PhaseWork { node, cells: own.cells, timeline }, modelled))
    }
}

impl Engine<'_> {
    /// What repairs make of a phase's time.
    fn of_phase(&self, work: &PhaseWork, repairs: &Chosen) -> Result<Predicted, String> {
        let timeline = &work.timeline;
        let comparison = timeline.comparison().map_err(|e| e.to_string())?;
        let parts = self.flows.parts_of(&work.cells);
        let best = |row: u32| repairs.get(self.unit_of.get(&row)?).copied();
        let divides = self.divides(&best);
        let moved = |repair: &dyn Fn(u32) -> Option<Repair>, half: usize| {
            self.flows.moved_by(&|_| &parts[half], timeline, &comparison, repair, divides)
        };
        let mut ratio = comparison.ratio(&moved(&best, 2));
        if divides {
            // As for the run: what dividing the work anew gains beyond that is not memory's.
            let less = (comparison.guess(&moved(&|_| Some(Repair::Replicate), 2)) - ratio.ratio).max(0.0);
            ratio.ratio += less;
            ratio.low += less;
            ratio.high += less;
        }
        let half = |half| comparison.guess(&moved(&best, half));
        Ok(ranged(ratio, (half(0) - half(1)).abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epochs_of_a_phase_cost_no_more_for_being_far_apart() {
        let mut epochs = Epochs::default();
        for (epoch, joined) in [(2, false), (5, true), (9, false), (u32::MAX - 1, true), (u32::MAX, false)] {
            epochs.push(epoch, joined);
        }
        assert_eq!(epochs.0, [2..=5, 9..=u32::MAX - 1, u32::MAX..=u32::MAX]);
        let within = [2, 3, 5, 9, 1 << 31, u32::MAX - 1, u32::MAX];
        let outside = [0, 1, 6, 8];
        assert!(within.into_iter().all(|epoch| epochs.contains(epoch)));
        assert!(!outside.into_iter().any(|epoch| epochs.contains(epoch)));
    }
}
