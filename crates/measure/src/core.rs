//! What one core does: its clock, its caches, the lines that it has in flight, what it moves alone.
//! With these a measured machine can be simulated and timed.

use super::bench::{Bench, Effort, PageNode, aside, pin, spread};
use super::kernels::{Arrays, LINE, TRIAD_INSTRUCTIONS, four_streams, pass};
use super::latency::Chain;
use super::memory::Memory;
use nearfar_observed::measured::{CacheLatency, Core, Found, Kernel, Measured, Pages, Spread};
use std::sync::Barrier;
use std::time::Instant;

/// A cache that takes more than this part of the memory's latency did not answer by itself.
const MOST_OF_MEMORY: f64 = 0.7;
/// Dependent additions of one turn of [`add`].
const ADDITIONS: usize = 32;

/// The first usable core of the first node that has memory too.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let Some((node, cpus)) = bench.nodes().into_iter().next() else {
        measured.caveats.push("one core was not measured: no node has both memory and usable cpus".into());
        return;
    };
    let page_node = bench.page_node(node);
    let cpu = cpus[0];
    bench.say(&format!("one core: cpu {cpu}"));
    let levels: Vec<(u32, u64)> = bench.machine.caches.iter().map(|c| (c.level, c.size_bytes)).collect();
    let effort = bench.effort(12.0, 0.8, 12 + levels.len());
    let clock = clock(&bench.cores(node), &effort);
    let ipc = match (TRIAD_INSTRUCTIONS, &clock) {
        (None, _) => Err("instructions of the loop are not known on this architecture".into()),
        (_, Err(why)) => Err(format!("the clock is unknown: {why}")),
        (Some(each), Ok(clock)) => {
            cached_triad(cpu, &effort).map(|lines_per_ns| lines_per_ns.times(each / clock.median))
        }
    };
    let each = bench.array(bench.last_cache(), 1) as usize;
    let alone = |store: bool| {
        bench.room(node, each as u64)?;
        aside(|| moved(cpu, &page_node, each, store, &effort))
    };
    let read = alone(false);
    // An ordinary store reads its line first: as many bytes again.
    let update = alone(true).map(|written| written.times(2.0));
    let chain = bench.chain();
    let in_flight = bench
        .room(node, chain as u64)
        .and_then(|()| Memory::new(chain, &page_node, Pages::Huge))
        .and_then(|memory| aside(|| lines_in_flight(&Chain::new(memory)?, cpu, &effort)));
    let caches = (0..levels.len()).map(|i| {
        let (level, size) = levels[i];
        let inner = if i > 0 { levels[i - 1].1 } else { 0 };
        // Of a chain eight times as long as the inner cache, one line in eight is there. No longer than
        // needed, since the outer caches have other users.
        let bytes = if inner == 0 { size / 2 } else { (8 * inner).min(size / 2).max(2 * inner) };
        let ns = Memory::new(bytes as usize, &page_node, Pages::Huge)
            .and_then(|memory| aside(|| Chain::new(memory)?.latency(cpu, &effort)))
            .and_then(|ns| match &in_flight {
                Ok((_, memory)) if ns.median > MOST_OF_MEMORY * memory.median => Err(format!(
                    "L{level} answered in {:.0} ns, the memory in {:.0}: others use this cache at the same time",
                    ns.median, memory.median
                )),
                _ => Ok(ns),
            });
        CacheLatency { level, bytes, ns: ns.into(), inclusive: inclusive(level) }
    });
    let caches = caches.collect();
    measured.core = Some(Core {
        cpu,
        node,
        clock_ghz: clock.into(),
        ipc: Found::from(ipc),
        lines_in_flight: in_flight.map(|f| f.0).into(),
        read_gbs: read.into(),
        update_gbs: update.into(),
        caches,
    });
}

/// Whether a data or unified cache is inclusive, as the processor says: bit 1 of EDX in leaf 4 of CPUID
/// (Intel's Software Developer's Manual, vol. 2) and in leaf 0x8000001d (AMD's Programmer's Manual, vol. 3).
#[cfg(target_arch = "x86_64")]
fn inclusive(level: u32) -> Option<bool> {
    use std::arch::x86_64::__cpuid_count;
    const AMD_LEAF: u32 = 0x8000_001d;
    // AMD's leaf says the same of the same fields, and Intel's is empty there.
    #[allow(unused_unsafe)] // since Rust 1.94 it is safe
    // SAFETY: every x86-64 has CPUID; leaves that it lacks are asked for only if it says that it has them.
    let ask = |leaf, index| unsafe { __cpuid_count(leaf, index) };
    let leaves = [(0, 4), (0x8000_0000, AMD_LEAF)];
    let leaf =
        leaves.into_iter().find(|&(base, leaf)| ask(base, 0).eax >= leaf && ask(leaf, 0).eax & 31 != 0)?.1;
    (0..16).map(|index| ask(leaf, index)).take_while(|c| c.eax & 31 != 0).find_map(|cache| {
        let (kind, its) = (cache.eax & 31, cache.eax >> 5 & 7);
        // 1 data, 2 instructions, 3 both.
        (kind != 2 && its == level).then_some(cache.edx & 2 != 0)
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn inclusive(_: u32) -> Option<bool> {
    None
}

/// GHz of the first of `cpus` while all of them add numbers.
fn clock(cpus: &[u32], effort: &Effort) -> Result<Spread, String> {
    let barrier = Barrier::new(cpus.len());
    let turns = (effort.seconds * 3e9 / ADDITIONS as f64) as usize + 1;
    let one = |cpu: u32| -> Result<Vec<f64>, String> {
        let pinned = pin(cpu);
        barrier.wait();
        pinned?;
        add(turns);
        let mut values = Vec::new();
        for _ in 0..effort.runs {
            let begin = Instant::now();
            add(turns);
            values.push((turns * ADDITIONS) as f64 / begin.elapsed().as_secs_f64() / 1e9);
        }
        Ok(values)
    };
    let values = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || one(cpu))).collect();
        let mut all = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        let first = all.next();
        all.try_for_each(|other| other.map(drop))?;
        first.unwrap_or_else(|| Err("no core of it may be used".into()))
    })?;
    spread(&values)
}

/// `turns` times [`ADDITIONS`] additions, each of the sum before: a cycle each. Of registers, since
/// recent cores add constants without executing anything.
fn add(turns: usize) {
    let mut left = turns.max(1);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 32",
            "add {sum}, {one}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            left = inout(reg) left, sum = inout(reg) 0u64 => _, one = in(reg) 1u64,
            options(nomem, nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 32",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            left = inout(reg) left, sum = inout(reg) 0u64 => _, one = in(reg) 1u64,
            options(nomem, nostack)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let mut sum = 0u64;
        while left > 0 {
            for _ in 0..ADDITIONS {
                sum = std::hint::black_box(sum) + 1;
            }
            left -= 1;
        }
    }
    std::hint::black_box(left);
}

/// Lines of a triad per ns where all arrays are in the first-level cache.
fn cached_triad(cpu: u32, effort: &Effort) -> Result<Spread, String> {
    const BYTES: usize = 4096;
    let passes = (effort.seconds * 1e9 / (BYTES / LINE * 3) as f64) as usize + 1;
    aside(|| {
        pin(cpu)?;
        let memory = Memory::new(4 * BYTES, &super::bench::PageNode::Only, Pages::Base)?;
        let arrays = Arrays { a: memory.at(0), b: memory.at(BYTES), c: memory.at(2 * BYTES), bytes: BYTES };
        let rate = || {
            let begin = Instant::now();
            for _ in 0..passes {
                // SAFETY: three parts of this function's own memory.
                unsafe { pass(Kernel::Triad, arrays) };
            }
            (passes * BYTES / LINE) as f64 / begin.elapsed().as_secs_f64() / 1e9
        };
        rate();
        spread(&(0..effort.runs).map(|_| rate()).collect::<Vec<f64>>())
    })
}

/// GB/s that one cpu loads or stores, the better of one stream and of four.
fn moved(
    cpu: u32,
    page_node: &PageNode,
    bytes: usize,
    store: bool,
    effort: &Effort,
) -> Result<Spread, String> {
    pin(cpu)?;
    let memory = Memory::new(bytes, page_node, Pages::Huge)?;
    let (at, bytes) = (memory.at(0), bytes / 256 * 256);
    let kernel = if store { Kernel::Write } else { Kernel::Read };
    let rate = |streams: usize| -> Result<Spread, String> {
        let turn = || {
            let begin = Instant::now();
            // SAFETY: both touch the first `bytes` of this function's own memory.
            unsafe {
                match streams {
                    1 => pass(kernel, Arrays { a: at, b: at, c: at, bytes }),
                    _ => four_streams(store, at, bytes),
                }
            }
            begin.elapsed().as_secs_f64()
        };
        turn();
        let turns = ((effort.seconds / turn()) as usize).max(1);
        let each = |_| (turns * bytes) as f64 / (0..turns).map(|_| turn()).sum::<f64>() / 1e9;
        spread(&(0..effort.runs).map(each).collect::<Vec<f64>>())
    };
    let (one, four) = (rate(1)?, rate(4)?);
    Ok(if four.median > one.median { four } else { one })
}

/// Little's law: the most steps per ns of any number of chains, times the ns of one step; and these ns.
fn lines_in_flight(chain: &Chain, cpu: u32, effort: &Effort) -> Result<(Spread, Spread), String> {
    pin(cpu)?;
    let part = Effort { seconds: effort.seconds / 2.0, ..*effort };
    let alone = chain.latency(cpu, &part)?;
    let values: Vec<f64> = (0..effort.runs)
        .map(|_| {
            let rates = [
                beside::<4>(chain, &part),
                beside::<8>(chain, &part),
                beside::<12>(chain, &part),
                beside::<16>(chain, &part),
                beside::<24>(chain, &part),
                beside::<32>(chain, &part),
                beside::<48>(chain, &part),
            ];
            rates.into_iter().fold(0.0, f64::max) * alone.median
        })
        .collect();
    Ok((spread(&values)?, alone))
}

/// Steps per ns of `N` walks along one chain, from places far from each other.
fn beside<const N: usize>(chain: &Chain, effort: &Effort) -> f64 {
    let mut at: [*const *const u8; N] = std::array::from_fn(|i| chain.start(i, N).cast());
    let mut steps = |count: usize| {
        let begin = Instant::now();
        for _ in 0..count {
            for one in &mut at {
                // SAFETY: each element of the chain points to another, and it outlives this function.
                *one = unsafe { one.read_volatile() }.cast();
            }
        }
        (count * N) as f64 / begin.elapsed().as_secs_f64() / 1e9
    };
    let warm = steps(500);
    let rate = steps(((effort.seconds * 1e9 * warm / N as f64) as usize).max(1000));
    std::hint::black_box(at);
    rate
}
