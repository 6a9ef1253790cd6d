//! What makes each case wrong, on purpose.

use super::seen::{Seen, Sights};
use nearfar_machine::figures::NodeBandwidth;

/// A change after which a case must not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mutation {
    /// The memories' bandwidths times a factor.
    Bandwidth(f64),
    /// Every line counts as one of the own node's.
    AllNear,
    /// Every line counts as one of the first node's.
    AllOnFirst,
    /// The first two nodes' memories change places.
    Exchanged,
    /// Runs with the prefetcher are replaced by those without.
    NoPrefetcher,
}

impl Mutation {
    /// The one for a case.
    pub fn of(id: u8) -> Mutation {
        match id {
            5 | 11 => Mutation::AllOnFirst,
            8 => Mutation::Exchanged,
            9 => Mutation::NoPrefetcher,
            6 | 7 | 12 | 14 | 15 => Mutation::AllNear,
            16 => Mutation::Bandwidth(10.0),
            _ => Mutation::Bandwidth(0.8),
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Mutation::Bandwidth(f) if f < 1.0 => "memory bandwidth −20 %",
            Mutation::Bandwidth(_) => "memory bandwidth × 10",
            Mutation::AllNear => "every line near",
            Mutation::AllOnFirst => "every line on the first node",
            Mutation::Exchanged => "the two nodes' memories exchanged",
            Mutation::NoPrefetcher => "prefetcher off",
        }
    }

    /// The runs as they would have been.
    pub fn applied(self, seen: &Sights) -> Sights {
        let mut changed = seen.clone();
        if self == Mutation::NoPrefetcher {
            if let Some(without) = seen.0.get("rows-without-prefetcher") {
                changed.0.insert("rows".into(), without.clone());
            }
            return changed;
        }
        for run in changed.0.values_mut() {
            *run = self.on(run);
        }
        changed
    }

    fn on(self, run: &Seen) -> Seen {
        match self {
            Mutation::Bandwidth(factor) => {
                let mut run = run.clone();
                run.machine.figures.bandwidth.iter_mut().for_each(|b| multiply(b, factor));
                run
            }
            Mutation::AllNear => run.with_page_nodes(|node, _| node),
            Mutation::AllOnFirst => run.with_page_nodes(|_, _| 0),
            Mutation::Exchanged => {
                run.with_page_nodes(|_, page_node| if page_node < 2 { 1 - page_node } else { page_node })
            }
            Mutation::NoPrefetcher => run.clone(),
        }
    }
}

fn multiply(b: &mut NodeBandwidth, factor: f64) {
    for figure in
        [&mut b.peak_gbs, &mut b.read_gbs, &mut b.update_gbs, &mut b.triad_gbs].into_iter().flatten()
    {
        figure.value *= factor;
    }
}
