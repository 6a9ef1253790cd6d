//! What was counted beside the samples, as text.

use super::layout::{Page, count, left, percent, right, shorten};
use super::thread::of_tid;
use nearfar_analyze::{CountedAlong, CountedThread, CountedValue, Report};

/// Rows of threads that are printed; the JSON has them all.
const THREADS: usize = 8;
/// Columns of a thread's name and CPU time.
const FIRST: usize = 34;

/// A column of the table of threads.
type Of = (&'static str, fn(&CountedThread) -> Option<f64>);

const COLUMNS: [Of; 8] = [
    ("faults", |t| t.page_faults),
    ("switches", |t| t.context_switches),
    ("migrations", |t| t.cpu_migrations),
    ("instr.", |t| t.instructions),
    ("instr./cycle", |t| Some(t.instructions? / t.cycles.filter(|c| *c > 0.0)?)),
    ("LLC misses", |t| t.last_level_misses),
    ("local lines", |t| t.local_lines),
    ("remote lines", |t| t.remote_lines),
];

pub(super) fn section(page: &mut Page, r: &Report) {
    let Some(along) = &r.counted_along else { return };
    page.heading("Counted beside the samples");
    for (of, label) in [("the program", "program"), ("the counted threads", "threads")] {
        let known = along.program.iter().filter(|v| v.of == of && v.value.is_some());
        let words: Vec<String> = known.map(told).collect();
        if !words.is_empty() {
            page.item(0, label, &words.join("; "));
        }
    }
    unknown(page, &along.program);
    page.item(0, "remote", &remote(along, r));
    threads(page, r, along);
    host(page, along);
}

/// `cpu time 4.42 s (kernel: task-clock)`.
fn told(value: &CountedValue) -> String {
    let scaled = match value.running_share {
        Some(ran) if ran < 0.995 => format!(", scaled: it ran {} of the time or more", percent(Some(ran))),
        _ => String::new(),
    };
    format!("{} {} ({}{scaled})", value.name, number(value), value.source)
}

/// `node 0: bytes read 1.500 GB (uncore_imc)`.
pub(super) fn placed(value: &CountedValue) -> String {
    format!("{}: {} {} ({})", value.of, value.name, number(value), value.source)
}

fn number(value: &CountedValue) -> String {
    let Some(n) = value.value else { return "unknown".to_owned() };
    match value.unit.as_str() {
        "ns" => format!("{:.2} s", n * 1e-9),
        "bytes" => format!("{:.3} GB", n * 1e-9),
        "" => count(n.round() as u64),
        unit => format!("{} {unit}", count(n.round() as u64)),
    }
}

/// What is unknown, together where the reason is the same.
fn unknown(page: &mut Page, values: &[CountedValue]) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for value in values.iter().filter(|v| v.value.is_none()) {
        let why = value.why.as_deref().unwrap_or("not counted");
        let name = match value.of.as_str() {
            "the program" | "the counted threads" | "the host" => value.name.clone(),
            of => format!("{} of {of}", value.name),
        };
        match reasons.iter_mut().find(|(of, _)| *of == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    for (why, names) in reasons {
        page.item(0, "unknown", &format!("{}: {why}", names.join(", ")));
    }
}

fn remote(along: &CountedAlong, r: &Report) -> String {
    let Some(share) = along.remote_share else {
        return format!("unknown: {}", along.remote_share_why.as_deref().unwrap_or("not counted"));
    };
    let sampled = match (along.agrees, r.remote_share_ci) {
        (Some(true), Some(i)) => {
            format!("; the samples say the same ({} to {})", percent(Some(i.low)), percent(Some(i.high)))
        }
        (Some(false), Some(i)) => format!(
            "; the samples disagree: {} to {} of {}",
            percent(Some(i.low)),
            percent(Some(i.high)),
            r.basis.words()
        ),
        _ => "; the samples' share is unknown".to_owned(),
    };
    format!("{} of the lines from memory{sampled}", percent(Some(share)))
}

fn threads(page: &mut Page, r: &Report, along: &CountedAlong) {
    let shown = &along.threads[..along.threads.len().min(THREADS)];
    if shown.is_empty() {
        return;
    }
    let width = |head: &str| head.len().max(9) + 2;
    // As many columns as fit; the JSON has them all.
    let mut room = page.width.saturating_sub(FIRST);
    let fits = |(head, _): &&Of| {
        let fits = room >= width(head);
        room = if fits { room - width(head) } else { 0 };
        fits
    };
    let known = COLUMNS.iter().filter(|(_, of)| shown.iter().any(|t| of(t).is_some()));
    let columns: Vec<&Of> = known.filter(fits).collect();
    let head: String = columns.iter().map(|(head, _)| right(head, width(head))).collect();
    page.heading(&format!("{}{}{head}", left("Thread", 24), right("cpu time", 10)));
    for thread in shown {
        let name = shorten(&format!("{} {}", of_tid(r, thread.tid), thread.name), 23);
        let time = thread.cpu_seconds.map_or("unknown".to_owned(), |s| format!("{s:.2} s"));
        let cells: String = columns
            .iter()
            .map(|(head, of)| {
                let text = match of(thread) {
                    None => "unknown".to_owned(),
                    Some(n) if *head == "instr./cycle" => format!("{n:.2}"),
                    Some(n) => count(n.round() as u64),
                };
                right(&text, width(head))
            })
            .collect();
        page.line(&format!("{}{}{cells}", left(&name, 24), right(&time, 10)));
    }
    if along.threads.len() > shown.len() {
        page.line(&format!("   and {} more threads in the JSON", along.threads.len() - shown.len()));
    }
    if let Some(share) = along.threads_share.filter(|s| *s < 0.995) {
        page.indented(&format!(
            "These ran for {} of the CPU time: a thread's begin when it is found.",
            percent(Some(share))
        ));
    }
}

fn host(page: &mut Page, along: &CountedAlong) {
    if along.host.is_empty() {
        return;
    }
    page.heading("Counted of the host, with all other programs");
    let mut places: Vec<&str> = along.host.iter().map(|v| v.of.as_str()).collect();
    places.dedup();
    for place in places {
        let known: Vec<&CountedValue> =
            along.host.iter().filter(|v| v.of == place && v.value.is_some()).collect();
        let mut sources: Vec<&str> = known.iter().map(|v| v.source.as_str()).collect();
        sources.dedup();
        for source in sources {
            let of = known.iter().filter(|v| v.source == source);
            let words: Vec<String> = of.map(|v| format!("{} {}", v.name, number(v))).collect();
            page.item(0, place, &format!("{} ({source})", words.join("; ")));
        }
    }
    unknown(page, &along.host);
}
