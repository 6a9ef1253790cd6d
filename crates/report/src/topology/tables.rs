//! Caches and distances as tables.

use super::super::layout::{Page, columns, left, plural, right, size};
use nearfar_machine::topology::{Cache, CacheKind, Topology};

/// One line for each kind of cache.
pub(super) fn caches(page: &mut Page, t: &Topology) {
    page.heading("Caches");
    let Some(caches) = &t.caches else {
        page.line("unknown");
        return;
    };
    for cache in caches {
        let kind = match cache.kind {
            CacheKind::Data => " data",
            CacheKind::Instruction => " code",
            CacheKind::Unified => "",
        };
        let start = format!(
            "{}{} {} {}  ",
            left(&format!("L{}{kind}", cache.level), 9),
            right(&size(cache.size_kb * 1024), 9),
            right(&cache.ways.map_or(String::new(), |w| format!("{w}-way")), 7),
            right(&format!("×{}", cache.instances.len()), 5),
        );
        page.line(&format!("{start}{}", sharing(cache, t, page.width - columns(&start))));
    }
}

/// Which cpus share one instance, with the sets of cpus if they fit and say more.
fn sharing(cache: &Cache, t: &Topology, width: usize) -> String {
    let threads = t.threads_per_core.unwrap_or(1).max(1) as usize;
    let most = cache.instances.iter().map(|i| i.len()).max().unwrap_or(0);
    if most == 1 && threads > 1 {
        return "one for each cpu".to_owned();
    }
    if most <= threads {
        return "one for each core".to_owned();
    }
    let each = format!("one for {}", plural(most.div_ceil(threads), "core"));
    let sets: Vec<String> = cache.instances.iter().map(ToString::to_string).collect();
    let full = format!("{each}: {}", sets.join(" | "));
    if columns(&full) <= width { full } else { each }
}

/// The firmware's matrix, in as many pieces as the width needs.
pub(super) fn distances(page: &mut Page, t: &Topology) {
    page.heading("Distances");
    if t.nodes.iter().all(|n| n.distances.is_empty()) {
        page.line("unknown");
        return;
    }
    let widest = t.nodes.iter().flat_map(|n| n.distances.values().chain([&n.id])).max().copied().unwrap_or(0);
    let cell = widest.to_string().len().max(3) + 1;
    let head = "from node ".len() + cell;
    for part in t.nodes.chunks(((page.width - head) / cell).max(1)) {
        let ids: String = part.iter().map(|n| right(&n.id.to_string(), cell)).collect();
        page.line(&format!("{}{ids}", right("to node", head)));
        for (i, from) in t.nodes.iter().enumerate() {
            let row: String = part
                .iter()
                .map(|to| from.distances.get(&to.id).map_or("?".to_owned(), u32::to_string))
                .map(|d| right(&d, cell))
                .collect();
            let label = if i == 0 { "from node " } else { "" };
            page.line(&format!("{}{}{row}", left(label, 10), right(&from.id.to_string(), cell)));
        }
    }
}
