//! The first findings: which objects, who placed and who uses them, what to change, what that brings.

use super::super::layout::*;
use super::super::placement::places;
use super::super::sections::kind;
use super::super::thread::thread;
use super::words::{part, short};
use nearfar_analyze::{Basis, Finding, ObjectRow, Predicted, Report, TouchRow};
use nearfar_figures::shell;
/// Findings, and lines of what to change in each; the rest is in the details.
pub(super) const FINDINGS: usize = 3;
const CHANGE: usize = 2;

pub(super) fn findings(page: &mut Page, r: &Report, recording: &str) {
    for finding in r.findings.iter().take(FINDINGS) {
        one_finding(page, r, finding);
    }
    let more = r.findings.len().saturating_sub(FINDINGS);
    if more > 0 {
        page.line(&format!("   and {}: --details", plural(more, "smaller finding")));
    }
    let Some(first) = r.findings.first() else { return };
    page.blank();
    let repaired: Vec<String> = first.repairs.iter().map(|p| p.object.clone()).collect();
    if places(r, &repaired) {
        let fix = format!("or        nearfar fix {recording}");
        let told = format!("{fix} (a placement file: no recompile)");
        page.line(if columns(&told) <= page.width { &told } else { &fix });
    }
    let record = match r.basis {
        Basis::DramLines => "record the changed program in the same way with -o after.nearfar".to_owned(),
        Basis::StallTime | Basis::MemoryLoads => {
            format!("nearfar record -o after.nearfar -- {}", shell::command(&r.command))
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
    let gain = gained(f);
    let room = width.saturating_sub(columns("gain: ") + columns(&gain) + 1);
    let beside = columns(&title) < room;
    page.line(&match beside {
        true => format!("{}gain: {gain}", left(&title, room)),
        false => shorten(&title, width),
    });
    let objects: Vec<&ObjectRow> =
        f.objects.iter().filter_map(|name| r.objects.iter().find(|o| o.name == *name)).collect();
    let mut item = |label: &str, text: String| {
        page.line(&shorten(&format!("   {}{text}", left(label, 9)), width));
    };
    if !beside {
        item("gain", gain);
    }
    if !f.objects.is_empty() {
        let names: Vec<String> = f.objects.iter().map(|o| shorten(&short(o), 28)).collect();
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
    let phases = crate::phases::of_finding(f);
    // A finding is six lines with it, too: --details has the whole advice.
    let lines = if phases.is_some() { CHANGE - 1 } else { CHANGE };
    if let Some(phases) = phases {
        item("phases", phases);
    }
    for (i, line) in first_of(&f.advice, lines, width.saturating_sub(12)).iter().enumerate() {
        page.line(&format!("   {}{line}", left(if i == 0 { "change" } else { "" }, 9)));
    }
}

/// A text in so many lines; if it is longer, the sentences or alternatives that fit, or the words if not even one does.
fn first_of(text: &str, lines: usize, width: usize) -> Vec<String> {
    let all = wrap(text, width);
    if all.len() <= lines {
        return all;
    }
    // The last line has room for what says that there is more.
    let mut words = all[..lines].join(" ");
    while wrap(&format!("{words} …"), width).len() > lines {
        let Some((shorter, _)) = words.rsplit_once(' ') else { break };
        words.truncate(shorter.len());
    }
    let end = words.rfind(". ").map(|end| end + 1).max(words.rfind(", or "));
    let part = end.filter(|&end| 2 * end > words.len()).map_or(&*words, |end| &words[..end]);
    wrap(&format!("{part} …"), width)
}

/// What a repair gains; without a prediction, what is at risk.
fn gained(f: &Finding) -> String {
    let after = |p: &Predicted| format!(", {} after the above", part((1.0 - p.ratio).max(0.0)));
    match &f.predicted {
        Some(p) if f.shares_lines() => p.of_cores(),
        Some(p) => format!(
            "{}{}{}",
            if p.ratio >= 1.0 { "none likely: " } else { "" },
            crate::whatif::gain(p),
            f.predicted_after_better.as_ref().map_or(String::new(), after)
        ),
        // How often real cores take them is not in older recordings.
        None if f.shares_lines() => "unknown".to_owned(),
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
    match by(r, f, &touches) {
        Some(by) if at.is_empty() => by,
        Some(by) => format!("{at}{function}, {by}"),
        None if at.is_empty() => "unknown: first touches were not recorded".to_owned(),
        None => format!("{at}{function}"),
    }
}

/// `all by thread 0 on node 0`, `52 % by thread 3 on node 1`, `by 8 threads`, `by one thread of each of 2 processes`.
fn by(r: &Report, f: &Finding, touches: &[&TouchRow]) -> Option<String> {
    if f.cause.processes > 1 {
        return Some(format!("by one thread of each of {} processes", f.cause.processes));
    }
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
    let name = thread(r, most.thread);
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

#[cfg(test)]
mod tests {
    use super::first_of;

    #[test]
    fn a_change_that_is_too_long_ends_with_a_whole_sentence_or_alternative() {
        let text = "Let each thread write to its part first, or spread the memory, or run one process for each node.";
        assert_eq!(first_of(text, 3, 40).join(" "), text);
        assert_eq!(
            first_of(text, 2, 40),
            ["Let each thread write to its part first,", "or spread the memory …"]
        );
        assert_eq!(first_of("Do this first. Then do that.", 1, 22), ["Do this first. …"]);
        // No end of one within what fits.
        assert_eq!(first_of("Initialise all of them in parallel", 1, 20), ["Initialise all of …"]);
    }
}
