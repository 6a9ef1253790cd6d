//! Causes, with evidence and advice, ranked by predicted gain, or by the time at risk where none is known.
//!
//! A remote share alone is not a finding: it must be of samples that are many enough
//! to be certain of (the lower end of the interval counts), on an object whose
//! placement explains it.

use super::advice;
use super::cases::{Case, case, crowded};
use super::counters::Counters;
use super::estimate::{self, Estimate};
use super::gain::{self, Gains};
use super::hash::FastSet;
use super::nodes::Nodes;
use super::object_rows::RowUse;
use super::phases::Phases;
use super::program::Program;
use super::stats::LEAST_OF_A_PART;
use super::thresholds::{SAME, WORTH};
use super::unnamed::Unnamed;
use super::value::{Basis, Cause, Finding, Interval, NotWorth, Predicted, Repair, RepairPart};
use super::whatif::{Engine, Planner};
use nearfar_figures::percent::percent;

/// Least certain share of all samples that a finding must put at risk.
const LEAST_AT_RISK: f64 = 0.01;
/// The same for remote memory whose placement was not seen: without a cause, only what is plainly large.
const LEAST_UNEXPLAINED: f64 = 0.05;

/// Least part of what is remote of a cause's objects that one of them must have to be named with them: a page of the
/// loader's that the same function touched is not what to change. // chosen
const LEAST_OF_A_CAUSE: f64 = 0.005;

/// What counted lines are predicted with.
const BY_COUNTS: &str = "lines counted on a virtual machine, and the time model";

/// Why the number is missing for the gain.
fn no_prediction(setting: &Setting) -> String {
    match (setting.basis, setting.engine, setting.gains) {
        (Basis::StallTime, ..) => {
            let why = match setting.estimate {
                Err(why) => format!("{why}; "),
                Ok(_) => "what a repair makes of the memory of some of the objects is not known; ".to_string(),
            };
            format!("{why}record on a virtual machine (--on MACHINE) to count the lines that cross between nodes")
        }
        (Basis::MemoryLoads, _, Err(why)) => why.clone(),
        (Basis::MemoryLoads, ..) => {
            "samples of loads say what it costs that memory is far, not what it costs that threads move or share it; record on \
             a virtual machine (--on MACHINE) to count lines"
                .to_string()
        }
        (Basis::DramLines, Err(why), _) => why.clone(),
        (Basis::DramLines, Ok(_), _) => "it is not about where memory lies".to_string(),
    }
}

/// What a repair of rows gives and what that is predicted from: by counts, or where the memory becomes near, by samples.
fn predicted(
    rows: &[u32],
    repairs: &[RepairPart],
    at_risk: f64,
    setting: &Setting,
) -> Option<(Predicted, &'static str)> {
    if let Ok(engine) = setting.engine {
        return Some((engine.of_rows(rows), BY_COUNTS));
    }
    // Interleaved memory is partly far. What it brings is that no node's memory has all to do.
    let near = |part: &RepairPart| {
        matches!(part.repair, Repair::WhereUsed | Repair::SameSchedule | Repair::Replicate)
    };
    if setting.basis == Basis::StallTime {
        let estimate = setting.estimate.as_ref().ok()?;
        let predicted = estimate.of_rows(&estimate::paired(rows, repairs)?, at_risk)?;
        return Some((predicted, estimate::SOURCE));
    }
    let gains = setting.gains.as_ref().ok()?;
    (!rows.is_empty() && repairs.len() == rows.len() && repairs.iter().all(near))
        .then(|| (gains.of_rows(rows), gain::SOURCE))
}

/// What is known beside the rows.
pub struct Setting<'a> {
    /// The counts of samples.
    pub counters: &'a Counters,
    /// The machine's nodes.
    pub nodes: &'a Nodes,
    /// What shares are shares of.
    pub basis: Basis,
    /// Share of the time that is bound by memory, where shares are of lines; 1 for time itself.
    pub memory_bound: f64,
    /// What repairs would give.
    pub engine: &'a Result<Engine<'a>, String>,
    /// What near memory gives by samples.
    pub gains: &'a Result<Gains, String>,
    /// What the samples of a clock say of lines and times.
    pub estimate: &'a Result<Estimate, String>,
    /// Lines that nodes take from each other.
    pub shared: Vec<Finding>,
    /// Rows whose far lines have another cause than where their pages are.
    pub explained: &'a FastSet<usize>,
    /// The program's phases, if it has any.
    pub phases: Option<&'a Phases>,
    /// How to say them.
    pub planner: &'a Planner<'a>,
    /// The caches held all of the program's memory: where it lies costs nothing.
    pub cached: bool,
    /// What it is written in.
    pub program: Program,
}

/// Causes that explain what is remote, each with the objects that it placed. Rows that are `explained` have another.
pub fn causes<'a>(
    rows: &'a [RowUse],
    nodes: &Nodes,
    program: Program,
    explained: &FastSet<usize>,
    cached: bool,
) -> Vec<Vec<Case<'a>>> {
    let mut groups: Vec<Vec<Case>> = Vec::new();
    if nodes.count < 2 || cached {
        return groups;
    }
    rows.iter()
        .filter(|r| !explained.contains(&r.row))
        .filter_map(|r| case(r, nodes, program))
        .for_each(|case| join(&mut groups, case));
    groups
}

/// Rows of each cause.
pub fn rows_of(causes: &[Vec<Case>]) -> Vec<Vec<u32>> {
    causes.iter().map(|cases| cases.iter().map(|c| c.row.row as u32).collect()).collect()
}

/// Adds a case to those of the same cause.
fn join<'a>(groups: &mut Vec<Vec<Case<'a>>>, case: Case<'a>) {
    let same = |g: &&mut Vec<Case>| {
        let loop_of = |c: &Case| c.row.used_in.clone().filter(|_| c.of_a_loop());
        g[0].kind == case.kind
            && (g[0].outer == case.outer && case.outer.is_some()
                // Without a function, only the very place tells.
                || g[0].at == case.at && case.at.is_some()
                // The schedule of one loop is one change, wherever its arrays were initialised.
                || loop_of(&g[0]) == loop_of(&case) && loop_of(&case).is_some())
    };
    match groups.iter_mut().find(same) {
        Some(group) => group.push(case),
        None => groups.push(vec![case]),
    }
}

/// All findings, first the one with most to gain, or, where that is not known, with most at risk; and those
/// that are known to gain too little; the cause with most at risk that is not certain enough; and what the repairs of all
/// findings give together, where that is predicted from samples.
pub fn findings<'a>(
    rows: &'a [RowUse],
    mut groups: Vec<Vec<Case<'a>>>,
    setting: &Setting,
) -> (Vec<Finding>, Vec<NotWorth>, Option<Unnamed>, Option<Predicted>) {
    let &Setting { counters, nodes, memory_bound, engine, .. } = setting;
    if nodes.count < 2 {
        return (Vec::new(), Vec::new(), None, None);
    }
    let total = counters.working.weight.max(1) as f64;
    if let Ok(engine) = engine {
        // What every placement of today leaves alone may still be where too many want it.
        let others = engine.others(&rows_of(&groups).concat());
        rows.iter()
            .filter(|r| others.contains(&(r.row as u32)) && !setting.explained.contains(&r.row))
            .map(|r| crowded(r, nodes, setting.program))
            .for_each(|case| join(&mut groups, case));
    }
    let least = |kind: &str| {
        if kind == "remote_unexplained" { LEAST_UNEXPLAINED } else { LEAST_AT_RISK }
    };
    let mut unnamed: Option<Unnamed> = None;
    if engine.is_err() {
        groups.retain(|g| {
            let samples: u64 = g.iter().map(|c| c.row.remote_samples).sum();
            let low: f64 = g.iter().map(|c| c.row.at_risk_ci.map_or(0.0, |i| i.low)).sum();
            let certain = samples >= LEAST_OF_A_PART && low * memory_bound >= least(g[0].kind);
            if !certain {
                // Were every sample certain, it would be a finding.
                let would =
                    unnamed_of(g, total, least(g[0].kind)).filter(|u| u.at_risk * memory_bound >= u.least);
                let most = |u: &Option<Unnamed>| u.as_ref().map_or(0.0, |u| u.at_risk);
                if most(&would) > most(&unnamed) {
                    unnamed = would;
                }
            }
            certain
        });
    }
    for group in &mut groups {
        let all: u64 = group.iter().map(|c| c.row.remote).sum();
        group.retain(|c| c.row.remote as f64 >= LEAST_OF_A_CAUSE * all as f64);
    }
    type Found = (Finding, Vec<u32>);
    let mut found: Vec<Found> = groups
        .into_iter()
        .map(|g| {
            let ids = g.iter().map(|c| c.row.row as u32).collect();
            (finding(g, total, setting), ids)
        })
        .collect();
    // No repair of memory is tried for these: what far lines cost at most decides. Where a prediction is possible,
    // this is held against what predictions are held against.
    let worth = if engine.is_ok() { WORTH } else { LEAST_AT_RISK };
    let others = unpinned(setting).filter(|f| !setting.cached && f.at_risk * memory_bound >= worth);
    found.extend(others.into_iter().chain(setting.shared.iter().cloned()).map(|f| (f, Vec::new())));
    let gain = |f: &Finding| f.predicted.as_ref().map(|p| 1.0 - p.ratio);
    // What may as well make it slower is not a finding either. Samples say too little to leave one out.
    // Lines that cores take from each other stay a finding, although they may cost nothing: nothing proves that they do not.
    let sure = |f: &Finding| f.shares_lines() || f.predicted.as_ref().is_none_or(|p| p.high < 1.0);
    let (mut found, small): (Vec<Found>, Vec<Found>) = found
        .into_iter()
        .partition(|(f, _)| engine.is_err() || gain(f).is_none_or(|g| g >= WORTH) && sure(f));
    found.sort_by(|(a, _), (b, _)| {
        let key = |f: &Finding| gain(f).unwrap_or(f.at_risk * memory_bound);
        key(b).total_cmp(&key(a)).then_with(|| a.objects.cmp(&b.objects))
    });
    let mut before: Vec<u32> = Vec::new();
    for (i, (f, ids)) in found.iter_mut().enumerate() {
        f.rank = i as u32 + 1;
        // Where memory is placed changes nothing about lines that cores take from each other.
        if let (Ok(engine), Some(own), false) =
            (engine, f.predicted.as_ref().filter(|_| !f.shares_lines()), before.is_empty())
        {
            let ratio = engine.after(&before, ids);
            f.predicted_after_better = ((ratio - own.ratio).abs() >= SAME).then(|| Predicted {
                ratio,
                low: (ratio - (own.ratio - own.low)).max(0.0),
                high: ratio + (own.high - own.ratio),
            });
        }
        before.append(ids);
    }
    let not_worth = small
        .into_iter()
        .filter(|(f, _)| f.at_risk >= LEAST_AT_RISK)
        .filter_map(|(f, _)| Some(NotWorth { kind: f.kind, objects: f.objects, predicted: f.predicted? }));
    let not_worth = not_worth.collect();
    let repairs: Vec<RepairPart> = found.iter().flat_map(|(f, _)| &f.repairs).cloned().collect();
    let at_risk = found.iter().map(|(f, _)| f.at_risk).sum::<f64>().min(1.0);
    let together = predicted(&before, &repairs, at_risk, setting).filter(|_| engine.is_err()).map(|p| p.0);
    (found.into_iter().map(|f| f.0).collect(), not_worth, unnamed, together)
}

/// For a report without a verdict: removes findings whose repair gains less than `WORTH` in the best case.
pub fn keep_what_may_gain(findings: &mut Vec<Finding>) {
    findings.retain(|f| f.shares_lines() || f.predicted.as_ref().is_none_or(|p| 1.0 - p.low >= WORTH));
    findings.iter_mut().enumerate().for_each(|(i, f)| f.rank = i as u32 + 1);
}

/// What is not certain of one cause's objects; `total` is the weight of all samples.
fn unnamed_of(cases: &[Case], total: f64, least: f64) -> Option<Unnamed> {
    let first = cases.iter().max_by_key(|c| c.row.remote)?;
    let sum = |end: fn(Interval) -> f64| -> f64 {
        cases.iter().filter_map(|c| c.row.at_risk_ci).map(end).sum::<f64>().min(1.0)
    };
    Some(Unnamed {
        object: first.row.name.clone(),
        others: cases.len() - 1,
        at_risk: cases.iter().map(|c| c.row.remote).sum::<u64>() as f64 / total,
        interval: Interval { low: sum(|i| i.low), high: sum(|i| i.high) },
        samples: cases.iter().map(|c| c.row.remote_samples).sum(),
        least,
        least_samples: LEAST_OF_A_PART,
    })
}

/// Objects of a finding that get a line of evidence of their own. // chosen
const WITH_EVIDENCE: usize = 4;

/// Sentences of advice that name their own lines; the lines of more are with the objects. // chosen
const MOST_ADVICE: usize = 1;

/// One finding of all cases of a cause; the object with most at risk speaks for it.
fn finding(mut cases: Vec<Case>, total: f64, setting: &Setting) -> Finding {
    let &Setting { engine, planner, .. } = setting;
    cases.sort_by(|a, b| b.row.remote.cmp(&a.row.remote).then_with(|| a.row.name.cmp(&b.row.name)));
    let sentences = |of: &dyn Fn(&Case) -> String| -> Vec<(String, String)> {
        cases.iter().map(|c| (c.row.name.clone(), of(c))).collect()
    };
    let merged = |sentences: Vec<(String, String)>| {
        advice::merged(&sentences.iter().map(|(n, s)| (n.as_str(), s.as_str())).collect::<Vec<_>>())
    };
    let mut evidence: Vec<String> = cases.iter().take(WITH_EVIDENCE).map(|c| c.own.clone()).collect();
    if cases.len() > WITH_EVIDENCE {
        evidence.push(format!("{} more objects are placed the same way", cases.len() - WITH_EVIDENCE));
    }
    let common = cases.iter().map(|c| c.common.len()).max().unwrap_or(0);
    for i in 0..common {
        evidence.extend(merged(sentences(&|c| c.common.get(i).cloned().unwrap_or_default())));
    }
    // Thirty fields used in ten loops are one change, not ten sentences.
    let mut advice = merged(sentences(&|c| c.advice[0].clone()));
    if advice.len() > MOST_ADVICE {
        advice = merged(sentences(&|c| c.advice[1].clone()));
    }
    let names: Vec<&str> = cases.iter().map(|c| c.row.name.as_str()).collect();
    let first = &cases[0];
    let ids: Vec<u32> = cases.iter().map(|c| c.row.row as u32).collect();
    let repairs: Vec<RepairPart> = match engine {
        Ok(e) => ids.iter().filter_map(|&r| Some(planner.part(r, e.repair(r)?))).collect(),
        Err(_) => cases.iter().filter_map(|c| planner.fitting(c.row)).collect(),
    };
    advice.extend(advice::weighted(&repairs));
    let at_risk = cases.iter().map(|c| c.row.remote).sum::<u64>() as f64 / total;
    let (predicted, from) = predicted(&ids, &repairs, at_risk, setting).unzip();
    Finding {
        kind: first.kind.to_string(),
        objects: names.iter().map(|n| n.to_string()).collect(),
        cause: Cause {
            at: first.at.clone(),
            function: first.function.clone(),
            text: advice::told(&first.text, &names),
            processes: first.processes,
        },
        evidence,
        advice: advice.join(" "),
        repairs,
        predicted_why: predicted.is_none().then(|| no_prediction(setting)),
        predicted,
        predicted_from: from.map(str::to_string),
        predicted_after_better: None,
        at_risk,
        phases: setting.phases.and_then(|phases| phases.of_rows(&ids, setting.counters)),
        rank: 0,
    }
}

/// Threads that wander between nodes leave the memory they touched first behind. Only a machine
/// with several nodes that the program really ran on can show it.
fn unpinned(setting: &Setting) -> Option<Finding> {
    let &Setting { counters, nodes, basis, .. } = setting;
    if nodes.assumed {
        return None;
    }
    let total = counters.working.weight.max(1) as f64;
    let (mut wandering, mut away, mut remote) = (0u64, 0u64, 0u64);
    for (t, far) in counters.threads.iter().filter_map(|t| Some((t, t.wanders()?))) {
        wandering += 1;
        away += far;
        let known: u64 = t.by_page_node[..nodes.count].iter().sum();
        remote += known.min(far);
    }
    let at_risk = (remote.min(counters.remote)) as f64 / total;
    if wandering == 0 || at_risk < LEAST_AT_RISK || counters.remote == 0 {
        return None;
    }
    Some(Finding {
        kind: "unpinned_threads".to_string(),
        objects: Vec::new(),
        cause: Cause {
            at: None,
            function: None,
            text: format!("{wandering} threads ran on more than one node"),
            processes: 0,
        },
        evidence: vec![format!(
            "{} of all {} by these threads away from the node they ran on most",
            percent(away as f64 / total),
            match basis {
                Basis::StallTime => "time was spent",
                Basis::DramLines => "lines were moved",
                Basis::MemoryLoads => "loads from memory were made",
            }
        )],
        advice: "Bind the threads (OMP_PROC_BIND=close OMP_PLACES=cores, or taskset) and record again: \
                 what remains remote after that is placement"
            .to_string(),
        repairs: Vec::new(),
        predicted: None,
        predicted_from: None,
        predicted_after_better: None,
        predicted_why: Some(no_prediction(setting)),
        at_risk,
        phases: None,
        rank: 0,
    })
}
