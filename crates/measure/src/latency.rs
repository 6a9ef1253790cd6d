//! Idle latency: one cpu follows pointers through memory that nothing else uses.

use super::bench::{Bench, Effort, aside, pair, pin, spread};
use super::kernels::{LINE, follow};
use super::memory::Memory;
use nearfar_analyze::stats::Random;
use nearfar_observed::measured::{Latency, Measured, Pages, Spread};
use std::time::Instant;

/// The matrix, on 2 MiB pages and on base pages.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let bytes = bench.chain();
    let pairs = bench.pairs();
    let effort = bench.effort(30.0, 1.2, 2 * pairs.len());
    for (wanted, name) in [(Pages::Huge, "2 MiB pages"), (Pages::Base, "base pages")] {
        let mut table = Latency { pages: wanted, bytes: bytes as u64, pairs: Vec::new() };
        let mut chain: Option<(u32, Result<Chain, String>)> = None;
        for place in &pairs {
            bench.say(&format!("latency, {name}, from node {} to node {}", place.from, place.memory));
            // To make a chain takes longer than to follow it: all cpus follow the same one.
            if chain.as_ref().is_none_or(|c| c.0 != place.memory) {
                drop(chain.take());
                let made = bench.room(place.memory, bytes as u64);
                let made =
                    made.and_then(|()| Memory::new(bytes, &place.page_node, wanted)).and_then(|memory| {
                        if memory.pages == wanted {
                            return Chain::new(memory);
                        }
                        Err("the kernel gave no 2 MiB pages (transparent_hugepage, fragmented memory)".into())
                    });
                chain = Some((place.memory, made));
            }
            let result = match (&chain, place.cpus.first()) {
                (_, None) => Err("no cpu of it may be used".into()),
                (Some((_, Ok(chain))), Some(&cpu)) => aside(|| chain.latency(cpu, &effort)),
                (Some((_, Err(why))), _) => Err(why.clone()),
                (None, _) => Err("the chain is missing".into()),
            };
            table.pairs.push(pair(place, result.map(|value| (value, None))));
        }
        measured.latency.push(table);
    }
}

/// A random cycle through all lines of some memory.
pub struct Chain(Memory);

impl Chain {
    /// Makes all lines one cycle in random order, each pointing to the next.
    ///
    /// # Errors
    /// If the order, a sixteenth as large, has no room.
    pub fn new(memory: Memory) -> Result<Chain, String> {
        let lines = memory.bytes() / LINE;
        let number = |i: usize| u32::try_from(i).map_err(|_| "a chain has at most 2^32 lines".to_owned());
        number(lines)?;
        // The order is shuffled in an array of its own, which is small enough for caches: to swap pointers in
        // the lines themselves waits for memory twice a line.
        let order = Memory::map(lines * size_of::<u32>(), Pages::Huge)?;
        let at = |i: usize| order.at(i * size_of::<u32>()).cast::<u32>();
        // Always the same chain.
        let mut random = Random::new(1);
        // SAFETY: `order` has `lines` numbers; line i is inside the memory, aligned, and nothing else's.
        unsafe {
            for i in 0..lines {
                at(i).write(i as u32);
            }
            for i in (1..lines).rev() {
                at(i).swap(at(random.below(i + 1)));
            }
            for i in 0..lines {
                let next = at((i + 1) % lines).read() as usize * LINE;
                memory.at(at(i).read() as usize * LINE).cast::<usize>().write(memory.at(next) as usize);
            }
        }
        Ok(Chain(memory))
    }

    /// A line of it, of as many as `of`, evenly spread.
    pub fn start(&self, i: usize, of: usize) -> *const u8 {
        self.0.at(self.0.bytes() / LINE / of * i * LINE)
    }

    /// ns per step, seen by a cpu, where the calling thread stays.
    ///
    /// # Errors
    /// If the cpu may not be used.
    pub fn latency(&self, cpu: u32, effort: &Effort) -> Result<Spread, String> {
        pin(cpu)?;
        let mut at = self.start(0, 1);
        // SAFETY: the chain has no end, and its memory lives as long as `self`.
        let mut steps = |count: usize| unsafe {
            let begin = Instant::now();
            at = follow(at.cast(), count);
            begin.elapsed().as_secs_f64() * 1e9 / count as f64
        };
        // The first steps tell how many fill the time.
        let first = (self.0.bytes() / LINE).min(100_000);
        steps(first);
        let warm = steps(first);
        let count = ((effort.seconds * 1e9 / warm) as usize).max(20_000);
        let values: Vec<f64> = (0..effort.runs).map(|_| steps(count)).collect();
        std::hint::black_box(at);
        spread(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::PageNode;
    use super::*;

    #[test]
    fn the_chain_visits_every_line_once() {
        let chain = Chain::new(Memory::new(64 * 1000, &PageNode::Only, Pages::Base).unwrap()).unwrap();
        let first = chain.start(0, 1);
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
