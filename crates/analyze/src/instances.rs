//! The objects of one line, one by one. Laid over one another, a vector that each thread has for itself would look as if
//! every thread used all of one.

use super::by_row;
use super::counters::{Counters, Followed, InstanceUse, Use};
use super::hash::{FastMap, FastSet};
use super::pattern::{self, Range};
use super::rows::Rows;
use super::value::Pattern;

/// Part of the samples of objects of one line that must be of each object's one thread for it to be that thread's. The
/// same as for one object that one thread uses. // chosen
const OWN: f64 = 0.97;
/// Part of what is remote of them (of all, where nothing is) that objects of one pattern must have for it to be the row's.
/// // chosen
const MOSTLY: f64 = 0.8;

/// The threads that use an object, in order.
pub type Users<'a> = Vec<(u32, &'a InstanceUse)>;

/// Of each row with several objects, those with samples: by object, in order.
pub fn by_row<'a>(rows: &Rows, counters: &'a Counters) -> FastMap<u32, Vec<Users<'a>>> {
    let mut things: Vec<(u32, Users)> = by_row::by_row(counters.instances.iter()).into_iter().collect();
    things.sort_by_key(|t| t.0);
    let mut found: FastMap<u32, Vec<Users>> = FastMap::default();
    for (thing, users) in things {
        found.entry(rows.of_thing[thing as usize]).or_default().push(users);
    }
    found
}

/// Whether each object is used by one thread, and not all by the same.
pub fn own(instances: &[Users]) -> bool {
    let (mut all, mut own) = (0, 0);
    let mut threads: FastSet<u32> = FastSet::default();
    for users in instances {
        all += users.iter().map(|u| u.1.used.addressed).sum::<u64>();
        let most = users.iter().max_by_key(|u| u.1.used.addressed);
        if let Some((thread, most)) = most.filter(|u| u.1.used.addressed > 0) {
            own += most.used.addressed;
            threads.insert(*thread);
        }
    }
    all >= pattern::ENOUGH && threads.len() > 1 && own as f64 >= OWN * all as f64
}

/// The pattern of the objects that most of what is remote is on (most of all where nothing is), each looked at by itself, with the ranges of one of
/// them; `None` where there are too many of them, too few samples, or no such pattern.
pub fn pattern(instances: &[Users]) -> Option<(Pattern, Vec<Range>)> {
    let mut by_pattern: Vec<(Pattern, u64, Vec<Range>)> = Vec::new();
    let mut all = 0;
    let far = instances.iter().flatten().any(|u| u.1.remote > 0);
    for users in instances {
        if users.iter().any(|u| u.1.used.addressed > 0 && u.1.used.bins.is_empty()) {
            return None;
        }
        let uses: Vec<(u32, &Use)> = users.iter().map(|u| (u.0, &u.1.used)).collect();
        // Which pages threads take turns in is kept of the row only.
        let (pattern, ranges) = pattern::pattern(&uses, &Followed::default());
        let its: u64 = users.iter().map(|u| if far { u.1.remote } else { u.1.used.sum.weight }).sum();
        all += its;
        match by_pattern.iter_mut().find(|p| p.0 == pattern) {
            Some(sum) => sum.1 += its,
            None => by_pattern.push((pattern, its, ranges)),
        }
    }
    let (pattern, most, ranges) = by_pattern.into_iter().max_by_key(|p| p.1)?;
    let clear = all > 0 && most as f64 >= MOSTLY * all as f64 && pattern != Pattern::Unknown;
    clear.then_some((pattern, ranges))
}

/// What the row is used like, of which `overlaid` is what its objects look like when they are laid over one another: what
/// is known of the objects one by one comes first.
pub fn compared(instances: &[Users], overlaid: (Pattern, Vec<Range>)) -> (Pattern, Vec<Range>) {
    let turns = overlaid.0 == Pattern::Cyclic;
    match pattern(instances) {
        // Turns of a few pages do not show in the parts that are kept of each object, and do show in the row's pages.
        Some((Pattern::AllOver, _)) if turns => overlaid,
        Some(known) => known,
        // Pages with one user each can also come from blocks, if each object has them at other places.
        None if turns && instances.len() > 1 => (Pattern::Unknown, overlaid.1),
        None => overlaid,
    }
}
