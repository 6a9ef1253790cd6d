//! The machine with its traffic.

use super::drawing::{Anchor, Drawing};
use super::source::source;
use crate::counted::digits;
use crate::layout::{percent, shorten, size};
use nearfar_analyze::Report;

/// Of more nodes, ways between all of them would hide each other.
const CROSSING: usize = 4;
/// More nodes are shown by the matrix alone.
const NODES: usize = 16;
const NODE: (f64, f64) = (200.0, 58.0);
const PIPE: f64 = 46.0;
const MEMORY: f64 = 44.0;
/// Where a colour of the scale ends: parts of what a memory or a link sustains. // chosen
const SCALE: [f64; 4] = [0.2, 0.4, 0.6, 0.8];

/// The colour of a part of what a way sustains; hatched where it is unknown.
fn color(load: Option<f64>) -> String {
    match load {
        Some(load) => format!("l{}", SCALE.iter().filter(|end| load >= **end).count()),
        None => "lu".to_owned(),
    }
}

struct Flow {
    from: usize,
    page_node: usize,
    part: f64,
    load: Option<f64>,
    label: String,
}

/// What is there is not 0, however little.
fn rate(gbs: f64) -> String {
    if gbs > 0.0 && gbs < 0.005 { "< 0.01 GB/s".to_owned() } else { format!("{} GB/s", digits(gbs)) }
}

/// GB/s where lines were counted and timed, else shares of what was sampled.
fn flows(r: &Report) -> Vec<Flow> {
    let at = |id: u32| r.machine.node_ids.iter().position(|&n| n == id);
    let flow = |f: &nearfar_analyze::TrafficFlow| {
        let (from, page_node) = (at(f.from)?, at(f.page_node)?);
        let label = match f.gb_per_s {
            Some(gbs) => rate(gbs),
            None => percent(r.node_matrix.get(from).and_then(|row| row.get(page_node)).copied()),
        };
        Some(Flow { from, page_node, part: f.share, load: f.load, label })
    };
    r.pictures.traffic.flows.iter().filter_map(flow).collect()
}

/// `None` for more than sixteen nodes.
pub(super) fn machine(r: &Report) -> Option<Drawing> {
    let nodes = &r.pictures.machine.nodes;
    if nodes.is_empty() || nodes.len() > NODES {
        return None;
    }
    let across = match nodes.len() {
        n @ 1..=2 => n,
        3..=4 => 2,
        _ => 4,
    };
    let gap = (if across > 2 { 26.0 } else { 180.0 }, 40.0);
    let high = NODE.1 + PIPE + MEMORY;
    let corner = |at: usize| {
        let (column, row) = ((at % across) as f64, (at / across) as f64);
        (12.0 + column * (NODE.0 + gap.0), Drawing::TOP + 8.0 + row * (high + gap.1))
    };
    let width = 24.0 + across as f64 * NODE.0 + (across as f64 - 1.0) * gap.0;
    let mut d = Drawing::new(width.max(560.0), &shorten(&r.machine.name, 70));
    for (at, node) in nodes.iter().enumerate() {
        let (x, y) = corner(at);
        d.rect("box", (x, y), NODE);
        d.text(x + 10.0, y + 20.0, "strong", Anchor::Start, &format!("node {}", node.id));
        let cores = match (node.cpu_count, node.package) {
            (0, _) => "no cpus".to_owned(),
            (_, Some(package)) => format!("{} cores, socket {package}", node.cores),
            (_, None) => format!("{} cores", node.cores),
        };
        d.text(x + 10.0, y + 36.0, "small", Anchor::Start, &cores);
        d.rect("box", (x, y + NODE.1 + PIPE), (NODE.0, MEMORY));
        let top = y + NODE.1 + PIPE;
        d.text(x + 10.0, top + 18.0, "strong", Anchor::Start, &format!("memory of node {}", node.id));
        let known =
            [node.memory_bytes.map(size), node.read_gb_per_s.map(|g| format!("sustains {} GB/s", digits(g)))];
        let words: Vec<String> = known.into_iter().flatten().collect();
        let words = if words.is_empty() { "size unknown".to_owned() } else { words.join(", ") };
        d.text(x + 10.0, top + 34.0, "small", Anchor::Start, &words);
    }
    let all = flows(r);
    let crossing = nodes.len() <= CROSSING;
    if crossing {
        for f in all.iter().filter(|f| f.from < nodes.len() && f.page_node < nodes.len()) {
            way(&mut d, f, corner(f.from), corner(f.page_node));
        }
    } else {
        for at in 0..nodes.len() {
            let (x, y) = corner(at);
            let Some(own) = r.pictures.traffic.memories.get(at) else { continue };
            let ways = [
                ("near", 30.0, own.near_share, own.near_gb_per_s),
                ("far", 112.0, own.far_share, own.far_gb_per_s),
            ];
            for (kind, offset, part, gbs) in ways {
                if part > 0.0 {
                    let path = format!("M{:.1} {:.1}V{:.1}", x + offset, y + NODE.1 + PIPE, y + NODE.1);
                    d.way(&format!("way-{}", color(own.load)), &path, 2.0 + part * 40.0);
                    let label = gbs.map_or_else(|| percent(Some(part)), rate);
                    let (side, middle) = (x + offset + 8.0 + part * 20.0, y + NODE.1 + PIPE / 2.0);
                    d.text(side, middle - 3.0, "small", Anchor::Start, kind);
                    d.text(side, middle + 11.0, "strong", Anchor::Start, &label);
                }
            }
        }
    }
    let timed = r.counters.is_some() && r.time.is_some();
    let unit = match (crossing, timed) {
        (false, true) => "near and far use of each memory, GB/s, counted".to_owned(),
        (false, false) => format!("near and far use of each memory, share of {}", r.basis.words()),
        (true, true) => "GB/s, counted, over the time that the work takes on the machine".to_owned(),
        (true, false) => format!("share of {}", r.basis.words()),
    };
    d.foot(&format!("width of a band: {unit}"));
    d.foot("colour of a band: how much of what the memory or the link sustains is used");
    let name = |at: usize| match at {
        0 => format!("below {:.0} %", SCALE[0] * 100.0),
        4 => format!("from {:.0} %", SCALE[3] * 100.0),
        _ => format!("{:.0} to {:.0} %", SCALE[at - 1] * 100.0, SCALE[at] * 100.0),
    };
    let mut keys: Vec<(&str, String)> = Vec::new();
    if timed {
        keys.extend(
            ["l0", "l1", "l2", "l3", "l4"].into_iter().enumerate().map(|(at, class)| (class, name(at))),
        );
    }
    let why = match (&r.counters, timed) {
        (_, true) => String::new(),
        (None, _) => ": samples count no bytes".to_owned(),
        (Some(_), _) => format!(": {}", r.time_why.as_deref().unwrap_or("no time")),
    };
    keys.push(("unknown", format!("unknown{why}")));
    d.keys(&keys);
    d.foot(&source(r));
    Some(d)
}

/// From the memory of a node to the cpus of a node.
fn way(d: &mut Drawing, f: &Flow, a: (f64, f64), b: (f64, f64)) {
    let wide = 2.0 + f.part * 26.0;
    let class = format!("way-{}", color(f.load));
    let top = b.1 + NODE.1 + PIPE;
    if f.from == f.page_node {
        let x = a.0 + NODE.0 / 2.0;
        d.way(&class, &format!("M{x:.1} {top:.1}V{:.1}", a.1 + NODE.1), wide);
        d.text(x + wide / 2.0 + 6.0, a.1 + NODE.1 + PIPE / 2.0 + 4.0, "strong", Anchor::Start, &f.label);
        return;
    }
    let same = (a.0 - b.0).abs() < 1.0;
    let right = b.0 < a.0 - 1.0 || same && f.page_node < f.from;
    let x1 = if right { b.0 + NODE.0 } else { b.0 };
    let x2 = match () {
        () if same => x1,
        () if a.0 > b.0 => a.0,
        () => a.0 + NODE.0,
    };
    let (y1, y2) = (top + MEMORY / 2.0, a.1 + NODE.1 / 2.0);
    let bend = match (same, right) {
        (true, true) => 50.0,
        (true, false) => -50.0,
        (false, _) => (x2 - x1) / 2.0,
    };
    let second = if same { x2 + bend } else { x2 - bend };
    d.way(
        &class,
        &format!("M{x1:.1} {y1:.1}C{:.1} {y1:.1} {second:.1} {y2:.1} {x2:.1} {y2:.1}", x1 + bend),
        wide,
    );
    // Above the end at the cpus: bands of opposite direction cross in the middle, where a label could be either's.
    if (a.1 - b.1).abs() < 1.0 {
        let (x, anchor) = if a.0 > b.0 { (x2 - 8.0, Anchor::End) } else { (x2 + 8.0, Anchor::Start) };
        d.text(x, y2 - wide / 2.0 - 6.0, "strong", anchor, &f.label);
        return;
    }
    let aside = if same { bend * 0.75 } else { 0.0 };
    let part = if f.from < f.page_node { 20.0 } else { -20.0 };
    d.text((x1 + x2) / 2.0 + aside, (y1 + y2) / 2.0 + 4.0 + part, "strong", Anchor::Middle, &f.label);
}
