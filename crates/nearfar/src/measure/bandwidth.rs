//! Bandwidth: all cpus of a node, one thread each, stream through arrays of one node's memory.

use super::kernels::{Arrays, LINE, pass};
use super::memory::Memory;
use super::{Effort, Place};
use crate::collect::target::stay_on;
use nearfar_model::machine::NodeId;
use nearfar_model::measured::{Kernel, Pages, Spread};
use std::sync::Barrier;
use std::time::Instant;

/// Arrays on one node that all kernels use in turns: to place them takes longer than to use them.
pub struct Field {
    cpus: Vec<u32>,
    arrays: Vec<Arrays>,
    _memory: Vec<Memory>,
}

impl Field {
    /// Three arrays of `each` bytes, a part of each for every cpu.
    pub fn new(place: &Place, each: usize) -> Result<Field, String> {
        let threads = place.cpus.len();
        if threads == 0 {
            return Err("no cpu of it may be used".into());
        }
        let part = (each / threads).next_multiple_of(2 << 20).max(2 << 20);
        // An odd number of lines between the arrays: equal offsets of all three would share sets of a cache.
        let gap = 2 * 4096 + 5 * LINE;
        let stride = part * threads + gap;
        let memory = Memory::new(3 * stride, place.memory, place.only, Pages::Huge)?;
        let arrays = (0..threads)
            .map(|t| Arrays {
                a: memory.at(t * part),
                b: memory.at(stride + t * part),
                c: memory.at(2 * stride + t * part),
                bytes: part,
            })
            .collect();
        Ok(Field { cpus: place.cpus.iter().collect(), arrays, _memory: vec![memory] })
    }

    /// Three arrays of `part` bytes for each of these cpus, on its own node.
    pub fn local(cpus: &[(u32, NodeId)], part: usize, only: bool) -> Result<Field, String> {
        let gap = 2 * 4096 + 5 * LINE;
        let stride = part + gap;
        let memory: Vec<Memory> = cpus
            .iter()
            .map(|&(_, node)| Memory::new(3 * stride, node, only, Pages::Huge))
            .collect::<Result<_, _>>()?;
        let arrays =
            memory.iter().map(|m| Arrays { a: m.at(0), b: m.at(stride), c: m.at(2 * stride), bytes: part });
        Ok(Field { cpus: cpus.iter().map(|c| c.0).collect(), arrays: arrays.collect(), _memory: memory })
    }

    /// Bytes of the arrays that `kernel` uses.
    pub fn bytes(&self, kernel: Kernel) -> u64 {
        let (loads, stores) = kernel.arrays();
        (loads + stores) * self.arrays.iter().map(|a| a.bytes as u64).sum::<u64>()
    }

    /// GB/s of what the kernel names, and the bytes of all passes.
    pub fn measure(&self, kernel: Kernel, effort: &Effort) -> Result<(Spread, u64), String> {
        let bytes = self.bytes(kernel);
        let warm = self.seconds(kernel, 1)?;
        let passes = ((effort.seconds / warm) as usize).max(1);
        let mut values = Vec::new();
        for _ in 0..effort.runs {
            values.push(bytes as f64 * passes as f64 / self.seconds(kernel, passes)? / 1e9);
        }
        let spread = Spread::of(&values).ok_or("nothing was measured")?;
        Ok((spread, bytes * (1 + passes * effort.runs) as u64))
    }

    /// From the first thread's begin to the last one's end.
    fn seconds(&self, kernel: Kernel, passes: usize) -> Result<f64, String> {
        let barrier = Barrier::new(self.arrays.len());
        let one = |cpu: u32, arrays: Arrays| -> Result<(Instant, Instant), String> {
            let pinned = stay_on(&std::iter::once(cpu).collect());
            barrier.wait();
            pinned.map_err(|e| format!("cpu {cpu} may not be used: {e}"))?;
            let begin = Instant::now();
            for _ in 0..passes {
                // SAFETY: this thread's part of the field's own memory, which outlives the scope.
                unsafe { pass(kernel, arrays) };
            }
            Ok((begin, Instant::now()))
        };
        let times: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let pairs = self.cpus.iter().zip(&self.arrays);
            let handles: Vec<_> =
                pairs.map(|(&cpu, &arrays)| scope.spawn(move || one(cpu, arrays))).collect();
            handles
                .into_iter()
                .map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<_, _>>()
        })?;
        let begin = times.iter().map(|t| t.0).min().ok_or("no thread ran")?;
        let end = times.iter().map(|t| t.1).max().ok_or("no thread ran")?;
        Ok((end - begin).as_secs_f64())
    }
}
