//! Objects that a placement file cannot tell apart.
//!
//! A file names an object by the line that allocates it. If one line allocates several objects, the file places all of them
//! alike or none of them.

use super::plan::Planner;
use crate::hash::{FastMap, FastSet};
use crate::value::{Repair, RepairPart};

/// Objects that a file cannot tell apart.
pub(super) struct Tied<'a> {
    planner: &'a Planner<'a>,
    /// Rows of one address and their units; only addresses of two rows or more.
    groups: Vec<Vec<(u32, usize)>>,
}

impl<'a> Tied<'a> {
    pub(super) fn new(units: &[Vec<u32>], planner: &'a Planner<'a>) -> Tied<'a> {
        let mut by_address: FastMap<_, Vec<(u32, usize)>> = FastMap::default();
        for (unit, rows) in units.iter().enumerate() {
            for &row in rows {
                if let Some(address) = planner.named(row) {
                    by_address.entry(address).or_default().push((row, unit));
                }
            }
        }
        let mut groups: Vec<_> = by_address.into_values().filter(|rows| rows.len() > 1).collect();
        groups.sort();
        Tied { planner, groups }
    }

    /// Whether a file can do all of these together.
    pub(super) fn agree(&self, repair: &dyn Fn(usize) -> Option<Repair>) -> bool {
        self.groups.iter().all(|group| self.one(group, repair))
    }

    fn one(&self, group: &[(u32, usize)], repair: &dyn Fn(usize) -> Option<Repair>) -> bool {
        let part = |&(row, unit): &(u32, usize)| repair(unit).map(|r| self.planner.part(row, r));
        let mut parts = group.iter().map(part);
        let first = parts.next().flatten();
        parts.all(|other| match (&first, &other) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_like(b),
            _ => false,
        })
    }

    /// Units of which an object shares its line with an object of another unit.
    pub(super) fn units(&self) -> FastSet<usize> {
        let several = self.groups.iter().filter(|group| group.iter().any(|x| x.1 != group[0].1));
        several.flatten().map(|x| x.1).collect()
    }

    /// Says why in the parts that a file cannot place with the others. `rows`: of the parts, in their order.
    pub(super) fn mark(&self, parts: &mut [RepairPart], rows: &[u32], chosen: &FastMap<usize, Repair>) {
        let of = |unit: usize| chosen.get(&unit).copied();
        for group in self.groups.iter().filter(|group| !self.one(group, &of)) {
            for (part, _) in parts.iter_mut().zip(rows).filter(|(_, row)| group.iter().any(|x| x.0 == **row))
            {
                part.not_placeable.get_or_insert_with(|| {
                    "its line allocates other objects too, which need another placement: a file cannot tell them apart"
                        .to_string()
                });
            }
        }
    }
}
