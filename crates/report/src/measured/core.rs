//! What one core does, and the roofline of each node.

use super::super::layout::{Page, left, right, size};
use super::cells::{CELL, found, reasons};
use nearfar_observed::measured::{Kernel, Measured};

/// Columns of a figure's name.
const NAME: usize = 44;

/// Clock, instructions, lines in flight, caches.
pub(super) fn core(page: &mut Page, m: &Measured) {
    let Some(core) = &m.core else { return };
    page.heading(&format!("One core: cpu {} of node {}", core.cpu, core.node));
    let mut rows = vec![
        ("clock, all cores of the node busy, GHz".to_owned(), &core.clock_ghz),
        ("instructions per cycle, cached triad".to_owned(), &core.ipc),
        ("lines in flight".to_owned(), &core.lines_in_flight),
        ("read, best of 1 and 4 streams, GB/s".to_owned(), &core.read_gbs),
        ("update likewise, read + written, GB/s".to_owned(), &core.update_gbs),
    ];
    for cache in &core.caches {
        rows.push((format!("L{} latency, ns ({} chain)", cache.level, size(cache.bytes)), &cache.ns));
    }
    for (name, value) in &rows {
        page.line(&format!("{}{}", left(name, NAME.min(page.width - CELL)), right(&found(value), CELL)));
    }
    reasons(page, "figure", rows.iter().filter_map(|r| r.1.why.as_deref()));
}

/// The frame in which a program is placed: what a node computes at most, what its memory moves
/// at most, and the arithmetic per byte at which the one gives way to the other.
pub(super) fn roofline(page: &mut Page, m: &Measured) {
    if m.flops.is_empty() {
        return;
    }
    page.heading("Roofline, by node: one thread on each core, its own memory");
    let heads = ["f64 GFlop/s", "f32 GFlop/s", "memory GB/s", "ridge, Flop/B"];
    let widths = [12, 12, 13, 15];
    let head: String = heads.iter().zip(widths).map(|(h, w)| right(h, w)).collect();
    page.line(&format!("{}{head}", left("", 8)));
    for node in &m.flops {
        let number = |value: Option<f64>| value.map_or("unknown".to_owned(), |v| format!("{v:.1}"));
        let f64_rate = node.f64_gflops.value.map(|v| v.median);
        let memory = memory_roof(m, node.node);
        let ridge = f64_rate.zip(memory).map(|(f, b)| f / b);
        let cells = [number(f64_rate), number(node.f32_gflops.value.map(|v| v.median)), number(memory)];
        let ridge = ridge.map_or("unknown".to_owned(), |r| format!("{r:.2}"));
        let row: String =
            cells.iter().chain([&ridge]).zip(widths).map(|(cell, width)| right(cell, width)).collect();
        page.line(&format!("{}{row}", left(&format!("node {}", node.node), 8)));
    }
    if let Some(first) = m.flops.first() {
        page.paragraph(&format!(
            "computed with {}; a fused multiply-add is two operations",
            first.instructions
        ));
    }
    if m.bandwidth.is_empty() {
        page.paragraph("memory: not measured in this run (nearfar measure bandwidth, or all)");
    }
    let whys = m.flops.iter().flat_map(|f| [&f.f64_gflops, &f.f32_gflops]);
    reasons(page, "figure", whys.filter_map(|f| f.why.as_deref()));
}

/// The most that was moved between a node's cpus and its memory, GB/s, lines that stores read first
/// included: of the kernels that were measured, the best.
fn memory_roof(m: &Measured, node: u32) -> Option<f64> {
    let moved = |kernel: Kernel| match kernel {
        Kernel::Write => 2.0,
        Kernel::Copy => 1.5,
        Kernel::Triad => 4.0 / 3.0,
        _ => 1.0,
    };
    let of = |b: &nearfar_observed::measured::Bandwidth| {
        let pair = b.pairs.iter().find(|p| p.from == node && p.memory == node)?;
        Some(pair.value?.median * moved(b.kernel))
    };
    m.bandwidth.iter().filter_map(of).max_by(f64::total_cmp)
}
