//! Writes what was measured as tables: a row for each node's cpus, a column for each node's memory.

mod cells;
mod core;
mod parts;

use super::layout::{Page, Style, left, right, size};
use cells::{CELL, LABEL, cell, reasons};
use nearfar_observed::measured::{Measured, Pages, Pair};

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
    parts::page_latency(&mut page, m);
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
                right(&bytes, 17)
            ));
            continue;
        }
        page.blank();
        page.line(&if bytes.is_empty() { name.to_owned() } else { format!("{name}, {bytes}") });
        table(&mut page, m, &bandwidth.pairs);
    }
    parts::loaded(&mut page, m);
    core::core(&mut page, m);
    core::roofline(&mut page, m);
    parts::stream(&mut page, m);
    parts::scaling(&mut page, m);
    parts::copies(&mut page, m);
    parts::gpu(&mut page, m);
    if !m.caveats.is_empty() {
        page.heading("Mind");
        for caveat in &m.caveats {
            page.bullet(caveat);
        }
    }
    page.finish()
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
    reasons(page, "pair", pairs.iter().filter_map(|p| p.why.as_deref()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_observed::measured::Latency;
    use nearfar_observed::measured::Spread;

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
