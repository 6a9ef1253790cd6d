//! What if: the time of the counted work if memory lay elsewhere.
//!
//! Only counts carry this. A timer's samples say where time went, not how many lines crossed to whom,
//! and a counter of a whole machine does not say of which object they were.

mod flows;
mod parts;
mod plan;

use super::cases::MOSTLY_HALO;
use super::exact::Exact;
use super::facts::RowFacts;
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::Nodes;
use super::pace::Pace;
use super::rows::Rows;
use super::tally::Tally;
use super::value::{Combination, NotWorth, OneNode, Pattern, Predicted, Repair, RepairRow, WhatIf};
use crate::machine::Machine;
use crate::recording::NONE;
use crate::time::{Comparison, Course, Ratio};
use flows::Flows;

pub use plan::Planner;

/// Gains below this are not worth a change. // chosen (the bound)
pub const WORTH: f64 = 0.03;
/// What a prediction leaves out, as a part of the time now: caches hold other lines once memory is
/// elsewhere, and emulated runs differ. About the largest error seen without it on the programs of
/// `virtual_findings` (3.5 points). // chosen
const MODEL: f64 = 0.06;
/// Rows that are looked at: those that move at least this part of the lines, and so many at most.
const LEAST_LINES: f64 = 0.01;
const MOST_ROWS: usize = 8;
/// Among repairs that gain the same within this, the one that makes fewer lines remote. // chosen
const SAME: f64 = 0.01;
/// Part of the lines read that are fetched ahead where loops go through data in order. // chosen
const SEQUENTIAL: f64 = 0.5;
/// Pages are parted between the nodes if lying where they are used leaves this part of the remote lines that
/// interleaving leaves, or less. // chosen
const PARTED: f64 = 0.8;
/// The same where every thread is seen everywhere. // chosen
const STAYS: f64 = 0.2;

/// Asks the time model what repairs would give.
pub struct Engine<'a> {
    machine: &'a Machine,
    course: &'a Course,
    comparison: Comparison<'a>,
    flows: Flows,
    /// Whether most lines are fetched ahead: loops go through their data in order, whoever takes which part.
    sequential: bool,
    /// Rows worth looking at.
    rows: Vec<u32>,
    /// Each row's best repair, where one gains anything.
    best: FastMap<u32, Repair>,
    options: FastMap<u32, Vec<(Repair, f64)>>,
    /// Rows that a static schedule of their loop would make near, and what it gains. A schedule is of a loop: it
    /// is for all of them or for none.
    scheduled: (Vec<u32>, f64),
}

impl<'a> Engine<'a> {
    /// Looks for the best repair of each row.
    ///
    /// # Errors
    /// In words, why nothing can be predicted.
    pub fn new(
        input: &Input,
        judge: &'a Judge,
        nodes: &Nodes,
        exact: Option<&Exact>,
        pace: Result<&'a Pace, &String>,
        tally: &Tally,
        facts: &[RowFacts],
    ) -> Result<Engine<'a>, String> {
        let pace = pace.map_err(String::clone)?;
        let exact = exact.ok_or("no page was counted, so what moves with an object is not known")?;
        if nodes.count < 2 {
            return Err("the machine has one node: memory can be nowhere else".to_string());
        }
        let machine = &judge.machine;
        let comparison = pace.course.comparison().map_err(|e| e.to_string())?;
        let flows = Flows::new(input, nodes, exact, tally, machine);
        let ranked = flows.rows();
        let all: f64 = ranked.iter().map(|r| r.1).sum();
        let rows: Vec<u32> = ranked
            .iter()
            .filter(|r| r.0 != NONE && r.1 >= LEAST_LINES * all)
            .map(|r| r.0)
            .take(MOST_ROWS)
            .collect();
        let lines = |of: fn(&crate::time::work::HomeWork) -> f64| -> f64 {
            let cores = pace.course.pieces().iter().flat_map(|p| &p.cores);
            cores.flat_map(|c| c.used().map(|(_, w)| of(w))).sum()
        };
        let mut engine = Engine {
            sequential: lines(|w| w.prefetches) > SEQUENTIAL * lines(|w| w.reads),
            machine,
            course: &pace.course,
            comparison,
            flows,
            rows,
            best: FastMap::default(),
            options: FastMap::default(),
            scheduled: (Vec::new(), 1.0),
        };
        engine.search(facts);
        Ok(engine)
    }

    fn repairs(&self, row: u32, facts: &[RowFacts]) -> Vec<Repair> {
        let Some(about) = facts.iter().find(|f| f.row == row as usize) else { return Vec::new() };
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

    /// Rows that threads take in another order than they were touched in, as long as that is an order.
    fn scheduled(&self, facts: &[RowFacts]) -> (Vec<u32>, f64) {
        let taken = |row: &&u32| {
            let about = facts.iter().find(|f| f.row == **row as usize);
            // A halo is no other order.
            about.is_some_and(|f| {
                f.pattern == Pattern::AllOver
                    && f.touchers.len() > 1
                    && f.remote_share.is_some_and(|s| s >= MOSTLY_HALO)
            })
        };
        let rows: Vec<u32> = self.rows.iter().filter(taken).copied().collect();
        // A schedule also divides the work more evenly here than the emulator's own course did: it has to pay by
        // memory alone, too.
        let near = |of: &dyn Fn(u32) -> bool| self.guess(&|x| of(x).then_some(Repair::Replicate));
        if !self.sequential || rows.is_empty() || near(&|x| rows.contains(&x)) > 1.0 - WORTH {
            return (Vec::new(), 1.0);
        }
        let ratio = self.guess(&|x| rows.contains(&x).then_some(Repair::SameSchedule));
        (rows, ratio)
    }

    fn guess(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> f64 {
        self.comparison.guess(&self.flows.moved(self.course, &self.comparison, repair, 2))
    }

    /// Each row alone, then all together, improved a row at a time. Interleaving one of several arrays relieves
    /// a controller that interleaving the next one needs no more: the sum of single gains says little.
    fn search(&mut self, facts: &[RowFacts]) {
        for &row in &self.rows.clone() {
            let repairs = self.repairs(row, facts);
            let tried = repairs.iter().map(|&r| (r, self.guess(&|x| (x == row).then_some(r)))).collect();
            self.options.insert(row, tried);
        }
        self.scheduled = self.scheduled(facts);
        self.best = self.combined(&|_, _| true);
    }

    /// The best combination of those that may be.
    fn combined(&self, may: &dyn Fn(u32, Repair) -> bool) -> FastMap<u32, Repair> {
        // Plain before clever: one repair for all, unless singling objects out is worth it.
        let all = |rows: &[u32], repair| -> FastMap<u32, Repair> {
            rows.iter().filter(|&&r| may(r, repair)).map(|&r| (r, repair)).collect()
        };
        let single = self.rows.iter().filter_map(|&r| Some((r, self.pick(r, may)?))).collect();
        let starts = [
            all(&self.rows, Repair::WhereUsed),
            all(&self.rows, Repair::Interleave),
            all(&self.scheduled.0, Repair::SameSchedule),
            single,
        ];
        let (mut least, mut best) = (1.0, FastMap::default());
        for start in starts {
            let ratio = self.guess(&|x| start.get(&x).copied());
            if ratio < least - WORTH {
                (least, best) = (ratio, start);
            }
        }
        for _ in 0..2 {
            for &row in &self.rows {
                let now = best.get(&row).copied();
                if now == Some(Repair::SameSchedule) {
                    continue;
                }
                let with = |repair| self.guess(&|x| if x == row { repair } else { best.get(&x).copied() });
                let options = self.options[&row].iter().map(|o| o.0).filter(|&r| may(row, r));
                let tried: Vec<(Repair, f64)> = options.map(|r| (r, with(Some(r)))).collect();
                let without = with(None);
                let kept = tried.iter().find(|t| Some(t.0) == now).map_or(without, |t| t.1);
                match self.nearest(row, &tried) {
                    // As it is, unless a change gains anything; as all are, unless another is worth it.
                    _ if now.is_some() && kept >= without - SAME => _ = best.remove(&row),
                    Some((repair, ratio)) if ratio < kept - WORTH => _ = best.insert(row, repair),
                    _ => {}
                }
            }
        }
        best
    }

    /// Of the repairs about as good as the best, the one with the fewest remote lines.
    fn nearest(&self, row: u32, tried: &[(Repair, f64)]) -> Option<(Repair, f64)> {
        let least = tried.iter().map(|t| t.1).fold(f64::INFINITY, f64::min);
        let far = |r: Repair| self.flows.remote(&|x| (x == row).then_some(r));
        let good = tried.iter().filter(|t| t.1 <= least + SAME);
        good.map(|t| (t, far(t.0))).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| *t)
    }

    /// The best repair of a row alone, of those that may be.
    fn pick(&self, row: u32, may: &dyn Fn(u32, Repair) -> bool) -> Option<Repair> {
        let tried: Vec<(Repair, f64)> =
            self.options.get(&row)?.iter().copied().filter(|t| may(row, t.0)).collect();
        let least = tried.iter().map(|t| t.1).fold(1.0, f64::min);
        let scheduled = self.scheduled.0.contains(&row) && may(row, Repair::SameSchedule);
        if scheduled && self.scheduled.1 < least - WORTH {
            return Some(Repair::SameSchedule);
        }
        self.nearest(row, &tried).filter(|t| t.1 < 1.0 - SAME).map(|t| t.0)
    }

    /// The ratio with its range.
    fn predicted(&self, repair: &dyn Fn(u32) -> Option<Repair>) -> Predicted {
        let moved = |half| self.flows.moved(self.course, &self.comparison, repair, half);
        let r = self.comparison.ratio(&moved(2));
        // Half of what two halves of the samples differ by is the standard error of all of them; 95 %.
        let sampling = match self.flows.sampled() {
            true => (self.comparison.guess(&moved(0)) - self.comparison.guess(&moved(1))).abs(),
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

    /// The best repair of a row: in the best combination, else alone.
    pub fn repair(&self, row: u32) -> Option<Repair> {
        self.best.get(&row).copied().or_else(|| self.pick(row, &|_, _| true))
    }

    /// Rows of the best combination, but for `rows`.
    pub fn others(&self, rows: &[u32]) -> Vec<u32> {
        self.rows.iter().copied().filter(|r| self.best.contains_key(r) && !rows.contains(r)).collect()
    }

    /// Everything, for the report.
    pub fn report(&self, rows: &Rows, planner: &Planner, not_worth: Vec<NotWorth>) -> WhatIf {
        let name = |row: u32| rows.rows[row as usize].name.clone();
        let mut repairs = Vec::new();
        for &row in &self.rows {
            let mut tried = self.options[&row].clone();
            tried.sort_by(|a, b| a.1.total_cmp(&b.1));
            // Of the nodes to bind to, the best, if that is better than what divides the pages.
            let binds = |t: &(Repair, f64)| matches!(t.0, Repair::Bind { .. });
            let divided = tried.iter().find(|t| !binds(t)).map_or(1.0, |t| t.1);
            let best = tried.iter().find(|t| binds(t) && t.1 < divided - SAME).map(|t| t.0);
            tried.retain(|t| !binds(t) || Some(t.0) == best);
            for (repair, _) in tried {
                let of = |x: u32| (x == row).then_some(repair);
                repairs.push(self.row(vec![name(row)], repair, &of));
            }
        }
        if !self.scheduled.0.is_empty() {
            let of = |x: u32| self.scheduled.0.contains(&x).then_some(Repair::SameSchedule);
            let names = self.scheduled.0.iter().map(|&r| name(r)).collect();
            repairs.push(self.row(names, Repair::SameSchedule, &of));
        }
        for repair in [Repair::WhereUsed, Repair::Interleave] {
            repairs.push(self.row(Vec::new(), repair, &|_| Some(repair)));
        }
        repairs.sort_by(|a, b| {
            let key = |r: &RepairRow| (r.objects.is_empty(), r.predicted.ratio);
            key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1))
        });
        let said = |row, repair| planner.part(row, repair).not_placeable.is_none();
        let placeable = match self.best.iter().all(|(&row, &repair)| said(row, repair)) {
            true => self.best.clone(),
            false => {
                // Saying a repair takes longer than weighing it.
                let options =
                    self.rows.iter().flat_map(|&row| self.options[&row].iter().map(move |o| (row, o.0)));
                let some: Vec<(u32, Repair)> = options.filter(|&(row, repair)| said(row, repair)).collect();
                self.combined(&|row, repair| some.contains(&(row, repair)))
            }
        };
        WhatIf {
            remote_share: self.flows.remote(&|_| None),
            repairs,
            best: self.combination(&self.best, planner),
            placeable: self.combination(&placeable, planner),
            all_local: self.predicted(&|_| Some(Repair::Replicate)),
            one_node: self.one_node(),
            not_worth,
        }
    }

    fn combination(&self, chosen: &FastMap<u32, Repair>, planner: &Planner) -> Option<Combination> {
        let of = |x: u32| chosen.get(&x).copied();
        let parts = self.rows.iter().filter_map(|&row| Some(planner.part(row, of(row)?)));
        (!chosen.is_empty()).then(|| Combination {
            parts: parts.collect(),
            predicted: self.predicted(&of),
            remote_share: self.flows.remote(&of),
        })
    }

    fn row(&self, objects: Vec<String>, repair: Repair, of: &dyn Fn(u32) -> Option<Repair>) -> RepairRow {
        RepairRow { objects, repair, predicted: self.predicted(of), remote_share: self.flows.remote(of) }
    }

    /// All threads on the node where that is fastest, with all memory.
    fn one_node(&self) -> Option<OneNode> {
        let pieces = self.course.pieces();
        let cores = pieces.first()?.cores.len();
        let active: Vec<usize> =
            (0..cores).filter(|&c| pieces.iter().any(|p| !p.cores[c].is_idle())).collect();
        let on: Vec<usize> = active.iter().map(|&c| self.course.node_of_core(c)).collect();
        if on.windows(2).all(|w| w[0] == w[1]) {
            return None;
        }
        let tried = self.flows.with_cpus().filter_map(|node| {
            let there: Vec<usize> = (0..cores).filter(|&c| self.course.node_of_core(c) == node).collect();
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
