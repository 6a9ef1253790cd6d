//! The sections of what the virtual machine counted: traffic, cpus, memory, links, time.

use super::layout::*;
use nearfar_analyze::{
    Bound, Counted, CountedInWindows, CpuCounts, DramFlow, LinkFlow, Moment, NodeLoad, Report, Roof,
};
use nearfar_timing::Binding;

/// Directions of links shown, the busiest first; the JSON has them all.
const LINKS: usize = 6;
/// Resources shown of those that bind.
const BINDS: usize = 4;
/// Most columns of a strip of bandwidth over time.
const STRIP: usize = 40;
/// Heights in a strip, from an eighth to the whole of what a node's memory sustains.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `memory of node 0`.
pub(super) fn resource(binds: Binding) -> String {
    match binds {
        Binding::Core => "cores".to_owned(),
        Binding::Concurrency => "latency".to_owned(),
        Binding::Memory { node } => format!("memory of node {node}"),
        Binding::Link { from, to } if from == to => format!("port of node {from}'s cores"),
        Binding::Link { from, to } => format!("link {from}→{to}"),
    }
}

/// `memory of node 0 93 %`: what bound most of some lines.
pub(super) fn bound_most(bound: &[Bound]) -> String {
    bound
        .first()
        .map_or_else(|| "unknown".to_owned(), |b| format!("{} {}", resource(b.binds), percent(Some(b.share))))
}

/// `139 ms (128–155)`, three digits, all in the unit of the first.
pub(super) fn seconds(s: f64, low: f64, high: f64) -> String {
    let (unit, per) = match s {
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e-3),
        _ => ("µs", 1e-6),
    };
    format!("{} {unit} ({}–{})", digits(s / per), digits(low / per), digits(high / per))
}

/// `lines counted in 37 windows (5.0 % of the instructions; lines ±1.2 %, time ±0.8 %)`.
pub(super) fn in_windows(w: &CountedInWindows) -> String {
    let part = w.counted_instructions as f64 / w.instructions.max(1) as f64;
    let error =
        |error: Option<f64>| error.map_or("unknown".to_owned(), |error| format!("±{}", percent(Some(error))));
    let errors = match (w.lines_error, w.seconds_error) {
        (None, None) => "too few to say how far off they are".to_owned(),
        (lines, seconds) => match w.cut_error.filter(|&cut| cut > seconds.unwrap_or(0.0)) {
            Some(cut) => format!(
                "lines {}, time {}, or up to {} less where windows cut loops",
                error(lines),
                error(seconds),
                percent(Some(cut))
            ),
            None => format!("lines {}, time {}", error(lines), error(seconds)),
        },
    };
    let windows = if w.windows == 1 { "window" } else { "windows" };
    format!(
        "lines counted in {} {windows} ({} of the instructions; {errors})",
        count(w.windows),
        percent(Some(part))
    )
}

/// `1.25 s`, `139 ms`, `12.0 µs`.
pub(super) fn seconds_short(s: f64) -> String {
    match s.abs() {
        0.0 => "0".to_owned(),
        a if a >= 1.0 => format!("{} s", digits(s)),
        a if a >= 1e-3 => format!("{} ms", digits(s * 1e3)),
        _ => format!("{} µs", digits(s * 1e6)),
    }
}

/// Three significant digits, without an exponent; what is not a number is unknown, not 0.
pub(super) fn digits(x: f64) -> String {
    match x.abs() {
        a if !a.is_finite() => "unknown".to_owned(),
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        a if a > 0.0 => format!("{x:.2}"),
        _ => "0".to_owned(),
    }
}

/// `12.3 M`.
pub(super) fn many(n: u64) -> String {
    let x = n as f64;
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{} k", digits(x / 1e3)),
        1_000_000..1_000_000_000 => format!("{} M", digits(x / 1e6)),
        _ => format!("{} G", digits(x / 1e9)),
    }
}

/// `12.3 GB`, decimal as rates are.
pub(super) fn volume(bytes: u64) -> String {
    many(bytes) + if bytes < 1000 { " B" } else { "B" }
}

/// The head's line of the time.
pub(super) fn time(page: &mut Page, r: &Report) {
    let Some(t) = &r.time else {
        if let (Some(_), Some(why)) = (&r.counters, &r.time_why) {
            page.item(0, "time", &format!("unknown: {why}"));
        }
        return;
    };
    let mut shares: Vec<String> = t
        .shares
        .iter()
        .take(BINDS)
        .map(|b| format!("{} {}", resource(b.binds), percent(Some(b.share))))
        .collect();
    if t.shares.len() > BINDS {
        shares.push("…".to_owned());
    }
    let waits = r.counters.as_ref().and_then(|c| c.memory_bound_share);
    let waits = waits.map_or(String::new(), |w| format!(", {} of it waiting for memory", percent(Some(w))));
    let time = seconds(t.seconds, t.low, t.high);
    let rivals = match r.findings.iter().any(|f| f.shares_lines() && f.predicted.is_some()) {
        true => "; of the waits for lines that cores take from each other, only counted transfers are in it",
        false => "",
    };
    page.item(0, "time", &format!("{time} on that machine{waits}; bound by {}{rivals}", shares.join(", ")));
}

/// All sections.
pub(super) fn sections(page: &mut Page, r: &Report) {
    let Some(c) = &r.counters else { return };
    traffic(page, r, c);
    memory(page, c);
    cpus(page, c);
}

/// Who read and wrote how much of whose memory.
fn traffic(page: &mut Page, r: &Report, c: &Counted) {
    let ids = &r.machine.node_ids;
    let label = 18;
    // `12.3 + 4.56` and a gap.
    let width = 14;
    let shown = &ids[..ids.len().min(((page.width - label) / width).max(1))];
    let most = c.dram.iter().map(|d| d.read_bytes.max(d.write_bytes)).max().unwrap_or(0);
    let (unit, per) = nearfar_figures::sizes::moved(most);
    let head: String = shown.iter().map(|id| right(&format!("of node {id}"), width)).collect();
    page.heading(&format!("{}{head}", left(&format!("{unit} read + written"), label)));
    let from_here: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|id| c.cpus.iter().any(|cpu| cpu.node == Some(*id)) || c.dram.iter().any(|d| d.from == *id))
        .collect();
    for from in from_here {
        let cell = |page_node: &u32| {
            let flow = c.dram.iter().find(|d| (d.from, d.page_node) == (from, *page_node));
            let text = flow.filter(|d| d.read_bytes + d.write_bytes > 0).map_or("·".to_owned(), |d| {
                format!("{} + {}", digits(d.read_bytes as f64 / per), digits(d.write_bytes as f64 / per))
            });
            right(&text, width)
        };
        let cells: String = shown.iter().map(cell).collect();
        page.line(&format!("{}{cells}", left(&format!("by cpus of node {from}"), label)));
    }
    if shown.len() < ids.len() {
        page.line(&format!("   and {} more in the JSON", plural(ids.len() - shown.len(), "node")));
    }
    let sum = |f: fn(&DramFlow) -> u64, far: bool| -> u64 {
        c.dram.iter().filter(|d| !far || d.from != d.page_node).map(f).sum()
    };
    let mut parts = Vec::new();
    let read = sum(|d| d.read_bytes, false);
    if read > 0 {
        let ahead = sum(|d| d.prefetch_bytes, false) as f64 / read as f64;
        parts.push(format!("prefetched {} of what was read", percent(Some(ahead))));
    }
    let caches = sum(|d| d.cache_bytes, false);
    if caches > 0 {
        let far = sum(|d| d.cache_bytes, true);
        parts.push(format!("from other caches {}, {} of it across nodes", volume(caches), volume(far)));
    }
    parts.extend(links(&c.links));
    if !parts.is_empty() {
        page.item(0, "also", &parts.join("; "));
    }
}

/// `links 0→1 12.1 of 38.4 GB/s, 1→0 …`.
fn links(all: &[LinkFlow]) -> Option<String> {
    let mut busy: Vec<&LinkFlow> = all.iter().filter(|l| l.bytes > 0).collect();
    let load = |l: &LinkFlow| l.gb_per_s / l.capacity_gb_per_s.unwrap_or(f64::INFINITY);
    busy.sort_by(|a, b| {
        load(b).total_cmp(&load(a)).then(b.bytes.cmp(&a.bytes)).then((a.from, a.to).cmp(&(b.from, b.to)))
    });
    let one = |l: &&LinkFlow| {
        let name = match l.from == l.to {
            true => format!("port of node {}'s cores", l.from),
            false => format!("{}→{}", l.from, l.to),
        };
        match l.capacity_gb_per_s {
            Some(most) => format!("{name} {} of {} GB/s", digits(l.gb_per_s), digits(most)),
            None => format!("{name} {} GB/s (what it can carry is unknown)", digits(l.gb_per_s)),
        }
    };
    let mut list: Vec<String> = busy.iter().take(LINKS).map(one).collect();
    if busy.len() > LINKS {
        list.push(format!("and {} more directions", busy.len() - LINKS));
    }
    (!list.is_empty()).then(|| format!("links {}", list.join(", ")))
}

/// How hard each node's memory worked, and when.
fn memory(page: &mut Page, c: &Counted) {
    if c.bandwidth.is_empty() {
        return;
    }
    let strip = page.width.saturating_sub(61).min(STRIP);
    let title = if strip >= 10 { "over the time" } else { "" };
    // Of the time, how much below half of what it sustains, up to four fifths, and above.
    page.heading(&format!(
        "{}{}{}{}{}{}   {title}",
        left("Memory of", 10),
        right("GB/s", 8),
        right("sustains", 10),
        right("time < 50 %", 13),
        right("50–80 %", 9),
        right("> 80 %", 8),
    ));
    let share = percent;
    for load in &c.bandwidth {
        let bars = if strip >= 10 { bars(load, &c.timeline, strip) } else { String::new() };
        page.line(&format!(
            "{}{}{}{}{}{}   {bars}",
            left(&format!("node {}", load.node), 10),
            right(&digits(load.gb_per_s), 8),
            right(&load.sustained_gb_per_s.map_or("unknown".to_owned(), digits), 10),
            right(&share(load.low), 13),
            right(&share(load.medium), 9),
            right(&share(load.high), 8),
        ));
    }
}

/// A node's bandwidth over the time, an eighth of what it sustains per step.
fn bars(load: &NodeLoad, moments: &[Moment], columns: usize) -> String {
    let end = moments.last().map(|m| m.to_s).filter(|end| *end > 0.0);
    let (Some(most), Some(end)) = (load.sustained_gb_per_s.filter(|most| *most > 0.0), end) else {
        return String::new();
    };
    let rate = |m: &Moment| {
        let node = m.nodes.iter().find(|n| n.node == load.node);
        node.map_or(0.0, |n| n.read_gb_per_s + n.write_gb_per_s)
    };
    (0..columns)
        .map(|i| {
            let (from, to) = (end * i as f64 / columns as f64, end * (i + 1) as f64 / columns as f64);
            let within = |m: &Moment| (m.to_s.min(to) - m.from_s.max(from)).max(0.0);
            let mean = moments.iter().map(|m| rate(m) * within(m)).sum::<f64>() / (to - from);
            match mean / most {
                // Less than a hundredth is nothing to see.
                part if part < 0.01 => ' ',
                part => BARS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1],
            }
        })
        .collect()
}

/// The head's line of arithmetic against traffic.
pub(super) fn roofline(page: &mut Page, r: &Report) {
    let Some(c) = &r.counters else { return };
    let Some(r) = &c.roofline else {
        if let Some(why) = &c.roofline_why {
            page.item(0, "roofline", &format!("unknown: {why}"));
        }
        return;
    };
    let ops = r.f64_ops + r.f32_ops;
    let kind = match (r.f64_ops, r.f32_ops) {
        (0, 0) => return page.item(0, "roofline", "the program has no floating-point operations"),
        (_, 0) => "double precision".to_owned(),
        (0, _) => "single precision".to_owned(),
        (double, _) => format!("{} double precision", percent(Some(double as f64 / ops as f64))),
    };
    let mut text = match r.flop_per_byte {
        Some(intensity) => format!("{} Flop per byte from and to DRAM ({kind})", digits(intensity)),
        None => format!("{}Flop ({kind}), nothing from or to DRAM", many(ops)),
    };
    if let Some(rate) = r.gflops {
        text += &format!("; {} GFlop/s", digits(rate));
        text += &match (r.roof_gflops, r.roof) {
            (Some(roof), Some(what)) => {
                let name = match what {
                    Roof::Memory => "which the memory of all nodes allows there",
                    Roof::Arithmetic => "which the cores compute at most",
                };
                format!(", {} of the {} {name}", percent(Some(rate / roof)), digits(roof))
            }
            _ if r.peak_gflops.is_none() => {
                ", of an unknown roof: the machine file has no f64_gflops and f32_gflops in [core]".to_owned()
            }
            _ => String::new(),
        };
    }
    page.item(0, "roofline", &text);
}

/// Columns of the first column of cpus.
const CPUS_OF: usize = 13;

/// What the cpus of each node did, from the least to the most.
fn cpus(page: &mut Page, c: &Counted) {
    if c.cpus.is_empty() {
        return;
    }
    // The caches that are farthest from memory say least of it: they stay out of a narrow page first.
    let mut titles = vec![
        ("instr.", 9),
        ("IPC", 11),
        ("L1 hit %", 12),
        ("L2 hit %", 12),
        ("L3 hit %", 12),
        ("TLB miss", 11),
    ];
    for least in ["L1 hit %", "L2 hit %", "TLB miss"] {
        if CPUS_OF + titles.iter().map(|t| t.1).sum::<usize>() > page.width {
            titles.retain(|t| t.0 != least);
        }
    }
    let head: String = titles.iter().map(|&(title, width)| right(title, width)).collect();
    page.heading(&format!("{}{head}", left("Cpus of", CPUS_OF)));
    let mut nodes: Vec<Option<u32>> = c.cpus.iter().map(|cpu| cpu.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in nodes {
        let all: Vec<&CpuCounts> = c.cpus.iter().filter(|cpu| cpu.node == node).collect();
        let of = |f: fn(&CpuCounts) -> Option<f64>, scale: f64, places: usize| {
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            for x in all.iter().filter_map(|c| f(c)) {
                (least, most) = (least.min(x * scale), most.max(x * scale));
            }
            let (least, most) = (format!("{least:.places$}"), format!("{most:.places$}"));
            match (least.as_str(), least == most) {
                ("inf", _) => "unknown".to_owned(),
                (_, true) => least,
                (_, false) => format!("{least}–{most}"),
            }
        };
        let name = node.map_or("no node".to_owned(), |n| format!("node {n}"));
        let sum = |f: fn(&CpuCounts) -> u64| all.iter().map(|c| f(c)).sum::<u64>();
        let cell = |&(title, width): &(&str, usize)| {
            let text = match title {
                "instr." => many(sum(|c| c.instructions)),
                "IPC" => of(|c| c.ipc, 1.0, 2),
                "L1 hit %" => of(|c| c.l1_hit, 100.0, 1),
                "L2 hit %" => of(|c| c.l2_hit, 100.0, 1),
                "L3 hit %" => of(|c| c.l3_hit, 100.0, 1),
                _ => many(sum(|c| c.tlb_misses + c.huge_tlb_misses)),
            };
            right(&text, width)
        };
        let cells: String = titles.iter().map(cell).collect();
        page.line(&format!("{}{cells}", left(&format!("{name} ({})", all.len()), CPUS_OF)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_zero() {
        assert_eq!(digits(0.0), "0");
        assert_eq!(digits(f64::NAN), "unknown");
        assert_eq!(digits(f64::INFINITY), "unknown");
    }
}
