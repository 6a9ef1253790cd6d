//! The best combination that a placement file can say.
//!
//! A file names an object by the line that allocates it. If one line allocates several objects, the file places all of them
//! alike or none of them.

use super::{Chosen, Engine, Planner};
use crate::hash::{FastMap, FastSet};
use crate::thresholds::WORTH;
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
    fn agree(&self, repair: &dyn Fn(usize) -> Option<Repair>) -> bool {
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
    fn units(&self) -> FastSet<usize> {
        let several = self.groups.iter().filter(|group| group.iter().any(|x| x.1 != group[0].1));
        several.flatten().map(|x| x.1).collect()
    }

    /// Says why in the parts that a file cannot place with the others. `rows`: of the parts, in their order.
    pub(super) fn mark(&self, parts: &mut [RepairPart], rows: &[u32], chosen: &Chosen) {
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

impl Engine<'_> {
    /// The best combination of what a placement file can say.
    pub fn placeable(&self, planner: &Planner) -> Chosen {
        let tied = Tied::new(&self.units, planner);
        let said = |unit: usize, repair| {
            self.units[unit].iter().all(|&row| planner.part(row, repair).not_placeable.is_none())
        };
        let agree = |chosen: &Chosen| tied.agree(&|unit| chosen.get(&unit).copied());
        if self.best.iter().all(|(&unit, &repair)| said(unit, repair)) && agree(&self.best) {
            return self.best.clone();
        }
        // Saying a repair takes longer than weighing it.
        let options = self.options.iter().enumerate();
        let options = options.flat_map(|(unit, of)| of.iter().map(move |o| (unit, o.0)));
        let some: Vec<(usize, Repair)> = options.filter(|&(unit, repair)| said(unit, repair)).collect();
        let may = |unit, repair| some.contains(&(unit, repair));
        let free = self.combined(&may);
        if agree(&free) {
            return free;
        }
        // Objects of one line alike, or as they are.
        let shared = tied.units();
        let of_unit = |unit: usize, repair| {
            may(unit, repair) && agree(&Chosen::from_iter([(unit, repair)])) && !shared.contains(&unit)
        };
        let mut best = self.combined(&of_unit);
        let mut least = self.guess(&|unit| best.get(&unit).copied());
        for repair in [Repair::WhereUsed, Repair::Interleave] {
            if !shared.iter().all(|&unit| may(unit, repair)) {
                continue;
            }
            let mut with = best.clone();
            with.extend(shared.iter().map(|&unit| (unit, repair)));
            let ratio = self.guess(&|unit| with.get(&unit).copied());
            if ratio < least - WORTH && agree(&with) {
                (least, best) = (ratio, with);
            }
        }
        best
    }
}
