//! Causes, with evidence and advice, ranked by the time at stake.
//!
//! A remote share alone is no finding: it must be of samples that are many enough
//! to be certain of (the lower end of the interval counts), on an object whose
//! placement explains it.

use super::advice::{self, ALL, Use};
use super::facts::{RowFacts, percent};
use super::nodes::Nodes;
use super::tally::Tally;
use super::value::{Basis, Cause, Finding, Pattern};

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

/// Pages of an object that stays in the caches once it was used: 256 KiB of base pages, the
/// second-level cache of one core of a Xeon E5 v4, the smallest among the described machines.
/// Its placement is not worth changing, however much of it is remote.
const CACHED_PAGES: u64 = 64;

/// Why there is no number for the gain.
fn no_prediction(basis: Basis) -> String {
    match basis {
        Basis::StallTime => {
            "samples of a clock say where time went, not how many cache lines crossed between nodes"
        }
        Basis::DramLines => {
            "the counts are of this placement; record the repaired program on the same machine and compare the times"
        }
    }
    .to_string()
}

/// A finding about one row, before those of the same cause are merged. In the sentences
/// [`advice::ALL`] stands for the names of all objects that they hold for.
struct Case<'a> {
    kind: &'static str,
    row: &'a RowFacts,
    at: Option<String>,
    function: Option<String>,
    /// The real function: cases with the same one have the same cause.
    outer: Option<String>,
    text: String,
    /// What is to be said of this object alone.
    own: String,
    /// What may hold for other objects, too.
    common: Vec<String>,
    advice: String,
}

/// All findings, first the one with most at stake.
///
/// `memory_bound`: share of the time that is bound by memory, where shares are of lines; 1 for time itself.
pub fn findings(
    rows: &[RowFacts],
    tally: &Tally,
    nodes: &Nodes,
    basis: Basis,
    memory_bound: f64,
) -> Vec<Finding> {
    if nodes.count < 2 {
        return Vec::new();
    }
    let total = tally.total.weight.max(1) as f64;
    let mut groups: Vec<Vec<Case>> = Vec::new();
    for case in rows.iter().filter_map(|r| case(r, nodes)) {
        let same = |g: &&mut Vec<Case>| {
            g[0].kind == case.kind && g[0].outer == case.outer && case.outer.is_some()
                // Without a function, only the very place tells.
                || g[0].kind == case.kind && g[0].at == case.at && case.at.is_some()
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    let least = |kind: &str| {
        if kind == "remote_unexplained" { LEAST_UNEXPLAINED } else { LEAST_STAKE }
    };
    groups.retain(|g| {
        let samples: u64 = g.iter().map(|c| c.row.remote_samples).sum();
        let low: f64 = g.iter().map(|c| c.row.stake_ci.map_or(0.0, |i| i.low)).sum();
        samples >= LEAST_SAMPLES && low * memory_bound >= least(g[0].kind)
    });
    let mut found: Vec<Finding> = groups.into_iter().map(|g| finding(g, total)).collect();
    found.extend(unpinned(tally, nodes, basis));
    found.sort_by(|a, b| b.stake.total_cmp(&a.stake).then_with(|| a.objects.cmp(&b.objects)));
    for (i, f) in found.iter_mut().enumerate() {
        f.rank = i as u32 + 1;
    }
    found
}

/// Objects of a finding that get a line of evidence of their own. // chosen
const WITH_EVIDENCE: usize = 4;

/// One finding of all cases of a cause; the object with most at stake speaks for it.
fn finding(mut cases: Vec<Case>, total: f64) -> Finding {
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
    let names: Vec<&str> = cases.iter().map(|c| c.row.name.as_str()).collect();
    let first = &cases[0];
    Finding {
        kind: first.kind.to_string(),
        objects: names.iter().map(|n| n.to_string()).collect(),
        cause: Cause {
            at: first.at.clone(),
            function: first.function.clone(),
            text: first.text.replace(advice::ALL, &advice::listed(&names)),
        },
        evidence,
        advice: merged(sentences(&|c| c.advice.clone())).join(" "),
        predicted: None,
        predicted_why: Some(no_prediction(cases[0].row.basis)),
        stake: cases.iter().map(|c| c.row.remote).sum::<u64>() as f64 / total,
        rank: 0,
    }
}

/// What its samples count.
fn units(r: &RowFacts) -> &'static str {
    match r.basis {
        Basis::StallTime => "samples",
        Basis::DramLines => "lines",
    }
}

/// What is remote of it.
fn remote_what(r: &RowFacts) -> &'static str {
    match r.basis {
        Basis::StallTime => "remote time is",
        Basis::DramLines => "remote lines are",
    }
}

/// `63 % of its samples are remote (56 to 69 %)`.
fn remote_sentence(r: &RowFacts) -> String {
    let interval =
        r.remote_ci.map_or(String::new(), |i| format!(" ({:.0} to {})", i.low * 100.0, percent(i.high)));
    // Counts of whole pages have no interval worth a reader's time.
    match r.exact {
        Some(_) => format!("{} of its lines are remote", percent(r.remote_share.unwrap_or(0.0))),
        None => {
            format!("{} of its {} are remote{interval}", percent(r.remote_share.unwrap_or(0.0)), units(r))
        }
    }
}

fn case<'a>(r: &'a RowFacts, nodes: &Nodes) -> Option<Case<'a>> {
    if r.remote == 0 {
        return None;
    }
    // Small allocations are seen as samples of them: their pages are more than those counted here.
    let found = allocator(r);
    // What came from DRAM was not cached, however small.
    let cached = r.basis == Basis::StallTime && (1..=CACHED_PAGES).contains(&r.pages.total);
    if found.is_some() || cached {
        return found;
    }
    // Straddling before serial: initialising in parallel would not help a folio that two nodes share.
    straddling(r).or_else(|| serial(r, nodes)).or_else(|| mismatch(r)).or_else(|| unexplained(r))
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
    let placed = r.placed_pages();
    let whole =
        if share > 0.99 { format!("all {placed}") } else { format!("{} of {placed}", percent(share)) };
    Some(Case {
        kind: "serial_first_touch",
        row: r,
        at: top.at.clone(),
        function: top.function.clone(),
        outer: top.outer.clone(),
        text: format!("one thread touches the pages of {ALL} first, and other nodes' threads use them"),
        own: format!(
            "{}: {whole} pages placed by thread {} (node {node}) {}; {} remote{}",
            r.name,
            top.tid,
            top.at.as_ref().map_or_else(|| advice::place(&top.at, &top.function), |at| format!("at {at}")),
            percent(r.remote_share.unwrap_or(0.0)),
            // Counted per page, so more than a guess.
            r.least_remote().map_or(String::new(), |l| format!(
                ", {} if each page lay where it is used most",
                percent(l)
            )),
        ),
        common: vec![advice::pattern_sentence(r), advice::nodes_sentence(&r.user_nodes, nodes)],
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
    Some(Case {
        kind: "allocator_placed_pages",
        row: r,
        at: top.allocator_at.clone(),
        function: top.allocator_function.clone(),
        outer: top.allocator_outer.clone(),
        text: format!(
            "the allocator writes its own headers into the pages of {ALL} when the memory is allocated; \
             these writes are the first touch"
        ),
        own: format!(
            "{}: {} of its {} on pages first touched inside the allocator by thread {}, called {}",
            r.name,
            percent(by_allocator as f64 / r.remote.max(1) as f64),
            remote_what(r),
            top.tid,
            advice::place(&top.allocator_at, &top.allocator_function),
        ),
        common: vec![advice::pattern_sentence(r)],
        advice: advice::advise(r, Use::Allocator),
    })
}

/// Remote samples lie in large folios at the borders between the parts of two nodes.
fn straddling<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    let folio = *r.folio_bytes.last()?;
    // Where every thread goes everywhere, the size of the pages changes nothing.
    let few = matches!(r.pattern, Pattern::Blocked | Pattern::Cyclic | Pattern::OneThread);
    if !few
        || (r.remote_by_folio as f64) < 0.6 * r.remote as f64
        || (r.shared_folio_remote as f64) < 0.6 * r.remote as f64
    {
        return None;
    }
    let top = r.touchers.first()?;
    Some(Case {
        kind: "huge_page_straddling",
        row: r,
        at: top.at.clone(),
        function: top.function.clone(),
        outer: top.outer.clone(),
        text: format!(
            "pages of {} kB of {ALL} reach across the border between two nodes' parts",
            folio >> 10
        ),
        own: format!(
            "{}: {} of its {} on pages that came with another page's first touch (folios of {} kB); \
             such folios that more than one node uses, or that another object's touch placed: {}",
            r.name,
            percent(r.remote_by_folio as f64 / r.remote.max(1) as f64),
            remote_what(r),
            folio >> 10,
            r.shared_folios,
        ),
        common: vec![advice::pattern_sentence(r)],
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
    Some(Case {
        kind: "schedule_mismatch",
        row: r,
        at: top.at.clone(),
        function: top.function.clone(),
        outer: top.outer.clone(),
        text: format!(
            "several threads touch the pages of {ALL} first, but not the parts that they use later"
        ),
        own: format!(
            "{}: {} threads placed its pages, most of them {}; {}",
            r.name,
            r.touchers.len(),
            advice::place(&top.at, &top.function),
            remote_sentence(r),
        ),
        common: vec![advice::pattern_sentence(r)],
        advice: advice::advise(r, Use::Mismatch),
    })
}

fn unexplained<'a>(r: &'a RowFacts) -> Option<Case<'a>> {
    Some(Case {
        kind: "remote_unexplained",
        row: r,
        at: None,
        function: None,
        outer: None,
        text: format!("{ALL} lies on nodes other than its users'; who placed its pages was not seen"),
        own: format!(
            "{}: {}; {} of its pages were placed by the kernel or before the recording",
            r.name,
            remote_sentence(r),
            r.pages.unseen
        ),
        common: vec![advice::pattern_sentence(r)],
        advice: advice::advise(r, Use::Unexplained),
    })
}

/// Threads that wander between nodes leave the memory they touched first behind. Only a machine
/// with several nodes that the program really ran on can show it.
fn unpinned(tally: &Tally, nodes: &Nodes, basis: Basis) -> Option<Finding> {
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
            "{} of all {} by these threads away from the node they ran on most",
            percent(away as f64 / total),
            match basis {
                Basis::StallTime => "time was spent",
                Basis::DramLines => "lines were moved",
            }
        )],
        advice: "Bind the threads (OMP_PROC_BIND=close OMP_PLACES=cores, or taskset) and record again: \
                 what remains remote after that is placement"
            .to_string(),
        predicted: None,
        predicted_why: Some(no_prediction(basis)),
        stake,
        rank: 0,
    })
}
