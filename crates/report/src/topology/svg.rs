//! The topology as a picture for a slide: packages side by side, nodes in them with
//! their cores, memory and devices; the distances below.
//!
//! Own strings rather than an SVG library: rectangles and lines of text are all
//! there is, and what needs care is only where they go.

use super::super::layout::{plural, shorten, size};
use super::boxes::kind;
use super::text::counts;
use nearfar_machine::NodeKind;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::topology::{CacheKind, Node, Topology};
use std::fmt::Write as _;

/// Width of a node, pixels; everything else follows from it.
const NODE: u32 = 250;
/// Space around things.
const GAP: u32 = 16;
/// Packages beside each other; more go into further rows.
const COLUMNS: usize = 4;
/// Side of a core's square, and the distance to the next.
const CORE: u32 = 14;
const STEP: u32 = 18;
/// Side of a cell of the distance matrix.
const CELL: u32 = 40;
/// Header of a node: number, cpus.
const HEAD: u32 = 52;
/// Memory's part of a node.
const MEMORY: u32 = 46;
/// Above the first package: the machine's name and counts.
const TITLE: u32 = 84;
const LINE: u32 = 17;

/// The topology as an SVG of its own, with system fonts and no scripts.
pub fn to_svg(t: &Topology) -> String {
    let groups = groups(t);
    let inner = Inner::of(t);
    let mut body = String::new();
    let (mut x, mut y, mut width, mut row_height, mut in_row) = (GAP, TITLE, 0, 0, 0);
    for (title, nodes) in &groups {
        // Two nodes beside each other; four are two by two.
        let across = if nodes.len() > 1 { 2 } else { 1 };
        if in_row > 0 && in_row + across > COLUMNS {
            (x, y, row_height, in_row) = (GAP, y + row_height + GAP, 0, 0);
        }
        let rows = nodes.len().div_ceil(across) as u32;
        let w = across as u32 * (NODE + GAP) + GAP;
        let heights: Vec<u32> = nodes.chunks(across).map(|row| inner.height(row)).collect();
        let h = 32 + heights.iter().sum::<u32>() + rows * GAP;
        rect(&mut body, (x, y, w, h), "package", 10);
        text(&mut body, x + GAP, y + 22, "h2", title);
        let mut top = y + 32;
        for (row, height) in nodes.chunks(across).zip(&heights) {
            for (i, node) in row.iter().enumerate() {
                inner.draw(&mut body, node, x + GAP + i as u32 * (NODE + GAP), top, *height);
            }
            top += height + GAP;
        }
        (x, in_row) = (x + w + GAP, in_row + across);
        row_height = row_height.max(h);
        width = width.max(x);
    }
    y += row_height + GAP;
    let (right, bottom) = below(&mut body, t, y);
    width = width.max(right).max(640);
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{bottom}\" viewBox=\"0 0 {width} {bottom}\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escape(&t.name)
    );
    text(&mut out, GAP, 32, "h1", &shorten(&t.name, width as usize / 13));
    text(&mut out, GAP, 54, "body", &counts(t));
    text(&mut out, GAP, 73, "dim", &shorten(&format!("NUMA: {}", t.numa.why), width as usize / 7));
    out.push_str(&body);
    out.push_str("</svg>\n");
    out
}

const STYLE: &str = "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#1d2733}\
    .h1{font-size:21px;font-weight:600}.h2{font-size:13px;font-weight:600;fill:#48566a}.h3{font-size:16px;font-weight:600}\
    .body{font-size:13px}.dim{font-size:12px;fill:#5b6878}.cell{font-size:13px;text-anchor:middle}.label{font-size:12px;\
    text-anchor:middle;fill:#5b6878}.package{fill:#f3f5f8;stroke:#c3ccd8}.node{fill:#fff;stroke:#8fa0b5}.core{fill:#4878b0}\
    .used{fill:#b98a3d}";

/// What is drawn as a box: packages, then cpus in none or several, then memory alone.
fn groups(t: &Topology) -> Vec<(String, Vec<&Node>)> {
    let packages = t.packages.iter().flatten().map(|p| p.id);
    let of = |id: u32| move |n: &&Node| !n.cpus.is_empty() && n.package == Some(id);
    let mut all: Vec<(String, Vec<&Node>)> =
        packages.map(|id| (format!("package {id}"), t.nodes.iter().filter(of(id)).collect())).collect();
    let alone = t.nodes.iter().filter(|n| !n.cpus.is_empty() && n.package.is_none()).collect();
    let memory = t.nodes.iter().filter(|n| n.cpus.is_empty()).collect();
    all.extend([
        ("packages unknown or several".to_owned(), alone),
        ("memory without cpus".to_owned(), memory),
    ]);
    all.retain(|(_, nodes)| !nodes.is_empty());
    all
}

/// What every node's inside has in common.
struct Inner<'a> {
    t: &'a Topology,
    /// The largest memory of a node, which has the full width.
    largest_kb: u64,
}

impl<'a> Inner<'a> {
    fn of(t: &'a Topology) -> Self {
        Inner { t, largest_kb: t.nodes.iter().filter_map(|n| n.memory_kb).max().unwrap_or(0).max(1) }
    }

    fn cores(&self, node: &Node) -> usize {
        let inside = |c: &&CpuList| c.first_common(&node.cpus).is_some();
        self.t.cores.as_ref().map_or(node.cpus.len(), |cores| cores.iter().filter(inside).count())
    }

    /// The cache nearest to memory, in the words of one line.
    fn cache(&self, node: &Node) -> Option<String> {
        let caches = self.t.caches.as_ref()?.iter().filter(|c| c.kind != CacheKind::Instruction);
        let inside = |i: &&CpuList| i.first_common(&node.cpus).is_some();
        let last = caches.filter(|c| c.instances.iter().any(|i| inside(&i))).max_by_key(|c| c.level)?;
        let count = last.instances.iter().filter(inside).count();
        let shared = last.instances.iter().any(|i| inside(&i) && i.iter().any(|c| !node.cpus.contains(c)));
        let each = if count > 1 { format!("{count} × ") } else { String::new() };
        let with = if shared { ", shared with other nodes" } else { "" };
        Some(format!("L{} {each}{}{with}", last.level, size(last.size_kb * 1024)))
    }

    /// Lines of text below a node's memory.
    fn notes(&self, node: &Node) -> Vec<String> {
        let side = node.side_caches.iter().map(|c| {
            let size = c.size_kb.map_or("unknown size".to_owned(), |kb| size(kb * 1024));
            format!("behind a cache of {size}")
        });
        let devices = self.t.devices.iter().flatten().filter(|d| d.node == Some(node.id));
        let mut names: Vec<&str> = devices.map(|d| d.name.as_str()).collect();
        names.dedup();
        let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
        let devices = names[..names.len().min(3)].join(", ") + &more;
        side.chain((!devices.is_empty()).then_some(devices)).collect()
    }

    fn core_rows(&self, node: &Node) -> u32 {
        self.cores(node).div_ceil(((NODE - 2 * GAP) / STEP) as usize) as u32
    }

    fn height(&self, row: &[&Node]) -> u32 {
        let one = |n: &&Node| {
            let cache = if self.cache(n).is_some() { LINE + 4 } else { 0 };
            let cpus = if n.cpus.is_empty() { 0 } else { self.core_rows(n) * STEP + 8 + cache };
            HEAD + cpus + MEMORY + self.notes(n).len() as u32 * LINE + 6
        };
        row.iter().map(one).max().unwrap_or(0)
    }

    fn draw(&self, out: &mut String, node: &Node, x: u32, y: u32, height: u32) {
        rect(out, (x, y, NODE, height), "node", 6);
        let left = x + GAP;
        let room = NODE - 2 * GAP;
        text(out, left, y + 23, "h3", &format!("node {}", node.id));
        let cpus = match node.cpus.len() {
            0 => "no cpus".to_owned(),
            n if node.cpus.to_string().len() > 24 => {
                plural(n, "cpu") + &format!(": {}, …", first_two(&node.cpus))
            }
            n => format!("{} {}", if n == 1 { "cpu" } else { "cpus" }, node.cpus),
        };
        text(out, left, y + 42, "dim", &cpus);
        let mut at = y + HEAD;
        if !node.cpus.is_empty() {
            let across = room / STEP;
            for core in 0..self.cores(node) as u32 {
                let place = (left + core % across * STEP, at + core / across * STEP, CORE, CORE);
                rect(out, place, "core", 2);
            }
            at += self.core_rows(node) * STEP + 8;
            if let Some(cache) = self.cache(node) {
                text(out, left, at + 10, "dim", &cache);
                at += LINE + 4;
            }
        }
        // Beside each other, nodes have their memory at the same height.
        let lines = self.notes(node);
        at = at.max(y + height - MEMORY - lines.len() as u32 * LINE - 6);
        let label = match node.memory_kb {
            Some(0) => "no memory".to_owned(),
            Some(kb) => format!("{} {}", size(kb * 1024), kind(node).replace("kind ?", "of unknown kind")),
            None => "memory unknown".to_owned(),
        };
        text(out, left, at + 14, "body", &label);
        if let Some(kb) = node.memory_kb.filter(|&kb| kb > 0) {
            // A thousandth of the largest is still to be seen.
            let share =
                |kb: u64| ((kb as f64 / self.largest_kb as f64) * f64::from(room)).round().max(3.0) as u32;
            rect_fill(out, (left, at + 22, share(kb), 12), color(node));
            if let Some(free) = node.free_kb.filter(|&free| free < kb) {
                rect(out, (left, at + 22, share(kb - free).min(share(kb)), 12), "used", 2);
            }
        }
        for (i, line) in lines.iter().enumerate() {
            text(out, left, at + MEMORY + 6 + i as u32 * LINE, "dim", &shorten(line, 34));
        }
    }
}

fn first_two(cpus: &CpuList) -> String {
    cpus.iter().take(2).map(|c| c.to_string()).collect::<Vec<_>>().join(", ")
}

/// Memory by its kind; the words beside it say the same.
fn color(node: &Node) -> &'static str {
    match node.kind {
        Some(NodeKind::Dram) => "#a9c7a0",
        Some(NodeKind::Hbm) => "#e0a3a3",
        Some(NodeKind::Cxl) => "#b9a6d9",
        Some(NodeKind::Gpu) => "#9fcfd0",
        Some(NodeKind::Pmem) => "#d9c79a",
        None => "#c9ced6",
    }
}

/// Distances and what the colours mean; gives the lower right corner.
fn below(out: &mut String, t: &Topology, top: u32) -> (u32, u32) {
    let mut y = top + 8;
    let known = t.nodes.len() > 1 && t.nodes.iter().all(|n| !n.distances.is_empty());
    let mut right = 0;
    if known {
        text(out, GAP, y + 8, "h2", "distances (firmware; row: cpus, column: memory)");
        let most = t.nodes.iter().flat_map(|n| n.distances.values()).max().copied().unwrap_or(10);
        let left = GAP + CELL;
        y += 36;
        for (i, to) in t.nodes.iter().enumerate() {
            text(out, left + i as u32 * CELL + CELL / 2, y - 6, "label", &to.id.to_string());
        }
        for from in &t.nodes {
            text(out, GAP + CELL / 2, y + 20, "label", &from.id.to_string());
            for (i, to) in t.nodes.iter().enumerate() {
                let Some(&d) = from.distances.get(&to.id) else { continue };
                let x = left + i as u32 * CELL;
                rect_fill(out, (x, y, CELL - 2, 28), &shade(d, most));
                text(out, x + CELL / 2 - 1, y + 19, "cell", &d.to_string());
            }
            y += 30;
        }
        right = left + t.nodes.len() as u32 * CELL + GAP;
        y += GAP;
    }
    let threads = t.threads_per_core.filter(|&n| n > 1).map_or(String::new(), |n| format!(" of {n} cpus"));
    let square = if t.cores.is_some() { format!("a core{threads}") } else { "a cpu".to_owned() };
    rect(out, (GAP, y, CORE, CORE), "core", 2);
    text(out, GAP + 22, y + 12, "dim", &square);
    rect(out, (GAP + 130, y, 26, CORE), "used", 2);
    text(out, GAP + 164, y + 12, "dim", "memory in use; bars are to scale");
    (right, y + CORE + GAP)
}

/// Near is light, far is dark: readable in print, too.
fn shade(distance: u32, most: u32) -> String {
    let span = f64::from(most.max(11) - 10);
    let far = (f64::from(distance.max(10) - 10) / span).clamp(0.0, 1.0);
    let mix = |near: f64, end: f64| (near + (end - near) * far).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(233.0, 226.0), mix(242.0, 150.0), mix(230.0, 110.0))
}

type Rect = (u32, u32, u32, u32);

fn rect(out: &mut String, (x, y, w, h): Rect, class: &str, round: u32) {
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{round}\"/>"
    );
}

fn rect_fill(out: &mut String, (x, y, w, h): Rect, fill: &str) {
    let _ =
        writeln!(out, "<rect fill=\"{fill}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"2\"/>");
}

fn text(out: &mut String, x: u32, y: u32, class: &str, words: &str) {
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(words));
}

fn escape(text: &str) -> String {
    nearfar_figures::escape::xml(&nearfar_figures::escape::line(text))
}
