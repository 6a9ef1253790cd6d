//! Bandwidth: all cpus of a node, one thread each, stream through arrays of one node's memory.

use super::bench::{Bench, Effort, PageNode, Place, pair, pin, spread};
use super::kernels::{Arrays, LINE, available, pass};
use super::memory::Memory;
use super::region::Region;
use nearfar_observed::measured::{Bandwidth, Kernel, Measured, Pages, Spread};
use std::sync::Barrier;
use std::time::Instant;

/// The matrix, for all kernels or for those that a machine file needs.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let needed = [Kernel::Read, Kernel::Write, Kernel::Copy, Kernel::Triad, Kernel::TriadNt];
    let wanted: Vec<Kernel> =
        Kernel::MATRIX.into_iter().filter(|k| !bench.quick || needed.contains(k)).collect();
    let mut tables: Vec<Bandwidth> =
        wanted.iter().map(|&kernel| Bandwidth { kernel, bytes: None, pairs: Vec::new() }).collect();
    let pairs = bench.pairs();
    let effort = bench.effort(40.0, 1.5, pairs.len() * wanted.len());
    for place in &pairs {
        bench.say(&format!("bandwidth from node {} to node {}", place.from, place.memory));
        let caches = bench.caches_of(place.cpus.len());
        let each = bench.array(caches, 1);
        let field = bench.room(place.memory, 3 * each).and_then(|()| Field::new(place, each as usize));
        for table in &mut tables {
            let kernel = table.kernel;
            let result = match &field {
                Err(why) => Err(why.clone()),
                Ok(_) if !available(kernel) => Err("not written for this architecture".into()),
                Ok(field) => {
                    table.bytes = table.bytes.max(Some(field.bytes(kernel)));
                    field.measure(kernel, &effort).map(|(value, moved)| (value, Some(moved)))
                }
            };
            table.pairs.push(pair(place, result));
        }
    }
    measured.bandwidth = tables;
}

/// An odd number of lines between arrays: equal offsets of all three would share sets of a cache.
const GAP: usize = 2 * 4096 + 5 * LINE;

/// Arrays that all kernels use in turns: to place them takes longer than to use them.
pub struct Field {
    cpus: Vec<u32>,
    arrays: Vec<Arrays>,
    _memory: Vec<Memory>,
}

impl Field {
    /// Three arrays of `each` bytes on one node, a part of each for every cpu.
    ///
    /// # Errors
    /// In words.
    pub fn new(place: &Place, each: usize) -> Result<Field, String> {
        let threads = place.cpus.len();
        if threads == 0 {
            return Err("no cpu of it may be used".into());
        }
        let part = (each / threads).next_multiple_of(2 << 20).max(2 << 20);
        let stride = part * threads + GAP;
        let memory = Memory::new(3 * stride, &place.page_node, Pages::Huge)?;
        let arrays = (0..threads)
            .map(|t| Arrays {
                a: memory.at(t * part),
                b: memory.at(stride + t * part),
                c: memory.at(2 * stride + t * part),
                bytes: part,
            })
            .collect();
        Ok(Field { cpus: place.cpus.clone(), arrays, _memory: vec![memory] })
    }

    /// Three arrays of `part` bytes for each cpu, at a known node of its own.
    ///
    /// # Errors
    /// In words.
    pub fn apart(threads: &[(u32, PageNode)], part: usize) -> Result<Field, String> {
        let stride = part.next_multiple_of(LINE) + GAP;
        let memory: Vec<Memory> = threads
            .iter()
            .map(|(_, page_node)| Memory::new(3 * stride, page_node, Pages::Huge))
            .collect::<Result<_, _>>()?;
        let arrays = memory.iter().map(|m| Arrays {
            a: m.at(0),
            b: m.at(stride),
            c: m.at(2 * stride),
            bytes: part.next_multiple_of(LINE),
        });
        Ok(Field { cpus: threads.iter().map(|t| t.0).collect(), arrays: arrays.collect(), _memory: memory })
    }

    /// Bytes of the arrays that `kernel` uses.
    pub fn bytes(&self, kernel: Kernel) -> u64 {
        let (loads, stores) = kernel.arrays();
        (loads + stores) * self.arrays.iter().map(|a| a.bytes as u64).sum::<u64>()
    }

    /// GB/s of what the kernel names, and the bytes of all passes.
    pub fn measure(&self, kernel: Kernel, effort: &Effort) -> Result<(Spread, u64), String> {
        let bytes = self.bytes(kernel);
        let _region = Region::begin();
        let warm = self.seconds(kernel, 1)?;
        let passes = ((effort.seconds / warm) as usize).max(1);
        let mut values = Vec::new();
        for _ in 0..effort.runs {
            values.push(bytes as f64 * passes as f64 / self.seconds(kernel, passes)? / 1e9);
        }
        Ok((spread(&values)?, bytes * (1 + passes * effort.runs) as u64))
    }

    /// From the first thread's begin to the last one's end.
    fn seconds(&self, kernel: Kernel, passes: usize) -> Result<f64, String> {
        let barrier = Barrier::new(self.arrays.len());
        let one = |cpu: u32, arrays: Arrays| -> Result<(Instant, Instant), String> {
            let pinned = pin(cpu);
            barrier.wait();
            pinned?;
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
