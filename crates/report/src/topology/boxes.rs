//! Packages as boxes; in each its nodes with their memory and cpus.

use super::super::layout::{Page, columns, left, plural, size};
use nearfar_machine::NodeKind;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::topology::{Node, Topology};

/// Columns of the bar that shows how full a node is.
const BAR: usize = 16;
/// Where the text beside a node's name begins.
const INDENT: usize = 10;
/// With more cpus than this in a node its cores are not listed one by one.
const LISTED_CPUS: usize = 16;

/// One box for each package, one for nodes whose package is unknown or several, one
/// for memory without cpus.
pub(super) fn draw(page: &mut Page, t: &Topology) {
    let mut boxes: Vec<(String, Vec<&Node>)> = Vec::new();
    for package in t.packages.iter().flatten() {
        let nodes: Vec<&Node> =
            t.nodes.iter().filter(|n| n.package == Some(package.id) && !n.cpus.is_empty()).collect();
        if !nodes.is_empty() {
            let dies = package.dies.filter(|&d| d > 1).map_or(String::new(), |d| format!(", {d} dies"));
            boxes.push((format!("package {}{dies}", package.id), nodes));
        }
    }
    let (loose, memory): (Vec<&Node>, Vec<&Node>) =
        t.nodes.iter().filter(|n| n.package.is_none() || n.cpus.is_empty()).partition(|n| !n.cpus.is_empty());
    let of_loose = |n: &&Node| t.packages.iter().flatten().any(|p| p.nodes.contains(&n.id));
    let title = if loose.iter().any(of_loose) { "several packages" } else { "package unknown" };
    boxes.extend([(title.to_owned(), loose), ("memory without cpus".to_owned(), memory)]);
    for (title, nodes) in boxes.iter().filter(|(_, nodes)| !nodes.is_empty()) {
        frame(page, title, nodes, t);
    }
}

fn frame(page: &mut Page, title: &str, nodes: &[&Node], t: &Topology) {
    let inner = page.width - 4;
    let rule = |n: usize| "─".repeat(n);
    page.line(&format!("┌─ {title} {}┐", rule(inner.saturating_sub(columns(title) + 1))));
    for node in nodes {
        for line in lines(node, t, inner) {
            page.line(&format!("│ {} │", left(&line, inner)));
        }
    }
    page.line(&format!("└{}┘", rule(inner + 2)));
}

fn lines(node: &Node, t: &Topology, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let name = left(&format!("node {}", node.id), INDENT);
    let kb = |kb: Option<u64>| kb.map_or("unknown".to_owned(), |kb| size(kb * 1024));
    let mut memory = format!("{name}{} {}", left(&kb(node.memory_kb), 9), kind(node));
    if let (Some(total @ 1..), Some(free)) = (node.memory_kb, node.free_kb) {
        let used = total.saturating_sub(free);
        // Anything used shows; full is full only if nothing is left.
        memory = left(&memory, INDENT + 17);
        let words = format!("  {} free", size(free * 1024));
        // Shorter where there is less room.
        let bar = BAR.min(width.saturating_sub(columns(&memory) + columns(&words)).max(4));
        let full =
            ((used as f64 / total as f64 * bar as f64).round() as usize).clamp(usize::from(used > 0), bar);
        let full = if free > 0 { full.min(bar - 1) } else { full };
        memory.push_str(&format!("{}{}{words}", "█".repeat(full), "░".repeat(bar - full)));
    }
    lines.push(memory);
    // Items carry the glue that follows them, since a list may end in another text.
    let mut add = |label: &str, items: &[String]| {
        let mut line = format!("{}{label} ", " ".repeat(INDENT));
        let indent = columns(&line);
        for item in items {
            if columns(&line) + columns(item.trim_end()) > width && columns(&line) > indent {
                lines.push(line.trim_end().to_owned());
                line = " ".repeat(indent);
            }
            line.push_str(item);
        }
        lines.push(line.trim_end().to_owned());
    };
    if !node.cpus.is_empty() {
        let mut words = glued(node.cpus.to_string().split(','), ",");
        words.extend(cores(node, t).map(|cores| format!(" ({cores})")));
        add("cpus", &words);
    }
    for cache in t.caches.iter().flatten() {
        let inside = cache.instances.iter().filter(|i| i.first_common(&node.cpus).is_some());
        let inside: Vec<String> = inside.map(ToString::to_string).collect();
        // A cache of one core goes without saying, and so does one for the whole node.
        let shared = cache.instances.iter().any(|i| i.len() > t.threads_per_core.unwrap_or(1) as usize);
        if shared && inside.len() > 1 && cache.level > 2 {
            let label = format!("L{} {} each:", cache.level, size(cache.size_kb * 1024));
            add(&label, &glued(inside.iter().map(String::as_str), " | "));
        }
    }
    let pages = node.huge_pages.iter().flatten().filter(|p| p.total > 0);
    let pages: Vec<String> =
        pages.map(|p| format!("{} of {} of {}", p.free, p.total, size(p.page_kb * 1024))).collect();
    if !pages.is_empty() {
        add("huge pages free:", &glued(pages.iter().map(String::as_str), ", "));
    }
    for cache in &node.side_caches {
        let kind = match cache.direct_mapped {
            Some(true) => ", direct-mapped",
            Some(false) => ", indexed",
            None => "",
        };
        let text = format!("{}{kind}, in front of this memory", kb(cache.size_kb));
        add("side cache", &[text]);
    }
    if let Some(access) = &node.access {
        let mut words = Vec::new();
        let mut figure = |what: &str, value: Option<u64>, unit: &str| {
            words.extend(value.map(|v| format!("{what} {v} {unit}")));
        };
        figure("read", access.read_mbs, "MB/s");
        figure("write", access.write_mbs, "MB/s");
        figure("read", access.read_ns, "ns");
        figure("write", access.write_ns, "ns");
        let from: NodeList = access.from.iter().copied().collect();
        words.push(format!("from node {from} (HMAT)"));
        add("firmware:", &glued(words.iter().map(String::as_str), ", "));
    }
    lines
}

/// Each word with `glue` behind it, the last one without.
fn glued<'a>(words: impl Iterator<Item = &'a str>, glue: &str) -> Vec<String> {
    let mut words: Vec<String> = words.map(|w| format!("{w}{glue}")).collect();
    if let Some(last) = words.last_mut() {
        last.truncate(last.len() - glue.len());
    }
    words
}

/// What the memory is.
pub(super) fn kind(node: &Node) -> &'static str {
    match node.kind {
        _ if node.memory_kb == Some(0) => "",
        Some(NodeKind::Dram) => "DRAM",
        Some(NodeKind::Hbm) => "HBM",
        Some(NodeKind::Cxl) => "CXL",
        Some(NodeKind::Gpu) => "GPU",
        Some(NodeKind::Pmem) => "PMEM",
        None => "kind ?",
    }
}

/// `4 cores: 0+4 1+5 2+6 3+7`; for many cores how the first ones are numbered.
fn cores(node: &Node, t: &Topology) -> Option<String> {
    let cores: Vec<&CpuList> =
        t.cores.as_ref()?.iter().filter(|c| c.first_common(&node.cpus).is_some()).collect();
    let count = plural(cores.len(), "core");
    if cores.iter().all(|c| c.len() == 1) {
        return Some(count);
    }
    let join = |c: &CpuList| c.iter().map(|n| n.to_string()).collect::<Vec<_>>().join("+");
    let shown = if node.cpus.len() > LISTED_CPUS { cores.len().min(2) } else { cores.len() };
    let listed: Vec<String> = cores[..shown].iter().map(|c| join(c)).collect();
    let more = if shown < cores.len() { " …" } else { "" };
    Some(format!("{count}: {}{more}", listed.join(" ")))
}
