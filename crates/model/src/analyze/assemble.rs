//! From counts to the report's values.

use super::attribute::{CLASSES, Context};
use super::facts::{self, RowFacts};
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::UNKNOWN;
use super::stats::share_interval;
use super::tally::{LineUse, Tally};
use super::value::*;
use super::verdict::{Evidence, rung_text, verdict};
use super::{findings, notes};
use crate::machine::binding::Bind;
use crate::recording::{Columns, LOST_EITHER, ObjectKind, Resolution, Rung, SampleRung};

/// Version of the JSON's schema.
const SCHEMA: u32 = 1;
/// Longest lists in a report.
const MOST_ROWS: usize = 500;
const MOST_LINES: usize = 10;

/// Builds the report.
pub fn assemble(input: &Input, judge: &Judge, context: &Context, tally: &Tally, rows: &[RowFacts]) -> Report {
    let nodes = context.finder.nodes;
    let total = tally.total.weight.max(1) as f64;
    let far = nodes.count > 1 && tally.known.weight > 0;
    let remote_share = far.then(|| tally.remote as f64 / tally.known.weight as f64);
    let remote_share_ci = if far { share_interval(&tally.known_blocks, &tally.known) } else { None };
    let remote_time_share = far.then(|| tally.remote as f64 / total);
    let remote_time_share_ci = if far { share_interval(&tally.total_blocks, &tally.total) } else { None };
    let findings = findings::findings(rows, tally, nodes);
    let evidence = Evidence {
        remote_time: remote_time_share,
        interval: remote_time_share_ci,
        marked: context.region.is_marked(),
        files: facts::read_only_files(context, tally, rows),
    };
    let (verdict, verdict_why) = verdict(input, judge, tally, &evidence, &findings);
    let meta = &input.meta;
    let end =
        if meta.end_ns > meta.start_ns { meta.end_ns } else { context.survey.last_ns.max(meta.start_ns) };
    Report {
        schema: SCHEMA,
        verdict,
        verdict_why,
        command: meta.command.clone(),
        exit: (!meta.exit.is_empty()).then(|| meta.exit.clone()),
        seconds: (end - meta.start_ns) as f64 / 1e9,
        machine: JudgedMachine {
            name: judge.machine.name.clone(),
            nodes: nodes.count,
            node_ids: nodes.ids.clone(),
            assumed: nodes.assumed,
            binding: match judge.assume {
                None => "recorded",
                Some(Bind::Compact) => "compact",
                Some(Bind::Scatter) => "scatter",
            }
            .to_string(),
        },
        recorded_on: recorded_on(input),
        rungs: rungs(input, tally),
        basis: basis(tally),
        region: if context.region.is_marked() { Region::Marked } else { Region::Whole },
        remote_share,
        remote_share_ci,
        remote_time_share,
        remote_time_share_ci,
        distance: distance(&tally.by_class, tally.known.weight),
        home_unknown_share: share(tally.home_unknown, tally.memory.weight),
        unattributed_share: tally.unattributed as f64 / total,
        compute_share: tally.resolved(Resolution::Compute) as f64 / total,
        spinning_share: tally.resolved(Resolution::Spinning) as f64 / total,
        node_matrix: tally
            .matrix
            .chunks(nodes.count.max(1))
            .map(|row| row.iter().map(|&w| w as f64 / total).collect())
            .collect(),
        threads: threads(input, context, tally),
        objects: rows.iter().take(MOST_ROWS).map(|f| object(input, context, tally, f)).collect(),
        functions: functions(input, context, tally),
        findings,
        notes: notes::notes(input, judge, context, tally, rows),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn recorded_on(input: &Input) -> String {
    let m = &input.meta.machine;
    let cpus: usize = m.nodes.iter().map(|n| n.cpus.len()).sum();
    let s = |n: usize| if n == 1 { "" } else { "s" };
    format!("{}: {} node{}, {cpus} cpu{}", m.name, m.nodes.len(), s(m.nodes.len()), s(cpus))
}

fn basis(tally: &Tally) -> Basis {
    let count = |r: SampleRung| tally.by_rung[r as usize].iter().sum::<u64>();
    let lines = count(SampleRung::Hardware) + count(SampleRung::Simulated);
    if lines * 2 > tally.total.samples { Basis::DramLines } else { Basis::StallTime }
}

fn rungs(input: &Input, tally: &Tally) -> Vec<RungUse> {
    // Losses that may be of one kind or another count for each of them.
    let lost = |kinds: &[&str]| -> u64 {
        let l = &input.losses;
        (0..l.len()).filter(|&i| kinds.contains(&l.what[i].as_str())).map(|i| l.count[i]).sum()
    };
    let code = |rung: Rung| match rung {
        Rung::Simulated => Some(SampleRung::Simulated),
        Rung::Hardware => Some(SampleRung::Hardware),
        Rung::Clock => Some(SampleRung::Clock),
        Rung::Signal => Some(SampleRung::Signal),
        Rung::Pages => None,
    };
    let mut sampled: Vec<(Rung, Option<f64>)> = input
        .meta
        .rungs
        .iter()
        .filter(|r| r.active)
        .map(|r| (r.rung, (r.hz > 0.0).then_some(r.hz)))
        .collect();
    // Producers that say nothing in the meta still have their samples named.
    for rung in [Rung::Clock, Rung::Signal, Rung::Hardware, Rung::Simulated] {
        let samples = code(rung).map_or(0, |c| tally.by_rung[c as usize].iter().sum::<u64>());
        if samples > 0 && !sampled.iter().any(|s| s.0 == rung) {
            sampled.push((rung, None));
        }
    }
    let mut samples_lost = Some(lost(&["samples", LOST_EITHER]));
    let use_of = |(rung, hz): (Rung, Option<f64>)| {
        let Some(code) = code(rung) else {
            let faults = input.faults.len() as u64;
            let lost = lost(&["faults", LOST_EITHER]);
            let rung = rung_text(rung).to_string();
            return RungUse {
                rung,
                samples: faults,
                lost,
                resolved_share: None,
                hz: None,
                resolution: Vec::new(),
            };
        };
        let counts = &tally.by_rung[code as usize];
        let n: u64 = counts.iter().sum();
        let of = |r: Resolution| counts[r as usize];
        let quiet = of(Resolution::Compute) + of(Resolution::Spinning);
        let found = n - quiet - of(Resolution::Unresolved);
        let ways = Resolution::ALL.iter().filter(|r| of(**r) > 0);
        RungUse {
            rung: rung_text(rung).to_string(),
            samples: n,
            lost: samples_lost.take().unwrap_or(0),
            resolved_share: (n > quiet).then(|| share(found, n - quiet)),
            hz,
            resolution: ways.map(|r| (r.text().to_string(), share(of(*r), n))).collect(),
        }
    };
    sampled.into_iter().map(use_of).collect()
}

fn distance(by_class: &[u64; 4], known: u64) -> Vec<DistanceShare> {
    let shares = CLASSES.iter().zip(by_class);
    shares
        .filter(|&(c, &w)| w > 0 || (known > 0 && *c == crate::machine::DistanceClass::Local))
        .map(|(&class, &w)| DistanceShare { class, share: share(w, known) })
        .collect()
}

fn threads(input: &Input, context: &Context, tally: &Tally) -> Vec<ThreadRow> {
    let nodes = context.finder.nodes;
    let total = tally.total.weight.max(1) as f64;
    let mut rows: Vec<ThreadRow> = Vec::new();
    for (t, x) in tally.threads.iter().enumerate() {
        let node = context.node_of_user(tally, t as u32);
        rows.push(ThreadRow {
            tid: input.threads.tid[t],
            name: input.threads.name[t].clone(),
            index: nodes.order[t],
            node: (node != UNKNOWN).then(|| nodes.ids[usize::from(node)]),
            samples: x.sum.samples,
            share: x.sum.weight as f64 / total,
            by_home: x.by_home[..nodes.count].iter().map(|&w| w as f64 / total).collect(),
            cpus: x.cpus.iter().map(|w| w.count_ones() as usize).sum(),
            migrations: x.migrations,
        });
    }
    rows.sort_by_key(|r| r.index);
    rows
}

fn use_row(context: &Context, site: u32, line: &LineUse, total: f64) -> UseRow {
    let site = context.sites.get(site);
    UseRow {
        at: site.at.clone(),
        function: site.function.clone(),
        stall_share: line.sum.weight as f64 / total,
        remote_share: (line.known > 0 && context.finder.nodes.count > 1)
            .then(|| share(line.remote, line.known)),
    }
}

fn object(input: &Input, context: &Context, tally: &Tally, f: &RowFacts) -> ObjectRow {
    let row = &context.rows.rows[f.row];
    let counts = tally.rows[f.row].as_deref();
    let total = tally.total.weight.max(1) as f64;
    let sum = counts.map_or(0, |c| c.sum.weight);
    let known = counts.map_or(0, |c| c.known.weight);
    let site = row.site.map(|s| context.sites.get(s));
    let range = |r: &super::pattern::Range| ThreadRange {
        thread: input.threads.tid.get(r.thread as usize).copied().unwrap_or(0),
        samples: r.samples,
        from: (r.from * row.extent as f64) as u64,
        to: (r.to * row.extent as f64) as u64,
    };
    ObjectRow {
        name: row.name.clone(),
        name_from: row.name_from.to_string(),
        kind: row.kind.text().to_string(),
        bytes: row.bytes,
        count: if row.kind == ObjectKind::File { 1 } else { row.things.len() as u64 },
        allocated_at: site.and_then(|s| s.at.clone()),
        allocated_in: site.and_then(|s| s.function.clone()),
        first_touch: first_touch(input, context, f),
        pages: f.pages.clone(),
        folio_bytes: f.folio_bytes.clone(),
        samples: counts.map_or(0, |c| c.sum.samples),
        stall_share: sum as f64 / total,
        remote_share: f.remote_share,
        remote_share_ci: f.remote_ci,
        distance: counts.map_or(Vec::new(), |c| distance(&c.by_class, known)),
        home_unknown_share: share(sum - known, sum),
        accessed_at: f.lines.iter().take(MOST_LINES).map(|(s, l)| use_row(context, *s, l, total)).collect(),
        pattern: f.pattern,
        thread_ranges: f.ranges.iter().map(range).collect(),
    }
}

fn first_touch(input: &Input, context: &Context, f: &RowFacts) -> Vec<TouchRow> {
    let nodes = context.finder.nodes;
    let mut rows: Vec<TouchRow> = Vec::new();
    for ((group, inherited), pages) in &f.origins.by_group {
        let site = context.sites.get(group.site);
        rows.push(TouchRow {
            thread: input.threads.tid.get(group.thread as usize).copied().unwrap_or(0),
            node: nodes.ids.get(usize::from(group.node)).copied(),
            pages: *pages,
            at: site.at.clone(),
            function: site.function.clone(),
            how: if *inherited { "inherited" } else { group.how.text() }.to_string(),
        });
    }
    rows.sort_by(|a, b| {
        b.pages.cmp(&a.pages).then_with(|| (a.thread, &a.at, &a.how).cmp(&(b.thread, &b.at, &b.how)))
    });
    rows.truncate(MOST_ROWS);
    rows
}

fn functions(input: &Input, context: &Context, tally: &Tally) -> Vec<FunctionRow> {
    let total = tally.total.weight.max(1) as f64;
    type Lines = Vec<(u32, LineUse)>;
    let mut by_function: FastMap<(String, u32), Lines> = FastMap::default();
    for (&site, line) in &tally.functions {
        let s = context.sites.get(site);
        let name = s.function.clone().or_else(|| s.at.clone()).unwrap_or_else(|| "?".to_string());
        by_function.entry((name, s.module.unwrap_or(u32::MAX))).or_default().push((site, *line));
    }
    let mut rows: Vec<FunctionRow> = Vec::new();
    for ((function, module), mut lines) in by_function {
        lines.sort_by_key(|l| (std::cmp::Reverse(l.1.sum.weight), l.0));
        let sum = |f: fn(&LineUse) -> u64| lines.iter().map(|l| f(&l.1)).sum::<u64>();
        let known = sum(|l| l.known);
        rows.push(FunctionRow {
            function,
            module: input.modules.path.get(module as usize).cloned(),
            stall_share: sum(|l| l.sum.weight) as f64 / total,
            remote_share: (known > 0 && context.finder.nodes.count > 1)
                .then(|| share(sum(|l| l.remote), known)),
            lines: lines.iter().take(MOST_LINES).map(|(s, l)| use_row(context, *s, l, total)).collect(),
        });
    }
    rows.sort_by(|a, b| b.stall_share.total_cmp(&a.stall_share).then_with(|| a.function.cmp(&b.function)));
    rows.truncate(MOST_ROWS);
    rows
}
