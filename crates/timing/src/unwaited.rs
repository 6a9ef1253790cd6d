//! Pieces of work that follow each other without a wait between them.
//!
//! Pieces are timed one by one, and each takes as long as its last core. That is right where cores wait for each other at its
//! end, as at a barrier. Where none waited, a core whose memory is nearer now goes on with what comes next: then the time is that
//! of the core which takes longest over all of these pieces together.

use super::value::EpochTime;
use super::work::Work;

/// A core that was busy for less than one in so much of a piece's time waited at its end, or began late. The same limit
/// says when epochs have waiting in them.
pub(super) const WAITING: f64 = 1.1;

/// For each piece, whether all cores go on with the next one without waiting.
pub(super) fn unwaited(pieces: &[Work]) -> Vec<bool> {
    let goes_on = |pair: &[Work]| {
        let (piece, next) = (&pair[0], &pair[1]);
        let cores = piece.cores.iter().zip(&next.cores);
        piece.last_epoch + 1 == next.first_epoch
            && piece.elapsed_ns > 0.0
            && cores
                .filter(|(core, then)| !core.is_idle() || !then.is_idle())
                .all(|(core, _)| WAITING * core.busy_ns >= piece.elapsed_ns)
    };
    let mut all: Vec<bool> = pieces.windows(2).map(goes_on).collect();
    all.resize(pieces.len(), false);
    all
}

/// The time of pieces one after the other, ns. `pieces`: positions, with their times; `unwaited`: by position.
pub(super) fn together(pieces: &[(usize, EpochTime)], unwaited: &[bool]) -> f64 {
    let joined = |a: usize, b: usize| a == b || a + 1 == b && unwaited[a];
    let chains = pieces.chunk_by(|a, b| joined(a.0, b.0));
    chains
        .map(|chain| {
            let mut cores = vec![0.0; chain[0].1.finish_ns.len()];
            for (_, time) in chain {
                let last = time.finish_ns.iter().copied().fold(0.0, f64::max);
                // Longer than its cores: a resource has more to do than they ask for, or they took turns.
                let of = |ns: f64| if last > 0.0 { ns / last } else { 1.0 };
                cores.iter_mut().zip(&time.finish_ns).for_each(|(sum, &ns)| *sum += time.ns * of(ns));
            }
            cores.into_iter().fold(0.0, f64::max)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Binding;
    use crate::work::{CoreWork, NodeWork};

    fn piece(epoch: u32, busy: &[f64]) -> Work {
        let core = |&busy_ns: &f64| {
            let page_nodes = vec![NodeWork { reads: busy_ns, ..NodeWork::default() }];
            CoreWork { busy_ns, page_nodes, ..CoreWork::default() }
        };
        let cores = busy.iter().map(core).collect();
        Work { first_epoch: epoch, last_epoch: epoch, elapsed_ns: 1000.0, cores }
    }

    #[test]
    fn cores_that_were_busy_to_the_end_did_not_wait() {
        let cases: [(&[f64], &[f64], bool); 5] = [
            (&[1000.0, 950.0], &[1000.0, 300.0], true),
            // The second waited in the first piece.
            (&[1000.0, 600.0], &[1000.0, 1000.0], false),
            // It began with the second piece only: something told it to.
            (&[1000.0, 0.0], &[1000.0, 1000.0], false),
            // It does nothing in either.
            (&[1000.0, 0.0], &[1000.0, 0.0], true),
            // It was done with the first piece.
            (&[1000.0, 1000.0], &[1000.0, 0.0], true),
        ];
        for (first, second, expected) in cases {
            let found = unwaited(&[piece(3, first), piece(4, second)]);
            assert_eq!(found, [expected, false], "{first:?} {second:?}");
        }
        let apart = [piece(3, &[1000.0, 1000.0]), piece(6, &[1000.0, 1000.0])];
        assert_eq!(unwaited(&apart), [false, false]);
    }

    #[test]
    fn who_does_not_wait_is_late_once() {
        let time = |finish: [f64; 2], ns: f64| EpochTime {
            ns,
            binds: Binding::Core,
            bound_ns: ns,
            core_ns: ns,
            concurrency_ns: 0.0,
            finish_ns: finish.to_vec(),
            memory: Vec::new(),
            links: Vec::new(),
        };
        // Each is the last in one piece.
        let pieces = [(0, time([10.0, 6.0], 10.0)), (1, time([20.0, 24.0], 24.0))];
        assert_eq!(together(&pieces, &[false, false]), 34.0);
        assert_eq!(together(&pieces, &[true, false]), 30.0);
        // A memory with 20 ns of work makes both later.
        let pieces = [(0, time([10.0, 6.0], 20.0)), (1, time([20.0, 24.0], 24.0))];
        assert_eq!(together(&pieces, &[true, false]), 40.0);
    }
}
