//! Loaded latency: one cpu follows pointers while the others of its node read as fast as they
//! are told to. The curve of ns over GB/s shows where a memory controller begins to queue.

use super::bench::{Bench, Effort, Place, pin, spread};
use super::kernels::{Arrays, LINE, follow, pass};
use super::latency::Chain;
use super::memory::Memory;
use nearfar_observed::measured::{Kernel, LoadPoint, Loaded, Measured, Pages, Spread};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Turns of an empty loop between two pieces of reading: from none to hardly any load.
const PAUSES: [u64; 9] = [0, 50, 100, 200, 400, 800, 1600, 6400, u64::MAX];
/// Bytes that a loading thread reads between two pauses.
const PIECE: usize = 64 * LINE;

/// A curve for each pair; where everything is measured, each node's own and those of the first node.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let mut pairs = bench.pairs();
    if bench.all {
        let first = pairs.first().map(|p| p.from);
        pairs.retain(|p| p.from == p.memory || Some(p.from) == first);
    }
    let effort = bench.effort(20.0, 1.0, pairs.len() * PAUSES.len());
    for place in &pairs {
        let (from, memory) = (place.from, place.memory);
        bench.say(&format!("latency under load from node {from} to node {memory}"));
        let chain = bench.chain();
        let each = bench.array(bench.caches_of(place.cpus.len()), 1);
        let curve = bench
            .room(memory, chain as u64 + each)
            .and_then(|()| curve(place, chain, each as usize, &effort));
        let (points, why) = match curve {
            Ok(points) => (points, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        measured.loaded.push(Loaded { from, memory, points, why });
    }
}

/// One point for each of [`PAUSES`]; `u64::MAX` is idle.
fn curve(place: &Place, chain: usize, each: usize, effort: &Effort) -> Result<Vec<LoadPoint>, String> {
    let (&cpu, others) = place.cpus.split_first().ok_or("no cpu of it may be used")?;
    if others.is_empty() {
        return Err("it takes two cpus: one to follow pointers and one to load".into());
    }
    let part = (each / others.len()).next_multiple_of(PIECE).max(PIECE);
    let memory = Memory::new(part * others.len(), &place.page_node, Pages::Huge)?;
    let chain = Chain::new(Memory::new(chain, &place.page_node, Pages::Huge)?)?;
    PAUSES.iter().map(|&pause| point(cpu, others, &memory, part, &chain, pause, effort)).collect()
}

fn point(
    cpu: u32,
    others: &[u32],
    memory: &Memory,
    part: usize,
    chain: &Chain,
    pause: u64,
    effort: &Effort,
) -> Result<LoadPoint, String> {
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let barrier = Barrier::new(others.len() + 1);
    let load = |t: usize, cpu: u32| -> Result<(), String> {
        let pinned = pin(cpu);
        barrier.wait();
        pinned?;
        let mut offset = 0;
        while !stop.load(Ordering::Relaxed) {
            if pause == u64::MAX {
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            let a = memory.at(t * part + offset);
            // SAFETY: a piece of this thread's part of the memory, which outlives the scope; only read.
            unsafe { pass(Kernel::Read, Arrays { a, b: a, c: a, bytes: PIECE }) };
            moved.fetch_add(PIECE as u64, Ordering::Relaxed);
            offset = (offset + PIECE) % part;
            (0..pause).for_each(|i| {
                std::hint::black_box(i);
            });
        }
        Ok(())
    };
    let chase = || -> Result<(Spread, f64), String> {
        let pinned = pin(cpu);
        barrier.wait();
        let result = pinned.and_then(|()| {
            let mut at = chain.start(0, 1);
            // SAFETY: the chain has no end and outlives the scope.
            let mut steps = |count: usize| unsafe {
                let begin = Instant::now();
                at = follow(at.cast(), count);
                begin.elapsed().as_secs_f64() * 1e9 / count as f64
            };
            let warm = steps(50_000);
            let count = ((effort.seconds * 1e9 / warm) as usize).max(5_000);
            let (begin, before) = (Instant::now(), moved.load(Ordering::Relaxed));
            let values: Vec<f64> = (0..effort.runs).map(|_| steps(count)).collect();
            let bytes = moved.load(Ordering::Relaxed) - before;
            // The chain's own lines are traffic too.
            let own = (count * effort.runs * LINE) as f64;
            let gb_per_s = (bytes as f64 + own) / begin.elapsed().as_secs_f64() / 1e9;
            Ok((spread(&values)?, gb_per_s))
        });
        stop.store(true, Ordering::Relaxed);
        result
    };
    std::thread::scope(|scope| {
        let load = &load;
        let loads: Vec<_> =
            others.iter().enumerate().map(|(t, &cpu)| scope.spawn(move || load(t, cpu))).collect();
        let chased = scope.spawn(chase).join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        for load in loads {
            load.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?;
        }
        chased.map(|(latency_ns, gb_per_s)| LoadPoint { latency_ns, gb_per_s })
    })
}
