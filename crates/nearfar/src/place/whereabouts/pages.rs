//! Pages of a process: all of them by numa_maps, or random ones by move_pages.

use super::{Site, Way, WhereError};
use crate::collect::homes;
use crate::collect::proc::{self, Map};
use nearfar_model::analyze::stats::{Random, draws_interval};
use nearfar_model::machine::NodeId;
use nearfar_model::whereabouts::numa_maps::{self, Line};
use nearfar_model::whereabouts::{Amount, How, Kind, Mapping, Memory, Sample};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Largest process that is walked unless asked otherwise, resident bytes. A walk takes about 50 ns a page
/// (docs/where.md), so that this many pages of 4 KiB take about 25 ms, in which mmap and munmap of the
/// process wait.
const WALKED: u64 = 2 << 30;
/// Another walk is for free in no sense, but after one of this time it costs little.
const SHORT: Duration = Duration::from_millis(5);
/// Random pages of all mappings together; a page takes about 0.15 µs.
const DRAWS: f64 = (1 << 17) as f64;
/// Mappings of at most so many pages are asked in full, and no larger one gets fewer random pages.
const FEWEST: u64 = 64;
/// Most of one mapping: the interval is then within ±1.1 % of the mapping.
const MOST: u64 = 1 << 13;

/// Where the pages of a process are.
///
/// # Errors
/// If they may not be looked at, or the process has ended.
pub fn look(
    pid: u32,
    name: &str,
    resident: Option<u64>,
    site: &Site,
    way: Way,
) -> Result<Memory, WhereError> {
    let large = resident.is_some_and(|bytes| bytes > WALKED);
    match way {
        Way::Exact => walk(pid, name, resident, site),
        Way::Auto if !large => walk(pid, name, resident, site),
        _ => sample(pid, name, resident, site),
    }
}

fn walk(pid: u32, name: &str, resident: Option<u64>, site: &Site) -> Result<Memory, WhereError> {
    let begin = Instant::now();
    let text = proc::numa_maps(pid)
        .map_err(|why| WhereError::of(pid, name, &format!("/proc/{pid}/numa_maps"), why))?;
    let short = begin.elapsed() < SHORT;
    let lines = numa_maps::parse(&text);
    if lines.is_empty() {
        return Err(WhereError::Ended { pid });
    }
    let maps: BTreeMap<u64, Map> = proc::maps(pid).into_iter().map(|m| (m.start, m)).collect();
    let mapping = |line: Line| {
        let map = maps.get(&line.start);
        let page_bytes = line.page_bytes.unwrap_or(site.page_bytes);
        Mapping {
            start: line.start,
            end: map.map(|m| m.end),
            name: line.file.clone().unwrap_or_else(|| map.map_or_else(String::new, |m| m.name.clone())),
            kind: kind(&line, map),
            page_bytes,
            nodes: line.pages.iter().map(|(&n, &pages)| (n, Amount::counted(pages, page_bytes))).collect(),
            requested: Some(line.requested),
            sample: None,
        }
    };
    Ok(Memory {
        how: How::Exact,
        why: "every page was looked at (numa_maps)".to_owned(),
        resident_bytes: resident,
        asked: None,
        transparent_huge_bytes: short.then(|| transparent_huge(pid)).flatten(),
        mappings: lines.into_iter().filter(|l| !l.pages.is_empty()).map(mapping).collect(),
        nodes: BTreeMap::new(),
        kinds: BTreeMap::new(),
    })
}

/// Memory in transparent huge pages: another walk, page table by page table, that releases the lock when
/// somebody waits for it (`show_smaps_rollup`).
fn transparent_huge(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let bytes = |key| proc::field(&text, key).and_then(proc::kib);
    // Kernels without the latter two have no such pages.
    Some(bytes("AnonHugePages")? + bytes("ShmemPmdMapped").unwrap_or(0) + bytes("FilePmdMapped").unwrap_or(0))
}

/// Bit of [`Map::flags`].
const SHARED: u8 = 8;

fn kind(line: &Line, map: Option<&Map>) -> Kind {
    match line {
        Line { huge: true, .. } => Kind::Huge,
        Line { heap: true, .. } => Kind::Heap,
        Line { stack: true, .. } => Kind::Stack,
        _ if map.is_some_and(|m| m.flags & SHARED != 0) => Kind::Shared,
        Line { file: Some(_), .. } => Kind::File,
        _ => Kind::Anonymous,
    }
}

/// The same from a name in /proc/PID/maps, which does not tell huge pages.
fn kind_by_name(map: &Map) -> Kind {
    match map.name.as_str() {
        "[heap]" => Kind::Heap,
        "[stack]" => Kind::Stack,
        _ if map.flags & SHARED != 0 => Kind::Shared,
        name if name.starts_with('/') => Kind::File,
        _ => Kind::Anonymous,
    }
}

fn sample(pid: u32, name: &str, resident: Option<u64>, site: &Site) -> Result<Memory, WhereError> {
    let what = format!("/proc/{pid}/maps");
    let text = fs::read(&what).map_err(|why| WhereError::of(pid, name, &what, why))?;
    let text = String::from_utf8_lossy(&text);
    let page = site.page_bytes;
    // What nothing may touch is reserved address space; the kernel's own pages have no home.
    let maps: Vec<Map> = text.lines().filter_map(Map::parse).collect();
    if maps.is_empty() {
        return Err(WhereError::Ended { pid });
    }
    let own = |m: &Map| {
        m.flags & 7 != 0 && !["[vvar]", "[vdso]", "[vsyscall]", "[vvar_vclock]"].contains(&m.name.as_str())
    };
    let maps: Vec<Map> = maps.into_iter().filter(own).collect();
    // By the root of the size: reserved space, of which there may be terabytes, would take all otherwise.
    let root = |m: &Map| (((m.end - m.start) / page) as f64).sqrt();
    let roots: f64 = maps.iter().map(root).sum();
    let mut random = Random::new(UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64));
    let mut mappings = Vec::new();
    let mut asked = 0;
    for map in maps {
        let draws = ((DRAWS * root(&map) / roots) as u64).clamp(FEWEST, MOST);
        let (mapping, drawn) = sample_one(pid, &map, draws, page, &mut random)
            .map_err(|why| WhereError::of(pid, name, "move_pages(2)", why))?;
        asked += drawn;
        mappings.extend(Some(mapping).filter(|m| !m.nodes.is_empty()));
    }
    Ok(Memory {
        how: How::Sampled,
        why: format!(
            "{asked} random pages were asked for (move_pages), with 95 % intervals. A walk of numa_maps, which alone \
             tells the policies of mappings, would hold the program's mmap lock for long; --exact does it"
        ),
        resident_bytes: resident,
        asked: Some(asked),
        transparent_huge_bytes: None,
        mappings,
        nodes: BTreeMap::new(),
        kinds: BTreeMap::new(),
    })
}

/// A mapping from `draws` random pages, or from all if these are no more; and how many were asked.
fn sample_one(
    pid: u32,
    map: &Map,
    draws: u64,
    page: u64,
    random: &mut Random,
) -> std::io::Result<(Mapping, u64)> {
    let pages = (map.end - map.start) / page;
    let all = pages <= draws;
    let at = |index: u64| map.start + index * page;
    let addresses: Vec<u64> = match all {
        true => (0..pages).map(at).collect(),
        false => (0..draws).map(|_| at(random.below(pages as usize) as u64)).collect(),
    };
    let mut hits: BTreeMap<NodeId, u64> = BTreeMap::new();
    for node in homes::nodes(pid as libc::pid_t, &addresses)?.into_iter().flatten() {
        *hits.entry(node).or_insert(0) += 1;
    }
    let drawn = addresses.len() as u64;
    let amount = |hits: u64| {
        if all {
            return Amount::counted(hits, page);
        }
        let bytes = |share: f64| (share * (pages * page) as f64) as u64;
        Amount {
            bytes: bytes(hits as f64 / drawn as f64),
            pages: None,
            interval: draws_interval(hits, drawn).map(|i| (bytes(i.low), bytes(i.high))),
        }
    };
    let mapping = Mapping {
        start: map.start,
        end: Some(map.end),
        name: map.name.clone(),
        kind: kind_by_name(map),
        requested: None,
        page_bytes: page,
        sample: Some(Sample { drawn, present: hits.values().sum(), all }),
        nodes: hits.into_iter().map(|(node, hits)| (node, amount(hits))).collect(),
    };
    Ok((mapping, drawn))
}
