//! vCPUs that run one at a time, in the order of their simulated clocks.
//!
//! Throttling ([`throttle`](crate::throttle)) keeps vCPUs within some microseconds of each other, and within those the host decides which
//! of two accesses comes first. Here one vCPU has the turn until its clock is far enough ahead of the others', and the next one is that whose clock
//! is behind all others: the same program takes the same order again, as far as the guest's kernel lets it.

use crate::wakes::Behind;
use nearfar_recording::tables::LEAD_NS;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOBODY: usize = usize::MAX;

/// The vCPU that has the turn.
#[derive(Debug)]
pub struct Turns {
    holder: AtomicUsize,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { holder: AtomicUsize::new(NOBODY) }
    }
}

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Its vCPU and clock.
    pub of: Behind,
    /// It has it only from now on, and may have to be woken.
    pub new: bool,
}

impl Turns {
    /// Gives the turn to the one that should have it, of those that run or will in a moment; `None` if there is none.
    pub fn decide(&self, runnable: &[Behind]) -> Option<Turn> {
        let holder = self.holder.load(Ordering::Acquire);
        let first = runnable.iter().min_by(|a, b| a.ns.total_cmp(&b.ns).then(a.cpu.cmp(&b.cpu)))?;
        let keeps = runnable.iter().find(|now| now.cpu == holder && now.ns <= first.ns + LEAD_NS);
        let of = *keeps.unwrap_or(first);
        // Another vCPU may just have decided the same.
        let given = self.holder.compare_exchange(holder, of.cpu, Ordering::AcqRel, Ordering::Acquire);
        Some(Turn { of, new: of.cpu != holder && given.is_ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clocks: &[(usize, f64)]) -> Vec<Behind> {
        clocks.iter().map(|&(cpu, ns)| Behind { cpu, ns, due: None }).collect()
    }

    #[test]
    fn the_slowest_has_the_turn_until_it_is_far_enough_ahead() {
        let turns = Turns::default();
        let whose = |clocks: &[(usize, f64)]| turns.decide(&at(clocks)).map(|turn| (turn.of.cpu, turn.new));
        assert_eq!(whose(&[]), None);
        // Of two equal clocks that of the lower number, in whatever order they come.
        assert_eq!(whose(&[(2, 50.0), (1, 50.0)]), Some((1, true)));
        assert_eq!(whose(&[(2, 50.0), (1, 50.0 + LEAD_NS)]), Some((1, false)));
        assert_eq!(whose(&[(2, 50.0), (1, 51.0 + LEAD_NS)]), Some((2, true)));
        // It keeps it although the other is behind now.
        assert_eq!(whose(&[(2, 60.0 + LEAD_NS), (1, 51.0 + LEAD_NS)]), Some((2, false)));
        // It sleeps.
        assert_eq!(whose(&[(1, 51.0 + LEAD_NS), (3, 52.0)]), Some((3, true)));
    }
}
