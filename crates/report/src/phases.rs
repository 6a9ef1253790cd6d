//! `report --phases`: the program's parts in a flat profile with `parent => child` rows, as TAU prints it, of time or of
//! anything else that was counted.

use super::layout::{Page, columns, count, percent, plural, right, shorten};
use super::thread::of_tid;
use super::whatif::by_phase;
use nearfar_analyze::{
    Basis, Finding, FindingPhase, MOST_UNKNOWN, PhaseAmounts, PhaseFigures, PhaseReport, Report, Spread,
};
use std::collections::BTreeMap;

/// Unbalanced calls that are printed; all are in the JSON.
const MOST_UNBALANCED: usize = 10;
/// Rows of regions.
const MOST_REGIONS: usize = 20;
/// Rows of objects.
const MOST_PAID: usize = 5;
/// Least share of a second phase in a finding's line. // chosen
const LEAST_OF_FINDING: f64 = 0.05;
/// What is shown of an amount that is not known.
const UNKNOWN: &str = "unknown";
/// Name of a thread as a whole.
pub const WHOLE: &str = "(thread)";

/// What a profile is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Time.
    Time,
    /// Samples.
    Samples,
    /// Samples' weight on pages of other nodes: time at risk, or lines from and to far memory.
    Far,
    /// The same on pages of the thread's own node.
    Near,
    /// Page faults.
    Faults,
    /// Bytes allocated.
    Bytes,
}

impl Quantity {
    /// All, in the order of their listing.
    pub const ALL: [Quantity; 6] =
        [Quantity::Time, Quantity::Far, Quantity::Near, Quantity::Samples, Quantity::Faults, Quantity::Bytes];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Time => "time",
            Quantity::Samples => "samples",
            Quantity::Far => "far",
            Quantity::Near => "near",
            Quantity::Faults => "faults",
            Quantity::Bytes => "bytes",
        }
    }

    /// Its amount.
    pub fn of(self, amounts: &PhaseAmounts) -> u64 {
        match self {
            Quantity::Time => amounts.time_ns,
            Quantity::Samples => amounts.samples,
            Quantity::Far => amounts.far,
            Quantity::Near => amounts.near,
            Quantity::Faults => amounts.faults,
            Quantity::Bytes => amounts.bytes,
        }
    }

    /// Whether the amounts are known: what is near and far is not where most pages' nodes are unknown.
    fn known(self, amounts: &PhaseAmounts) -> bool {
        !matches!(self, Quantity::Far | Quantity::Near) || amounts.page_nodes_known()
    }

    /// What it is, with its unit.
    fn words(self, basis: Basis, simulated: bool) -> &'static str {
        match (self, basis) {
            (Quantity::Time, _) if simulated => "time by the simulated clock of the virtual machine's cpus",
            (Quantity::Time, _) => "wall-clock time, by the program's calls",
            (Quantity::Samples, _) => "samples taken",
            (Quantity::Far, Basis::StallTime) => "CPU time at risk: sampled on pages of other nodes, usec",
            (Quantity::Far, Basis::DramLines) => {
                "cache lines between the cpus and memory of other nodes, by samples (HT_LR_MEM_XFR)"
            }
            (Quantity::Far, Basis::MemoryLoads) => "loads that memory of other nodes answered, by samples",
            (Quantity::Near, Basis::StallTime) => "CPU time sampled on pages of the thread's own node, usec",
            (Quantity::Near, Basis::DramLines) => {
                "cache lines between the cpus and memory of their own node, by samples (HT_LL_MEM_XFR)"
            }
            (Quantity::Near, Basis::MemoryLoads) => {
                "loads that memory of their own node answered, by samples"
            }
            (Quantity::Faults, _) => "page faults, of the whole run",
            (Quantity::Bytes, _) => "bytes allocated, of the whole run; small allocations by samples",
        }
    }
}

/// A row of a flat profile.
#[derive(Clone, Debug, PartialEq)]
pub struct FlatRow {
    /// `name`, or `parent => name`.
    pub name: String,
    /// Whether it is of a pair.
    pub pair: bool,
    /// Calls, and phases that began directly in it.
    pub calls: u64,
    /// Phases that began directly in it.
    pub subrs: u64,
    /// Amounts with what is inside.
    pub inclusive: PhaseAmounts,
    /// Amounts without.
    pub exclusive: PhaseAmounts,
}

/// The flat profile of figures by path: names, and pairs of a name and the one around it. A phase within itself counts
/// its inclusive amounts once.
pub fn flat(phases: &PhaseReport, figures: &[Option<PhaseFigures>]) -> Vec<FlatRow> {
    let name = |i: usize| if i == 0 { WHOLE } else { phases.nodes[i].name.as_str() };
    let mut rows: BTreeMap<(bool, String), FlatRow> = BTreeMap::new();
    for (i, figures) in figures.iter().enumerate() {
        let Some(f) = figures else { continue };
        let mut around = Vec::new();
        let mut at = i;
        while let Some(parent) = phases.nodes[at].parent {
            around.push(parent);
            at = parent;
        }
        let mut add = |pair: bool, text: String, again: bool| {
            let empty = PhaseAmounts::default();
            let new = || FlatRow {
                name: text.clone(),
                pair,
                calls: 0,
                subrs: 0,
                inclusive: empty,
                exclusive: empty,
            };
            let row = rows.entry((pair, text.clone())).or_insert_with(new);
            row.calls += f.calls;
            row.subrs += f.subrs;
            row.exclusive.add(&f.exclusive);
            if !again {
                row.inclusive.add(&f.inclusive);
            }
        };
        add(false, name(i).to_owned(), around.iter().any(|&o| name(o) == name(i)));
        if let Some(&parent) = around.first().filter(|&&parent| parent > 0) {
            let pair = |o: &usize| {
                phases.nodes[*o].parent.is_some_and(|p| name(*o) == name(i) && name(p) == name(parent))
            };
            add(true, format!("{}  => {}", name(parent), name(i)), around.iter().any(pair));
        }
    }
    rows.into_values().collect()
}

/// Milliseconds as TAU prints them: `0.134`, `1,231`, `2:30.830`.
fn msec(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 1.0 {
        return format!("{ms:.3}");
    }
    if ms < 100.0 {
        return if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.1}") };
    }
    let whole = ms.round() as u64;
    if whole < 60_000 {
        return count(whole);
    }
    let (minutes, rest) = (whole / 60_000, whole % 60_000);
    match minutes {
        0..=59 => format!("{minutes}:{:02}.{:03}", rest / 1000, rest % 1000),
        _ => format!("{}:{:02}:{:02}.{:03}", minutes / 60, minutes % 60, rest / 1000, rest % 1000),
    }
}

/// Counts as TAU prints them: whole, or with an exponent from a million on.
fn counts(n: u64) -> String {
    if n < 1_000_000 {
        return n.to_string();
    }
    let exponent = (n as f64).log10().floor() as i32;
    format!("{:.3}E+{exponent:02}", n as f64 / 10f64.powi(exponent))
}

/// What is printed: of which quantity, and whether of each thread.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What the profile is of.
    pub quantity: Quantity,
    /// Each thread's own, too.
    pub threads: bool,
}

/// The same as JSON: `phases` of the whole report's JSON, `null` where there are none.
pub fn phases_json(report: &Report) -> String {
    nearfar_figures::json::pretty(&report.phases)
}

/// The profile as text.
pub fn to_phases(report: &Report, wanted: Wanted, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let Some(phases) = &report.phases else {
        page.paragraph(
            "The recording has no phases: neither does the program name its parts (nearfar.h, nearfar.f90, the Python \
             module nearfar; docs/phases.md), nor has its OpenMP or MPI library been seen at work.",
        );
        return page.finish();
    };
    let all: Vec<Option<PhaseFigures>> = phases.nodes.iter().map(|n| Some(n.all)).collect();
    let q = wanted.quantity;
    page.heading(&format!(
        "All {}: {}",
        plural(phases.threads.len(), "thread"),
        q.words(phases.basis, phases.clock == "simulated")
    ));
    table(&mut page, phases, q, &all);
    let own = with_phases(phases);
    if own.len() > 1 {
        page.blank();
        page.line(&format!("Over the {} that began phases:", plural(own.len(), "thread")));
        spread(&mut page, phases, q, &own);
    }
    if wanted.threads {
        for (t, thread) in phases.threads.iter().enumerate() {
            let mut own: Vec<Option<PhaseFigures>> = vec![None; phases.nodes.len()];
            phases.rows.iter().filter(|r| r.thread == t).for_each(|r| own[r.node] = Some(r.figures));
            page.blank();
            page.line(&format!(
                "PROCESS {};THREAD {} ({}):",
                thread.pid,
                of_tid(report, thread.tid),
                thread.name
            ));
            table(&mut page, phases, q, &own);
        }
        if phases.rows_left_out > 0 {
            page.paragraph(&format!("{} rows of threads are left out.", count(phases.rows_left_out as u64)));
        }
    }
    regions(&mut page, phases);
    paid(&mut page, phases);
    by_phase(&mut page, report, phases);
    metrics(&mut page, phases);
    unbalanced(&mut page, phases);
    notes(&mut page, report, phases, q);
    page.finish()
}

fn table(page: &mut Page, phases: &PhaseReport, q: Quantity, figures: &[Option<PhaseFigures>]) {
    let mut rows = flat(phases, figures);
    let whole = figures[0].map_or(0, |f| q.of(&f.inclusive)).max(1);
    let whole_known = figures[0].is_none_or(|f| q.known(&f.inclusive));
    rows.retain(|r| r.calls > 0 || q.of(&r.inclusive) > 0 || !q.known(&r.inclusive));
    match q {
        Quantity::Time => rows.sort_by_key(|r| (std::cmp::Reverse(r.inclusive.time_ns), r.pair)),
        _ => rows.sort_by_key(|r| (std::cmp::Reverse(q.of(&r.exclusive)), r.pair)),
    }
    let rule = "-".repeat(page.width.min(100));
    page.line(&rule);
    match q {
        Quantity::Time => {
            page.line("%Time    Exclusive    Inclusive       #Call      #Subrs  Inclusive Name");
            page.line("              msec   total msec                          usec/call");
        }
        _ => {
            page.line("%Counts  Exclusive    Inclusive       #Call      #Subrs Count/Call Name");
            page.line("            counts total counts");
        }
    }
    page.line(&rule);
    // Times are given in microseconds where samples stand for time.
    let time_like = phases.basis == Basis::StallTime && matches!(q, Quantity::Far | Quantity::Near);
    for row in rows {
        let (inclusive, exclusive) = (q.of(&row.inclusive), q.of(&row.exclusive));
        let unit = if q == Quantity::Time || time_like { 1000 } else { 1 };
        let known = q.known(&row.inclusive);
        let each = match row.calls {
            0 => "-".to_owned(),
            _ if !known => UNKNOWN.to_owned(),
            calls => (inclusive / unit / calls).to_string(),
        };
        let text = |known: bool, amount: u64| match q {
            _ if !known => UNKNOWN.to_owned(),
            Quantity::Time => msec(amount),
            _ => counts(amount / unit),
        };
        let exclusive = text(q.known(&row.exclusive), exclusive);
        let inclusive_text = text(known, inclusive);
        let share = match known && whole_known {
            true => format!("{:.1}", 100.0 * inclusive as f64 / whole as f64),
            false => "?".to_owned(),
        };
        let start = format!(
            "{}{}{}{}{}{} ",
            right(&share, 5),
            right(&exclusive, 13),
            right(&inclusive_text, 13),
            right(&row.calls.to_string(), 12),
            right(&row.subrs.to_string(), 12),
            right(&each, 11),
        );
        // Pairs of names say nothing without their ends: rather a line that is too long.
        let room = page.width.saturating_sub(columns(&start)).max(72);
        page.line(&format!("{start}{}", shorten(&row.name, room)));
    }
}

/// Threads that began phases themselves.
fn with_phases(phases: &PhaseReport) -> Vec<usize> {
    let began = |t: &usize| phases.rows.iter().any(|r| r.thread == *t && r.node != 0 && r.figures.calls > 0);
    (0..phases.threads.len()).filter(began).collect()
}

/// Mean, least, most and deviation over threads; one that was not in a phase counts as 0.
fn spread(page: &mut Page, phases: &PhaseReport, q: Quantity, threads: &[usize]) {
    let unit = if q == Quantity::Time { " (msec)" } else { "" };
    page.line(&format!("         mean          min          max      std.dev  threads  Name{unit}"));
    for (i, node) in phases.nodes.iter().enumerate().skip(1) {
        let of = |t: &usize| {
            let row = phases.rows.iter().find(|r| r.node == i && r.thread == *t);
            row.map_or(0.0, |r| q.of(&r.figures.inclusive) as f64)
        };
        let values: Vec<f64> = threads.iter().map(of).collect();
        let s = Spread::of(&values);
        let text = |v: f64| match q {
            _ if !q.known(&node.all.inclusive) => UNKNOWN.to_owned(),
            Quantity::Time => msec(v.round() as u64),
            _ => counts(v.round() as u64),
        };
        let name = format!("{}{}", "  ".repeat(node.depth - 1), node.name);
        page.line(&format!(
            "{}{}{}{}{}  {}",
            right(&text(s.mean), 13),
            right(&text(s.min), 13),
            right(&text(s.max), 13),
            right(&text(s.std_dev), 13),
            right(&node.spread.threads.to_string(), 9),
            shorten(&name, 60),
        ));
    }
}

fn regions(page: &mut Page, phases: &PhaseReport) {
    if phases.regions.is_empty() {
        return;
    }
    page.heading("Parallel regions of GCC's OpenMP, by samples");
    let (what, unit) = match phases.basis {
        Basis::StallTime => ("CPU msec of all threads", 1_000_000),
        Basis::DramLines => ("lines", 1),
        Basis::MemoryLoads => ("loads", 1),
    };
    page.line(&format!("     samples       weight         near          far  Name ({what})"));
    for r in phases.regions.iter().take(MOST_REGIONS) {
        let inside = if r.node == 0 { String::new() } else { format!("{}  => ", phases.nodes[r.node].name) };
        let number = |n: u64| right(&counts(n / unit), 13);
        let (weight, near, far) = (number(r.weight), number(r.near), number(r.far));
        let samples = right(&count(r.samples), 12);
        page.line(&format!("{samples}{weight}{near}{far}  {inside}{}", r.function));
    }
}

/// `placed in init (99 %); far use in solve (90 %), in check (10 %); 312 samples`, of a finding.
pub(super) fn of_finding(f: &Finding) -> Option<String> {
    let phases = f.phases.as_ref()?;
    let list = |list: &[FindingPhase]| {
        let large = list.iter().enumerate().filter(|(i, p)| *i == 0 || p.share >= LEAST_OF_FINDING);
        let words = large.take(2).map(|(_, p)| {
            let name = match p.name.as_deref() {
                None => "at a time that was not seen".to_owned(),
                Some("") => "outside of phases".to_owned(),
                Some(name) => format!("in {}", shorten(name, 32)),
            };
            format!("{name} ({})", percent(Some(p.share)))
        });
        words.collect::<Vec<_>>().join(", ")
    };
    Some(format!(
        "placed {}; far use {}; {} samples",
        list(&phases.placed_in),
        list(&phases.paid_in),
        count(phases.samples)
    ))
}

fn paid(page: &mut Page, phases: &PhaseReport) {
    if phases.paid.is_empty() {
        return;
    }
    page.heading("Which phase placed, which pays");
    let name = |i: usize| {
        if i == 0 { "outside of phases".to_owned() } else { format!("in `{}`", phases.nodes[i].name) }
    };
    let of = match phases.basis {
        Basis::StallTime => "of the time",
        Basis::DramLines => "of the lines",
        Basis::MemoryLoads => "of the loads",
    };
    for row in phases.paid.iter().take(MOST_PAID) {
        let placed = row.placed_in.map_or("at a time that was not seen".to_owned(), name);
        let share = percent(Some(row.share));
        page.bullet(&format!(
            "{}: placed {placed}, used from other nodes {}: {share} {of}",
            row.object,
            name(row.paid_in)
        ));
    }
}

fn metrics(page: &mut Page, phases: &PhaseReport) {
    if phases.metrics.is_empty() {
        return;
    }
    page.heading("Metrics of the program");
    page.line(&format!("{}         mean          min          max  Name", right("count", 12)));
    for m in &phases.metrics {
        let number = |v: f64| right(format!("{v:.6}").trim_end_matches('0').trim_end_matches('.'), 13);
        let inside = if m.node == 0 { String::new() } else { format!("{} => ", phases.nodes[m.node].name) };
        page.line(&format!(
            "{}{}{}{}  {inside}{}",
            right(&count(m.count), 12),
            number(m.sum / m.count.max(1) as f64),
            number(m.min),
            number(m.max),
            m.name
        ));
    }
}

fn unbalanced(page: &mut Page, phases: &PhaseReport) {
    if phases.unbalanced.is_empty() {
        return;
    }
    page.heading("Calls that do not pair");
    for u in phases.unbalanced.iter().take(MOST_UNBALANCED) {
        let begun = u.begun_at.as_deref().unwrap_or("an unknown place");
        let ended = u.ended_at.as_deref();
        let times = if u.count == 1 { String::new() } else { format!(", {} times", count(u.count)) };
        let what = match (u.how.as_str(), ended) {
            ("ended without a beginning", Some(end)) => match u.begun_at {
                Some(_) => format!("ended at {end}, but it was over: begun at {begun}, left without an end"),
                None => format!("ended at {end}, but this process is in no phase of that name"),
            },
            ("left without an end", Some(end)) => {
                format!("begun at {begun}; the end at {end} is of a phase around it")
            }
            (how, Some(end)) => format!("begun at {begun}, {how} at {end}"),
            (how, None) => format!("begun at {begun}, {how}"),
        };
        page.bullet(&format!("`{}`: {what}{times}", u.name));
    }
    if phases.unbalanced.len() > MOST_UNBALANCED {
        page.paragraph(&format!("{} more are in the JSON.", phases.unbalanced.len() - MOST_UNBALANCED));
    }
}

fn notes(page: &mut Page, report: &Report, phases: &PhaseReport, q: Quantity) {
    page.blank();
    if report.region == nearfar_analyze::Region::Marked {
        page.paragraph(
            "Samples are of the region of interest only; times, calls, faults and bytes are of the whole run.",
        );
    }
    let unknown = phases.nodes.first().and_then(|n| n.all.inclusive.page_node_unknown_share());
    if let (Quantity::Far | Quantity::Near, Some(share)) = (q, unknown.filter(|&share| share > 0.0)) {
        page.paragraph(&format!(
            "For {} of what was sampled on memory the node of the page is unknown: it is neither far nor near. A phase \
             with more than {} of it is shown as unknown.",
            percent(Some(share)),
            percent(Some(MOST_UNKNOWN))
        ));
    }
    let counted: u64 = phases.nodes.iter().map(|n| n.all.counted_calls).sum();
    if counted > 0 {
        let time = match phases.clock.as_str() {
            "simulated" => "their number is exact, their time is unknown and in the phase around, as are",
            _ => "their number and time are exact, but of the phase around are",
        };
        page.paragraph(&format!(
            "{} calls began too often to be recorded one by one: {time} samples, faults and allocations in them.",
            count(counted)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_read_as_tau_prints_them() {
        assert_eq!([134_000, 1_231_000_000, 150_830_000_000].map(msec), ["0.134", "1,231", "2:30.830"]);
        assert_eq!([1418, 4_047_594_115, 1_010_000_000].map(counts), ["1418", "4.048E+09", "1.010E+09"]);
    }
}
