//! Which groups of spans touch a range: each group once a list, however many of its spans are there. A loop that allocates
//! a block of another size each time leaves a list of all of them with every page that they have in common.

use super::steps::step;
use super::{Layer, Lists, Spans};

/// The groups of a layer's spans that lived at some time of a range of times, ready for questions about addresses.
#[derive(Debug, Default)]
pub struct Groups {
    /// By node of the tree, ascending.
    whole: Lists,
    /// By cell: ranks of those that lived then. They are few (`GRAIN`), and each has to be asked for its addresses.
    part: Lists,
}

/// Lists of those numbers of each list that `of` gives; ascending and once each where `once`.
fn chosen(lists: &Lists, of: impl Fn(u32) -> Option<u32>, once: bool) -> Lists {
    let mut result = Lists { first: vec![0], ranks: Vec::new() };
    let mut own = Vec::new();
    for i in 0..lists.first.len().saturating_sub(1) {
        own.clear();
        own.extend(lists.ranks[lists.of(i)].iter().filter_map(|&rank| of(rank)));
        if once {
            own.sort_unstable();
            own.dedup();
        }
        result.ranks.extend(&own);
        result.first.push(result.ranks.len());
    }
    result
}

impl Layer {
    /// Those of spans that lived at some time of `since..=until`; `group` gives a span's.
    pub fn groups<S: Spans + ?Sized>(
        &self,
        spans: &S,
        since: u64,
        until: u64,
        group: impl Fn(u32) -> u32,
    ) -> Groups {
        let id = |rank: u32| self.by_birth[rank as usize];
        let lived = |rank: u32| {
            let s = spans.span(id(rank));
            s.born <= until && since < s.died
        };
        Groups {
            whole: chosen(&self.whole, |rank| lived(rank).then(|| group(id(rank))), true),
            part: chosen(&self.part, |rank| lived(rank).then_some(rank), false),
        }
    }

    /// The groups of which a span covers part of `from..to`; some of them repeatedly.
    pub fn groups_over<S: Spans + ?Sized>(
        &self,
        spans: &S,
        groups: &Groups,
        group: impl Fn(u32) -> u32,
        (from, to): (u64, u64),
        mut found: impl FnMut(u32),
    ) {
        let Some((first, end)) = self.cells_of(from, to) else { return };
        let (mut low, mut high) = (first + self.leaves(), end - 1 + self.leaves());
        while high > 0 {
            for node in low..=high {
                step();
                groups.whole.ranks[groups.whole.of(node)].iter().for_each(|&of| {
                    step();
                    found(of);
                });
            }
            (low, high) = (low / 2, high / 2);
        }
        for cell in first..end {
            for &rank in &groups.part.ranks[groups.part.of(cell)] {
                step();
                let id = self.by_birth[rank as usize];
                let s = spans.span(id);
                if s.from < to && from < s.to {
                    found(group(id));
                }
            }
        }
    }
}
