//! Which rows of the report were on a page, asked for every counted page.

use super::Spaces;
use crate::hash::FastMap;
use crate::layer::Groups;

/// Answers for one range of times, with what is worked out of each space at its first question.
pub struct RowsOver<'a> {
    spaces: &'a Spaces,
    /// Row by thing.
    of_thing: &'a [u32],
    since: u64,
    until: u64,
    own: FastMap<u32, Vec<Groups>>,
}

impl Spaces {
    /// Questions about what was there at some time of `since..=until`; `of_thing`: the row of each thing.
    pub fn rows_over<'a>(&'a self, of_thing: &'a [u32], since: u64, until: u64) -> RowsOver<'a> {
        RowsOver { spaces: self, of_thing, since, until, own: FastMap::default() }
    }
}

impl RowsOver<'_> {
    /// The rows of what covered any byte of `from..to`, ascending and once each; mappings only where no
    /// object did. A sampled small allocation counts if it begins there, or where there is nothing else.
    pub fn of(&mut self, space: u32, from: u64, to: u64) -> Vec<u32> {
        let (spaces, of_thing) = (self.spaces, self.of_thing);
        let (things, row) = (&spaces.things, |thing: u32| of_thing[thing as usize]);
        let mut found = Vec::new();
        for (generation, (here, last)) in spaces.lineage(space, self.until).enumerate() {
            let since = self.since.min(last);
            if generation == 0 {
                let of_layers = || here.fine.iter().map(|l| l.groups(things, since, last, row)).collect();
                let groups = self.own.entry(space).or_insert_with(of_layers);
                for (layer, groups) in here.fine.iter().zip(groups.iter()) {
                    layer.groups_over(things, groups, row, (from, to), |r| found.push(r));
                }
            } else {
                // As it was at this fork: each child would need groups of its own.
                for layer in &here.fine {
                    layer.over(things, from, to, since, last, |id| found.push(row(id)));
                }
            }
            let small = here.small.partition_point(|x| x.0 < from);
            let begins = here.small[small..].iter().take_while(|x| x.0 < to);
            found.extend(begins.map(|x| x.1).filter(|&id| things.born[id as usize] <= last).map(row));
        }
        if found.is_empty() {
            let mapping = spaces.mapping_at(space, from, self.until).0;
            // As `at` answers: of the kind of the sampled allocations around it.
            let near = mapping.is_none_or(|m| spaces.is_heap_area(m));
            let thing = near.then(|| spaces.small_at(space, from, self.until)).flatten().or(mapping);
            found.extend(thing.map(row));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
