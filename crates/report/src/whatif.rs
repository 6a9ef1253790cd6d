//! Predictions: what a repair gives, and the table of all that were tried.

use super::counted::seconds_short;
use super::layout::{Page, columns, percent, right, shorten, wrap};
use nearfar_analyze::{
    Basis, Finding, NotWorth, PhaseReport, Predicted, Repair, RepairPart, RepairRow, Report, WORTH, WhatIf,
};
use nearfar_figures::percent::numbers;

/// Rows of single objects in the table; the JSON has them all.
const ROWS: usize = 3;
/// Columns of a ratio with its range, and of the remote share after it.
const RATIO: usize = 20;
const REMOTE: usize = 9;

/// A repair in words, after the object's name.
pub fn words(repair: Repair) -> String {
    match repair {
        Repair::WhereUsed => "where it is used".to_owned(),
        Repair::Interleave => "interleaved".to_owned(),
        Repair::WeightedInterleave => "interleaved by bandwidth".to_owned(),
        Repair::Weighted { with_cpus, without } => {
            format!(
                "interleaved, pages on each node with cpus and on each without as {with_cpus} to {without}"
            )
        }
        Repair::Bind { node } => format!("on node {node}"),
        Repair::SameSchedule => "used by the schedule that touched it".to_owned(),
        Repair::Replicate => "a copy on each node".to_owned(),
    }
}

/// The same after the names of several.
fn of_several(repair: Repair) -> String {
    words(repair).replace("it is", "they are").replace("touched it", "touched them")
}

/// `0.49 (0.45–0.53)`.
pub fn ratio(p: &Predicted) -> String {
    format!("{:.2} ({:.2}–{:.2})", p.ratio, p.low, p.high)
}

/// `52 % less time (48 to 55 %)`; `2.0 % less time (3.1 % more to 8.0 % less)` where the range has both.
pub fn gain(p: &Predicted) -> String {
    let numbers = numbers(1.0 - p.ratio, 1.0 - p.high, 1.0 - p.low);
    let [time, low, high] = numbers.each_ref().map(|text| text.strip_prefix('-').unwrap_or(text));
    let way = |text: &String| if text.starts_with('-') { "more" } else { "less" };
    let ways = numbers.each_ref().map(way);
    match ways {
        ["less", "less", "less"] => format!("{time} % less time ({low} to {high} %)"),
        // From the least on, as above.
        ["more", "more", "more"] => format!("{time} % more time ({high} to {low} %)"),
        [likely, least, most] => format!("{time} % {likely} time ({low} % {least} to {high} % {most})"),
    }
}

/// What a finding's repair gives, in a sentence.
pub(super) fn predicted(f: &Finding) -> String {
    match (&f.predicted, &f.predicted_why) {
        (Some(p), _) if f.shares_lines() => {
            let from = f.predicted_from.as_deref().unwrap_or_default();
            format!("{} where no other core wants these lines; from {from}", p.of_cores())
        }
        (Some(p), _) => {
            let after = f.predicted_after_better.as_ref();
            let after =
                after.map_or(String::new(), |p| format!("; once better findings are repaired: {}", gain(p)));
            let from = f.predicted_from.as_deref().filter(|from| from.starts_with("samples"));
            let from = from.map_or(String::new(), |from| format!("; from {from}"));
            format!("{} with {}{after}{from}", gain(p), placed(&f.repairs))
        }
        (None, Some(why)) => format!("unknown: {why}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// `a and b where it is used, c interleaved`.
fn placed(parts: &[RepairPart]) -> String {
    let mut groups: Vec<(Repair, Vec<String>)> = Vec::new();
    for part in parts {
        let name = shorten(&part.object, 32);
        match groups.iter_mut().find(|g| g.0 == part.repair) {
            Some(group) => group.1.push(name),
            None => groups.push((part.repair, vec![name])),
        }
    }
    let group = |(repair, names): &(Repair, Vec<String>)| match names.as_slice() {
        [one] => format!("{one} {}", words(*repair)),
        several => {
            let names = match several {
                [first @ .., last] if first.len() <= 2 => format!("{} and {last}", first.join(", ")),
                _ => format!("{} and {} more", several[0], several.len() - 1),
            };
            format!("{names} {}", of_several(*repair))
        }
    };
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// The table.
pub(super) fn section(page: &mut Page, r: &Report) {
    sampled(page, r);
    let Some(w) = &r.what_if else { return };
    page.heading(&format!(
        "What if memory were elsewhere: time × (predicted), and remote (now {})",
        percent(Some(w.remote_share))
    ));
    let name = page.width.saturating_sub(RATIO + REMOTE).clamp(24, 60);
    let mut row = |what: &str, p: &Predicted, remote: Option<f64>| {
        let remote = remote.map_or(String::new(), |s| percent(Some(s)));
        // No name is cut: the figures are beside its last line.
        let mut lines = wrap(what, name.saturating_sub(1));
        let last = shorten(&lines.pop().unwrap_or_default(), name.saturating_sub(1));
        lines.iter().for_each(|line| page.line(&shorten(line, page.width)));
        let pad = name.saturating_sub(columns(&last));
        page.line(&format!("{last}{}{}{}", " ".repeat(pad), right(&ratio(p), RATIO), right(&remote, REMOTE)));
    };
    let shown = shown(w);
    if let Some(b) = &w.best {
        // One repair for all objects comes before a better one that gains little more.
        let percents = |p: &Predicted| (100.0 * p.ratio).round();
        let better = shown.iter().any(|row| percents(&row.predicted) < percents(&b.predicted));
        let which = match better {
            true => format!("the simplest within {} of the best", percent(Some(WORTH))),
            false => "best".to_owned(),
        };
        row(&format!("{which}: {}", placed(&b.parts)), &b.predicted, Some(b.remote_share));
    }
    for one in shown {
        let what = match one.objects.as_slice() {
            [] => format!("everything {}", words(one.repair)),
            objects if objects.len() > 3 => {
                format!("only {} and {} more {}", objects[0], objects.len() - 1, of_several(one.repair))
            }
            [object] => format!("only {object} {}", words(one.repair)),
            objects => format!("only {} {}", objects.join(", "), of_several(one.repair)),
        };
        row(&what, &one.predicted, Some(one.remote_share));
    }
    if let Some(one) = &w.one_node {
        row(&format!("threads and memory on node {}", one.node), &one.predicted, Some(0.0));
    }
    // Spreading the lines of one node's threads over more memory may be better than to have them all local.
    let tried = w.repairs.iter().map(|r| &r.predicted).chain(w.best.iter().map(|b| &b.predicted));
    match tried.map(|p| p.ratio).fold(f64::INFINITY, f64::min) <= w.all_local.ratio {
        true => row("the best that was found (a bound)", &w.all_local, None),
        false => row("every line local (a bound)", &w.all_local, Some(0.0)),
    }
    if !w.not_worth.is_empty() {
        let one = |n: &NotWorth| format!("{} ({})", n.objects.join(", "), n.kind.replace('_', " "));
        let all: Vec<String> = w.not_worth.iter().map(one).collect();
        // The range of some has "slower" in it.
        let unsure = w.not_worth.iter().any(|n| 1.0 - n.predicted.ratio >= WORTH);
        let why = if unsure { "below 3 % each, or not sure to gain" } else { "below 3 % each" };
        page.paragraph(&format!("Not worth a change, {why}: {}.", all.join("; ")));
    }
}

/// What near memory would bring, by samples.
fn sampled(page: &mut Page, r: &Report) {
    match (&r.sampled_gain, &r.sampled_gain_why) {
        (Some(g), _) => {
            page.heading("If every line were local");
            page.item(0, "predicted", &format!("{}, from {}", gain(&g.every_line_local), g.source));
            let parts = match g.slices {
                1 => "the run lasts as long as its longest thread".to_owned(),
                n => format!("the run lasts as long as the longest thread of each of its {n} parts"),
            };
            let latencies = match (g.far_over_near, g.latencies_from.as_deref()) {
                (None, _) if r.basis == Basis::StallTime => {
                    "what loops of known speed wait for follows from it; of the time on memory beside them, none to all is taken \
                     to be waiting"
                        .to_owned()
                }
                (Some(ratio), from) => format!(
                    "far memory takes {ratio:.2} times as long as near memory ({})",
                    match from {
                        Some("samples") | None => "the processor's samples",
                        Some(other) => other,
                    }
                ),
                (None, _) => "no sample was of far memory".to_owned(),
            };
            let text =
                format!("{parts}, which is {} of its time; {latencies}", percent(Some(g.explained_share)));
            page.item(0, "rests on", &text);
        }
        (None, Some(why)) if r.basis == Basis::MemoryLoads => {
            page.heading("If every line were local");
            page.item(0, "predicted", &format!("unknown: {why}"));
        }
        _ => {}
    }
}

/// Of each object the two best, as long as there is room; then those of all.
fn shown(w: &WhatIf) -> Vec<&RepairRow> {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    let mut rows: Vec<&RepairRow> = Vec::new();
    let is_best = |row: &RepairRow| {
        w.best.as_ref().is_some_and(|b| {
            b.parts.iter().map(|p| (&p.object, p.repair)).eq(row.objects.iter().map(|o| (o, row.repair)))
        })
    };
    for row in w.repairs.iter().filter(|r| !r.objects.is_empty() && !is_best(r)) {
        let name = row.objects[0].as_str();
        let at = seen.iter().position(|s| s.0 == name).unwrap_or_else(|| {
            seen.push((name, 0));
            seen.len() - 1
        });
        seen[at].1 += 1;
        if row.predicted.ratio <= 1.0 - WORTH && seen[at].1 <= 2 && rows.len() < ROWS {
            rows.push(row);
        }
    }
    // What is the best combination anyway is not said twice.
    let best = w.best.as_ref().map_or(1.0, |b| b.predicted.ratio);
    rows.extend(w.repairs.iter().filter(|r| r.objects.is_empty() && r.predicted.ratio > best + 0.005));
    rows
}

/// What the best repair would make of each phase.
pub(super) fn by_phase(page: &mut Page, report: &Report, phases: &PhaseReport) {
    page.heading("Each phase's time by the time model");
    let path = |node: usize| {
        let mut path = vec![phases.nodes[node].name.as_str()];
        let mut at = node;
        while let Some(parent) = phases.nodes[at].parent.filter(|&parent| parent > 0) {
            path.insert(0, &phases.nodes[parent].name);
            at = parent;
        }
        path.join(" => ")
    };
    let time = |node: usize| phases.nodes[node].modelled_ns.map(|ns| seconds_short(ns / 1e9));
    let best = report.what_if.as_ref().and_then(|w| w.placeable.as_ref().or(w.best.as_ref()));
    let Some(best) = best.filter(|_| !phases.gains.is_empty()) else {
        let why = phases.gains_why.as_deref().unwrap_or("it was not predicted");
        page.paragraph(&format!("With a repair: unknown: {why}."));
        for (node, time) in (0..phases.nodes.len()).filter_map(|node| Some((node, time(node)?))) {
            page.bullet(&format!("{}: {time}", path(node)));
        }
        return;
    };
    let placed = placed(&best.parts);
    page.paragraph(&format!(
        "With the repair it is the part of that which is named. The repair: {placed}. Predicted from counts."
    ));
    for gain in &phases.gains {
        let text = match (&gain.predicted, &gain.why) {
            (Some(p), _) => match time(gain.node) {
                Some(time) => format!("{time}, with the repair {} of it", ratio(p)),
                None => ratio(p),
            },
            (None, why) => format!("unknown: {}", why.as_deref().unwrap_or("it was not predicted")),
        };
        page.bullet(&format!("{}: {text}", path(gain.node)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_that_may_be_a_loss_says_which_is_which() {
        let of = |ratio, low, high| gain(&Predicted { ratio, low, high });
        assert_eq!(of(0.48, 0.45, 0.52), "52 % less time (48 to 55 %)");
        assert_eq!(of(0.98, 0.92, 1.031), "2.0 % less time (3.1 % more to 8.0 % less)");
        assert_eq!(of(1.11, 0.985, 1.18), "11 % more time (18 % more to 1.5 % less)");
        assert_eq!(of(1.2, 1.1, 1.31), "20 % more time (10 to 31 %)");
        assert_eq!(of(1.0, 0.96, 1.0), "0 % less time (0 to 4.0 %)");
    }
}
