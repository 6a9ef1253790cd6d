//! The report's sections below its head.

use super::counted::bound_most;
use super::layout::*;
use super::thread::thread;
use nearfar_analyze::{
    Basis, Finding, FunctionRow, Interval, ObjectRow, Pattern, Report, TouchRow, UseRow, Verdict,
};
use nearfar_machine::{DistanceClass, LINE_BYTES};
use nearfar_recording::ObjectKind;

/// Rows shown of each list; the JSON has them all.
const FINDINGS: usize = 3;
const OBJECTS: usize = 8;
const FUNCTIONS: usize = 5;
/// Least share of an object that no finding names, and of a function, to be listed.
const LEAST_SHARE: f64 = 0.01;
/// Columns of the resource that bound a function's lines.
const BOUND: usize = 24;
/// Columns of a narrow page beside an object's name, and of these of the remote share.
const NARROW: usize = 49;
const REMOTE: usize = 12;
/// Above this, threads are summed by node.
const THREADS: usize = 16;

/// `; local 49.9 %, other socket 50.1 %`, or nothing if unknown.
pub(super) fn distances(r: &Report) -> String {
    if r.distance.is_empty() || r.remote_share.is_none() {
        return String::new();
    }
    let parts: Vec<String> = r
        .distance
        .iter()
        .map(|d| {
            let class = match d.class {
                DistanceClass::Local => "local",
                DistanceClass::SameSocket => "same socket",
                DistanceClass::OtherSocket => "other socket",
                DistanceClass::CpuLess => "node without cpus",
            };
            match d.share {
                s if s > 0.0 => format!("{class} {}", percent(Some(s))),
                _ => format!("{class} none seen"),
            }
        })
        .collect();
    format!("; {}", parts.join(", "))
}

/// A finding's kind in words.
pub(crate) fn kind(kind: &str) -> String {
    let words = match kind {
        "serial_first_touch" => "Serial first touch: one thread placed pages that others use",
        "schedule_mismatch" => "Initialised by other threads than those that work on it",
        "offset_mismatch" | "halo_mismatch" => "Parts are shifted between initialisation and use",
        "allocator_placed_pages" => "The allocator placed the pages before the program did",
        "huge_page_straddling" => "Huge pages straddle the parts of two nodes",
        "unpinned_threads" => "Threads are not pinned and leave their data behind",
        "capacity_overflow" => "A part is not on the node that touched it first",
        "shared_read_mostly" => "One table that every thread reads is on one node",
        "shared_read_write" => "One table that every thread reads and writes is on one node",
        "allocated_by_another_thread" => "Threads work in memory that another thread allocated and touched",
        "memory_on_cpuless_node" => "Memory on a node without cpus is used all the time",
        "placed_by_policy" => "A memory policy placed pages away from the threads that use them",
        "crowded_memory" => "One node's memory has too much to do",
        "contended_line" => "Nodes write to the same variable",
        "false_sharing" => "Nodes write to the same cache lines",
        other => {
            let mut words = other.replace('_', " ");
            if let Some(first) = words.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            return words;
        }
    };
    words.to_owned()
}

pub(super) fn findings(page: &mut Page, r: &Report) {
    if r.findings.is_empty() {
        return;
    }
    let shown = r.findings.len().min(FINDINGS);
    page.heading(match (r.verdict, r.findings.len()) {
        (Verdict::Clean, _) => "Small findings",
        (_, 1) => "Finding",
        _ => "Findings",
    });
    for finding in &r.findings[..shown] {
        one_finding(page, r, finding);
    }
    more(page, r.findings.len() - shown, "finding");
}

fn one_finding(page: &mut Page, r: &Report, f: &Finding) {
    let width = page.width;
    let objects: Vec<String> = f.objects.iter().take(4).map(|o| shorten(o, 32)).collect();
    let rest = match f.objects.len().saturating_sub(4) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let title = format!("{}. {}", f.rank, kind(&f.kind));
    page.paragraph(&title);
    if !objects.is_empty() {
        page.item(3, "objects", &format!("{}{rest}", objects.join(", ")));
    }
    let at = place(f.cause.function.as_deref(), f.cause.at.as_deref(), width.saturating_sub(16));
    let cause = match at {
        Some(at) => format!("{at}: {}", f.cause.text),
        None => f.cause.text.clone(),
    };
    page.item(3, "cause", &cause);
    if let Some(phases) = super::phases::of_finding(f) {
        page.item(3, "phases", &phases);
    }
    for (i, evidence) in f.evidence.iter().enumerate() {
        page.item(3, if i == 0 { "evidence" } else { "" }, evidence);
    }
    page.item(3, "advice", &f.advice);
    let (on, whose) = match f.objects.len() {
        0 => ("", "far pages"),
        1 => (" on this object", "this object's far pages"),
        _ => (" on these objects", "these objects' far pages"),
    };
    let at_risk = match r.basis {
        Basis::StallTime => format!(
            "{} of the time goes to {whose}. The gain may be smaller, because loads overlap and each is charged for the same wait",
            percent(Some(f.at_risk))
        ),
        Basis::DramLines if f.shares_lines() => {
            let of = if f.predicted.is_some() { "up to " } else { "" };
            format!("{of}{} of the cores' time waits for these lines", percent(Some(f.at_risk)))
        }
        Basis::DramLines | Basis::MemoryLoads => {
            format!("{} of {} is remote{on}", percent(Some(f.at_risk)), r.basis.words())
        }
    };
    page.item(3, "at risk", &at_risk);
    page.item(3, "predicted", &super::whatif::predicted(f));
}

/// `init at triad.c:12`, of at most `max` columns.
fn place(function: Option<&str>, at: Option<&str>, max: usize) -> Option<String> {
    match (function, at) {
        (Some(f), Some(at)) => {
            let at = shorten(at, max * 2 / 3);
            let f = shorten(f, max.saturating_sub(columns(&at) + 4).max(8));
            Some(format!("{f} at {at}"))
        }
        (Some(one), None) | (None, Some(one)) => Some(shorten(one, max)),
        (None, None) => None,
    }
}

fn more(page: &mut Page, n: usize, what: &str) {
    if n > 0 {
        page.line(&format!("   and {} more in the JSON", plural(n, what)));
    }
}

pub(super) fn objects(page: &mut Page, r: &Report) {
    if r.objects.is_empty() {
        return;
    }
    let beside = match r.basis {
        Basis::StallTime | Basis::MemoryLoads => 59,
        Basis::DramLines => 68,
    };
    // Figures are not cut: a narrow page has a range alone, or one column less.
    let roomy = page.width >= beside + 10;
    let beside = if roomy { beside } else { NARROW };
    let name = page.width.saturating_sub(beside).clamp(10, 40);
    let title = format!(
        "{} {} {}  {}",
        left("Objects", name),
        right("size", 9),
        right("share", 8),
        match r.basis {
            _ if !roomy => format!("{} threads", left("remote", REMOTE)),
            Basis::StallTime | Basis::MemoryLoads => format!("{} used by threads", left("remote (95 %)", 22)),
            Basis::DramLines => format!("{} {} bound then by", left("remote", 8), left("threads", 15)),
        }
    );
    page.heading(&title);
    let named = |o: &&ObjectRow| r.findings.iter().any(|f| f.objects.contains(&o.name));
    // A single object is listed however small: an empty table would say less.
    let large = |o: &&ObjectRow| o.stall_share >= LEAST_SHARE || r.objects.len() == 1;
    let shown: Vec<&ObjectRow> = r.objects.iter().filter(|o| large(o) || named(o)).take(OBJECTS).collect();
    for object in &shown {
        one_object(page, r, object, (name, roomy));
    }
    more(page, r.objects.len() - shown.len(), "object");
}

fn one_object(page: &mut Page, r: &Report, o: &ObjectRow, (name_width, roomy): (usize, bool)) {
    let name = match o.count {
        0 | 1 => shorten(&o.name, name_width),
        n => {
            // Of small ones only some were seen.
            let about = if o.kind == ObjectKind::SmallHeap.text() { "≈" } else { "" };
            let times = format!(" ×{about}{}", count(n));
            let room = name_width.saturating_sub(columns(&times));
            format!("{}{times}", shorten(&o.name, room))
        }
    };
    let pattern = match o.pattern {
        Pattern::Blocked => "in blocks",
        Pattern::Cyclic => "in turns",
        Pattern::AllOver => "all over",
        Pattern::OneThread => "by one thread",
        Pattern::OwnThread => "each by its own",
        Pattern::Unknown => "unknown",
    };
    let rest = match &o.dram {
        _ if !roomy => format!("{} {pattern}", left(&narrow(o.remote_share, o.remote_share_ci), REMOTE)),
        None => format!("{} {pattern}", left(&percent_ci(o.remote_share, o.remote_share_ci), 22)),
        Some(d) => {
            let remote = narrow(o.remote_share, o.remote_share_ci);
            format!("{} {} {}", left(&remote, 8), left(pattern, 15), bound_most(&d.bound))
        }
    };
    page.line(&shorten(
        &format!(
            "{} {} {}  {rest}",
            left(&name, name_width),
            right(&size(o.bytes), 9),
            right(&percent(Some(o.stall_share)), 8),
        ),
        page.width,
    ));
    // The program did not choose the place of stacks and mapped files: what is known of it is in the JSON.
    if matches!(o.kind.as_str(), "stack" | "file mapping") {
        return;
    }
    let room = (page.width / 2).saturating_sub(20).max(16);
    let allocated = match o.kind.as_str() {
        "static" => "static".to_owned(),
        _ => o.allocated_at.as_deref().map_or_else(
            || "allocated at unknown place".to_owned(),
            |at| {
                let led = o
                    .allocated_for
                    .as_ref()
                    .map_or(String::new(), |line| format!(" for {}", shorten(line, room)));
                format!("allocated {}{led}{}", shorten(at, room), helpers(&o.allocated_through))
            },
        ),
    };
    let placed = placed_by(r, &o.first_touch, room);
    let used = o
        .accessed_at
        .first()
        .and_then(|u| place(None, u.at.as_deref().or(u.function.as_deref()), room))
        .map_or_else(|| "used at unknown place".to_owned(), |at| format!("used {at}"));
    let line = format!("   {allocated}; {placed}; {used}");
    if columns(&line) <= page.width {
        page.line(&line);
    } else {
        // Names of files are what a reader looks for: a second line rather than half of them.
        page.line(&shorten(&format!("   {allocated}; {placed};"), page.width));
        page.line(&shorten(&format!("   {used}"), page.width));
    }
    if let Some(e) = &o.estimated_lines {
        let [lines, low, high] = [e.lines, e.low, e.high].map(|n| size(n.saturating_mul(LINE_BYTES)));
        page.line(&shorten(
            &format!("   moved {lines} ({low} to {high}) from and to memory, by the speed of its loops"),
            page.width,
        ));
    }
}

/// The functions that a line called for its memory: ` through memory()`, ` through take() and pool()`.
fn helpers(through: &[String]) -> String {
    let names: Vec<String> =
        through.iter().map(|h| format!("{}()", h.split(" (").next().unwrap_or(h))).collect();
    match names.as_slice() {
        [] => String::new(),
        [first @ .., last] if !first.is_empty() => format!(" through {} and {last}", first.join(", ")),
        [one, ..] => format!(" through {one}"),
    }
}

/// A share, or the range of it where that says more: `50.0 %`, `43–57 %`.
pub(super) fn narrow(share: Option<f64>, ci: Option<Interval>) -> String {
    match (share, ci) {
        (Some(_), Some(ci)) if ci.high - ci.low >= 0.01 => nearfar_figures::percent::range(ci.low, ci.high),
        _ => percent(share),
    }
}

/// Which threads placed most of the pages.
fn placed_by(r: &Report, touches: &[TouchRow], room: usize) -> String {
    let Some(first) = touches.first() else {
        return "placed by unknown".to_owned();
    };
    let threads = {
        let mut all: Vec<u32> = touches.iter().map(|t| t.thread).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let who = match threads {
        1 => thread(r, first.thread),
        n => format!("{n} threads"),
    };
    let node = match (threads, first.node) {
        (1, Some(node)) => format!(" (node {node})"),
        _ => String::new(),
    };
    let at = first.at.as_deref().or(first.function.as_deref());
    let at = at.map_or(String::new(), |at| format!(" {}", shorten(at, room)));
    format!("placed by {who}{node}{at}")
}

/// Whose accesses went to which node's memory.
pub(super) fn nodes(page: &mut Page, r: &Report) {
    // A matrix with one column says nothing.
    if r.machine.node_ids.len() < 2 {
        return;
    }
    // The counted traffic is the same and says more.
    if r.counters.is_some() {
        return;
    }
    let by_node = r.threads.len() > THREADS || r.threads.is_empty();
    let rows: Vec<(String, Option<f64>, &[f64])> = if by_node {
        let ids = r.machine.node_ids.iter();
        ids.zip(&r.node_matrix)
            .map(|(id, row)| {
                let threads = r.threads.iter().filter(|t| t.node == Some(*id)).count();
                let label = format!("node {id} ({})", plural(threads, "thread"));
                (label, None, row.as_slice())
            })
            .collect()
    } else {
        let mut threads: Vec<_> = r.threads.iter().collect();
        threads.sort_by_key(|t| t.index);
        threads
            .into_iter()
            .map(|t| {
                let node = t.node.map_or("node unknown".into(), |n| format!("node {n}"));
                let label = format!("{} {} ({node})", t.index, shorten(&t.name, 14));
                (label, Some(t.share), t.by_page_node.as_slice())
            })
            .collect()
    };
    if rows.is_empty() {
        return;
    }
    let label = rows.iter().map(|r| columns(&r.0)).max().unwrap_or(0).max(18);
    // As many columns as fit; the JSON has the rest.
    let fit = (page.width.saturating_sub(label) / 9).max(1);
    let ids = &r.machine.node_ids[..r.machine.node_ids.len().min(fit)];
    let head: String = ids.iter().map(|id| right(&format!("node {id}"), 9)).collect();
    let what = if by_node { "From cpus of" } else { "Thread" };
    let of = format!("% of {}, by node of the page", units(r));
    let title = format!("{}{head}", left(what, label));
    // The unit is above the columns where it does not fit beside them.
    match columns(&title) + 3 + columns(&of) <= page.width {
        true => page.heading(&format!("{title}   {of}")),
        false => {
            page.heading(&format!("{of}:"));
            page.line(&title);
        }
    }
    for (name, share, row) in rows {
        // Samples without a known node are in no column: not the same as none.
        let seen: f64 = row.iter().sum();
        let blind = seen <= 0.0 && share.is_some_and(|s| s > 0.0);
        let cells: String = (0..ids.len())
            .map(|i| match row.get(i) {
                _ if blind => right("unknown", 9),
                None => right("unknown", 9),
                Some(&s) if s <= 0.0 => right("·", 9),
                Some(&s) => right(&nearfar_figures::percent::number(s), 9),
            })
            .collect();
        page.line(&format!("{}{cells}", left(&name, label)));
    }
    more(page, r.machine.node_ids.len() - ids.len(), "node");
}

pub(super) fn functions(page: &mut Page, r: &Report) {
    if r.functions.is_empty() {
        return;
    }
    let beside = match r.basis {
        Basis::DramLines if page.width >= 52 + BOUND => 45 + BOUND,
        _ => 45,
    };
    let bound = beside > 45;
    let name = (page.width.saturating_sub(beside)).clamp(16, 44);
    page.heading(&format!(
        "{} {}  {} {}most at",
        left("Functions", name),
        right("share", 8),
        left("remote", 8),
        if bound { left("bound then by", BOUND) } else { String::new() }
    ));
    let large = |f: &&FunctionRow| f.stall_share >= LEAST_SHARE || r.functions.len() == 1;
    for function in r.functions.iter().filter(large).take(FUNCTIONS) {
        one_function(page, function, name, bound);
    }
}

fn one_function(page: &mut Page, f: &FunctionRow, name: usize, bound: bool) {
    let at: Option<&UseRow> = f.lines.first();
    let at = at.and_then(|l| l.at.as_deref()).or(f.module.as_deref());
    let bound =
        f.dram.as_ref().filter(|_| bound).map_or(String::new(), |d| left(&bound_most(&d.bound), BOUND));
    let room = page.width.saturating_sub(name + 21 + columns(&bound));
    page.line(&format!(
        "{} {}  {} {bound}{}",
        left(&shorten(&f.function, name), name),
        right(&percent(Some(f.stall_share)), 8),
        left(&far(f, |share| percent(Some(share))), 8),
        shorten(at.unwrap_or("unknown"), room)
    ));
}

pub(super) fn notes(page: &mut Page, r: &Report) {
    let nothing = r.samples() == 0 && r.counters.is_none();
    if r.notes.is_empty() && !nothing {
        return;
    }
    page.heading("Notes");
    if nothing {
        page.bullet("The recording has no samples, so every share is unknown: there may be remote accesses.");
    }
    for note in &r.notes {
        page.bullet(note);
    }
}

/// How many figures of the machine are assumed, and from what; `None` if none is.
pub(super) fn assumed_figures(r: &Report) -> Option<String> {
    let figures = &r.machine.assumed_figures;
    if figures.is_empty() {
        return None;
    }
    let medians = figures.iter().filter(|f| f.source.contains(nearfar_machine::assumed::WHOSE)).count();
    let from = match medians == figures.len() {
        true => format!(": medians of the {}", nearfar_machine::assumed::WHOSE),
        false => String::new(),
    };
    let many = plural(figures.len(), "figure");
    Some(format!("{many} of the machine{from} (sources: --json)"))
}
