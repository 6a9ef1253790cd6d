//! Writes what was measured as tables: a row for each node's cpus, a column for each node's memory.

use super::layout::{Page, Style, left, plural, right, size};
use crate::measured::{Layout, Measured, Pages, Pair, Spread};

/// Columns of a row's name, and of a cell.
const LABEL: usize = 16;
const CELL: usize = 22;

/// The measurement as text of at most `width` columns; `color` adds terminal styles, no meaning.
pub fn to_text(m: &Measured, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.headline(Style::Heading, &m.name);
    let runs = if m.quick { "quick" } else { "full" };
    page.paragraph(&format!(
        "measured on {} in {:.0} s ({runs}); median (smallest–largest) of the repetitions",
        m.day, m.seconds
    ));
    for latency in &m.latency {
        let pages = match latency.pages {
            Pages::Huge => "2 MiB pages: memory alone",
            Pages::Base => "base pages: address translation included",
        };
        page.heading(&format!("Idle latency, ns; {pages}"));
        page.line(&format!("one cpu follows pointers through {}", size(latency.bytes)));
        table(&mut page, m, &latency.pairs);
    }
    if !m.bandwidth.is_empty() {
        page.heading("Bandwidth, GB/s (10⁹ bytes of the program's own loads and stores per second)");
        page.line("all allowed cpus of a node, one thread each");
    }
    for bandwidth in &m.bandwidth {
        let name = bandwidth.kernel.name();
        let bytes = bandwidth.bytes.map(|b| format!("{} in all", size(b))).unwrap_or_default();
        if let [Pair { value: Some(value), .. }] = bandwidth.pairs[..] {
            // One node: a table of one cell each would be all frame.
            page.line(&format!(
                "{}{}{}",
                left(name, LABEL + 5),
                right(&cell(value), CELL),
                right(&bytes, 18)
            ));
            continue;
        }
        page.blank();
        page.line(&if bytes.is_empty() { name.to_owned() } else { format!("{name}, {bytes}") });
        table(&mut page, m, &bandwidth.pairs);
    }
    loaded(&mut page, m);
    scaling(&mut page, m);
    copies(&mut page, m);
    if !m.caveats.is_empty() {
        page.heading("Mind");
        for caveat in &m.caveats {
            page.bullet(caveat);
        }
    }
    page.finish()
}

fn loaded(page: &mut Page, m: &Measured) {
    if m.loaded.is_empty() {
        return;
    }
    page.heading("Latency under load: one cpu follows pointers, the others of its node read");
    for curve in &m.loaded {
        let pair = format!("cpus of node {}, memory of node {}", curve.from, curve.memory);
        if let Some(why) = &curve.why {
            page.bullet(&format!("{pair} unknown: {why}"));
            continue;
        }
        page.line(&format!("{}{}{}", left(&pair, 2 * LABEL + 4), right("GB/s", 8), right("ns", CELL)));
        for point in curve.points.iter().rev() {
            let rate = format!("{:.1}", point.gb_per_s);
            page.line(&format!(
                "{}{}{}",
                left("", 2 * LABEL + 4),
                right(&rate, 8),
                right(&cell(point.latency_ns), CELL)
            ));
        }
    }
}

fn scaling(page: &mut Page, m: &Measured) {
    if m.scaling.is_empty() {
        return;
    }
    page.heading("Triad by number of threads, GB/s, each on memory of its own node");
    for row in &m.scaling {
        let layout = match row.layout {
            Layout::Compact => "compact",
            Layout::Scatter => "scatter",
        };
        let per_node: Vec<String> = row.per_node.iter().map(u32::to_string).collect();
        let label = format!("{layout}  {} ({})", plural(row.threads as usize, "thread"), per_node.join("+"));
        let value = row.gb_per_s.map_or_else(|| "unknown".to_owned(), cell);
        page.line(&format!("{}{}", left(&label, 2 * LABEL + 4), right(&value, CELL)));
        if let Some(why) = &row.why {
            page.bullet(&format!("unknown: {why}"));
        }
    }
}

/// Many cpus make a matrix that nobody reads: JSON has all, the text one row for each node's first cpus.
const MOST_CPUS: usize = 8;

fn copies(page: &mut Page, m: &Measured) {
    let Some(first) = m.copies.first() else { return };
    page.heading("Copies, GB/s read and as many written: row copies, column touched first");
    page.line(&format!("{} at a time, ordinary stores", size(first.bytes)));
    let mut cpus: Vec<u32> = m.copies.iter().map(|c| c.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() > MOST_CPUS {
        // Evenly spread, so that every part of the machine is seen.
        let all = cpus.len();
        cpus = (0..MOST_CPUS).map(|i| cpus[i * all / MOST_CPUS]).collect();
        page.line(&format!("{} of {all} cpus; --json has all", cpus.len()));
    }
    let heads: String = cpus.iter().map(|c| right(&format!("cpu {c}"), 9)).collect();
    page.line(&format!("{}{heads}", left("", 8)));
    for cpu in &cpus {
        let cells: String = cpus
            .iter()
            .map(|toucher| m.copies.iter().find(|c| c.cpu == *cpu && c.toucher == *toucher))
            .map(|c| c.and_then(|c| c.seconds.map(|s| c.bytes as f64 / s.median / 1e9)))
            .map(|rate| right(&rate.map_or("unknown".into(), |r| format!("{r:.2}")), 9))
            .collect();
        page.line(&format!("{}{cells}", left(&format!("cpu {cpu}"), 8)));
    }
    if let Some(why) = m.copies.iter().find_map(|c| c.why.as_deref()) {
        page.bullet(&format!("unknown: {why}"));
    }
}

/// `81.2 (80.9–83.0)`.
fn cell(value: Spread) -> String {
    let digits = if value.median < 9.95 { 2 } else { 1 };
    format!("{:.digits$} ({:.digits$}–{:.digits$})", value.median, value.low, value.high)
}

fn table(page: &mut Page, m: &Measured, pairs: &[Pair]) {
    let columns: Vec<u32> =
        m.nodes.iter().copied().filter(|n| pairs.iter().any(|p| p.memory == *n)).collect();
    let rows: Vec<u32> = m.nodes.iter().copied().filter(|n| pairs.iter().any(|p| p.from == *n)).collect();
    for part in columns.chunks(((page.width.saturating_sub(LABEL)) / CELL).max(1)) {
        let heads: String = part.iter().map(|n| right(&format!("memory of node {n}"), CELL)).collect();
        page.line(&format!("{}{heads}", left("", LABEL)));
        for from in &rows {
            let cells: String = part
                .iter()
                .map(|to| pairs.iter().find(|p| p.from == *from && p.memory == *to))
                .map(|p| right(&p.and_then(|p| p.value).map_or("unknown".into(), cell), CELL))
                .collect();
            page.line(&format!("{}{cells}", left(&format!("cpus of node {from}"), LABEL)));
        }
    }
    // One reason for many pairs is said once.
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for why in pairs.iter().filter_map(|p| p.why.as_deref()) {
        match reasons.iter_mut().find(|r| r.0 == why) {
            Some(reason) => reason.1 += 1,
            None => reasons.push((why, 1)),
        }
    }
    for (why, times) in reasons {
        page.bullet(&format!("{} unknown: {why}", plural(times, "pair")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Latency;

    #[test]
    fn what_was_not_measured_is_unknown_and_says_why_once() {
        let known = Spread { median: 81.25, low: 80.0, high: 90.0, runs: 3 };
        let pair = |from, memory, value: Option<Spread>| {
            let why = value.is_none().then(|| "memory of node 1 is not allowed here".to_owned());
            Pair { from, memory, value, moved_bytes: None, why }
        };
        let measured = Measured {
            nodes: vec![0, 1],
            latency: vec![Latency {
                pages: Pages::Huge,
                bytes: 1 << 28,
                pairs: vec![
                    pair(0, 0, Some(known)),
                    pair(0, 1, None),
                    pair(1, 0, Some(known)),
                    pair(1, 1, None),
                ],
            }],
            ..Measured::default()
        };
        let text = to_text(&measured, 80, false);
        let row = format!("cpus of node 0  {}{}", right("81.2 (80.0–90.0)", CELL), right("unknown", CELL));
        assert!(text.contains(&row), "{text}");
        assert_eq!(
            text.matches("2 pairs unknown: memory of node 1 is not allowed here").count(),
            1,
            "{text}"
        );
    }
}
