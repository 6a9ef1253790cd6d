//! The parts of a measurement besides the two matrices.

use super::super::layout::{Page, columns, left, plural, right, size};
use super::cells::{CELL, LABEL, cell, found, reasons};
use nearfar_observed::measured::{Kernel, Layout, Measured, Placement};

/// Columns of the names of rows that are sentences.
const WIDE_LABEL: usize = 3 * LABEL - 8;

/// The name of a row beside cells of so many columns. Where the page is too narrow for both, the name has a line of
/// its own, and spaces are what stands beside the cells.
fn beside(page: &mut Page, name: &str, label: usize, cells: usize) -> String {
    let room = page.width.saturating_sub(cells).min(label);
    if columns(name) > room {
        page.line(name);
        return " ".repeat(room);
    }
    left(name, room)
}

/// Latency over load, a curve for each pair.
pub(super) fn loaded(page: &mut Page, m: &Measured) {
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
        let label = beside(page, &pair, 2 * LABEL + 4, 8 + CELL);
        page.line(&format!("{label}{}{}", right("GB/s", 8), right("ns", CELL)));
        let label = " ".repeat(columns(&label));
        for point in curve.points.iter().rev() {
            let rate = format!("{:.1}", point.gb_per_s);
            let ns = right(&cell(point.latency_ns), CELL);
            page.line(&format!("{label}{}{ns}", right(&rate, 8)));
        }
    }
}

/// STREAM's own table, word for word in its lines of figures: scripts read them.
pub(super) fn stream(page: &mut Page, m: &Measured) {
    let Some(stream) = &m.stream else { return };
    page.heading("STREAM");
    if let Some(why) = &stream.why {
        page.bullet(&format!("unknown: {why}"));
        return;
    }
    page.paragraph(&format!(
        "{} of {} each, {}, timed {} times (the first not counted), memory touched first by its thread",
        plural(3, "array"),
        size(stream.array_bytes),
        plural(stream.threads as usize, "thread"),
        stream.times
    ));
    page.line("Function    Best Rate MB/s  Avg time     Min time     Max time");
    for f in &stream.functions {
        let name = match f.kernel {
            Kernel::Copy => "Copy:",
            Kernel::Scale => "Scale:",
            Kernel::Add => "Add:",
            _ => "Triad:",
        };
        page.line(&format!(
            "{name:<11}{:12.1}  {:11.6}  {:11.6}  {:11.6}",
            f.best_mb_per_s, f.average_s, f.min_s, f.max_s
        ));
    }
    page.paragraph(&format!(
        "validated: the largest relative error of any element of the three arrays is {:.1e}",
        stream.largest_error
    ));
}

/// Triad by threads and placement, beside what the other figures predict.
pub(super) fn scaling(page: &mut Page, m: &Measured) {
    if m.scaling.is_empty() {
        return;
    }
    page.heading("Triad by number of threads and placement of memory, GB/s");
    let heads = right("measured", CELL) + &right("predicted", CELL);
    let label = beside(page, "", WIDE_LABEL, 2 * CELL);
    page.line(&(label + &heads));
    for row in &m.scaling {
        let layout = match row.layout {
            Layout::Compact => "compact",
            Layout::Scatter => "scatter",
        };
        let place = match row.placement {
            Placement::Local => "local".to_owned(),
            Placement::Interleaved => "interleaved".to_owned(),
            Placement::OneNode(node) => format!("on node {node}"),
        };
        let per_node: Vec<String> = row.per_node.iter().map(u32::to_string).collect();
        let threads = plural(row.cpus.len(), "thread");
        let name = match per_node.len() {
            1 => format!("{threads}, {place}"),
            _ => format!("{layout} {threads} ({}), {place}", per_node.join("+")),
        };
        let predicted = row.predicted.map(|p| format!("{:.1} ({:.1}–{:.1})", p.gb_per_s, p.low, p.high));
        let predicted = right(&predicted.unwrap_or_else(|| "unknown".into()), CELL);
        let label = beside(page, &name, WIDE_LABEL, 2 * CELL);
        page.line(&format!("{label}{}{predicted}", right(&found(&row.gb_per_s), CELL)));
    }
    reasons(page, "figure", m.scaling.iter().filter_map(|r| r.gb_per_s.why.as_deref()));
    match &m.no_prediction {
        Some(why) => page.bullet(&format!("predictions unknown: {why}")),
        None => page.paragraph(
            "predicted from this run's latencies, node bandwidths and one core's figures; the range is what their \
             confidence allows",
        ),
    }
}

/// Many cpus make a matrix that is never read: JSON has all, the text evenly spread ones.
const MOST_CPUS: usize = 8;

/// Cpu by cpu: memcpy in memory that another cpu touched first.
pub(super) fn copies(page: &mut Page, m: &Measured) {
    let Some(first) = m.copies.first() else { return };
    page.heading("memcpy, seconds and GB/s copied: row copies, column touched the memory first");
    page.line(&format!("{} at a time, the C library's memcpy", size(first.bytes)));
    let mut cpus: Vec<u32> = m.copies.iter().map(|c| c.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() > MOST_CPUS {
        // Evenly spread, so that every part of the machine is seen.
        let all = cpus.len();
        cpus = (0..MOST_CPUS).map(|i| cpus[i * all / MOST_CPUS]).collect();
        page.line(&format!("{} of {all} cpus; --json has all", cpus.len()));
    }
    const WIDTH: usize = 17;
    for part in cpus.chunks((page.width.saturating_sub(8) / WIDTH).max(1)) {
        let heads: String = part.iter().map(|c| right(&format!("cpu {c}"), WIDTH)).collect();
        page.line(&format!("{}{heads}", left("", 8)));
        for cpu in &cpus {
            let cells: String = part
                .iter()
                .map(|toucher| m.copies.iter().find(|c| c.cpu == *cpu && c.toucher == *toucher))
                .map(|c| c.and_then(|c| Some((c.seconds.value?.median, c.gb_per_s()?))))
                .map(|c| right(&c.map_or("unknown".into(), |(s, r)| format!("{s:.4} s {r:.2}")), WIDTH))
                .collect();
            page.line(&format!("{}{cells}", left(&format!("cpu {cpu}"), 8)));
        }
    }
    reasons(page, "pair", m.copies.iter().filter_map(|c| c.seconds.why.as_deref()));
}

/// Host to device and back.
pub(super) fn gpu(page: &mut Page, m: &Measured) {
    if m.gpu.is_empty() {
        return;
    }
    page.heading("Copies between pinned memory and GPUs, GB/s");
    let label = beside(page, "", WIDE_LABEL, 2 * CELL);
    page.line(&format!("{label}{}{}", right("to the GPU", CELL), right("from it", CELL)));
    for copy in &m.gpu {
        let name = format!("node {}, GPU {} ({})", copy.node, copy.gpu, copy.name);
        let cells = right(&found(&copy.to_gbs), CELL) + &right(&found(&copy.from_gbs), CELL);
        let label = beside(page, &name, WIDE_LABEL, 2 * CELL);
        page.line(&(label + &cells));
    }
    let all = m.gpu.iter().flat_map(|c| [&c.to_gbs, &c.from_gbs]);
    reasons(page, "figure", all.filter_map(|f| f.why.as_deref()));
}

/// The histogram and what it says.
pub(super) fn page_latency(page: &mut Page, m: &Measured) {
    let Some(latency) = &m.page_latency else { return };
    page.heading("Is the one node one memory? Latency page by page");
    if let Some(why) = &latency.why {
        page.bullet(&format!("unknown: {why}"));
        return;
    }
    let most = latency.bins.iter().copied().max().unwrap_or(0).max(1);
    for (i, &count) in latency.bins.iter().enumerate() {
        let low = latency.from_ns + i as f64 * latency.bin_ns;
        let bar = "#".repeat((f64::from(count) * 40.0 / f64::from(most)).ceil() as usize);
        page.line(&format!("{} ns {} {bar}", right(&format!("{low:.0}"), 6), right(&count.to_string(), 6)));
    }
    match latency.peaks[..] {
        [near, far] => page.paragraph(&format!(
            "two memories: {:.0} % of {} pages answer in about {:.0} ns, {:.0} % in {:.0} ns. The firmware \
             interleaves nodes (\"node interleaving\", \"memory interleave: all\") or the hypervisor hides them: \
             NUMA is off for this system, and half-far memory cannot be avoided by placement",
            near.share * 100.0,
            latency.pages,
            near.ns,
            far.share * 100.0,
            far.ns
        )),
        _ => page.paragraph(&format!(
            "one memory: {} pages answer alike{}; {} of them, the fastest and the slowest, are left out",
            latency.pages,
            latency.peaks.first().map(|p| format!(", about {:.0} ns", p.ns)).unwrap_or_default(),
            latency.left_out
        )),
    }
}
