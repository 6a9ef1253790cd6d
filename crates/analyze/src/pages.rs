//! Pages of objects: which folios they are in, and who placed them.

use super::hash::FastMap;
use super::history::Memo;
use super::input::Input;
use super::page_nodes::Finder;
use super::placement::How;
use super::rows::Row;
use super::sites::Sites;
use super::space::{Thing, page_range};
use super::touchers::{Group, Groups};
use super::value::PageOrigins;
use nearfar_recording::{NONE, ObjectKind};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most pages looked at per row: a site that allocates and frees gigabytes in a loop
/// would otherwise cost more than all samples. What is left out is said.
const PAGE_BUDGET: u64 = 4 << 20;
/// Most pages looked at for all rows together, except for each row's first object. // chosen
pub const ALL_PAGES: u64 = 4 * PAGE_BUDGET;
/// Pages per object that are asked for their folio.
const FOLIO_PROBES: u64 = 4096;
/// Objects with so many pages are not gone through page by page, but by what was seen of them. // chosen
const LARGE: u64 = 4096;

/// Folio sizes of things, found out when asked: of ten million objects few are ever sampled.
#[derive(Debug, Default)]
pub struct Folios {
    /// By thing: bit s − 12 for folios of 2^s bytes, and [`KNOWN`]; 0 if it was not asked.
    known: Vec<AtomicU32>,
}

const KNOWN: u32 = 1 << 31;

impl Folios {
    /// Of so many things.
    pub fn new(things: usize) -> Folios {
        Folios { known: (0..things).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Folio sizes of a thing, as bits of log2 bytes. Several threads may ask: all find the same.
    #[inline]
    pub fn of(&self, input: &Input, finder: &Finder, thing: u32) -> u64 {
        match self.known[thing as usize].load(Ordering::Relaxed) {
            0 => self.find(input, finder, thing),
            known => u64::from(known & !KNOWN) << 12,
        }
    }

    #[cold]
    fn find(&self, input: &Input, finder: &Finder, thing: u32) -> u64 {
        // No architecture has base pages below 4 KiB or large ones beyond 4 TiB.
        let found = (folios(input, finder, &finder.spaces.things.get(thing)) >> 12) as u32 & !KNOWN;
        self.known[thing as usize].store(found | KNOWN, Ordering::Relaxed);
        u64::from(found) << 12
    }

    /// Folio sizes of all of a row's things that anybody asked for, and of its first ones.
    pub fn of_row(&self, input: &Input, finder: &Finder, things: &[u32]) -> u64 {
        const FIRST: usize = 10_000; // chosen: their probes are fewer than those of the pages counted
        let asked = |t: &u32| u64::from(self.known[*t as usize].load(Ordering::Relaxed) & !KNOWN) << 12;
        let (first, rest) = things.split_at(things.len().min(FIRST));
        let all = first.iter().map(|&t| self.of(input, finder, t)).chain(rest.iter().map(asked));
        all.fold(0, |m, f| m | f)
    }
}

/// Folio sizes of a thing, as bits of log2 bytes: seen, or inferred where the touches allow nothing else.
fn folios(input: &Input, finder: &Finder, thing: &Thing) -> u64 {
    let page = finder.placements.page_bytes;
    let (from, to) = page_range(thing, page);
    let mapped = finder.placements.folios(thing.space, from, to);
    if mapped != 0 {
        return mapped;
    }
    let sizes: Vec<u64> =
        input.meta.folio_bytes.iter().copied().filter(|s| s.is_power_of_two() && *s > page).collect();
    let anonymous = matches!(thing.kind, ObjectKind::Heap | ObjectKind::Static | ObjectKind::Anonymous);
    let Some(&smallest) = sizes.iter().min() else {
        return 0;
    };
    if !anonymous || thing.bytes < smallest {
        return 0;
    }
    let enabled = sizes.iter().fold(0u64, |m, s| m | 1 << s.trailing_zeros());
    let mut found = 0u64;
    let mut looked = 0u64;
    if !finder.looks.is_empty() {
        let step = ((to - from) / FOLIO_PROBES).max(1);
        let mut memo = Memo::default();
        for p in (from..to).step_by(step as usize) {
            let Some(shift) = finder.looks.present(thing.space, p * page) else {
                continue;
            };
            looked += 1;
            if u32::from(shift) > page.trailing_zeros() {
                found |= 1 << shift;
            } else if shift == 0 && finder.placements.at(thing.space, p, thing.died).is_none() {
                found |= smallest_folio(finder, thing, p, enabled, &mut memo);
            }
        }
    }
    if found == 0 && looked == 0 {
        found = inferred(finder, thing, &sizes);
    }
    found
}

fn smallest_folio(finder: &Finder, thing: &Thing, page: u64, enabled: u64, memo: &mut Memo) -> u64 {
    let mut left = enabled;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left &= left - 1;
        if finder.folio_touch(thing.space, page, thing.died, bit, memo).is_some() {
            return bit;
        }
    }
    0
}

/// No look at the pages: a size is inferred where at most an eighth of a folio's pages' worth of
/// touches exist and no two of them share a folio, for a large object that is in use.
fn inferred(finder: &Finder, thing: &Thing, sizes: &[u64]) -> u64 {
    let page = finder.placements.page_bytes;
    let (from, to) = page_range(thing, page);
    let few = |size: u64| ((to - from) / (size / page / 8).max(2)).max(1);
    // More touches than the smallest size allows are as many as any number: mappings may lie over each other.
    let most = sizes.iter().map(|&size| few(size)).max().unwrap_or(0);
    let touches = finder.placements.touched(thing.space, from, to).take(most as usize + 1);
    let touches: Vec<u64> = touches.collect();
    for &size in sizes.iter().rev() {
        let per = size / page;
        if thing.bytes < size || touches.is_empty() || touches.len() as u64 > few(size) {
            continue;
        }
        let distinct = touches.windows(2).all(|w| w[0] / per != w[1] / per);
        // Sparse touches of a sparse object look the same: at least half of the folios must be there.
        if distinct && touches.len() as u64 * 2 * per >= to - from {
            return 1 << size.trailing_zeros();
        }
    }
    0
}

/// Which threads placed a row's pages.
#[derive(Debug, Default)]
pub struct Origins {
    /// Counts.
    pub pages: PageOrigins,
    /// Pages by group; true: before the object was allocated.
    pub by_group: FastMap<(Group, bool), u64>,
    /// Whether the row had more pages than were looked at.
    pub cut: bool,
}

/// Counts the pages of a row by origin; `left` is how many pages may still be looked at.
pub fn origins(
    input: &Input,
    finder: &Finder,
    groups: &Groups,
    sites: &Sites,
    row: &Row,
    folios: &Folios,
    left: &mut u64,
) -> Origins {
    let mut o = Origins::default();
    let page = finder.placements.page_bytes;
    let budget = PAGE_BUDGET.min(*left);
    for &t in &row.things {
        let thing = finder.spaces.things.get(t);
        let (from, to) = page_range(&thing, page);
        if o.pages.total + (to - from) > budget && o.pages.total > 0 {
            o.cut = true;
            break;
        }
        let to = to.min(from + PAGE_BUDGET * 16);
        o.pages.total += to - from;
        let sizes = folios.of(input, finder, t);
        let every = !finder.looks.is_empty()
            || sizes != 0
            || finder.spaces.spaces[thing.space as usize].parent.is_some();
        let mut seen = 0;
        let mut memo = Memo::default();
        let mut count = |p: u64| {
            let (touch, inherited) = origin(input, finder, sites, t, p, sizes, &mut memo);
            if let Some(group) = touch.and_then(|t| groups.get(t)) {
                seen += 1;
                if inherited {
                    o.pages.inherited += 1
                } else {
                    o.pages.touched += 1
                }
                *o.by_group.entry((*group, inherited)).or_default() += 1;
            } else if finder.looks.present(thing.space, p * page).is_some() {
                seen += 1;
                o.pages.unseen += 1;
            }
        };
        if every && to - from < LARGE {
            (from..to).for_each(&mut count);
        } else if every {
            seen_pages(finder, thing.space, from..to, sizes).into_iter().flatten().for_each(&mut count);
        } else {
            finder.placements.touched(thing.space, from, to).for_each(&mut count);
        }
        o.pages.absent_or_unknown += (to - from) - seen;
    }
    *left = left.saturating_sub(o.pages.total);
    o
}

/// Pages of a range of which anything can be known: touched here or by the processes that this one was
/// forked from, in a folio with such a page, or looked at. Disjoint, ascending.
fn seen_pages(finder: &Finder, space: u32, range: Range<u64>, folios: u64) -> Vec<Range<u64>> {
    let page = finder.placements.page_bytes;
    let folio = ((1u64 << folios.checked_ilog2().unwrap_or(0)) / page).max(1);
    let mut found: Vec<Range<u64>> = finder.looks.pages(space, &range);
    let (from, to) = (range.start / folio * folio, range.end.div_ceil(folio) * folio);
    let mut at = Some(space);
    while let Some(space) = at {
        for p in finder.placements.touched(space, from, to) {
            let first = p / folio * folio;
            match found.last_mut().filter(|l| l.end >= first && l.start <= first) {
                Some(last) => last.end = last.end.max(first + folio),
                None => found.push(first..first + folio),
            }
        }
        at = finder.spaces.spaces[space as usize].parent.map(|p| p.0);
    }
    found.sort_unstable_by_key(|r| r.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for r in found {
        let r = r.start.max(range.start)..r.end.min(range.end);
        match joined.last_mut().filter(|l| r.start <= l.end) {
            Some(last) => last.end = last.end.max(r.end),
            None if r.is_empty() => {}
            None => joined.push(r),
        }
    }
    joined
}

/// The touch that placed a page of a thing, and whether it was before the thing was allocated.
fn origin(
    input: &Input,
    finder: &Finder,
    sites: &Sites,
    id: u32,
    page: u64,
    folios: u64,
    memo: &mut Memo,
) -> (Option<u32>, bool) {
    let p = finder.placements;
    let thing = finder.spaces.things.get(id);
    let heap = thing.kind == ObjectKind::Heap;
    let real = |t: &u32| {
        let zero = p.touches[*t as usize].zero;
        !p.touches[*t as usize].cache
            && (!zero || finder.looks.present(thing.space, page * p.page_bytes).is_some())
    };
    let born = if heap { thing.born } else { 0 };
    if let Some(t) = p.first_since(thing.space, page, born, thing.died).filter(real) {
        return (Some(t), false);
    }
    let before = p.at(thing.space, page, born.max(if heap { 0 } else { thing.died })).filter(real);
    let found = before.or_else(|| match folios {
        0 => None,
        folios => finder.folio_touch(thing.space, page, thing.died, folios, memo),
    });
    let Some(t) = found else { return (None, false) };
    let touch = &p.touches[t as usize];
    if !heap || touch.time >= born {
        return (Some(t), false);
    }
    let i = id as usize;
    let grown = touch.how == How::Moved && input.objects.previous[i] != NONE;
    // The allocation itself touches before it returns: chunk headers, calloc's memset, realloc's copy.
    let own = touch.fault != NONE
        && input.faults.thread[touch.fault as usize] == input.objects.thread[i]
        && sites.is_runtime(input.faults.ip[touch.fault as usize])
        && touch.time >= finder.spaces.last_end(thing.space, page * p.page_bytes, born);
    let own = own && born - touch.time < ALLOCATION_NS;
    (Some(t), !(grown || own))
}

/// Longest time that an allocation is believed to take: calloc of 10 GB at 1 GB/s. // assumed
const ALLOCATION_NS: u64 = 10_000_000_000;
