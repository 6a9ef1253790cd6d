//! Latency page by page of a machine that shows one node: firmware that interleaves nodes, and
//! hypervisors that hide them, leave two peaks.

use super::bench::{Bench, aside, pin};
#[cfg(target_arch = "x86_64")]
use super::kernels::LINE;
use super::memory::Memory;
#[cfg(target_arch = "x86_64")]
use nearfar_analyze::stats::Random;
use nearfar_observed::measured::Measured;
use nearfar_observed::measured::Pages;
use nearfar_observed::measured::peaks::PageLatency;

/// Bytes over which pages are spread.
const BYTES: usize = 256 << 20;
/// Lines of each page that are timed. The middle half counts: interrupts and refreshes are above it, and
/// the counter's steps, which may be 10 ns, even out.
#[cfg(target_arch = "x86_64")]
const LINES: usize = 32;
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;

/// Where there is one node; several tell their distances themselves.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let [(node, ref cpus)] = bench.nodes()[..] else { return };
    if bench.machine.nodes.len() > 1 {
        return;
    }
    bench.say("latency page by page");
    let pages = if bench.quick { 1000 } else { 5000 };
    let result = bench
        .room(node, BYTES as u64)
        .and_then(|()| Memory::new(BYTES, &bench.page_node(node), Pages::Base))
        .and_then(|memory| aside(|| pin(cpus[0]).and_then(|()| latencies(&memory, pages))));
    let latency = result.and_then(|ns| PageLatency::of(&ns).ok_or_else(|| "too few pages".into()));
    measured.page_latency = Some(latency.unwrap_or_else(PageLatency::unknown));
}

/// ns of one load that no cache serves, for random pages.
#[cfg(target_arch = "x86_64")]
fn latencies(memory: &Memory, pages: usize) -> Result<Vec<f64>, String> {
    use std::arch::x86_64::{__rdtscp, _mm_clflush, _mm_lfence, _mm_mfence};
    use std::time::Instant;
    let mut random = Random::new(1);
    let mut aux = 0;
    // SAFETY: SSE2 is part of x86-64, and so is the time stamp counter of all that run this Linux.
    let now = |aux: &mut u32| unsafe { __rdtscp(aux) };
    let (begin, from) = (Instant::now(), now(&mut aux));
    // What two readings cost by themselves.
    let empty = (0..1000)
        .map(|_| {
            let start = now(&mut aux);
            // SAFETY: as above.
            unsafe { _mm_lfence() };
            now(&mut aux) - start
        })
        .min();
    let mut ticks = Vec::new();
    for _ in 0..pages {
        let page = memory.at(random.below(memory.bytes() / PAGE) * PAGE);
        let mut each = [0; LINES];
        for one in &mut each {
            // The first line brings the translation, another one is timed.
            let line = page.wrapping_add((1 + random.below(PAGE / LINE - 1)) * LINE);
            // SAFETY: both lines are of a page of the memory, which lives on.
            unsafe {
                _mm_clflush(line);
                _mm_mfence();
                page.read_volatile();
                _mm_lfence();
                let start = now(&mut aux);
                line.read_volatile();
                _mm_lfence();
                *one = now(&mut aux) - start;
            }
        }
        each.sort_unstable();
        let middle = &each[LINES / 4..LINES * 3 / 4];
        let mean = middle.iter().sum::<u64>() as f64 / middle.len() as f64;
        ticks.push(mean - empty.unwrap_or(0) as f64);
    }
    let per_tick = begin.elapsed().as_secs_f64() * 1e9 / (now(&mut aux) - from) as f64;
    Ok(ticks.into_iter().map(|t| t * per_tick).collect())
}

#[cfg(not(target_arch = "x86_64"))]
fn latencies(_: &Memory, _: usize) -> Result<Vec<f64>, String> {
    Err("timing single loads is not written for this architecture".into())
}
