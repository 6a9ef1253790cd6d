//! The report on one screen: verdict, findings, what to type next, then the tables as far as they fit.
//!
//! The order is the order of need: is it NUMA, which objects, which line placed them, which threads use them, what to
//! change, how to verify it. The evidence is for `--details` ([`super::text::to_details`]).

mod findings;
mod words;

use super::counted::{in_windows, seconds};
use super::layout::*;
use super::sections::{assumed_figures, narrow};
use super::text::of_time;
use findings::{FINDINGS, findings};
use nearfar_analyze::{
    Basis, Finding, FunctionRow, MayNotWait, ObjectRow, Report, THRESHOLD, Verdict, WeakFigure,
};
use nearfar_figures::percent::number;
use words::{of_what, part, pattern, short};

/// Lines of a screen. // chosen: what a terminal of 80 by 40 shows at once
const LINES: usize = 40;
/// Rows of the tables at most.
const OBJECTS: usize = 6;
const THREADS: usize = 4;
const FUNCTIONS: usize = 3;
/// Least share of an object that no finding names, and of a function, to have a row.
const LEAST_SHARE: f64 = 0.05;
/// Fewest sampled lines that have tables: of three, each is a third of everything. `--details` shows them. // chosen
const LEAST_LINES: u64 = 10;
/// Fewest samples, and the largest share of unknown nodes, of good data. // chosen: what a verdict needs
const GOOD: (u64, f64) = (300, nearfar_analyze::MOST_UNKNOWN);

/// The report as text of about `width` columns; `color` adds terminal styles. `name`: the recording's. `recording`: what
/// is typed behind `nearfar fix` and `nearfar diff` to judge it in the same way: its path, and options before it.
pub fn to_text(report: &Report, name: &str, recording: &str, width: usize, color: bool) -> String {
    let r = &super::paths::brief(report);
    let mut page = Page::new(width, color);
    verdict(&mut page, r);
    findings(&mut page, r, recording);
    let mut end = Page::new(width, false);
    quality(&mut end, r, name);
    let left = |page: &Page, end: &Page| LINES.saturating_sub(page.lines() + end.lines());
    let few = r.counters.is_some() && r.samples() < LEAST_LINES;
    if r.samples() > 0 && (!few || r.objects.iter().any(|o| o.remote_share_exact)) {
        let room = left(&page, &end);
        objects(&mut page, r, room);
    }
    if r.samples() > 0 && !few {
        let room = left(&page, &end);
        threads(&mut page, r, room);
        let room = left(&page, &end);
        functions(&mut page, r, room);
    }
    let room = left(&page, &end);
    notes(&mut page, r, room);
    quality(&mut page, r, name);
    page.finish()
}

fn verdict(page: &mut Page, r: &Report) {
    let share = of_time(r);
    let machine = match r.machine.assumed {
        true => format!("{} (assumed)", r.machine.name),
        false => r.machine.name.clone(),
    };
    let takes = if r.machine.assumed { "would take" } else { "takes" };
    let far = match (r.remote_time_share, r.basis) {
        (Some(_), Basis::StallTime) => format!("far memory {takes} {share} of the time on {machine}"),
        (Some(_), Basis::DramLines | Basis::MemoryLoads) => {
            format!("{share} of {} is remote on {machine}", r.basis.words())
        }
        (None, _) => format!("memory placement on {machine}"),
    };
    let first = r.findings.first();
    let (style, word, text) = match r.verdict {
        Verdict::Affected if first.is_some_and(Finding::shares_lines) => {
            (Style::Bad, "AFFECTED", format!("nodes take cache lines from each other on {machine}"))
        }
        Verdict::Affected if first.is_some_and(|f| f.kind == "crowded_memory") => {
            (Style::Bad, "AFFECTED", format!("one node's memory is the bottleneck on {machine}; {far}"))
        }
        Verdict::Affected => (Style::Bad, "AFFECTED", far),
        Verdict::Clean if r.remote_time_share.is_some_and(|s| s > THRESHOLD) => {
            (Style::Good, "CLEAN", format!("although {far}"))
        }
        Verdict::Clean => (Style::Good, "CLEAN", far),
        Verdict::Unknown if r.ended_early.is_some() => {
            (Style::Unsure, "UNKNOWN", "the run ended early: no verdict".to_owned())
        }
        Verdict::Unknown => {
            let why = match r.open_because() {
                Some(MayNotWait::Cached(_)) => {
                    format!("caches may hold what is on far pages; no verdict on {machine}")
                }
                Some(MayNotWait::Computing(_)) => {
                    format!("code that uses far pages may not wait for them; no verdict on {machine}")
                }
                None => {
                    format!("too little is known to tell whether memory placement costs time on {machine}")
                }
            };
            (Style::Unsure, "UNKNOWN", why)
        }
    };
    // The gap stays when lines are wrapped.
    page.headline(style, &format!("{word}\u{a0} {text}."));
    if let Some(early) = r.ended_early.as_deref().filter(|_| r.verdict == Verdict::Affected) {
        page.headline(Style::Unsure, &format!("The run ended early ({early}): this is the time up to then."));
    }
    if let (Some(t), Some(c)) = (&r.time, &r.counters) {
        // Emulated cpus do not wait for such lines as real ones do.
        let waits = match r.findings.iter().any(|f| f.shares_lines() && f.predicted.is_some()) {
            true => ", some waits for other cores' lines left out".to_owned(),
            false => c
                .memory_bound_share
                .map_or(String::new(), |w| format!(", {} of it waiting for memory", part(w))),
        };
        let time = seconds(t.seconds, t.low, t.high);
        page.line(&shorten(&format!("time      {time} on that machine{waits}"), page.width));
    }
    // A verdict with a finding is explained by it.
    if r.verdict != Verdict::Affected || first.is_none() {
        page.item(0, "why", &r.verdict_why);
    }
}

fn objects(page: &mut Page, r: &Report, room: usize) {
    if room < 4 || r.objects.is_empty() {
        return;
    }
    let named = |o: &ObjectRow| r.findings.iter().take(FINDINGS).any(|f| f.objects.contains(&o.name));
    let large = |o: &&ObjectRow| o.stall_share >= LEAST_SHARE || named(o) || r.objects.len() == 1;
    let shown: Vec<&ObjectRow> = r.objects.iter().filter(large).take(OBJECTS.min(room - 3)).collect();
    let at = if page.width < 76 { 14 } else { 20 };
    let name = page.width.saturating_sub(46 + at).clamp(10, 30);
    // The last column of a narrow terminal would be cut to nothing.
    let roomy = page.width >= 70;
    page.heading(&format!(
        "{} {} {}  {} {} {}",
        left("Object", name),
        right("size", 9),
        right(of_what(r), 7),
        left("far", 12),
        left("allocated", at),
        if roomy { "used in" } else { "" },
    ));
    for o in &shown {
        let allocated = match (o.kind.as_str(), o.allocated_for.as_ref().or(o.allocated_at.as_ref())) {
            ("static", _) => "static".to_owned(),
            (_, Some(at)) => at.clone(),
            _ if o.name_from == "allocator" => "allocator".to_owned(),
            ("heap" | "small heap", None) => "line unknown".to_owned(),
            (kind, None) => kind.to_owned(),
        };
        page.line(&shorten(
            &format!(
                "{} {} {}  {} {} {}",
                left(&shorten(&many(o), name), name),
                right(&size(o.bytes), 9),
                right(&part(o.stall_share), 7),
                left(&narrow(o.remote_share, o.remote_share_ci), 12),
                left(&shorten(&allocated, at), at),
                if roomy { pattern(o.pattern) } else { "" }
            ),
            page.width,
        ));
    }
    let rest: f64 = r.objects.iter().map(|o| o.stall_share).sum::<f64>()
        - shown.iter().map(|o| o.stall_share).sum::<f64>();
    if r.objects.len() > shown.len() {
        let more = r.objects.len() - shown.len();
        let label = if more == 1 { "1 other".to_owned() } else { format!("{more} others") };
        page.line(&format!("{} {} {}", left(&label, name), right("", 9), right(&part(rest.max(0.0)), 7)));
    }
}

/// `rows ×4,000`.
fn many(o: &ObjectRow) -> String {
    let mut name = short(&o.name);
    // The column of the place of allocation tells those of one function apart.
    if let (true, Some((function, _))) = (name.starts_with("in "), name.split_once(" at ")) {
        name = function.to_owned();
    }
    if o.count > 1 { format!("{name} ×{}", count(o.count)) } else { name }
}

fn threads(page: &mut Page, r: &Report, room: usize) {
    // A matrix with one column says nothing.
    if room < 4 || r.machine.node_ids.len() < 2 || r.threads.is_empty() {
        return;
    }
    type Row = (String, Vec<f64>, f64);
    let by_node = r.threads.len() > THREADS.min(room - 2);
    let rows: Vec<Row> = if by_node {
        let one = |(id, row): (&u32, &Vec<f64>)| {
            let of: Vec<_> = r.threads.iter().filter(|t| t.node == Some(*id)).collect();
            let all: f64 = of.iter().map(|t| t.share).sum();
            (format!("node {id} ({})", plural(of.len(), "thread")), row.clone(), all)
        };
        r.machine.node_ids.iter().zip(&r.node_matrix).map(one).filter(|row| row.2 > 0.0).collect()
    } else {
        let mut all: Vec<_> = r.threads.iter().collect();
        all.sort_by_key(|t| t.index);
        let node = |n: Option<u32>| n.map_or("node unknown".to_owned(), |n| format!("node {n}"));
        all.iter()
            .map(|t| (format!("{} ({})", t.index, node(t.node)), t.by_page_node.clone(), t.share))
            .collect()
    };
    if rows.is_empty() {
        return;
    }
    let label = rows.iter().map(|r| columns(&r.0)).max().unwrap_or(0).max(18);
    // The units have less to say than a node: they go where two columns do not fit beside them.
    let units = if page.width >= label + 16 + 27 + 18 { 27 } else { 0 };
    let fit = (page.width.saturating_sub(label + 16 + units) / 9).clamp(1, 8);
    let ids = &r.machine.node_ids[..r.machine.node_ids.len().min(fit)];
    let head: String = ids.iter().map(|id| right(&format!("node {id}"), 9)).collect();
    let what = if by_node { "Threads of" } else { "Thread" };
    let title = format!("{}{head}{}", left(what, label), right("unknown/waiting", 16));
    page.heading(&if units > 0 { format!("{title}   % by node of the page") } else { title });
    for (name, row, all) in rows.iter().take(room - 2) {
        let seen: f64 = row.iter().sum();
        let cells: String = (0..ids.len())
            .map(|i| match row.get(i) {
                Some(&s) if s > 0.0 => right(&number(s), 9),
                _ => right("·", 9),
            })
            .collect();
        let rest = (all - seen).max(0.0);
        let rest = if rest < 0.0005 { "·".to_owned() } else { number(rest) };
        page.line(&format!("{}{cells}{}", left(name, label), right(&rest, 16)));
    }
}

fn functions(page: &mut Page, r: &Report, room: usize) {
    let large = |f: &&FunctionRow| f.stall_share >= LEAST_SHARE || r.functions.len() == 1;
    let shown: Vec<&FunctionRow> =
        r.functions.iter().filter(large).take(FUNCTIONS.min(room.saturating_sub(2))).collect();
    if shown.is_empty() {
        return;
    }
    let name = page.width.saturating_sub(46).clamp(16, 44);
    page.heading(&format!(
        "{} {}  {} hottest line",
        left("Function", name),
        right(of_what(r), 7),
        left("far", 8)
    ));
    for f in shown {
        let at = f.lines.first().and_then(|l| l.at.as_deref()).or(f.module.as_deref());
        let row = format!(
            "{} {}  {} ",
            left(&shorten(&f.function, name), name),
            right(&part(f.stall_share), 7),
            left(&far(f, part), 8),
        );
        let at = shorten(at.unwrap_or("unknown"), page.width.saturating_sub(columns(&row)).max(8));
        page.line(&format!("{row}{at}"));
    }
}

/// Notes as far as there is room, what was lost or cannot be read first: the store's remarks are the last ones.
fn notes(page: &mut Page, r: &Report, room: usize) {
    let mut text = Page::new(page.width, false);
    for note in r.notes.iter().rev() {
        let mut more = Page::new(page.width, false);
        more.bullet(note);
        if text.lines() + more.lines() + 2 <= room {
            text.bullet(note);
        }
    }
    if text.lines() > 0 {
        page.heading("Notes");
        text.finish().lines().for_each(|line| page.line(line));
    }
}

/// How good the data is, what was assumed, and where the rest is.
fn quality(page: &mut Page, r: &Report, name: &str) {
    page.blank();
    let samples = r.samples();
    let sampled = || r.sources.iter().filter(|u| u.source != "pages");
    let lost: u64 = sampled().map(|u| u.lost).sum();
    let known = sampled().all(|u| u.lost_known);
    let losses = match (lost, known) {
        (0, true) => "none lost".to_owned(),
        (n, true) => format!("{} lost", count(n)),
        (_, false) => "an unknown number lost".to_owned(),
    };
    let windows = r.counters.as_ref().and_then(|c| c.windows);
    let counted = windows.map_or_else(|| "every line counted".to_owned(), |windows| in_windows(&windows));
    let mut parts = vec![match (samples, r.counters.is_some()) {
        (0, true) => format!("{counted}, none sampled"),
        (0, false) => "no samples, so every share is unknown".to_owned(),
        (n, true) if n < LEAST_LINES => {
            format!("{counted}, {} sampled, too few for tables, {losses}", count(n))
        }
        (n, true) => format!("{counted}, {} sampled, {losses}", count(n)),
        (n, false) => format!("{} samples, {losses}", count(n)),
    }];
    if samples > 0 {
        parts.push(format!("node of the page unknown {}", part(r.page_node_unknown_share)));
    }
    if let Some(cpu) = r.cpu.filter(|c| c.seconds > 0.0) {
        parts.push(format!("kernel {} of the CPU time", part(cpu.kernel_seconds / cpu.seconds)));
    }
    if r.spinning_share >= 0.05 {
        parts.push(format!("waiting for other threads {}", part(r.spinning_share)));
    }
    let enough = samples >= GOOD.0 || r.counters.is_some();
    let good = enough && known && r.page_node_unknown_share <= GOOD.1 && lost * 20 <= samples;
    if r.ended_early.is_some() {
        parts.insert(0, "the run ended early".to_owned());
    }
    let word = if good && r.ended_early.is_none() { "good" } else { "limited" };
    page.item(0, "quality", &format!("{word}: {}", parts.join("; ")));
    if r.machine.assumed {
        let text = format!(
            "threads mapped {}; each page on the node of the thread that touched it first; recorded on {}",
            r.machine.binding, r.recorded_on
        );
        page.item(0, "assumed", &text);
    }
    if let Some(figures) = assumed_figures(r) {
        page.item(0, if r.machine.assumed { "" } else { "assumed" }, &figures);
    }
    // On an assumed machine what threads and pages are taken to do matters more.
    if let Some(t) = r.time.as_ref().filter(|_| !r.machine.assumed) {
        let counted_above = |f: &&WeakFigure| r.machine.assumed_figures.iter().any(|a| a.name == f.name);
        let weak = t.weak_figures.iter().filter(|f| !counted_above(f)).count();
        if weak > 0 {
            let text = format!(
                "fitted, assumed or not checked against a source: {} of the machine",
                plural(weak, "figure")
            );
            page.item(0, if r.machine.assumed_figures.is_empty() { "assumed" } else { "" }, &text);
        }
    }
    super::recorded::line(page, r, name, "");
    let notes = match r.notes.len() {
        0 => String::new(),
        n => format!(" and {}", plural(n, "note")),
    };
    page.item(
        0,
        "more",
        &format!("--details evidence, tables{notes}; --callers call paths; --json everything"),
    );
}

/// The paths of calls that most samples were taken in.
pub fn callers(r: &Report, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    if r.call_paths.is_empty() {
        page.blank();
        page.paragraph(
            "No call paths were recorded: `nearfar record --call-graph dwarf` records them for programs without frame \
             pointers, too.",
        );
        return page.finish();
    }
    page.heading(&format!("{}{}   called by", right(of_what(r), 7), right("far", 9)));
    for path in &r.call_paths {
        let start = format!("{}{}   ", right(&part(path.share), 7), right(&part(path.remote), 9));
        for (i, frame) in path.frames.iter().enumerate() {
            let before = if i == 0 { start.clone() } else { " ".repeat(columns(&start) + 2 * i.min(10)) };
            page.line(&shorten(&format!("{before}{frame}"), page.width));
        }
    }
    page.finish()
}
