//! The page of one object or function, for people.

use super::super::counted::bound_most;
use super::super::layout::*;
use super::super::thread::{of_tid, thread};
use super::super::{sections, whatif};
use super::{About, Subject, about};
use nearfar_analyze::{DramLines, Finding, FunctionRow, ObjectRow, Pattern, Report, TouchRow, UseRow};

/// Rows of a list at most; the JSON has them all.
const ROWS: usize = 12;

/// The page, as text of about `width` columns; `color` adds terminal styles. `name`: the recording's. `again`: what is
/// typed behind `nearfar fix` to judge it in the same way.
pub fn to_text(
    report: &Report,
    subject: Subject,
    name: &str,
    again: &str,
    width: usize,
    color: bool,
) -> String {
    let r = &crate::paths::brief(report);
    let about = about(r, subject, again);
    let mut page = Page::new(width, color);
    match (about.object, about.function) {
        (Some(object), _) => one_object(&mut page, r, object, &about),
        (_, Some(function)) => one_function(&mut page, r, function, &about),
        (None, None) => mentioned(&mut page, r, &about),
    }
    page.blank();
    crate::recorded::line(&mut page, r, name, "");
    page.finish()
}

fn one_object(page: &mut Page, r: &Report, o: &ObjectRow, about: &About) {
    page.headline(Style::Heading, &format!("Object {}", o.name));
    let times = match (o.count, o.allocations) {
        (0 | 1, 0 | 1) => String::new(),
        (at_once, all) => {
            format!(", {} at a time at most, {} in the whole run", count(at_once), count(all))
        }
    };
    page.item(0, "what", &format!("{}, {}{times}; named by {}", o.kind, size(o.bytes), from(&o.name_from)));
    let allocated = match (o.kind.as_str(), &o.allocated_at) {
        ("static", _) => "static: with the program".to_owned(),
        (_, at) => place(at.as_deref(), o.allocated_in.as_deref()),
    };
    page.item(0, "allocated", &allocated);
    o.allocated_through.iter().for_each(|helper| page.item(0, "", &format!("through {helper}")));
    touches(page, r, o);
    page.item(0, "share", &shares(r, o.stall_share, o.samples));
    far(page, r, o);
    page.item(0, "used", pattern(o.pattern));
    uses(page, &o.accessed_at);
    threads(page, r, o);
    told(page, about);
}

/// An object without a row: what findings and predictions say of it.
fn mentioned(page: &mut Page, r: &Report, about: &About) {
    page.headline(Style::Heading, &format!("Object {}", about.mentioned.unwrap_or_default()));
    let rows = plural(r.objects.len(), "object");
    page.item(
        0,
        "what",
        &format!("fewer samples than the {rows} listed; what findings and predictions say of it follows"),
    );
    if let Some(part) = about.placement {
        let allocated = match (&part.allocated_at, &part.variable) {
            (Some(at), _) => at.clone(),
            (None, Some(_)) => "static: with the program".to_owned(),
            (None, None) => "unknown".to_owned(),
        };
        page.item(0, "allocated", &format!("{allocated}, {} at a time", size(part.bytes)));
    }
    told(page, about);
}

/// What findings and predictions say of an object.
fn told(page: &mut Page, about: &About) {
    findings(page, &about.findings);
    not_worth(page, about);
    repairs(page, about);
    match (&about.fix, about.placement.and_then(|p| p.not_placeable.as_deref())) {
        (Some(fix), _) => page.line(&format!("fix       {fix}")),
        (None, Some(why)) => page.item(0, "fix", &format!("not by a placement file: {why}")),
        (None, None) => page.item(0, "fix", "no placement of it is suggested"),
    }
}

fn from(name_from: &str) -> &'static str {
    match name_from {
        "program" => "the program itself",
        "dwarf" => "the debug information",
        "source" => "the line of its allocation",
        "symbol" => "the symbol table",
        "mapping" => "its mapping",
        "allocator" => "the function of the allocator that maps it",
        _ => "the place of its allocation",
    }
}

fn pattern(p: Pattern) -> &'static str {
    match p {
        Pattern::Blocked => "in blocks: each thread its own part",
        Pattern::Cyclic => "in turns: threads take small pieces one after the other",
        Pattern::AllOver => "all over: every thread everywhere",
        Pattern::OneThread => "by one thread",
        Pattern::OwnThread => "each of these objects by a thread of its own",
        Pattern::Unknown => "unknown: too few samples to tell",
    }
}

fn place(at: Option<&str>, function: Option<&str>) -> String {
    match (at, function) {
        (Some(at), Some(function)) => format!("{at} in {function}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// Who placed the pages, a line each, and what is known of the others.
fn touches(page: &mut Page, r: &Report, o: &ObjectRow) {
    let all: u64 = o.first_touch.iter().map(|t| t.pages).sum();
    if o.first_touch.is_empty() {
        page.item(0, "placed", "unknown: no first touch was seen");
    }
    for (i, t) in o.first_touch.iter().take(ROWS).enumerate() {
        page.item(0, if i == 0 { "placed" } else { "" }, &touch(r, t, all));
    }
    more(page, o.first_touch.len());
    let p = &o.pages;
    let folios: Vec<String> = o.folio_bytes.iter().map(|&bytes| size(bytes)).collect();
    let folios = if folios.is_empty() {
        String::new()
    } else {
        format!("; the kernel's pages: {}", folios.join(", "))
    };
    page.item(
        0,
        "pages",
        &format!(
            "{}: {} touched, {} recycled, {} placed unseen, {} never seen{folios}",
            count(p.total),
            count(p.touched),
            count(p.inherited),
            count(p.unseen),
            count(p.absent_or_unknown)
        ),
    );
}

fn touch(r: &Report, t: &TouchRow, all: u64) -> String {
    let node = t.node.map_or("an unknown node".to_owned(), |node| format!("node {node}"));
    let share = percent((all > 0).then(|| t.pages as f64 / all as f64));
    let at = place(t.at.as_deref(), t.function.as_deref());
    let pages = if t.pages == 1 { "1 page".to_owned() } else { format!("{} pages", count(t.pages)) };
    format!("{pages} ({share}) on {node} by {}, {}: {at}", thread(r, t.thread), t.how)
}

fn shares(r: &Report, share: f64, samples: u64) -> String {
    format!("{} of {}, {} {}", percent(Some(share)), r.basis.words(), count(samples), units(r))
}

fn far(page: &mut Page, r: &Report, o: &ObjectRow) {
    let far = super::super::text::remote(o.remote_share, o.remote_share_ci, o.remote_share_exact);
    let how = match (o.remote_share, o.remote_share_exact) {
        (None, _) => ": no sample's page has a known node, or there are too few",
        (_, true) if in_windows(r) => ", counted in windows (95 % interval)",
        (_, true) => ", counted",
        (_, false) => " (95 % interval)",
    };
    let blind = percent(Some(o.page_node_unknown_share));
    page.item(0, "far", &format!("{far}{how}; node of the page unknown {blind} of its {}", units(r)));
    if let Some(d) = &o.dram {
        page.item(0, "lines", &dram(r, d));
    }
}

/// Whether accesses were counted in windows only.
fn in_windows(r: &Report) -> bool {
    r.counters.as_ref().is_some_and(|c| c.windows.is_some())
}

fn dram(r: &Report, d: &DramLines) -> String {
    let exact = match (d.exact, in_windows(r)) {
        (false, _) => "estimated from samples",
        (true, false) => "counted",
        (true, true) => "counted in windows",
    };
    let error = match d.windows_error {
        Some(error) => format!(" ±{}", percent(Some(error))),
        None if d.exact && in_windows(r) => ", how far off is unknown".to_owned(),
        None => String::new(),
    };
    format!(
        "{} of their own node, {} of others, {exact}{error}; bound then by {}",
        count(d.local),
        count(d.remote),
        bound_most(&d.bound)
    )
}

/// The lines that use it.
fn uses(page: &mut Page, rows: &[UseRow]) {
    let rows: Vec<[String; 3]> = rows
        .iter()
        .map(|u| {
            let at = place(u.at.as_deref(), u.function.as_deref());
            [at, percent(Some(u.stall_share)), percent(u.remote_share)]
        })
        .collect();
    table(page, ["Used at", "share", "far"], &rows);
}

/// Which part each thread uses.
fn threads(page: &mut Page, r: &Report, o: &ObjectRow) {
    let node = |tid: u32| r.threads.iter().find(|t| t.tid == tid).and_then(|t| t.node);
    let rows: Vec<[String; 3]> = o
        .thread_ranges
        .iter()
        .map(|range| {
            let node = node(range.thread).map_or("node unknown".to_owned(), |n| format!("node {n}"));
            let part = format!("{} to {}", size(range.from), size(range.to));
            [format!("{} ({node}): {part}", of_tid(r, range.thread)), count(range.samples), String::new()]
        })
        .collect();
    table(page, ["Thread and its part", units(r), ""], &rows);
}

fn findings(page: &mut Page, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    page.heading(if findings.len() == 1 { "Finding" } else { "Findings" });
    for f in findings {
        page.paragraph(&format!("{}. {}", f.rank, sections::kind(&f.kind)));
        page.item(3, "cause", &f.cause.text);
        page.item(3, "advice", &f.advice);
        page.item(3, "predicted", &whatif::predicted(f));
    }
}

/// Causes that were found, of which the repair gains too little, or not surely.
fn not_worth(page: &mut Page, about: &About) {
    for (i, n) in about.not_worth.iter().enumerate() {
        if i == 0 {
            page.heading("Not worth a change");
        }
        let time = whatif::ratio(&n.predicted);
        page.line(&format!("   {}: time × {time}, predicted", sections::kind(&n.kind)));
    }
}

fn repairs(page: &mut Page, about: &About) {
    let rows: Vec<[String; 3]> = about
        .repairs
        .iter()
        .map(|row| {
            let others = match row.objects.len().saturating_sub(1) {
                0 => String::new(),
                n => format!(" (with {})", plural(n, "other object")),
            };
            let what = format!("{}{others}", whatif::words(row.repair));
            [what, whatif::ratio(&row.predicted), percent(Some(row.remote_share))]
        })
        .collect();
    table(page, ["What if it were", "time × (predicted)", "remote"], &rows);
    page.blank();
}

fn one_function(page: &mut Page, r: &Report, f: &FunctionRow, about: &About) {
    page.headline(Style::Heading, &format!("Function {}", f.function));
    page.item(0, "module", f.module.as_deref().unwrap_or("unknown"));
    page.item(
        0,
        "share",
        &format!("{} of {}, without what it calls", percent(Some(f.stall_share)), r.basis.words()),
    );
    let far = match f.remote_share {
        Some(far) => format!("{} of what has a page with a known node", percent(Some(far))),
        None => "unknown: no page's node is known, or there is too little".to_owned(),
    };
    page.item(0, "far", &far);
    if let Some(d) = &f.dram {
        page.item(0, "lines", &dram(r, d));
    }
    let line = |l: &UseRow| {
        let at = l.at.clone().unwrap_or_else(|| "unknown".to_owned());
        [at, percent(Some(l.stall_share)), percent(l.remote_share)]
    };
    table(page, ["Its lines", "share", "far"], &f.lines.iter().map(line).collect::<Vec<_>>());
    let uses: Vec<[String; 3]> = about
        .uses
        .iter()
        .map(|u| {
            let at = u.at.map_or(String::new(), |at| format!(" at {at}"));
            [format!("{}{at}", u.object), percent(Some(u.share)), percent(u.remote_share)]
        })
        .collect();
    table(page, ["Objects that it uses", "share", "far"], &uses);
    findings(page, &about.findings);
    let paths: Vec<[String; 3]> = about
        .call_paths
        .iter()
        .map(|p| [p.frames.join(" < "), percent(Some(p.share)), percent(Some(p.remote))])
        .collect();
    table(page, ["Called by, the innermost first", "share", "far"], &paths);
}

/// A text and two figures beside it, with a heading; nothing of nothing.
fn table(page: &mut Page, head: [&str; 3], rows: &[[String; 3]]) {
    if rows.is_empty() {
        return;
    }
    let wide = |i: usize| {
        rows.iter().take(ROWS).map(|row| columns(&row[i])).max().unwrap_or(0).max(columns(head[i]))
    };
    let (first, second) = (wide(1) + 2, wide(2) + 2);
    let room = page.width.saturating_sub(first + second);
    let text =
        rows.iter().take(ROWS).map(|row| columns(&row[0])).max().unwrap_or(0).max(columns(head[0])).min(room);
    let line = |[what, a, b]: [&str; 3]| {
        format!("{}{}{}", left(&shorten(what, text), text), right(a, first), right(b, second))
    };
    page.heading(line(head).trim_end());
    for row in rows.iter().take(ROWS) {
        page.line(&line([&row[0], &row[1], &row[2]]));
    }
    more(page, rows.len());
}

/// How many rows are not shown.
fn more(page: &mut Page, all: usize) {
    if all > ROWS {
        page.line(&format!("   and {} more in the JSON", all - ROWS));
    }
}
