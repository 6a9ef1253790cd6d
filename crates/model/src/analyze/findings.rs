//! Causes, with evidence and advice, ranked by the time at stake.
//!
//! A remote share alone is no finding: it must be of samples that are many enough
//! to be certain of (the lower end of the interval counts), on an object whose
//! placement explains it.

use super::advice::{self, Use};
use super::facts::{RowFacts, percent};
use super::nodes::Nodes;
use super::tally::Tally;
use super::value::{Cause, Finding, Pattern};

/// Least certain share of all samples that a finding must put at stake.
const LEAST_STAKE: f64 = 0.01;
/// The same for remote memory whose placement was not seen: without a cause, only what is plainly large.
const LEAST_UNEXPLAINED: f64 = 0.05;
/// Fewest remote samples of an object: below, a share is an anecdote.
const LEAST_SAMPLES: u64 = 20;
/// Share of the remote samples that lie on one thread's pages for the placement to be called serial.
const SERIAL: f64 = 0.9;

/// Least remote share of the samples on the blamed pages. A thread whose own part has a halo that
/// neighbours read is no culprit: stencils have a few percent, serial initialisation at least half. // assumed
const MOSTLY_HALO: f64 = 0.2;

/// Why there is no number for the gain.
const NO_PREDICTION: &str = "clock samples say where time went, not how many cache lines crossed the link between nodes; \
a gain in seconds needs counts, so only the share of time at stake is given";

/// A finding about one row, before those of the same cause are merged.
struct Case<'a> {
    kind: &'static str,
    row: &'a RowFacts,
    cause: Cause,
    evidence: Vec<String>,
    advice: String,
}

/// All findings, first the one with most at stake.
pub fn findings(rows: &[RowFacts], tally: &Tally, nodes: &Nodes) -> Vec<Finding> {
    if nodes.count < 2 {
        return Vec::new();
    }
    let total = tally.total.weight.max(1) as f64;
    let mut merged: Vec<(Finding, u64, f64)> = Vec::new();
    for case in rows.iter().filter_map(|r| case(r, nodes)) {
        let r = case.row;
        let low = r.stake_ci.map_or(0.0, |i| i.low);
        let same = merged.iter_mut().find(|(f, _, _)| {
            f.kind == case.kind
                && f.cause.at == case.cause.at
                && f.cause.function == case.cause.function
                && (f.cause.at.is_some() || f.cause.function.is_some())
        });
        match same {
            Some((f, samples, lows)) => {
                f.stake += r.remote as f64 / total;
                *samples += r.remote_samples;
                *lows += low;
                f.objects.push(r.name.clone());
                f.evidence.extend(case.evidence);
                if !f.advice.contains(&case.advice) {
                    f.advice = format!("{} {}", f.advice, case.advice);
                }
            }
            None => merged.push((
                Finding {
                    kind: case.kind.to_string(),
                    objects: vec![r.name.clone()],
                    cause: case.cause,
                    evidence: case.evidence,
                    advice: case.advice,
                    predicted: None,
                    predicted_why: Some(NO_PREDICTION.to_string()),
                    stake: r.remote as f64 / total,
                    rank: 0,
                },
                r.remote_samples,
                low,
            )),
        }
    }
    let least = |kind: &str| {
        if kind == "remote_unexplained" { LEAST_UNEXPLAINED } else { LEAST_STAKE }
    };
    merged.retain(|(f, samples, low)| *samples >= LEAST_SAMPLES && *low >= least(&f.kind));
    let mut found: Vec<Finding> = merged.into_iter().map(|m| m.0).collect();
    found.extend(unpinned(tally, nodes));
    found.sort_by(|a, b| b.stake.total_cmp(&a.stake).then_with(|| a.objects.cmp(&b.objects)));
    for (i, f) in found.iter_mut().enumerate() {
        f.rank = i as u32 + 1;
    }
    found
}

fn case<'a>(r: &'a RowFacts, nodes: &Nodes) -> Option<Case<'a>> {
    if r.remote == 0 {
        return None;
    }
    // Straddling before serial: initialising in parallel would not help a folio that two nodes share.
    allocator(r)
        .or_else(|| straddling(r))
        .or_else(|| serial(r, nodes))
        .or_else(|| mismatch(r))
        .or_else(|| unexplained(r))
}

/// One thread placed the pages that the remote samples lie on.
fn serial<'a>(r: &'a RowFacts, nodes: &Nodes) -> Option<Case<'a>> {
    let top = r.touchers.first()?;
    if (top.remote as f64) < SERIAL * r.remote as f64 || r.user_nodes.is_empty() {
        return None;
    }
    if (top.remote as f64) < MOSTLY_HALO * top.weight as f64 {
        return None;
    }
    let elsewhere = r.user_nodes.iter().any(|&(n, _)| n != top.node);
    if !elsewhere {
        return None;
    }
    let share = r.pages_of(top.thread) as f64 / r.placed_pages().max(1) as f64;
    let node = nodes.ids.get(usize::from(top.node)).map_or("?".to_string(), u32::to_string);
    let whole = if share > 0.99 { "all".to_string() } else { percent(share) };
    let mut evidence = vec![format!(
        "{}: thread {} placed {whole} of the {} pages whose first touch is known, {}, so they are on node {node}",
        r.name,
        top.tid,
        r.placed_pages(),
        advice::place(&top.at, &top.function),
    )];
    evidence.push(format!(
        "{} of the samples on {} are remote{}; the users run on {}",
        percent(r.remote_share.unwrap_or(0.0)),
        r.name,
        r.remote_ci.map_or(String::new(), |i| format!(
            " (95 % interval {} to {})",
            percent(i.low),
            percent(i.high)
        )),
        advice::nodes_of(&r.user_nodes, nodes),
    ));
    evidence.push(advice::pattern_sentence(r));
    let text = format!("one thread touches the pages of {} first, and other nodes' threads use them", r.name);
    Some(Case {
        kind: "serial_first_touch",
        row: r,
        cause: Cause { at: top.at.clone(), function: top.function.clone(), text },
        evidence,
        advice: advice::advise(r, Use::Serial),
    })
}

/// The allocator's own writes (chunk headers) placed the pages, before the program wrote to them.
fn allocator<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    let by_allocator: u64 = r.touchers.iter().map(|t| t.remote_by_allocator).sum();
    let top = r.touchers.iter().max_by_key(|t| t.remote_by_allocator)?;
    if (by_allocator as f64) < SERIAL * r.remote as f64 || !r.heap {
        return None;
    }
    // A large allocation's one header page says nothing about its other pages: those were placed elsewhere.
    let text = format!(
        "the allocator writes its own headers into the pages of {} when the memory is allocated; these writes are the first touch",
        r.name
    );
    let evidence = vec![
        format!(
            "{}: {} of its remote time is on pages first touched inside the allocator by thread {}, called {}",
            r.name,
            percent(by_allocator as f64 / r.remote.max(1) as f64),
            top.tid,
            advice::place(&top.allocator_at, &top.allocator_function),
        ),
        advice::pattern_sentence(r),
    ];
    Some(Case {
        kind: "allocator_placed_pages",
        row: r,
        cause: Cause { at: top.allocator_at.clone(), function: top.allocator_function.clone(), text },
        evidence,
        advice: advice::advise(r, Use::Allocator),
    })
}

/// Remote samples lie in large folios at the borders between the parts of two nodes.
fn straddling<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    let folio = *r.folio_bytes.last()?;
    let few = r.pattern == Pattern::Blocked || r.pattern == Pattern::Cyclic;
    if !few
        || (r.remote_by_folio as f64) < 0.6 * r.remote as f64
        || (r.shared_folio_weight as f64) < 0.6 * r.remote as f64
    {
        return None;
    }
    let top = r.touchers.first()?;
    Some(Case {
        kind: "huge_page_straddling",
        row: r,
        cause: Cause {
            at: top.at.clone(),
            function: top.function.clone(),
            text: format!(
                "pages of {} kB of {} reach across the border between two nodes' parts",
                folio >> 10,
                r.name
            ),
        },
        evidence: vec![
            format!(
                "{}: {} of its remote time is on pages that came with another page's first touch (folios of {} kB)",
                r.name,
                percent(r.remote_by_folio as f64 / r.remote.max(1) as f64),
                folio >> 10
            ),
            format!("{} of these folios are used from more than one node", r.shared_folios),
            advice::pattern_sentence(r),
        ],
        advice: advice::advise(r, Use::Straddling),
    })
}

/// Several threads placed the pages, and others use them.
fn mismatch<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    let known: u64 = r.touchers.iter().map(|t| t.remote).sum();
    if r.remote_share.is_none_or(|s| s < MOSTLY_HALO)
        || r.touchers.len() < 2
        || (known as f64) < 0.5 * r.remote as f64
    {
        return None;
    }
    let top = r.touchers.first()?;
    let text = format!(
        "{} is touched first by several threads, but the parts they touch are not the parts they use",
        r.name
    );
    Some(Case {
        kind: "schedule_mismatch",
        row: r,
        cause: Cause { at: top.at.clone(), function: top.function.clone(), text },
        evidence: vec![
            format!(
                "{}: {} threads placed its pages, most of them {}, and {} of its samples are remote",
                r.name,
                r.touchers.len(),
                advice::place(&top.at, &top.function),
                percent(r.remote_share.unwrap_or(0.0))
            ),
            advice::pattern_sentence(r),
        ],
        advice: advice::advise(r, Use::Mismatch),
    })
}

fn unexplained<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    let text = format!("{} lies on nodes other than its users'; who placed its pages was not seen", r.name);
    Some(Case {
        kind: "remote_unexplained",
        row: r,
        cause: Cause { at: None, function: None, text },
        evidence: vec![
            format!(
                "{}: {} of its samples are remote, {} of its pages were placed by the kernel or before the recording",
                r.name,
                percent(r.remote_share.unwrap_or(0.0)),
                r.pages.unseen
            ),
            advice::pattern_sentence(r),
        ],
        advice: advice::advise(r, Use::Unexplained),
    })
}

/// Threads that wander between nodes leave the memory they touched first behind. Only a machine
/// with several nodes that the program really ran on can show it.
fn unpinned(tally: &Tally, nodes: &Nodes) -> Option<Finding> {
    if nodes.assumed {
        return None;
    }
    let total = tally.total.weight.max(1) as f64;
    let (mut wandering, mut away, mut remote) = (0u64, 0u64, 0u64);
    for t in &tally.threads {
        let all: u64 = t.by_node.iter().sum();
        let most = t.by_node.iter().copied().max().unwrap_or(0);
        // A fifth of a thread's time on other nodes than its main one is more than a late pinning explains. // assumed
        if t.sum.samples >= 30 && (all - most) as f64 > 0.2 * all as f64 {
            wandering += 1;
            away += all - most;
            let known: u64 = t.by_home[..nodes.count].iter().sum();
            remote += known.min(all - most);
        }
    }
    let stake = (remote.min(tally.remote)) as f64 / total;
    if wandering == 0 || stake < LEAST_STAKE || tally.remote == 0 {
        return None;
    }
    Some(Finding {
        kind: "unpinned_threads".to_string(),
        objects: Vec::new(),
        cause: Cause {
            at: None,
            function: None,
            text: format!("{wandering} threads ran on more than one node"),
        },
        evidence: vec![format!(
            "{} of all time was spent by these threads away from the node they ran on most",
            percent(away as f64 / total)
        )],
        advice: "Bind the threads (OMP_PROC_BIND=close OMP_PLACES=cores, or taskset) and record again: \
                 what remains remote after that is placement"
            .to_string(),
        predicted: None,
        predicted_why: Some(NO_PREDICTION.to_string()),
        stake,
        rank: 0,
    })
}
