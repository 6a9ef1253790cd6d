//! The report on one screen: verdict, findings, what to type next, then the tables as far as they fit.
//!
//! The order is the order of need: is it NUMA, which objects, which line placed them, which threads use them, what to
//! change, how to verify it. The evidence is for `--details` ([`super::text::to_details`]).

use super::counted::seconds;
use super::layout::*;
use super::sections::{kind, narrow};
use super::text::remote;
use nearfar_analyze::{
    Basis, Finding, FunctionRow, ObjectRow, Pattern, Predicted, Report, THRESHOLD, TouchRow, Verdict,
};
use nearfar_figures::percent::number;

/// Lines of a screen. // chosen: what a terminal of 80 by 40 shows at once
const LINES: usize = 40;
/// Findings, and lines of what to change in each; the rest is in the details.
const FINDINGS: usize = 3;
const CHANGE: usize = 2;
/// Rows of the tables at most.
const OBJECTS: usize = 6;
const THREADS: usize = 4;
const FUNCTIONS: usize = 3;
/// Least share of an object that no finding names, and of a function, to have a row.
const LEAST_SHARE: f64 = 0.05;
/// Fewest samples, and the largest share of unknown nodes, of good data. // chosen: what a verdict needs
const GOOD: (u64, f64) = (300, nearfar_analyze::MOST_UNKNOWN);

/// The report as text of about `width` columns; `color` adds terminal styles. `recording`: what
/// is typed behind `nearfar fix` and `nearfar diff` to judge it in the same way: its path, and options before it.
pub fn to_text(report: &Report, recording: &str, width: usize, color: bool) -> String {
    let r = &super::paths::brief(report);
    let mut page = Page::new(width, color);
    verdict(&mut page, r);
    findings(&mut page, r, recording);
    let mut end = Page::new(width, false);
    quality(&mut end, r);
    let left = |page: &Page, end: &Page| LINES.saturating_sub(page.lines() + end.lines());
    if r.samples() > 0 {
        let room = left(&page, &end);
        objects(&mut page, r, room);
        let room = left(&page, &end);
        threads(&mut page, r, room);
        let room = left(&page, &end);
        functions(&mut page, r, room);
    }
    let room = left(&page, &end);
    notes(&mut page, r, room);
    quality(&mut page, r);
    page.finish()
}

fn part(share: f64) -> String {
    percent(Some(share))
}

fn verdict(page: &mut Page, r: &Report) {
    let share = remote(r.remote_time_share, r.remote_time_share_ci, r.remote_share_exact);
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
        // Else its share of the time is known.
        Verdict::Unknown if r.caches_may_hold.is_some() && r.remote_time_share.is_none() => (
            Style::Unsure,
            "UNKNOWN",
            format!("caches may hold what is on far pages; no verdict on {machine}"),
        ),
        Verdict::Unknown => (
            Style::Unsure,
            "UNKNOWN",
            format!("too little is known to tell whether memory placement costs time on {machine}"),
        ),
    };
    // The gap stays when lines are wrapped.
    page.headline(style, &format!("{word}\u{a0} {text}."));
    if let Some(early) = r.ended_early.as_deref().filter(|_| r.verdict == Verdict::Affected) {
        page.headline(Style::Unsure, &format!("The run ended early ({early}): this is the time up to then."));
    }
    if let (Some(t), Some(c)) = (&r.time, &r.counters) {
        let waits =
            c.memory_bound_share.map_or(String::new(), |w| format!(", {} of it waiting for memory", part(w)));
        let time = seconds(t.seconds, t.low, t.high);
        page.line(&shorten(&format!("time      {time} on that machine{waits}"), page.width));
    }
    // A verdict with a finding is explained by it.
    if r.verdict != Verdict::Affected || first.is_none() {
        page.item(0, "why", &r.verdict_why);
    }
}

fn findings(page: &mut Page, r: &Report, recording: &str) {
    for finding in r.findings.iter().take(FINDINGS) {
        one_finding(page, r, finding);
    }
    let more = r.findings.len().saturating_sub(FINDINGS);
    if more > 0 {
        page.line(&format!("   and {}: --details", plural(more, "smaller finding")));
    }
    let Some(first) = r.findings.first() else { return };
    page.blank();
    if first.repairs.iter().any(|p| p.not_placeable.is_none()) {
        let fix = format!("or        nearfar fix {recording}");
        let told = format!("{fix} (a placement file: no recompile)");
        page.line(if columns(&told) <= page.width { &told } else { &fix });
    }
    let record = match r.basis {
        Basis::DramLines => "record the changed program in the same way with -o after.nearfar".to_owned(),
        Basis::StallTime | Basis::MemoryLoads => {
            format!("nearfar record -o after.nearfar -- {}", r.command.join(" "))
        }
    };
    let diff = format!("nearfar diff {recording} after.nearfar");
    let both = format!("verify    {record}; {diff}");
    // To be copied: what does not fit is two lines, and no command is broken.
    match columns(&both) <= page.width {
        true => page.line(&both),
        false => {
            match r.basis {
                // A sentence.
                Basis::DramLines => page.item(0, "verify", &record),
                Basis::StallTime | Basis::MemoryLoads => page.line(&format!("verify    {record}")),
            }
            page.line(&format!("          {diff}"));
        }
    }
}

fn one_finding(page: &mut Page, r: &Report, f: &Finding) {
    let width = page.width;
    page.blank();
    let title = kind(&f.kind);
    let title = format!("{}. {}", f.rank, title.split(':').next().unwrap_or_default());
    let gain = format!("gain: {}", gained(f));
    let room = width.saturating_sub(columns(&gain) + 1);
    page.line(&format!("{}{gain}", left(&shorten_end(&title, room.saturating_sub(1)), room)));
    let objects: Vec<&ObjectRow> =
        f.objects.iter().filter_map(|name| r.objects.iter().find(|o| o.name == *name)).collect();
    let mut item = |label: &str, text: String| {
        page.line(&shorten(&format!("   {}{text}", super::layout::left(label, 9)), width));
    };
    if !f.objects.is_empty() {
        let names: Vec<String> = f.objects.iter().map(|o| shorten(o, 28)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        item("objects", format!("{}{}", some(&names), sizes(&objects)));
    }
    let cause =
        [&f.cause.at, &f.cause.function].into_iter().flatten().cloned().collect::<Vec<_>>().join("  ");
    if f.shares_lines() {
        item("written", if cause.is_empty() { "unknown".to_owned() } else { cause });
    } else if f.objects.is_empty() {
        item("seen", f.cause.text.clone());
    } else {
        item("placed", placed(r, f, &objects));
    }
    if !objects.is_empty() {
        item("used", used(r, &objects));
    }
    let phases = super::phases::of_finding(f);
    // A finding is six lines with it, too: --details has the whole advice.
    let lines = if phases.is_some() { CHANGE - 1 } else { CHANGE };
    if let Some(phases) = phases {
        item("phases", phases);
    }
    let text = wrap(&f.advice, width.saturating_sub(12));
    for (i, line) in text.iter().take(lines).enumerate() {
        let last = i + 1 == lines && text.len() > lines;
        let line =
            if last { format!("{} …", shorten_end(line, width.saturating_sub(14))) } else { line.clone() };
        page.line(&format!("   {}{line}", super::layout::left(if i == 0 { "change" } else { "" }, 9)));
    }
}

/// The first words that fit.
fn shorten_end(text: &str, max: usize) -> String {
    let mut out = String::new();
    for word in text.split(' ') {
        if columns(&out) + 1 + columns(word) > max {
            break;
        }
        out = if out.is_empty() { word.to_owned() } else { format!("{out} {word}") };
    }
    out
}

/// What a repair gains; without a prediction, what is at risk.
fn gained(f: &Finding) -> String {
    let after = |p: &Predicted| format!(", {} after the above", part((1.0 - p.ratio).max(0.0)));
    match &f.predicted {
        Some(p) => format!(
            "{}{}",
            super::whatif::gain(p),
            f.predicted_after_better.as_ref().map_or(String::new(), after)
        ),
        None if f.shares_lines() => format!("at most {} of the cores' time", part(f.at_risk)),
        None => format!("at most {}", part(f.at_risk)),
    }
}

/// `a, b and c`; of many the first.
fn some(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() && names.len() <= 4 => {
            format!("{} and {last}", first.join(", "))
        }
        _ if names.len() > 4 => format!("{} and {} more", names[..3].join(", "), names.len() - 3),
        _ => names.concat(),
    }
}

/// ` (3 × 64.0 MiB)`.
fn sizes(objects: &[&ObjectRow]) -> String {
    let Some(first) = objects.first() else { return String::new() };
    let total: u64 = objects.iter().map(|o| o.bytes).sum();
    match objects.len() {
        1 => format!(" ({})", size(total)),
        n if objects.iter().all(|o| o.bytes == first.bytes) => format!(" ({n} × {})", size(first.bytes)),
        _ => format!(" ({} in all)", size(total)),
    }
}

/// `main.c:71, 70, 72` of lines in their order, each once; of many the first.
fn lines<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    all.for_each(|at| {
        if !seen.contains(&at) {
            seen.push(at);
        }
    });
    let mut text = String::new();
    let mut file = "";
    for at in seen.iter().take(3) {
        let (of, line) = at.rsplit_once(':').unwrap_or((at, ""));
        text += &match text.is_empty() {
            true => at.to_string(),
            false if of == file && !line.is_empty() => format!(", {line}"),
            false => format!(", {at}"),
        };
        file = of;
    }
    if seen.len() > 3 { format!("{text} and {} more", seen.len() - 3) } else { text }
}

/// Which lines of which threads placed the pages.
fn placed(r: &Report, f: &Finding, objects: &[&ObjectRow]) -> String {
    let main = objects.iter().filter_map(|o| {
        let first = o.first_touch.first()?;
        first.at.as_deref().or(first.function.as_deref())
    });
    let at = lines(f.cause.at.as_deref().into_iter().chain(main));
    let touches: Vec<&TouchRow> = objects.iter().flat_map(|o| &o.first_touch).collect();
    let function = f.cause.function.as_deref().map_or(String::new(), |f| format!("  {f}"));
    let function = function.split(" (inlined").next().unwrap_or_default();
    match by(r, &touches) {
        Some(by) if at.is_empty() => by,
        Some(by) => format!("{at}{function}, {by}"),
        None if at.is_empty() => "unknown: first touches were not recorded".to_owned(),
        None => format!("{at}{function}"),
    }
}

/// `all by thread 0 on node 0`, `52 % by thread 3 on node 1`, `by 8 threads`.
fn by(r: &Report, touches: &[&TouchRow]) -> Option<String> {
    let all: u64 = touches.iter().map(|t| t.pages).sum();
    let of = |tid: u32| touches.iter().filter(|t| t.thread == tid).map(|t| t.pages).sum::<u64>();
    let most = touches.iter().max_by_key(|t| (of(t.thread), std::cmp::Reverse(t.thread)))?;
    let share = of(most.thread) as f64 / all.max(1) as f64;
    let mut threads: Vec<u32> = touches.iter().map(|t| t.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    if threads.len() > 1 && share < 0.5 {
        return Some(format!("by {} threads", threads.len()));
    }
    let name = match r.threads.iter().find(|t| t.tid == most.thread) {
        Some(t) => format!("thread {}", t.index),
        None => format!("tid {}", most.thread),
    };
    let node = most.node.map_or(String::new(), |n| format!(" on node {n}"));
    let how_much = if share > 0.99 { "all".to_owned() } else { part(share) };
    Some(format!("{how_much} by {name}{node}"))
}

/// Which lines of which nodes' threads use them.
fn used(r: &Report, objects: &[&ObjectRow]) -> String {
    let mut by_line: Vec<(&str, Vec<&str>)> = Vec::new();
    for o in objects {
        // The initialisation is not the use, as long as there is another.
        let placed = |at: &Option<String>| o.first_touch.iter().any(|t| t.at == *at);
        let row = o.accessed_at.iter().find(|u| !placed(&u.at)).or(o.accessed_at.first());
        let Some(at) = row.and_then(|u| u.at.as_deref().or(u.function.as_deref())) else { continue };
        match by_line.iter_mut().find(|l| l.0 == at) {
            Some(line) => line.1.push(&o.name),
            None => by_line.push((at, vec![&o.name])),
        }
    }
    let named = objects.len() > 1 && by_line.len() > 1;
    let one = |(at, names): &(&str, Vec<&str>)| match named {
        true => format!("{at} {}", some(names)),
        false => at.to_string(),
    };
    let mut text = by_line.iter().take(2).map(one).collect::<Vec<_>>().join("; ");
    if by_line.len() > 2 {
        text += &format!(" and {} more lines", by_line.len() - 2);
    }
    let mut nodes: Vec<u32> = objects
        .iter()
        // Threads without an address are in no range: few samples of them say nothing of who uses it.
        .filter(|o| 10 * o.thread_ranges.iter().map(|range| range.samples).sum::<u64>() >= o.samples)
        .flat_map(|o| &o.thread_ranges)
        .filter_map(|range| r.threads.iter().find(|t| t.tid == range.thread)?.node)
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let ids: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let by = match ids.len() {
        0 => String::new(),
        1 => format!("by threads on node {}", ids[0]),
        _ => format!("by threads on nodes {}", some(&ids)),
    };
    match (text.is_empty(), by.is_empty()) {
        (true, true) => "unknown".to_owned(),
        (true, false) => by,
        (false, true) => text,
        (false, false) => format!("{text}; {by}"),
    }
}

/// How threads share an object, in a word.
fn pattern(p: Pattern) -> &'static str {
    match p {
        Pattern::Blocked => "blocks",
        Pattern::Cyclic => "turns",
        Pattern::AllOver => "all over",
        Pattern::OneThread => "one thread",
        Pattern::OwnThread => "own parts",
        Pattern::Unknown => "unknown",
    }
}

/// What shares are shares of, as a column.
fn of_what(r: &Report) -> &'static str {
    match r.basis {
        Basis::StallTime => "time",
        Basis::DramLines => "lines",
        Basis::MemoryLoads => "loads",
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
        let allocated = match (o.kind.as_str(), &o.allocated_at) {
            ("static", _) => "static".to_owned(),
            (_, Some(at)) => at.clone(),
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
    if o.count > 1 { format!("{} ×{}", o.name, count(o.count)) } else { o.name.clone() }
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
        page.line(&shorten(
            &format!(
                "{} {}  {} {}",
                left(&shorten(&f.function, name), name),
                right(&part(f.stall_share), 7),
                left(&f.remote_share.map_or("unknown".to_owned(), part), 8),
                at.unwrap_or("unknown")
            ),
            page.width,
        ));
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
fn quality(page: &mut Page, r: &Report) {
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
    let mut parts = vec![match (samples, r.counters.is_some()) {
        (0, true) => "every line counted, none sampled".to_owned(),
        (0, false) => "no samples, so every share is unknown".to_owned(),
        (n, true) => format!("every line counted, {} sampled, {losses}", count(n)),
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
    let word = if good && r.ended_early.is_none() { "good" } else { "limited" };
    page.item(0, "quality", &format!("{word}: {}", parts.join("; ")));
    if r.machine.assumed {
        let text = format!(
            "threads mapped {}; each page on the node of the thread that touched it first; recorded on {}",
            r.machine.binding, r.recorded_on
        );
        page.item(0, "assumed", &text);
    } else if let Some(t) = r.time.as_ref().filter(|t| !t.weak_figures.is_empty()) {
        let text = format!(
            "{} of the machine are fitted, assumed or from memory",
            plural(t.weak_figures.len(), "figure")
        );
        page.item(0, "assumed", &text);
    }
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
