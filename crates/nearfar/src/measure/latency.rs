//! Idle latency: one cpu follows pointers through memory that nobody else uses.

use super::kernels::{LINE, follow};
use super::memory::Memory;
use super::{Effort, Place};
use crate::collect::target::stay_on;
use nearfar_model::analyze::stats::Random;
use nearfar_model::measured::{Pages, Spread};
use std::time::Instant;

/// Follows a random cycle through all lines of `bytes` of the place's memory: ns per step, and
/// the kind of pages that the kernel gave.
pub fn measure(
    place: &Place,
    bytes: usize,
    wanted: Pages,
    effort: &Effort,
) -> Result<(Spread, Pages), String> {
    let cpu = place.cpus.first().ok_or("no cpu of it may be used")?;
    let work = || -> Result<(Spread, Pages), String> {
        stay_on(&std::iter::once(cpu).collect()).map_err(|e| format!("cpu {cpu} may not be used: {e}"))?;
        let memory = Memory::new(bytes, place.memory, place.only, wanted)?;
        let mut at = cycle(&memory);
        // SAFETY: `cycle` made a chain without an end inside the memory, which lives on.
        let mut steps = |count: usize| unsafe {
            let begin = Instant::now();
            at = follow(at.cast(), count);
            begin.elapsed().as_secs_f64() * 1e9 / count as f64
        };
        // The first steps tell how many fill the time.
        let warm = steps(100_000);
        let count = ((effort.seconds * 1e9 / warm) as usize).max(100_000);
        let values: Vec<f64> = (0..effort.runs).map(|_| steps(count)).collect();
        std::hint::black_box(at);
        Ok((Spread::of(&values).ok_or("nothing was measured")?, memory.pages))
    };
    // On a thread of its own: where this one may run stays as it is.
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
}

/// Makes all lines one cycle in random order (Sattolo 1986), each pointing to the next. Any line
/// of it to begin with.
pub(super) fn cycle(memory: &Memory) -> *const u8 {
    let lines = memory.bytes() / LINE;
    // SAFETY: line i is inside the memory, aligned, and nobody else's.
    let line = |i: usize| memory.at(i * LINE).cast::<usize>();
    // Always the same chain.
    let mut random = Random::new(1);
    // SAFETY: as above.
    unsafe {
        for i in 0..lines {
            line(i).write(i);
        }
        for i in (1..lines).rev() {
            let j = random.below(i);
            let (x, y) = (line(i).read(), line(j).read());
            line(i).write(y);
            line(j).write(x);
        }
        for i in 0..lines {
            let next = line(line(i).read()) as usize;
            line(i).write(next);
        }
    }
    memory.at(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_line_once() {
        let memory = Memory::new(64 * 1000, 0, true, Pages::Base).unwrap();
        let first = cycle(&memory);
        let mut seen = std::collections::HashSet::new();
        let mut at = first;
        for _ in 0..1000 {
            assert!(seen.insert(at as usize));
            // SAFETY: the chain has no end and the memory lives.
            at = unsafe { follow(at.cast(), 1) };
        }
        assert_eq!(at, first);
    }
}
