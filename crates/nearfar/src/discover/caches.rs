//! Caches of the first online cpu. Machines with two kinds of core exist, but
//! none with several nodes.

use super::Tree;
use nearfar_model::machine::CacheLevel;
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::file::{CacheFigures, Figure, Provenance};

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
    let folder = format!("sys/devices/system/cpu/cpu{first}/cache");
    for index in tree.numbered(&folder, "index").iter() {
        let at = |file: &str| format!("{folder}/index{index}/{file}");
        // Instructions are not what this program is about.
        if tree.text(&at("type")).as_deref() == Some("Instruction") {
            continue;
        }
        let level = tree.parsed(&at("level"));
        let size = tree.text(&at("size")).and_then(|s| bytes(&s));
        let (Some(level), Some(size_bytes)) = (level, size) else {
            continue;
        };
        let sharing = tree
            .list_or_mask(&at("shared_cpu_list"), &at("shared_cpu_map"))
            .map_or(1, |l| l.iter().filter(|&c| online.contains(c)).count());
        let cores = (sharing as u32).div_ceil(threads_per_core.max(1)).max(1);
        // 0 is written both for fully associative and for unknown.
        let ways: Option<u32> = tree.parsed(&at("ways_of_associativity")).filter(|&w| w > 0);
        caches.line_bytes = caches.line_bytes.or_else(|| tree.parsed(&at("coherency_line_size")));
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
