//! Caches. The machine has those of the first online cpu: machines with two kinds of
//! core exist, but none with several nodes. The topology has all of them.

use super::tree::Tree;
use nearfar_machine::CacheLevel;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::file::{CacheFigures, Figure, Provenance};
use nearfar_machine::topology::{Cache, CacheKind};

/// What was found; the same levels plainly and with their source.
#[derive(Default)]
pub(super) struct Caches {
    pub(super) levels: Vec<CacheLevel>,
    pub(super) figures: Vec<CacheFigures>,
    pub(super) line_bytes: Option<u32>,
}

pub(super) fn read(tree: &Tree, online: &CpuList, threads_per_core: u32, provenance: &Provenance) -> Caches {
    let mut caches = Caches::default();
    let Some(first) = online.first() else {
        return caches;
    };
    // Instructions are not what analysis is about.
    for cache in of_cpu(tree, first, online).into_iter().filter(|c| c.kind != CacheKind::Instruction) {
        let Cache { level, size_kb, ways, line_bytes, instances, .. } = cache;
        let size_bytes = size_kb * 1024;
        let sharing: usize = instances.iter().map(CpuList::len).sum();
        let cores = (sharing as u32).div_ceil(threads_per_core.max(1)).max(1);
        caches.line_bytes = caches.line_bytes.or(line_bytes);
        let figure = |value: f64| Figure {
            value,
            source: provenance.source.clone(),
            confidence: provenance.confidence,
        };
        caches.levels.push(CacheLevel {
            level,
            size_bytes,
            ways,
            latency_cycles: None,
            cores_per_instance: cores,
        });
        caches.figures.push(CacheFigures {
            level,
            size_bytes: figure(size_bytes as f64),
            cores_per_instance: cores,
            inclusion: None,
            ways: ways.map(|w| figure(f64::from(w))),
            latency_cycles: None,
            read_gbs: None,
            write_gbs: None,
        });
    }
    caches
}

/// The caches of one cpu, each with the one instance that is its.
fn of_cpu(tree: &Tree, cpu: u32, online: &CpuList) -> Vec<Cache> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
    let cache = |index: u32| {
        let at = |file: &str| format!("{folder}/index{index}/{file}");
        let kind = match tree.text(&at("type")).as_deref() {
            Some("Instruction") => CacheKind::Instruction,
            Some("Data") => CacheKind::Data,
            _ => CacheKind::Unified,
        };
        let shared = tree.list_or_mask(&at("shared_cpu_list"), &at("shared_cpu_map"));
        let shared: CpuList = shared.iter().flat_map(CpuList::iter).filter(|&c| online.contains(c)).collect();
        Some(Cache {
            level: tree.parsed(&at("level"))?,
            kind,
            size_kb: Some(bytes(&tree.text(&at("size"))?)? / 1024).filter(|&kb| kb > 0)?,
            // 0 is written both for fully associative and for unknown.
            ways: tree.parsed(&at("ways_of_associativity")).filter(|&w| w > 0),
            line_bytes: tree.parsed(&at("coherency_line_size")).filter(|&b| b > 0),
            // Not shared, if nothing is said.
            instances: vec![if shared.is_empty() { (cpu..=cpu).into() } else { shared }],
        })
    };
    tree.numbered::<()>(&folder, "index").iter().filter_map(cache).collect()
}

/// All caches, those of one level, kind and size together; `None` if no cpu tells.
pub(super) fn instances(tree: &Tree, online: &CpuList) -> Option<Vec<Cache>> {
    let mut all: Vec<Cache> = Vec::new();
    for cache in online.iter().flat_map(|cpu| of_cpu(tree, cpu, online)) {
        let key = |c: &Cache| (c.level, c.kind, c.size_kb, c.ways, c.line_bytes);
        match all.iter_mut().find(|known| key(known) == key(&cache)) {
            Some(known) if known.instances.contains(&cache.instances[0]) => {}
            Some(known) => known.instances.extend(cache.instances),
            None => all.push(cache),
        }
    }
    all.sort_by_key(|c| (c.level, c.kind, std::cmp::Reverse(c.size_kb)));
    (!all.is_empty()).then_some(all)
}

/// `32K`, `1M`, `512`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&b| b > 0)
}
