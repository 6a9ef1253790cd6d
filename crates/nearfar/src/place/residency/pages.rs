//! Pages of a process: all of them by numa_maps, or random ones by move_pages.

use super::{Site, Way, WhereError};
use nearfar_analyze::stats::{Random, draws_interval};
use nearfar_host::page_nodes;
use nearfar_host::proc::{self, Map};
use nearfar_machine::NodeId;
use nearfar_observed::residency::numa_maps::{self, Line};
use nearfar_observed::residency::{Amount, How, Kind, Mapping, Memory, Sample};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Largest process that is walked unless asked otherwise, resident bytes. A walk takes about 50 ns a page
/// (docs/where.md), so that this many pages of 4 KiB take about 25 ms, in which mmap and munmap of the
/// process wait.
const WALKED: u64 = 2 << 30;
/// Another walk is for free in no sense, but after one of this time it costs little.
const SHORT: Duration = Duration::from_millis(5);
/// Random pages of all mappings together; a page takes about 0.15 µs.
pub(super) const DRAWS: f64 = (1 << 17) as f64;
/// Most of one mapping: the interval is then within ±1.1 % of the mapping.
pub(super) const MOST: u64 = 1 << 13;

/// How many random pages are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    /// Of all mappings together.
    pub all: f64,
    /// Mappings of at most so many pages are asked in full, and no larger one gets fewer random pages.
    pub fewest: u64,
    /// Most of one mapping.
    pub most: u64,
}

/// Those of a look that is shown by mapping.
const BY_MAPPING: Draws = Draws { all: DRAWS, fewest: 64, most: MOST };

/// Where the pages of a process are, its mappings in the order of addresses, and what `beside` gives, which
/// runs while the kernel walks.
///
/// # Errors
/// If they may not be looked at, or the process has ended.
pub fn look<T: Send>(
    pid: u32,
    name: &str,
    resident: Option<u64>,
    site: &Site,
    way: Way,
    beside: impl FnOnce() -> T + Send,
) -> Result<(Memory, Vec<Map>, T), WhereError> {
    let large = resident.is_some_and(|bytes| bytes > WALKED);
    if way == Way::Sample || (way == Way::Auto && large) {
        let aside = beside();
        let (memory, maps) = sample(pid, name, resident, site, BY_MAPPING)?;
        return Ok((memory, maps, aside));
    }
    walk(pid, name, resident, site, beside)
}

fn walk<T: Send>(
    pid: u32,
    name: &str,
    resident: Option<u64>,
    site: &Site,
    beside: impl FnOnce() -> T + Send,
) -> Result<(Memory, Vec<Map>, T), WhereError> {
    let text = Mutex::new(Vec::new());
    let held = || text.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Nearly all of the time is the kernel's walk: another cpu does the rest meanwhile, and what has been walked
    // by then it reads already. Waiting for more would cost a wake-up for each part.
    let (walked, took, maps, mut mappings, aside) = thread::scope(|scope| {
        let rest = scope.spawn(|| {
            let aside = beside();
            let maps = proc::maps(pid);
            let so_far = lines(&mut held());
            (so_far.into_iter().map(|l| mapping(l, &maps, site)).collect::<Vec<_>>(), maps, aside)
        });
        let begin = Instant::now();
        let walked = proc::numa_maps_in_parts(pid, |part| held().extend_from_slice(part));
        let took = begin.elapsed();
        let (mappings, maps, aside) = rest.join().unwrap_or_else(|panic| resume_unwind(panic));
        (walked, took, maps, mappings, aside)
    });
    walked.map_err(|why| WhereError::of(pid, name, &format!("/proc/{pid}/numa_maps"), why))?;
    mappings.extend(lines(&mut held()).into_iter().map(|l| mapping(l, &maps, site)));
    if mappings.is_empty() {
        return Err(WhereError::Ended { pid });
    }
    mappings.retain(|m| !m.nodes.is_empty());
    let memory = Memory {
        how: How::Exact,
        why: "every page was looked at (numa_maps)".to_owned(),
        resident_bytes: resident,
        asked: None,
        transparent_huge_bytes: (took < SHORT).then(|| transparent_huge(pid)).flatten(),
        mappings,
        objects: Vec::new(),
        without: Vec::new(),
        nodes: BTreeMap::new(),
        kinds: BTreeMap::new(),
    };
    Ok((memory, maps, aside))
}

/// Takes the whole lines out of `text`.
fn lines(text: &mut Vec<u8>) -> Vec<Line> {
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = numa_maps::parse(&String::from_utf8_lossy(&text[..whole]));
    text.drain(..whole);
    lines
}

fn mapping(line: Line, maps: &[Map], site: &Site) -> Mapping {
    let map = maps.binary_search_by_key(&line.start, |m| m.start).ok().map(|at| &maps[at]);
    let page_bytes = line.page_bytes.unwrap_or(site.page_bytes);
    Mapping {
        start: line.start,
        end: map.map(|m| m.end),
        kind: kind(&line, map),
        name: line.file.unwrap_or_else(|| map.map_or_else(String::new, |m| m.name.clone())),
        page_bytes,
        nodes: line.pages.iter().map(|(&n, &pages)| (n, Amount::counted(pages, page_bytes))).collect(),
        requested: Some(line.requested),
        sample: None,
    }
}

/// Memory in transparent huge pages: another walk, page table by page table, that releases the lock when
/// others wait for it (`show_smaps_rollup`).
fn transparent_huge(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let bytes = |key| proc::field(&text, key).and_then(proc::kib);
    // Kernels without the latter two have no such pages.
    Some(bytes("AnonHugePages")? + bytes("ShmemPmdMapped").unwrap_or(0) + bytes("FilePmdMapped").unwrap_or(0))
}

/// Bit of [`Map::flags`].
pub(super) const SHARED: u8 = 8;

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

pub(super) fn sample(
    pid: u32,
    name: &str,
    resident: Option<u64>,
    site: &Site,
    how_many: Draws,
) -> Result<(Memory, Vec<Map>), WhereError> {
    let what = format!("/proc/{pid}/maps");
    let text = fs::read(&what).map_err(|why| WhereError::of(pid, name, &what, why))?;
    let text = String::from_utf8_lossy(&text);
    let page = site.page_bytes;
    // What nothing may touch is reserved address space; the kernel's own pages have no node.
    let maps: Vec<Map> = text.lines().filter_map(Map::parse).collect();
    if maps.is_empty() {
        return Err(WhereError::Ended { pid });
    }
    let own = |m: &Map| {
        m.flags & 7 != 0 && !["[vvar]", "[vdso]", "[vsyscall]", "[vvar_vclock]"].contains(&m.name.as_str())
    };
    let asked_for = || maps.iter().filter(|m| own(m));
    // By the root of the size: reserved space, of which there may be terabytes, would take all otherwise.
    let root = |m: &Map| (((m.end - m.start) / page) as f64).sqrt();
    let roots: f64 = asked_for().map(root).sum();
    let mut random = Random::new(UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64));
    let mut mappings = Vec::new();
    let mut asked = 0;
    for map in asked_for() {
        let draws = ((how_many.all * root(map) / roots) as u64).clamp(how_many.fewest, how_many.most);
        let (mapping, drawn) = sample_one(pid, map, draws, page, &mut random)
            .map_err(|why| WhereError::of(pid, name, "move_pages(2)", why))?;
        asked += drawn;
        mappings.extend(Some(mapping).filter(|m| !m.nodes.is_empty()));
    }
    let memory = Memory {
        how: How::Sampled,
        why: format!(
            "{asked} random pages were asked for (move_pages), with 95 % intervals. A walk of numa_maps, which alone \
             tells the policies of mappings, would hold the program's mmap lock for long; --exact does it"
        ),
        resident_bytes: resident,
        asked: Some(asked),
        transparent_huge_bytes: None,
        mappings,
        objects: Vec::new(),
        without: Vec::new(),
        nodes: BTreeMap::new(),
        kinds: BTreeMap::new(),
    };
    Ok((memory, maps))
}

/// A mapping from `draws` random pages, or from all of a smaller one; and how many were asked.
fn sample_one(
    pid: u32,
    map: &Map,
    draws: u64,
    page: u64,
    random: &mut Random,
) -> std::io::Result<(Mapping, u64)> {
    let (nodes, sample) = ask(pid, map.start..map.end, draws, page, random)?;
    let mapping = Mapping {
        start: map.start,
        end: Some(map.end),
        name: map.name.clone(),
        kind: kind_by_name(map),
        requested: None,
        page_bytes: page,
        sample: Some(sample),
        nodes,
    };
    Ok((mapping, sample.drawn))
}

/// Where `draws` random pages of a range are that begins on a page, or all of them in a smaller one.
pub(super) fn ask(
    pid: u32,
    range: Range<u64>,
    draws: u64,
    page: u64,
    random: &mut Random,
) -> std::io::Result<(BTreeMap<NodeId, Amount>, Sample)> {
    let pages = (range.end - range.start).div_ceil(page);
    let all = pages <= draws;
    let at = |index: u64| range.start + index * page;
    let addresses: Vec<u64> = match all {
        true => (0..pages).map(at).collect(),
        false => (0..draws).map(|_| at(random.below(pages as usize) as u64)).collect(),
    };
    let mut hits: BTreeMap<NodeId, u64> = BTreeMap::new();
    for node in page_nodes::nodes(pid as libc::pid_t, &addresses)?.into_iter().flatten() {
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
    let sample = Sample { drawn, present: hits.values().sum(), all };
    Ok((hits.into_iter().map(|(node, hits)| (node, amount(hits))).collect(), sample))
}
