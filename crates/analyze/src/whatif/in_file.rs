//! The best combination that a placement file can say.

use super::tied::Tied;
use super::{Chosen, Engine, Planner};
use crate::thresholds::WORTH;
use crate::value::Repair;

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
