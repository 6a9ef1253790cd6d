//! From counts to the report's values.

use super::along::along;
use super::blame::Waiting;
use super::bounds::Bounds;
use super::cached;
use super::code::Code;
use super::computed::Open;
use super::context::Context;
use super::counters::{Counters, RowCounters};
use super::counts::Counts;
use super::ended::{ended_early, failed};
use super::estimate::Estimate;
use super::findings::Setting;
use super::gain::Gains;
use super::hash::FastSet;
use super::input::{Input, Judge};
use super::names::source_text;
use super::nodes::UNKNOWN;
use super::object_rows::{self, RowUse};
use super::pictures::{Told, pictures};
use super::program::Program;
use super::shares::{Shares, WIDEST_TOLD, distance, share};
use super::sharing::{self, Shared};
use super::sites::Site;
use super::thresholds::MOST_ROWS;
use super::thresholds::{MODEL, THRESHOLD};
use super::timing::assumed_figures;
use super::value::*;
use super::verdict::{BetweenNodes, Evidence, verdict};
use super::whatif::{Engine, Planner, gains, timed};
use super::{findings, held, notes, readings};
use nearfar_machine::binding::Bind;
use nearfar_recording::{
    Columns, KILLED, LOST_EITHER, LOST_PERF, ObjectKind, Resolution, SampleSource, Source,
};
use std::collections::BTreeMap;

/// Version of the JSON's schema.
const SCHEMA: u32 = 2;

/// Samples of an object from which on its remote share is shown, however wide its interval. // chosen
const FEW: u64 = 100;

/// Builds the report. `waits`: the lines that samples of a clock show threads to wait for.
pub fn assemble(
    input: &Input,
    judge: &Judge,
    context: &Context,
    counters: &Counters,
    rows: &[RowUse],
    counts: &Counts,
    waits: Vec<Shared>,
) -> Report {
    let nodes = context.finder.nodes;
    let basis = context.measure.basis;
    let total = counters.total.weight.max(1) as f64;
    let mut shares = counts.shares(nodes).unwrap_or_else(|| Shares::of_samples(counters, nodes));
    let caches = cached::bound(input, judge, context, counters, rows);
    if let Ok(bound) = &caches {
        shares.bounded(bound.at_most());
    }
    let held = if caches.is_ok() { None } else { held::held(input, judge, context, counters, rows) };
    let waiting = Waiting::new(input, counters);
    let bounds = Bounds::new(input, judge, context, counters);
    let open = Open::new(context, counters, rows, &waiting, held.as_ref(), &bounds, caches.is_ok());
    if caches.is_err() {
        shares.without(bounds.settled_share());
    }
    if open.share > 0.0 {
        shares.lowered(open.share, THRESHOLD);
    }
    let program =
        Program { before: input.meta.command.is_empty(), ..Program::of(&input.modules, &input.symbols) };
    let timeline = counts.timing.as_ref().ok().map(|p| &p.timeline);
    let shared = match timeline {
        Some(timeline) => sharing::findings(context, counters, rows, timeline),
        None => waits,
    };
    let mut explained: FastSet<usize> = open.rows.clone();
    explained.extend(shared.iter().filter(|s| s.explains_all).map(|s| s.row));
    let causes = findings::causes(rows, nodes, program, &explained, caches.is_ok());
    let by_cause = findings::rows_of(&causes);
    let engine =
        Engine::new(input, judge, nodes, context.exact, counts.timing.as_ref(), counters, rows, &by_cause);
    let planner = Planner::new(input, &judge.machine, context, counters);
    let memory_bound = match basis {
        Basis::MemoryLoads => counters.beside.waits().map(|waits| waits.0),
        _ => counts.memory_bound(),
    };
    let near = match basis {
        Basis::MemoryLoads => Gains::new(judge, context, counters),
        Basis::DramLines => Err("lines were counted: `what_if` predicts from them".to_string()),
        Basis::StallTime => Err("samples of a clock do not say which loads memory answered".to_string()),
    };
    let estimate = match basis {
        Basis::StallTime => {
            let held = |row: u32| held.as_ref().is_some_and(|held| held.far.contains_key(&row));
            let cached = |row: u32| caches.is_ok() || held(row);
            Estimate::new(input, judge, context, counters, &waiting, &bounds, cached)
        }
        _ => Err("samples of a clock are not what shares are of".to_string()),
    };
    let setting = Setting {
        estimate: &estimate,
        counters,
        nodes,
        basis,
        memory_bound: memory_bound.clone().unwrap_or(1.0),
        engine: &engine,
        gains: &near,
        explained: &explained,
        shared: shared.into_iter().map(|s| s.finding).collect(),
        phases: context.phases,
        planner: &planner,
        cached: caches.is_ok(),
        program,
    };
    let (mut findings, not_worth, unnamed, repaired) = findings::findings(rows, causes, &setting);
    let placeable = engine.as_ref().map(|e| e.placeable(&planner)).unwrap_or_default();
    let what_if = engine.as_ref().ok().map(|e| e.report(context.rows, &planner, &placeable, not_worth));
    let lines = estimate.as_ref().map(Estimate::lines).unwrap_or_default();
    let (sampled_gain, sampled_gain_why) = match (basis, &near, &estimate) {
        (Basis::StallTime, _, Ok(estimate)) => {
            let far = share(counters.remote, counters.working.weight);
            (estimate.every_line_local(far, repaired), None)
        }
        (Basis::StallTime, _, Err(why)) => (None, Some(why.clone())),
        (_, Ok(near), _) => (Some(near.every_line_local(repaired)), None),
        (_, Err(why), _) => (None, Some(why.clone())),
    };
    // Lines that threads take from each other cost time wherever memory is.
    let near_decides = basis == Basis::StallTime && !findings.iter().any(Finding::shares_lines);
    let saves_little = sampled_gain.as_ref().filter(|_| near_decides).and_then(|gain| little(&shares, gain));
    if saves_little.is_some() {
        shares.open_below();
    }
    let evidence = Evidence {
        basis,
        remote_time: shares.remote_of_all,
        interval: shares.remote_of_all_ci,
        marked: context.region.is_marked(),
        files: object_rows::read_only_files(context, counters, rows),
        counted: counts.lines(),
        windows: counts.windows,
        what_if: what_if.as_ref(),
        unnamed: unnamed.as_ref(),
        memory_bound,
        beside: (basis == Basis::MemoryLoads).then_some(&counters.beside),
        caches: caches.as_ref().ok(),
        between_nodes: (basis == Basis::StallTime)
            .then(|| BetweenNodes::new(counters, judge.assume.is_some())),
        held: held.as_ref().map(|h| &h.report),
        computed: open.computed.as_ref(),
        saves_at_most: estimate
            .as_ref()
            .ok()
            .filter(|_| open.share > 0.0)
            .and_then(|e| e.saves_at_most(counters)),
        saves_little,
    };
    let ended_early = ended_early(input);
    let (mut verdict, mut verdict_why) = verdict(input, judge, counters, &evidence, &findings);
    // What the rest would have done is not known, and may be what a verdict lacks.
    if let (Verdict::Clean | Verdict::Unknown, Some(early)) = (verdict, &ended_early) {
        verdict = Verdict::Unknown;
        verdict_why = format!("The run ended early ({early}). Up to then: {verdict_why}");
    }
    if verdict == Verdict::Unknown {
        findings::keep_what_may_gain(&mut findings);
    }
    let code = Code { context, counters };
    let functions = code.functions(input);
    let mut notes = notes::notes(input, judge, context, counters, rows, &waiting.stalls);
    notes.extend(notes::generated(program, &functions));
    if input.meta.imported.is_some() {
        notes.extend(readings::notes(&input.counters));
    }
    let along = along(input, judge, shares.told(shares.remote, shares.remote_ci), shares.remote_ci);
    if basis == Basis::MemoryLoads {
        notes.extend(counters.beside.notes(shares.remote, shares.remote_ci));
    }
    // Of those that a page has no room for, the first are left out.
    notes.extend(failed(&input.meta.exit));
    let (what, matrix) = (what_if.as_ref(), &shares.matrix[..]);
    let counted = counts.counted(judge, nodes, context.region);
    let time = counts.timed();
    let told = Told {
        findings: &findings,
        functions: &functions,
        what_if: what,
        matrix,
        counted: counted.as_ref().zip(time.as_ref()),
    };
    let pictures = pictures(judge, context, counters, rows, &told);
    let phases = context.phases.map(|phases| {
        let mut report = super::phases::report(context, phases, counters);
        let works = timed(&mut report, input, judge, counters);
        match gains(works, engine.as_ref(), &placeable) {
            Ok(gains) => report.gains = gains,
            Err(why) => report.gains_why = Some(why),
        }
        report
    });
    let meta = &input.meta;
    let end =
        if meta.end_ns > meta.start_ns { meta.end_ns } else { context.survey.last_ns.max(meta.start_ns) };
    Report {
        schema: SCHEMA,
        verdict,
        verdict_why,
        command: meta.command.clone(),
        ended_early,
        exit: (!meta.exit.is_empty()).then(|| meta.exit.clone()),
        phases,
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
            assumed_figures: assumed_figures(&judge.machine),
        },
        recorded_on: recorded_on(input),
        recorded: Recorded {
            started: Some(meta.started.clone()).filter(|at| !at.is_empty() && meta.imported.is_none()),
            host: meta.host.clone(),
        },
        sources: sources(input, counters),
        cpu: (meta.target_cpu_s > 0.0 && meta.target_system_s >= 0.0).then_some(CpuTime {
            seconds: meta.target_cpu_s,
            kernel_seconds: meta.target_system_s,
            page_faults: meta.target_faults,
        }),
        basis,
        region: if context.region.is_marked() { Region::Marked } else { Region::Whole },
        remote_share: shares.told(shares.remote, shares.remote_ci),
        remote_share_ci: shares.remote_ci,
        remote_share_exact: shares.exact,
        remote_time_share: shares.told(shares.remote_of_all, shares.remote_of_all_ci),
        remote_time_share_ci: shares.remote_of_all_ci,
        caches_why: caches.as_ref().err().cloned(),
        caches: caches.ok(),
        caches_may_hold: held.map(|h| h.report),
        loops_may_compute: open.computed,
        excerpts: bounds.report,
        distance: shares.distance,
        page_node_unknown_share: share(counters.page_node_unknown, counters.memory.weight),
        unattributed_share: counters.unattributed as f64 / total,
        compute_share: counters.resolved(Resolution::Compute) as f64 / total,
        spinning_share: counters.resolved(Resolution::Spinning) as f64 / total,
        node_matrix: shares.matrix,
        threads: threads(input, context, counters),
        objects: rows.iter().take(MOST_ROWS).map(|f| object(input, &code, f, &lines)).collect(),
        functions,
        call_paths: code.call_paths(),
        findings,
        counters: counted,
        counted_along: along,
        counters_why: counts.traffic.as_ref().err().cloned(),
        time,
        time_why: counts.timing.as_ref().err().cloned(),
        what_if,
        what_if_why: engine.as_ref().err().cloned(),
        sampled_gain,
        sampled_gain_why,
        notes,
        pictures,
    }
}

/// Share of the time on far pages and what near memory saves, where a clock's samples accuse far memory and the time model, from the same
/// samples, finds no more than what it leaves out itself: what is on far pages may wait for caches.
fn little(shares: &Shares, gain: &SampledGain) -> Option<(f64, Predicted)> {
    let accused = shares.remote_of_all_ci.is_some_and(|i| i.low > THRESHOLD);
    let both = std::iter::once(&gain.every_line_local).chain(&gain.repaired);
    let best = both.min_by(|a, b| a.ratio.total_cmp(&b.ratio)).filter(|best| 1.0 - best.ratio < MODEL)?;
    Some((shares.remote_of_all.filter(|_| accused)?, best.clone()))
}

fn recorded_on(input: &Input) -> String {
    let m = &input.meta.machine;
    let cpus: usize = m.nodes.iter().map(|n| n.cpus.len()).sum();
    let s = |n: usize| if n == 1 { "" } else { "s" };
    format!("{}: {} node{}, {cpus} cpu{}", m.name, m.nodes.len(), s(m.nodes.len()), s(cpus))
}

fn sources(input: &Input, counters: &Counters) -> Vec<SourceUse> {
    // Losses that may be of one kind or another count for each of them.
    let lost = |kinds: &[&str]| -> u64 {
        let l = &input.losses;
        (0..l.len())
            .filter(|&i| kinds.contains(&l.what[i].as_str()))
            .fold(0, |sum, i| sum.saturating_add(l.count[i]))
    };
    let l = &input.losses;
    let killed = (0..l.len()).any(|i| l.what[i] == "end" && l.why[i].starts_with(KILLED));
    let lost_known = !killed && input.meta.state != "open";
    let code = |source: Source| match source {
        Source::Simulated => Some(SampleSource::Simulated),
        Source::Hardware => Some(SampleSource::Hardware),
        Source::Clock => Some(SampleSource::Clock),
        Source::Signal => Some(SampleSource::Signal),
        Source::Pages => None,
    };
    let mut sampled: Vec<(Source, Option<f64>)> = input
        .meta
        .sources
        .iter()
        .filter(|r| r.active)
        .map(|r| (r.source, (r.hz > 0.0).then_some(r.hz)))
        .collect();
    // Producers that say nothing in the meta still have their samples named.
    for source in [Source::Clock, Source::Signal, Source::Hardware, Source::Simulated] {
        let samples = code(source).map_or(0, |c| counters.by_source[c as usize].iter().sum::<u64>());
        if samples > 0 && !sampled.iter().any(|s| s.0 == source) {
            sampled.push((source, None));
        }
    }
    let mut samples_lost = Some(lost(&["samples", LOST_EITHER, LOST_PERF]));
    let use_of = |(source, hz): (Source, Option<f64>)| {
        let Some(code) = code(source) else {
            let faults = input.faults.len() as u64;
            let lost = lost(&["faults", LOST_EITHER, LOST_PERF]);
            let source = source_text(source).to_string();
            return SourceUse {
                source,
                samples: faults,
                lost,
                lost_known,
                resolved_share: None,
                hz: None,
                resolution: Vec::new(),
            };
        };
        let counts = &counters.by_source[code as usize];
        let n: u64 = counts.iter().sum();
        let of = |r: Resolution| counts[r as usize];
        let quiet = of(Resolution::Compute) + of(Resolution::Spinning);
        let found = n - quiet - of(Resolution::Unresolved);
        let ways = Resolution::ALL.iter().filter(|r| of(**r) > 0);
        SourceUse {
            source: source_text(source).to_string(),
            samples: n,
            lost: samples_lost.take().unwrap_or(0),
            lost_known,
            resolved_share: (n > quiet).then(|| share(found, n - quiet)),
            hz,
            resolution: ways.map(|r| (r.text().to_string(), share(of(*r), n))).collect(),
        }
    };
    sampled.into_iter().map(use_of).collect()
}

fn threads(input: &Input, context: &Context, counters: &Counters) -> Vec<ThreadRow> {
    let nodes = context.finder.nodes;
    let total = counters.total.weight.max(1) as f64;
    let mut rows: Vec<ThreadRow> = Vec::new();
    for (t, x) in counters.threads.iter().enumerate() {
        let node = context.node_of_user(counters, t as u32);
        rows.push(ThreadRow {
            tid: input.threads.tid[t],
            name: input.threads.name[t].clone(),
            index: nodes.order[t],
            node: (node != UNKNOWN).then(|| nodes.ids[usize::from(node)]),
            samples: x.sum.samples,
            share: x.sum.weight as f64 / total,
            by_page_node: x.by_page_node[..nodes.count].iter().map(|&w| w as f64 / total).collect(),
            cpus: x.cpus.iter().map(|w| w.count_ones() as usize).sum(),
            migrations: x.migrations,
            waiting_share: (x.sum.weight > 0).then(|| share(x.waiting, x.sum.weight)),
        });
    }
    rows.sort_by_key(|r| r.index);
    rows
}

fn object(input: &Input, code: &Code, f: &RowUse, lines: &BTreeMap<u32, Option<LineEstimate>>) -> ObjectRow {
    let (context, counters) = (code.context, code.counters);
    let row = &context.rows.rows[f.row];
    let counts = counters.rows[f.row].as_deref();
    let sum = counts.map_or(0, |c| c.sum.weight);
    let known = counts.map_or(0, |c| c.known.weight);
    let (stall_share, page_node_unknown_share, distance) = match (f.exact, context.exact) {
        (Some(lines), Some(exact)) => {
            let by_class = lines.by_class.map(|l| l.round() as u64);
            let all = lines.all().max(1.0);
            (
                all / exact.total.all().max(1.0),
                lines.unknown / all,
                distance(&by_class, by_class.iter().sum()),
            )
        }
        _ => {
            let by_class = counts.map_or(Vec::new(), |c| distance(&c.by_class, known));
            (sum as f64 / counters.total.weight.max(1) as f64, share(sum - known, sum), by_class)
        }
    };
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
        count: if row.kind == ObjectKind::File { 1 } else { row.count },
        allocations: row.things.len() as u64,
        allocated_at: site.and_then(|s| s.at.clone()),
        allocated_in: site.and_then(|s| s.function.clone()),
        allocated_for: row.site.filter(|&s| !context.sites.has_line(s)).and_then(|_| {
            let line = context.sites.line_of_chain(row.chain?)?;
            context.sites.get(line).at.clone()
        }),
        allocated_through: row.through.iter().map(|&s| through(context.sites.get(s))).collect(),
        first_touch: first_touch(input, context, f),
        pages: f.pages.clone(),
        folio_bytes: f.folio_bytes.clone(),
        samples: counts.map_or(0, |c| c.sum.samples),
        stall_share,
        remote_share: f.remote_share.filter(|_| !says_nothing(f, counts)),
        remote_share_ci: f.remote_ci,
        remote_share_exact: f.exact.is_some(),
        dram: code.of_object(f),
        estimated_lines: lines.get(&(f.row as u32)).copied().flatten(),
        distance,
        page_node_unknown_share,
        accessed_at: code.used_at(f),
        pattern: f.pattern,
        thread_ranges: listed(&f.ranges).map(range).collect(),
    }
}

/// Whether an object's remote share is of so few samples that it says nothing.
fn says_nothing(f: &RowUse, counts: Option<&RowCounters>) -> bool {
    f.exact.is_none()
        && counts.is_some_and(|c| c.known.samples < FEW)
        && f.remote_ci.is_some_and(|i| i.high - i.low > WIDEST_TOLD)
}

/// An allocation helper: `memory (kernels.c:38)`.
fn through(site: &Site) -> String {
    let function = site.function.as_deref().map(|f| f.split(" (inlined in").next().unwrap_or(f));
    match (function, &site.at) {
        (Some(f), Some(at)) => format!("{f} ({at})"),
        (Some(one), None) => one.to_owned(),
        (None, at) => at.clone().unwrap_or_else(|| "?".to_owned()),
    }
}

/// The ranges with most samples, as many as a report lists, in the order of threads.
fn listed(ranges: &[super::pattern::Range]) -> impl Iterator<Item = &super::pattern::Range> {
    let mut most: Vec<usize> = (0..ranges.len()).collect();
    if most.len() > MOST_ROWS {
        most.sort_by_key(|&i| (std::cmp::Reverse(ranges[i].samples), i));
        most.truncate(MOST_ROWS);
        most.sort_unstable();
    }
    most.into_iter().map(|i| &ranges[i])
}

fn first_touch(input: &Input, context: &Context, f: &RowUse) -> Vec<TouchRow> {
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
