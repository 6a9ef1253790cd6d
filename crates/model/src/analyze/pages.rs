//! Pages of objects: which folios they are in, and who placed them.

use super::hash::FastMap;
use super::homes::Finder;
use super::input::Input;
use super::placement::How;
use super::rows::Row;
use super::sites::Sites;
use super::space::Thing;
use super::touchers::{Group, Groups};
use super::value::PageOrigins;
use crate::recording::{NONE, ObjectKind};

/// Most pages looked at per row: a site that allocates and frees gigabytes in a loop
/// would otherwise cost more than all samples. What is left out is said.
const PAGE_BUDGET: u64 = 4 << 20;
/// Pages per object that are asked for their folio.
const FOLIO_PROBES: u64 = 4096;

/// Folio sizes of a thing, as bits of log2 bytes: seen, or inferred where the touches allow nothing else.
pub fn folios(input: &Input, finder: &Finder, thing: &Thing) -> u64 {
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
        for p in (from..to).step_by(step as usize) {
            let Some(shift) = finder.looks.present(thing.space, p * page) else {
                continue;
            };
            looked += 1;
            if u32::from(shift) > page.trailing_zeros() {
                found |= 1 << shift;
            } else if shift == 0 && finder.placements.at(thing.space, p, thing.died).is_none() {
                found |= smallest_folio(finder, thing, p, enabled);
            }
        }
    }
    if found == 0 && looked == 0 {
        found = inferred(finder, thing, &sizes);
    }
    found
}

fn smallest_folio(finder: &Finder, thing: &Thing, page: u64, enabled: u64) -> u64 {
    let mut left = enabled;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        left &= left - 1;
        if finder.folio_touch(thing.space, page, thing.died, bit).is_some() {
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
    let touches = finder.placements.touched(thing.space, from, to);
    for &size in sizes.iter().rev() {
        let per = size / page;
        if thing.bytes < size
            || touches.is_empty()
            || touches.len() as u64 > ((to - from) / (per / 8).max(2)).max(1)
        {
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

/// First and one past the last page number of a thing.
pub fn page_range(thing: &Thing, page: u64) -> (u64, u64) {
    (thing.address / page, thing.address.saturating_add(thing.bytes).div_ceil(page))
}

/// Who placed a row's pages.
#[derive(Debug, Default)]
pub struct Origins {
    /// Counts.
    pub pages: PageOrigins,
    /// Pages by group; true: before the object was allocated.
    pub by_group: FastMap<(Group, bool), u64>,
    /// Whether the row had more pages than were looked at.
    pub cut: bool,
}

/// Counts the pages of a row by origin.
pub fn origins(
    input: &Input,
    finder: &Finder,
    groups: &Groups,
    sites: &Sites,
    row: &Row,
    folios: &[u64],
) -> Origins {
    let mut o = Origins::default();
    let page = finder.placements.page_bytes;
    for &t in &row.things {
        let thing = &finder.spaces.things[t as usize];
        let (from, to) = page_range(thing, page);
        if o.pages.total + (to - from) > PAGE_BUDGET && o.pages.total > 0 {
            o.cut = true;
            break;
        }
        let to = to.min(from + PAGE_BUDGET * 16);
        o.pages.total += to - from;
        let every = !finder.looks.is_empty()
            || folios[t as usize] != 0
            || finder.spaces.spaces[thing.space as usize].parent.is_some();
        let mut seen = 0;
        let mut count = |p: u64| {
            let (touch, inherited) = origin(input, finder, sites, thing, t, p, folios[t as usize]);
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
        if every {
            (from..to).for_each(&mut count);
        } else {
            finder.placements.touched(thing.space, from, to).into_iter().for_each(&mut count);
        }
        o.pages.absent_or_unknown += (to - from) - seen;
    }
    o
}

/// The touch that placed a page of a thing, and whether it was before the thing was allocated.
fn origin(
    input: &Input,
    finder: &Finder,
    sites: &Sites,
    thing: &Thing,
    id: u32,
    page: u64,
    folios: u64,
) -> (Option<u32>, bool) {
    let p = finder.placements;
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
        folios => finder.folio_touch(thing.space, page, thing.died, folios),
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
