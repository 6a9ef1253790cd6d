//! From paths and counts to the report.

use super::names::outlined;
use super::tree::{Calls, ROOT, Tree, times};
use super::unbalanced::unbalanced;
use super::{Phases, SEPARATOR, Sampled};
use crate::context::Context;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::value::{
    MetricRow, PaidRow, PhaseAmounts, PhaseFigures, PhaseInterval, PhaseNode, PhaseReport, PhaseRow,
    PhaseThread, RegionRow, Spread,
};
use nearfar_recording::{Columns, NONE, PhaseSource};
use std::collections::{BTreeMap, BTreeSet};

const MOST_THREADS: usize = 1000;
const MOST_ROWS: usize = 20_000;
const MOST_INTERVALS: usize = 2000;
const MOST_PAID: usize = 100;
const MOST_METRICS: usize = 1000;
const MOST_REGIONS: usize = 500;

/// A thread's figures by path.
fn of_thread(tree: &Tree, calls: &[Calls], exclusive: &[PhaseAmounts]) -> Vec<PhaseFigures> {
    let mut exclusive = exclusive.to_vec();
    for (amounts, (_, own)) in exclusive.iter_mut().zip(times(tree, calls)) {
        amounts.time_ns = own;
    }
    let inclusive = tree.inclusive(&exclusive, PhaseAmounts::add);
    let mut figures: Vec<PhaseFigures> = (0..tree.paths.len())
        .map(|i| PhaseFigures {
            calls: calls[i].calls,
            counted_calls: calls[i].counted,
            subrs: 0,
            inclusive: inclusive[i],
            exclusive: exclusive[i],
        })
        .collect();
    for path in 1..tree.paths.len() {
        figures[tree.paths[path].parent as usize].subrs += calls[path].calls;
    }
    figures
}

impl Spread {
    /// Of these values; all zero of none.
    pub fn of(values: &[f64]) -> Spread {
        let n = values.len();
        if n == 0 {
            return Spread::default();
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Spread { threads: n, mean, min, max, std_dev: variance.sqrt() }
    }
}

/// The report's part about phases.
pub fn report(context: &Context, phases: &Phases, counters: &Counters) -> PhaseReport {
    let input = context.input;
    let tree = &phases.tree;
    let mut exclusive: FastMap<(u32, u32), PhaseAmounts> = FastMap::default();
    for (&key, s) in &counters.phases.sampled {
        let to = exclusive.entry(key).or_default();
        (to.samples, to.weight, to.near, to.far) = (s.samples, s.weight, s.near, s.far);
        to.page_node_unknown = s.page_node_unknown;
    }
    for (&key, &bytes) in &phases.bytes {
        exclusive.entry(key).or_default().bytes = bytes;
    }
    for (i, &path) in phases.of_faults.iter().enumerate() {
        if let Some(thread) = context.threads.get(input.faults.thread[i]) {
            exclusive.entry((thread as u32, path)).or_default().faults += 1;
        }
    }
    // Threads of other programs, such as the shells that started this one, are not part of the profile.
    let with: BTreeSet<u32> =
        phases.calls.keys().chain(exclusive.keys().filter(|k| k.1 != ROOT)).map(|k| k.0).collect();
    let mut all = vec![PhaseFigures::default(); tree.paths.len()];
    let mut inclusive_times: Vec<Vec<f64>> = vec![Vec::new(); tree.paths.len()];
    let (mut threads, mut rows, mut position) = (Vec::new(), Vec::new(), FastMap::default());
    for thread in with {
        let calls: Vec<Calls> = (0..tree.paths.len() as u32)
            .map(|path| phases.calls.get(&(thread, path)).copied().unwrap_or_default())
            .collect();
        let own: Vec<PhaseAmounts> = (0..tree.paths.len() as u32)
            .map(|path| exclusive.get(&(thread, path)).copied().unwrap_or_default())
            .collect();
        let figures = of_thread(tree, &calls, &own);
        let listed = threads.len() < MOST_THREADS;
        for (path, f) in figures.into_iter().enumerate() {
            if f == PhaseFigures::default() {
                continue;
            }
            let to = &mut all[path];
            to.calls += f.calls;
            to.counted_calls += f.counted_calls;
            to.subrs += f.subrs;
            to.inclusive.add(&f.inclusive);
            to.exclusive.add(&f.exclusive);
            if f.calls > 0 {
                inclusive_times[path].push(f.inclusive.time_ns as f64);
            }
            if listed {
                rows.push(PhaseRow { thread: threads.len(), node: path, figures: f });
            }
        }
        if listed {
            position.insert(thread, threads.len());
            let i = thread as usize;
            let process = context.input.processes.rows().find(|p| p.id == input.threads.process[i]);
            threads.push(PhaseThread {
                pid: process.map_or(0, |p| p.pid),
                tid: input.threads.tid[i],
                name: input.threads.name[i].clone(),
            });
        }
    }
    let rows_left_out = rows.len().saturating_sub(MOST_ROWS);
    if rows_left_out > 0 {
        rows.sort_by_key(|r| (std::cmp::Reverse(r.figures.inclusive.time_ns), r.thread, r.node));
        rows.truncate(MOST_ROWS);
        rows.sort_by_key(|r| (r.thread, r.node));
    }
    let mut depth: Vec<usize> = vec![0; tree.paths.len()];
    let nodes = tree.paths.iter().enumerate().map(|(i, path)| {
        if i > 0 {
            depth[i] = depth[path.parent as usize] + 1;
        }
        PhaseNode {
            name: path.name.clone(),
            parent: (i > 0).then_some(path.parent as usize),
            depth: depth[i],
            source: PhaseSource::from_code(path.source).map_or("unknown", PhaseSource::text).to_owned(),
            all: all[i],
            spread: Spread::of(&inclusive_times[i]),
            modelled_ns: None,
        }
    });
    PhaseReport {
        clock: if phases.simulated { "simulated" } else { "monotonic" }.to_owned(),
        basis: context.measure.basis,
        nodes: nodes.collect(),
        intervals: intervals(context, phases, &position),
        threads,
        rows,
        rows_left_out,
        unbalanced: unbalanced(input),
        metrics: metrics(context, phases),
        regions: regions(context, counters),
        paid: paid(context, counters),
        gains: Vec::new(),
        gains_why: None,
    }
}

fn intervals(context: &Context, phases: &Phases, threads: &FastMap<u32, usize>) -> Vec<PhaseInterval> {
    let first = phases.parts.iter().map(|s| s.begin).min().unwrap_or(0);
    let start = if phases.simulated { first } else { context.input.meta.start_ns };
    let mut longest: Vec<_> = phases.parts.iter().filter(|s| threads.contains_key(&s.thread)).collect();
    if longest.len() > MOST_INTERVALS {
        longest.sort_by_key(|s| (std::cmp::Reverse(s.end - s.begin), s.begin, s.thread, s.path));
        longest.truncate(MOST_INTERVALS);
        longest.sort_by_key(|s| (s.thread, s.begin, s.path));
    }
    let seconds = |ns: u64| ns.saturating_sub(start) as f64 / 1e9;
    let interval = |s: &&super::TimeRange| PhaseInterval {
        thread: threads[&s.thread],
        node: s.path as usize,
        from_s: seconds(s.begin),
        to_s: seconds(s.end),
    };
    longest.iter().map(interval).collect()
}

fn metrics(context: &Context, phases: &Phases) -> Vec<MetricRow> {
    let (m, c) = (&context.input.metrics, &context.input.phase_counts);
    let mut rows: BTreeMap<(u32, String), MetricRow> = BTreeMap::new();
    let mut count = |path: u32, name: &str, count: u64, sum: f64, min: f64, max: f64| {
        let new = || MetricRow {
            name: name.to_owned(),
            node: path as usize,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        };
        let row = rows.entry((path, name.to_owned())).or_insert_with(new);
        row.count += count;
        row.sum += sum;
        row.min = row.min.min(min);
        row.max = row.max.max(max);
    };
    for i in 0..m.len() {
        if let Some(thread) = context.threads.get(m.thread[i]) {
            let v = m.value[i];
            count(phases.at(thread as u32, m.time_ns[i]), &m.name[i], 1, v, v, v);
        }
    }
    for i in (0..c.len()).filter(|&i| c.metric[i] == 1) {
        let (path, name) = c.path[i].rsplit_once(SEPARATOR).unwrap_or(("", &c.path[i]));
        let known = |at: u32, name: &str| {
            let paths = phases.tree.paths.iter().enumerate().skip(1);
            paths.into_iter().find(|(_, p)| p.parent == at && p.name == name).map_or(at, |(i, _)| i as u32)
        };
        let at = path.split(SEPARATOR).filter(|n| !n.is_empty()).fold(ROOT, known);
        count(at, name, c.calls[i], c.sum[i], c.least[i], c.most[i]);
    }
    rows.into_values().take(MOST_METRICS).collect()
}

fn regions(context: &Context, counters: &Counters) -> Vec<RegionRow> {
    let mut rows: BTreeMap<(u32, &str), Sampled> = BTreeMap::new();
    for (&(path, function), sampled) in &counters.phases.functions {
        if let Some(name) = context.sites.get(function).function.as_deref().and_then(outlined) {
            rows.entry((path, name)).or_default().merge(sampled);
        }
    }
    let mut rows: Vec<RegionRow> = rows
        .into_iter()
        .map(|((path, function), s)| RegionRow {
            function: function.to_owned(),
            node: path as usize,
            samples: s.samples,
            weight: s.weight,
            near: s.near,
            far: s.far,
        })
        .collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.weight));
    rows.truncate(MOST_REGIONS);
    rows
}

fn paid(context: &Context, counters: &Counters) -> Vec<PaidRow> {
    let total = counters.total.weight.max(1) as f64;
    let mut rows: Vec<_> = counters.phases.paid.iter().collect();
    rows.sort_by_key(|&(&key, s)| (std::cmp::Reverse(s.weight), key));
    rows.truncate(MOST_PAID);
    let row = |(&(row, placed, paid), s): (&(u32, u32, u32), &Sampled)| PaidRow {
        object: context.rows.rows[row as usize].name.clone(),
        placed_in: (placed != NONE).then_some(placed as usize),
        paid_in: paid as usize,
        share: s.weight as f64 / total,
    };
    rows.into_iter().map(row).collect()
}
