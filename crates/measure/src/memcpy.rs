//! The C library's memcpy by every cpu in memory that every other touched first: which cpus are far
//! from which memory, by the plainest test there is (the two-Opteron test of the TAU project's NUMA
//! guide). Pages are not bound; that first touch put them on the toucher's node is proved.

use super::bench::{Bench, Effort, PageNode, aside, pin, spread};
use super::memory::Memory;
use nearfar_observed::measured::{Copy, Measured, Spread};
use std::time::Instant;

/// Cpus that are asked where everything is measured, evenly spread; alone it is all.
const MOST_CPUS: usize = 8;

/// The matrix of all cpus, or of some.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let mut touchers: Vec<(u32, PageNode)> = Vec::new();
    for (node, cpus) in bench.nodes() {
        touchers.extend(cpus.into_iter().map(|cpu| (cpu, bench.page_node(node))));
    }
    if (bench.all || bench.quick) && touchers.len() > MOST_CPUS {
        let all = touchers.len();
        touchers = (0..MOST_CPUS).map(|i| touchers[i * all / MOST_CPUS].clone()).collect();
        measured
            .caveats
            .push(format!("memcpy: {MOST_CPUS} of {all} cpus; `nearfar measure memcpy` asks all"));
    }
    let cpus: Vec<u32> = touchers.iter().map(|t| t.0).collect();
    let bytes = (2 * bench.array(bench.last_cache(), 1)).max(64 << 20);
    let effort = bench.effort(20.0, 0.5, cpus.len() * cpus.len());
    for (toucher, page_node) in &touchers {
        bench.say(&format!("memcpy in memory that cpu {toucher} touched"));
        measured.copies.extend(aside(|| row(*toucher, page_node, &cpus, bytes as usize, &effort)));
    }
}

/// What `cpus` take to copy half of `bytes` to the other half, touched first by `toucher`.
fn row(toucher: u32, page_node: &PageNode, cpus: &[u32], bytes: usize, effort: &Effort) -> Vec<Copy> {
    let half = bytes / 2 / 64 * 64;
    let memory = pin(toucher).and_then(|()| Memory::touched(bytes, page_node));
    let one = |cpu: u32| -> Result<Spread, String> {
        let memory = memory.as_ref().map_err(String::clone)?;
        pin(cpu)?;
        let seconds = || {
            let begin = Instant::now();
            // SAFETY: two halves of this function's own memory.
            unsafe { libc::memcpy(memory.at(0).cast(), memory.at(half).cast(), half) };
            begin.elapsed().as_secs_f64()
        };
        let runs = ((effort.seconds * effort.runs as f64 / seconds()) as usize).clamp(3, 40);
        spread(&(0..runs).map(|_| seconds()).collect::<Vec<f64>>())
    };
    cpus.iter().map(|&cpu| Copy { toucher, cpu, bytes: half as u64, seconds: one(cpu).into() }).collect()
}
