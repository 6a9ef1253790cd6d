//! Excerpts, by pages of code.

use super::hash::{FastMap, FastSet};
use super::input::Input;
use nearfar_recording::{Columns, EXCERPT_CACHES, NONE};
use std::collections::BTreeMap;

/// Instructions of an excerpt that have to be counted for it to be used. // chosen: an eighth of what is asked for
const LEAST: u64 = 10_000_000;
/// Bytes of a page of code, as a power of two.
const PAGE: u32 = 12;

/// Counts of a page of code in one excerpt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page {
    /// Instructions.
    pub instructions: u64,
    /// Lines in order, beyond each cache.
    pub in_order: [u64; EXCERPT_CACHES.len()],
    /// Lines in no order, beyond each cache.
    pub at_random: [u64; EXCERPT_CACHES.len()],
}

/// Excerpts by pages of code.
#[derive(Debug, Default)]
pub struct Excerpted {
    /// Page of code of an instruction (a location), of those that excerpts were in.
    page_of: FastMap<u32, u32>,
    /// By page of code and excerpt.
    pub pages: Vec<BTreeMap<u32, Page>>,
    /// Threads that have one.
    pub threads: FastSet<u32>,
    /// How many are long enough, and how many there are.
    pub count: [usize; 2],
    /// Instructions that were counted.
    pub instructions: u64,
    /// Lines that may have come from other threads, by instruction, at most.
    pub exchanged: f64,
}

impl Excerpted {
    /// From the recording's tables.
    pub fn new(input: &Input) -> Excerpted {
        let (e, b, l) = (&input.excerpts, &input.excerpt_blocks, &input.locations);
        if e.is_empty() {
            return Excerpted::default();
        }
        let used: FastMap<u32, usize> =
            (0..e.len()).filter(|&i| e.counted[i] >= LEAST).map(|i| (e.id[i], i)).collect();
        let key = |i: usize| match l.module[i] {
            NONE => (u64::from(l.process[i]) | 1 << 32, l.address[i] >> PAGE),
            module => (u64::from(module), l.file_offset[i] >> PAGE),
        };
        let rows: FastMap<u32, usize> = l.id.iter().enumerate().map(|(i, &id)| (id, i)).collect();
        let mut numbers: FastMap<(u64, u64), u32> = FastMap::default();
        let mut pages: Vec<BTreeMap<u32, Page>> = Vec::new();
        for i in (0..b.len()).filter(|&i| used.contains_key(&b.excerpt[i])) {
            let Some(&row) = rows.get(&b.ip[i]) else { continue };
            let number = *numbers.entry(key(row)).or_insert(pages.len() as u32);
            if number as usize == pages.len() {
                pages.push(BTreeMap::new());
            }
            let page = pages[number as usize].entry(b.excerpt[i]).or_default();
            page.instructions += b.instructions[i];
            let add = |to: &mut [u64; EXCERPT_CACHES.len()], from: [u64; EXCERPT_CACHES.len()]| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            };
            add(&mut page.in_order, b.in_order(i));
            add(&mut page.at_random, b.at_random(i));
        }
        let page_of = (0..l.len()).filter_map(|i| Some((l.id[i], *numbers.get(&key(i))?))).collect();
        let exchanged = used.values().map(|&i| e.exchanged[i] as f64 / e.instructions[i].max(1) as f64);
        Excerpted {
            page_of,
            pages,
            threads: used.values().map(|&i| e.thread[i]).collect(),
            count: [used.len(), e.len()],
            instructions: used.values().map(|&i| e.counted[i]).sum(),
            exchanged: exchanged.fold(0.0, f64::max),
        }
    }

    /// The page of code of an instruction, if an excerpt was in it.
    #[inline]
    pub fn page(&self, ip: u32) -> u32 {
        if self.page_of.is_empty() {
            return NONE;
        }
        self.page_of.get(&ip).copied().unwrap_or(NONE)
    }
}
