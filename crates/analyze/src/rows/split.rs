//! Objects of one line that were placed in different ways are rows of their own: of two arrays of which one is
//! initialised in parallel and the other by one thread, only the other has something to repair. As one object they would
//! look as if neither were the reason.

use super::{Row, Rows};
use crate::hash::FastMap;
use crate::placement::Placements;
use crate::space::Things;
use crate::space::page_range;
use nearfar_recording::{NONE, ObjectKind};

/// Most objects of a line that are looked at one by one: more are not arrays of a declaration. // chosen
const MOST: usize = 16;
/// Smallest objects that are, bytes: of fewer pages than 256 the first touches tell too little. // chosen
const LARGE: u64 = 1 << 20;
/// Pages of an object that are asked who touched them first, at most. // chosen
const ASKED: u64 = 512;
/// Fewest of them that must know. // chosen
const KNOWN: u64 = 16;
/// Part of these that one thread must have placed for the whole to be called its. // chosen, as of findings
const ONE: f64 = 0.9;

impl Rows {
    /// Makes two rows of each whose objects were placed partly by one thread each and partly by several.
    pub fn split(&mut self, things: &Things, placements: &Placements) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            // All at a time: of a loop that allocates again and again each is the same object to a reader.
            let some = (2..=MOST).contains(&row.things.len()) && row.count == row.things.len() as u64;
            if row.kind != ObjectKind::Heap || row.is_area() || !some {
                continue;
            }
            let mut order = row.things.clone();
            order.sort_by_key(|&t| (things.get(t).born, t));
            let kinds: Option<Vec<bool>> =
                order.iter().map(|&t| by_one_thread(things, placements, t)).collect();
            let Some(kinds) = kinds.filter(|k| k.iter().any(|&one| one != k[0])) else {
                continue;
            };
            let of = |one: bool| -> Vec<usize> { (0..order.len()).filter(|&i| kinds[i] == one).collect() };
            let number = self.rows.len() as u32;
            let other = part(row, &order, &of(!kinds[0]), things);
            self.rows[at] = part(row, &order, &of(kinds[0]), things);
            other.things.iter().for_each(|&t| self.of_thing[t as usize] = number);
            self.rows.push(other);
        }
    }
}

/// A row of some of another's things: `chosen` are places in `order`, the things as they were allocated.
fn part(row: &Row, order: &[u32], chosen: &[usize], things: &Things) -> Row {
    let names: Vec<&str> = row.name.split('|').collect();
    let name = match names.len() == order.len() && names.len() > 1 {
        // One statement allocates several variables, in the order of their names.
        true => chosen.iter().map(|&i| names[i]).collect::<Vec<_>>().join("|"),
        false => {
            let numbers: Vec<String> = chosen.iter().map(|i| (i + 1).to_string()).collect();
            format!("{} ({} of {})", row.name, numbers.join(", "), order.len())
        }
    };
    let mut part =
        Row { name, things: chosen.iter().map(|&i| order[i]).collect(), split: true, ..row.clone() };
    part.measure(things);
    part
}

/// Whether one thread placed nearly all of an object; `None` if that is not known, or it is small.
fn by_one_thread(things: &Things, placements: &Placements, thing: u32) -> Option<bool> {
    let t = things.get(thing);
    if t.bytes < LARGE {
        return None;
    }
    let (from, to) = page_range(&t, placements.page_bytes);
    let step = ((to - from) / ASKED).max(1);
    let mut by_thread: FastMap<u32, u64> = FastMap::default();
    let pages = (from..to).step_by(step as usize);
    for touch in pages.filter_map(|page| placements.first_since(t.space, page, t.born, t.died)) {
        let thread = placements.touches[touch as usize].thread;
        if thread != NONE {
            *by_thread.entry(thread).or_default() += 1;
        }
    }
    let all: u64 = by_thread.values().sum();
    let most = by_thread.values().copied().max().unwrap_or(0);
    (all >= KNOWN).then_some(most as f64 >= ONE * all as f64)
}
