//! What if: the time of the counted work if memory lay elsewhere.
//!
//! Only counts carry this. A timer's samples say where time went, not how many lines crossed to whom,
//! and a counter of a whole machine does not say of which object they were.

mod by_phase;
mod flows;
mod in_file;
mod parts;
mod plan;
mod tied;
mod weights;

use super::cases::MOSTLY_HALO;
use super::counters::Counters;
use super::exact::Exact;
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::Nodes;
use super::object_rows::RowUse;
use super::rows::Rows;
use super::thresholds::{MODEL, SAME, WORTH};
use super::timing::Timing;
use super::value::{Combination, NotWorth, OneNode, Pattern, Predicted, Repair, RepairRow, WhatIf};
use flows::Flows;
use nearfar_machine::Machine;
use nearfar_recording::NONE;
use nearfar_timing::work::Work;
use nearfar_timing::{Comparison, Ratio, Timeline};
use tied::Tied;

pub use by_phase::{gains, timed};
pub use plan::Planner;

/// Units that are looked at: those that move at least this part of the lines, and so many at most.
const LEAST_LINES: f64 = 0.01;
const MOST_UNITS: usize = 8;
/// A schedule is of a loop: work is divided anew only where the objects that get it have this part of the lines of all
/// that the loop takes out of order. // chosen
const OF_THE_LOOP: f64 = 0.9;
/// Part of the lines read that are fetched ahead where loops go through data in order. // chosen
const SEQUENTIAL: f64 = 0.5;
/// Pages are parted between the nodes if being where they are used leaves this part of the remote lines that
/// interleaving leaves, or less. // chosen
const PARTED: f64 = 0.8;
/// The same where every thread is seen everywhere. // chosen
const STAYS: f64 = 0.2;

/// A repair of each unit that gets one, by the unit's position.
pub type Chosen = FastMap<usize, Repair>;

/// Asks the time model what repairs would give.
pub struct Engine<'a> {
    machine: &'a Machine,
    timeline: &'a Timeline,
    comparison: Comparison<'a>,
    flows: Flows,
    /// Whether most lines are fetched ahead: loops go through their data in order, no matter which thread takes which part.
    sequential: bool,
    /// What is worth looking at: rows that one cause placed and that can be repaired alike. One change repairs them
    /// together: thirty fields of 2 % of the lines each are 60 %.
    units: Vec<Vec<u32>>,
    /// The unit of each row.
    unit_of: FastMap<u32, usize>,
    /// Lines of each row.
    lines: FastMap<u32, f64>,
    /// Each unit's best repair, where one gains anything.
    best: FastMap<usize, Repair>,
    /// What each unit's repairs give alone.
    options: Vec<Vec<(Repair, f64)>>,
    /// Units that a static schedule of their loop would make near, and what it gains. A schedule is of a loop: it
    /// is for all of them or for none.
    scheduled: (Vec<usize>, f64),
    /// The weights that take least time for all memory, where nodes without cpus have some, too.
    weighted: Option<Repair>,
}

impl<'a> Engine<'a> {
    /// Looks for the best repair of each unit. `causes`: rows that one cause placed.
    ///
    /// # Errors
    /// In words, why nothing can be predicted.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        input: &Input,
        judge: &'a Judge,
        nodes: &Nodes,
        exact: Option<&Exact>,
        timing: Result<&'a Timing, &String>,
        counters: &Counters,
        row_uses: &[RowUse],
        causes: &[Vec<u32>],
    ) -> Result<Engine<'a>, String> {
        let timing = timing.map_err(String::clone)?;
        let exact = exact.ok_or("no page was counted, so what moves with an object is not known")?;
        if nodes.count < 2 {
            return Err("the machine has one node: memory can be nowhere else".to_string());
        }
        let machine = &judge.machine;
        let comparison = timing.timeline.comparison().map_err(|e| e.to_string())?;
        let flows = Flows::new(input, nodes, exact, counters, machine);
        let lines = |of: fn(&nearfar_timing::work::NodeWork) -> f64| -> f64 {
            let cores = timing.timeline.pieces().iter().flat_map(|p| &p.cores);
            cores.flat_map(|c| c.used().map(|(_, w)| of(w))).sum()
        };
        let mut engine = Engine {
            sequential: lines(|w| w.prefetches) > SEQUENTIAL * lines(|w| w.reads),
            machine,
            timeline: &timing.timeline,
            comparison,
            flows,
            units: Vec::new(),
            unit_of: FastMap::default(),
            lines: FastMap::default(),
            best: FastMap::default(),
            options: Vec::new(),
            scheduled: (Vec::new(), 1.0),
            weighted: None,
        };
        engine.divide(row_uses, causes);
        engine.search(row_uses);
        Ok(engine)
    }

    /// Makes the units: the rows of a cause for which the same repairs come into question, and each other row.
    fn divide(&mut self, row_uses: &[RowUse], causes: &[Vec<u32>]) {
        let cause_of: FastMap<u32, usize> =
            causes.iter().enumerate().flat_map(|(i, rows)| rows.iter().map(move |&r| (r, i))).collect();
        let ranked = self.flows.rows();
        let all: f64 = ranked.iter().map(|r| r.1).sum();
        struct Unit {
            cause: Option<usize>,
            repairs: Vec<Repair>,
            lines: f64,
            rows: Vec<u32>,
        }
        let mut units: Vec<Unit> = Vec::new();
        let mut of_causes = vec![0.0; causes.len()];
        for (row, lines) in &ranked {
            cause_of.get(row).into_iter().for_each(|&cause| of_causes[cause] += lines);
        }
        for &(row, lines) in ranked.iter().filter(|r| r.0 != NONE) {
            let cause = cause_of.get(&row).copied();
            // Looking at a row takes time, and there may be thousands.
            if cause.map_or(lines, |cause| of_causes[cause]) < LEAST_LINES * all {
                continue;
            }
            let repairs = self.repairs(row, row_uses);
            let same = units.iter_mut().find(|u| cause.is_some() && u.cause == cause && u.repairs == repairs);
            match same {
                Some(unit) => {
                    unit.lines += lines;
                    unit.rows.push(row);
                }
                None => units.push(Unit { cause, repairs, lines, rows: vec![row] }),
            }
        }
        units.retain(|u| u.lines >= LEAST_LINES * all);
        units.sort_by(|a, b| b.lines.total_cmp(&a.lines).then_with(|| a.rows.cmp(&b.rows)));
        units.truncate(MOST_UNITS);
        self.units = units.into_iter().map(|u| u.rows).collect();
        let number = |(i, rows): (usize, &Vec<u32>)| rows.iter().map(|&r| (r, i)).collect::<Vec<_>>();
        self.lines = ranked.into_iter().collect();
        self.unit_of = self.units.iter().enumerate().flat_map(number).collect();
    }

    fn repairs(&self, row: u32, row_uses: &[RowUse]) -> Vec<Repair> {
        let Some(about) = row_uses.iter().find(|f| f.row == row as usize) else { return Vec::new() };
        let mut found = vec![Repair::Interleave];
        let far = |repair| self.flows.remote_of(row, Some(repair));
        // Where every node uses every page, the one that uses it most is chance; and where threads take what comes
        // next, it is another one in the next run.
        let parted = if about.pattern == Pattern::AllOver { STAYS } else { PARTED };
        if far(Repair::WhereUsed) <= parted * far(Repair::Interleave) {
            found.push(Repair::WhereUsed);
        }
        if self.flows.uneven() {
            found.push(Repair::WeightedInterleave);
        }
        found.extend(self.flows.with_cpus().map(|n| Repair::Bind { node: self.machine.nodes[n].id }));
        if about.read_only && about.pattern == Pattern::AllOver && about.touchers.len() == 1 {
            found.push(Repair::Replicate);
        }
        found
    }

    /// Units that threads take in another order than they were touched in, as long as that is an order.
    fn scheduled(&self, row_uses: &[RowUse]) -> (Vec<usize>, f64) {
        let taken = |row: u32| {
            let about = row_uses.iter().find(|f| f.row == row as usize);
            // A halo does not change the order.
            about.is_some_and(|f| {
                f.pattern == Pattern::AllOver
                    && f.touchers.len() > 1
                    && f.remote_share.is_some_and(|s| s >= MOSTLY_HALO)
            })
        };
        let all = |unit: &usize| self.units[*unit].iter().all(|&row| taken(row));
        let units: Vec<usize> = (0..self.units.len()).filter(all).collect();
        // A schedule also divides the work more evenly here than the emulator itself did: it has to pay by
        // memory alone, too.
        let near = self.guess(&|unit| units.contains(&unit).then_some(Repair::Replicate));
        if !self.sequential || units.is_empty() || near > 1.0 - WORTH {
            return (Vec::new(), 1.0);
        }
        (units, near)
    }

    /// Whether work is divided anew: where the whole loop gets its schedule, and that makes fewer lines remote. Else
    /// an object of 1 % of the lines would gain what dividing the work of all of them gains.
    fn divides(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> bool {
        let rows = || self.scheduled.0.iter().flat_map(|&unit| &self.units[unit]).copied();
        let (all, those) = rows().fold((0.0, 0.0), |sum, row| {
            let of = self.lines.get(&row).copied().unwrap_or(0.0);
            (sum.0 + of, sum.1 + if repair(row) == Some(Repair::SameSchedule) { of } else { 0.0 })
        });
        all > 0.0
            && those >= OF_THE_LOOP * all
            && self.flows.remote(repair) < self.flows.remote(&|_| None) - SAME
    }

    fn moved(&self, repair: &dyn Fn(u32) -> Option<Repair>, half: usize) -> Vec<Work> {
        self.flows.moved(self.timeline, &self.comparison, repair, half, self.divides(repair))
    }

    /// The time of rows elsewhere over the time now. Work that a schedule divides anew may be faster than any placement
    /// could make it; that is not what memory gains, so every line local is the most.
    fn of(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> f64 {
        let ratio = self.comparison.guess(&self.moved(repair, 2));
        if self.divides(repair) { ratio.max(self.local()) } else { ratio }
    }

    /// The same with every line local.
    fn local(&self) -> f64 {
        self.comparison.guess(&self.moved(&|_| Some(Repair::Replicate), 2))
    }

    fn guess(&self, repair: &dyn Fn(usize) -> Option<Repair>) -> f64 {
        self.of(&|row| repair(*self.unit_of.get(&row)?))
    }

    /// Each unit alone, then all together, improved a unit at a time. Interleaving one of several arrays relieves
    /// a controller that interleaving the next one needs no more: the sum of single gains says little.
    fn search(&mut self, row_uses: &[RowUse]) {
        self.scheduled = self.scheduled(row_uses);
        for unit in 0..self.units.len() {
            let repairs = self.repairs(self.units[unit][0], row_uses);
            let alone = |r| self.guess(&|x| (x == unit).then_some(r));
            let mut tried: Vec<(Repair, f64)> = repairs.iter().map(|&r| (r, alone(r))).collect();
            tried.extend(weights::best(self.machine, alone));
            self.options.push(tried);
        }
        if !self.scheduled.0.is_empty() {
            let all = &self.scheduled.0;
            self.scheduled.1 = self.guess(&|x| all.contains(&x).then_some(Repair::SameSchedule));
        }
        self.weighted = weights::best(self.machine, |r| self.guess(&|_| Some(r))).map(|w| w.0);
        self.best = self.combined(&|_, _| true);
    }

    /// The best combination of those that may be.
    fn combined(&self, may: &dyn Fn(usize, Repair) -> bool) -> FastMap<usize, Repair> {
        let units: Vec<usize> = (0..self.units.len()).collect();
        // Plain before clever: one repair for all, unless singling objects out is worth it.
        let all = |units: &[usize], repair| -> FastMap<usize, Repair> {
            units.iter().filter(|&&u| may(u, repair)).map(|&u| (u, repair)).collect()
        };
        let single = units.iter().filter_map(|&u| Some((u, self.pick(u, may)?))).collect();
        let plain = [Some(Repair::WhereUsed), Some(Repair::Interleave), self.weighted].into_iter().flatten();
        let starts =
            plain.map(|r| all(&units, r)).chain([all(&self.scheduled.0, Repair::SameSchedule), single]);
        let (mut least, mut best) = (1.0, FastMap::default());
        for start in starts {
            let ratio = self.guess(&|x| start.get(&x).copied());
            if ratio < least - WORTH {
                (least, best) = (ratio, start);
            }
        }
        for _ in 0..2 {
            for &unit in &units {
                let now = best.get(&unit).copied();
                if now == Some(Repair::SameSchedule) {
                    continue;
                }
                let with = |repair| self.guess(&|x| if x == unit { repair } else { best.get(&x).copied() });
                let options = self.options[unit].iter().map(|o| o.0).filter(|&r| may(unit, r));
                let tried: Vec<(Repair, f64)> = options.map(|r| (r, with(Some(r)))).collect();
                let without = with(None);
                let kept = tried.iter().find(|t| Some(t.0) == now).map_or(without, |t| t.1);
                match self.nearest(unit, &tried) {
                    // As it is, unless a change gains anything; as all are, unless another is worth it.
                    _ if now.is_some() && kept >= without - SAME => _ = best.remove(&unit),
                    Some((repair, ratio)) if ratio < kept - WORTH => _ = best.insert(unit, repair),
                    _ => {}
                }
            }
        }
        best
    }

    /// Of the repairs about as good as the best, the one with the fewest remote lines.
    fn nearest(&self, unit: usize, tried: &[(Repair, f64)]) -> Option<(Repair, f64)> {
        let least = tried.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let far = |r: Repair| self.flows.remote(&|x| (self.unit_of.get(&x) == Some(&unit)).then_some(r));
        let good = tried.iter().filter(|t| t.1 <= least + SAME);
        good.map(|t| (t, far(t.0))).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| *t)
    }

    /// The best repair of a unit alone, of those that may be.
    fn pick(&self, unit: usize, may: &dyn Fn(usize, Repair) -> bool) -> Option<Repair> {
        let tried: Vec<(Repair, f64)> =
            self.options.get(unit)?.iter().copied().filter(|t| may(unit, t.0)).collect();
        let least = tried.iter().map(|t| t.1).fold(1.0, f64::min);
        let scheduled = self.scheduled.0.contains(&unit) && may(unit, Repair::SameSchedule);
        if scheduled && self.scheduled.1 < least - WORTH {
            return Some(Repair::SameSchedule);
        }
        self.nearest(unit, &tried).filter(|t| t.1 < 1.0 - SAME).map(|t| t.0)
    }

    /// The ratio with its range.
    fn predicted(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> Predicted {
        let mut r = self.comparison.ratio(&self.moved(repair, 2));
        if self.divides(repair) {
            let less = (self.local() - r.ratio).max(0.0);
            r = Ratio { ratio: r.ratio + less, low: r.low + less, high: r.high + less };
        }
        // Half of what two halves of the samples differ by is the standard error of all of them; 95 %.
        let half = |half| self.comparison.guess(&self.moved(repair, half));
        let sampling = match self.flows.sampled() {
            true => (half(0) - half(1)).abs(),
            false => 0.0,
        };
        ranged(r, sampling)
    }

    /// What the best repairs of some rows give, all else as it is.
    pub fn of_rows(&self, rows: &[u32]) -> Predicted {
        let repairs: FastMap<u32, Repair> = rows.iter().filter_map(|&r| Some((r, self.repair(r)?))).collect();
        match repairs.is_empty() {
            // No repair that gains anything is a gain of nothing.
            true => ranged(Ratio { ratio: 1.0, low: 1.0, high: 1.0 }, 0.0),
            false => self.predicted(&|x| repairs.get(&x).copied()),
        }
    }

    /// The same with the best repairs of other rows made before.
    pub fn after(&self, before: &[u32], rows: &[u32]) -> f64 {
        let repairs = |of: &[u32]| -> FastMap<u32, Repair> {
            of.iter().filter_map(|&r| Some((r, self.repair(r)?))).collect()
        };
        let (first, both) = (repairs(before), repairs(&[before, rows].concat()));
        self.of(&|x| both.get(&x).copied()) / self.of(&|x| first.get(&x).copied()).max(f64::MIN_POSITIVE)
    }

    /// The best repair of a row: in the best combination, else alone.
    pub fn repair(&self, row: u32) -> Option<Repair> {
        let unit = *self.unit_of.get(&row)?;
        self.best.get(&unit).copied().or_else(|| self.pick(unit, &|_, _| true))
    }

    /// Rows of the best combination, except for `rows`.
    pub fn others(&self, rows: &[u32]) -> Vec<u32> {
        let units = self.units.iter().enumerate().filter(|(unit, _)| self.best.contains_key(unit));
        units.flat_map(|(_, r)| r).copied().filter(|r| !rows.contains(r)).collect()
    }

    /// Names of a unit's rows.
    fn names(&self, rows: &Rows, unit: usize) -> Vec<String> {
        self.units[unit].iter().map(|&row| rows.rows[row as usize].name.clone()).collect()
    }

    /// Everything, for the report. `placeable`: what [`Engine::placeable`] found.
    pub fn report(
        &self,
        rows: &Rows,
        planner: &Planner,
        placeable: &Chosen,
        not_worth: Vec<NotWorth>,
    ) -> WhatIf {
        let mut repairs = Vec::new();
        for unit in 0..self.units.len() {
            let mut tried = self.options[unit].clone();
            tried.sort_by(|a, b| a.1.total_cmp(&b.1));
            // Of the nodes to bind to, the best, if that is better than what divides the pages.
            let binds = |t: &(Repair, f64)| matches!(t.0, Repair::Bind { .. });
            let divided = tried.iter().find(|t| !binds(t)).map_or(1.0, |t| t.1);
            let best = tried.iter().find(|t| binds(t) && t.1 < divided - SAME).map(|t| t.0);
            tried.retain(|t| !binds(t) || Some(t.0) == best);
            for (repair, _) in tried {
                let of = |x: u32| (self.unit_of.get(&x) == Some(&unit)).then_some(repair);
                repairs.push(self.row(self.names(rows, unit), repair, &of));
            }
        }
        if !self.scheduled.0.is_empty() {
            let of = |x: u32| {
                let unit = self.unit_of.get(&x)?;
                self.scheduled.0.contains(unit).then_some(Repair::SameSchedule)
            };
            let names = self.scheduled.0.iter().flat_map(|&unit| self.names(rows, unit)).collect();
            repairs.push(self.row(names, Repair::SameSchedule, &of));
        }
        let weighted = self.flows.uneven().then_some(Repair::WeightedInterleave);
        let of_all = [Repair::WhereUsed, Repair::Interleave].into_iter().chain(weighted).chain(self.weighted);
        repairs.extend(of_all.map(|repair| self.row(Vec::new(), repair, &|_| Some(repair))));
        repairs.sort_by(|a, b| {
            let key = |r: &RepairRow| (r.objects.is_empty(), r.predicted.ratio);
            key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1))
        });
        let best = self.combination(&self.best, planner);
        let placeable = self.combination(placeable, planner);
        let mut all_local = self.predicted(&|_| Some(Repair::Replicate));
        // Memory of one node may have too much to do although every line of it is local.
        let found = repairs.iter().map(|r| &r.predicted);
        for predicted in found.chain([&best, &placeable].into_iter().flatten().map(|c| &c.predicted)) {
            if predicted.ratio < all_local.ratio {
                all_local = predicted.clone();
            }
        }
        WhatIf {
            remote_share: self.flows.remote(&|_| None),
            repairs,
            best,
            placeable,
            all_local,
            one_node: self.one_node(),
            not_worth,
        }
    }

    fn combination(&self, chosen: &FastMap<usize, Repair>, planner: &Planner) -> Option<Combination> {
        let of = |x: u32| chosen.get(self.unit_of.get(&x)?).copied();
        let rows: Vec<u32> = self.units.iter().flatten().copied().filter(|&row| of(row).is_some()).collect();
        let mut parts: Vec<_> = rows.iter().filter_map(|&row| Some(planner.part(row, of(row)?))).collect();
        Tied::new(&self.units, planner).mark(&mut parts, &rows, chosen);
        (!chosen.is_empty()).then(|| Combination {
            parts,
            predicted: self.predicted(&of),
            remote_share: self.flows.remote(&of),
        })
    }

    fn row(&self, objects: Vec<String>, repair: Repair, of: &dyn Fn(u32) -> Option<Repair>) -> RepairRow {
        RepairRow { objects, repair, predicted: self.predicted(of), remote_share: self.flows.remote(of) }
    }

    /// All threads on the node where that is fastest, with all memory.
    fn one_node(&self) -> Option<OneNode> {
        let pieces = self.timeline.pieces();
        let cores = pieces.first()?.cores.len();
        let active: Vec<usize> =
            (0..cores).filter(|&c| pieces.iter().any(|p| !p.cores[c].is_idle())).collect();
        let on: Vec<usize> = active.iter().map(|&c| self.timeline.node_of_core(c)).collect();
        if on.windows(2).all(|w| w[0] == w[1]) {
            return None;
        }
        let tried = self.flows.with_cpus().filter_map(|node| {
            let there: Vec<usize> = (0..cores).filter(|&c| self.timeline.node_of_core(c) == node).collect();
            if there.len() < active.len() {
                return None;
            }
            let mut moved = pieces.to_vec();
            for piece in &mut moved {
                let was = std::mem::take(&mut piece.cores);
                piece.cores = vec![Default::default(); cores];
                for (&from, &to) in active.iter().zip(&there) {
                    piece.cores[to] = was[from].clone();
                    piece.cores[to].all_to(node);
                }
            }
            let predicted = ranged(self.comparison.ratio(&moved), 0.0);
            Some(OneNode { node: self.machine.nodes[node].id, predicted })
        });
        tried.min_by(|a, b| a.predicted.ratio.total_cmp(&b.predicted.ratio))
    }
}

/// A ratio with its range: errors of the machine's figures, of samples (`sampling`) and of the model.
fn ranged(r: Ratio, sampling: f64) -> Predicted {
    let wider = |by: f64| (by * by + sampling * sampling + MODEL * MODEL).sqrt();
    Predicted {
        ratio: r.ratio,
        low: (r.ratio - wider(r.ratio - r.low)).max(0.0),
        high: r.ratio + wider(r.high - r.ratio),
    }
}
