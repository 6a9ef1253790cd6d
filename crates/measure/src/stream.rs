//! STREAM by its rules (McCalpin: three arrays of doubles, each at least four times the caches; four
//! functions in turns, ten times, of which the first does not count; the best time makes the rate;
//! all elements are compared with what they must be at the end), by all allowed cpus, each on
//! memory that it touched first.

use super::bench::{Bench, PageNode, pin};
use super::kernels::{Arrays, LINE, SCALAR, pass};
use super::memory::Memory;
use nearfar_observed::measured::{Kernel, Measured, Pages, Stream, StreamFunction};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// How often each function is timed.
const TIMES: usize = 10;
/// Largest relative error of a double that STREAM lets pass.
const EPSILON: f64 = 1e-13;

/// Times it and checks its result.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    bench.say("STREAM");
    let mut threads: Vec<(u32, PageNode)> = Vec::new();
    let mut caches = 0;
    for (node, cpus) in bench.nodes() {
        caches += bench.caches_of(cpus.len());
        threads.extend(cpus.into_iter().map(|cpu| (cpu, bench.page_node(node))));
    }
    let each = bench.array(caches, bench.nodes().len() as u64) as usize;
    let part = (each / threads.len().max(1)).next_multiple_of(2 << 20);
    let array_bytes = (part * threads.len()) as u64;
    let result = bench
        .nodes()
        .iter()
        .try_for_each(|(node, cpus)| bench.room(*node, 3 * part as u64 * cpus.len() as u64));
    let result = result.and_then(|()| stream(&threads, part));
    let (functions, largest_error, why) = match result {
        Ok((functions, error)) if error <= EPSILON => (functions, error, None),
        Ok((_, error)) => {
            let why = format!("the result is wrong: an element is off by {error:.1e} of its value");
            (Vec::new(), error, Some(why))
        }
        Err(why) => (Vec::new(), 0.0, Some(why)),
    };
    let times = TIMES as u32;
    measured.stream =
        Some(Stream { array_bytes, threads: threads.len() as u32, times, functions, largest_error, why });
}

/// The table and the largest error.
fn stream(threads: &[(u32, PageNode)], part: usize) -> Result<(Vec<StreamFunction>, f64), String> {
    if threads.is_empty() {
        return Err("no node has both memory and usable cpus".into());
    }
    // As in a `Field`: equal offsets of all arrays would share sets of a cache.
    let stride = part * threads.len() + 2 * 4096 + 5 * LINE;
    let memory = Memory::map(3 * stride, Pages::Huge)?;
    let barrier = Barrier::new(threads.len());
    let times = Mutex::new(vec![Vec::new(); Kernel::STREAM.len()]);
    let one = |t: usize, cpu: u32, page_node: &PageNode| -> Result<f64, String> {
        let at = |array: usize| memory.at(array * stride + t * part);
        let (a, b, c) = (at(0), at(1), at(2));
        let placed = pin(cpu).and_then(|()| {
            fill(a, part, 1.0);
            fill(b, part, 2.0);
            fill(c, part, 0.0);
            // STREAM's check of the clock doubles the first array.
            fill(a, part, 2.0);
            (0..3).try_for_each(|array| memory.prove(array * stride + t * part, part, page_node))
        });
        for _ in 0..TIMES {
            for (i, kernel) in Kernel::STREAM.into_iter().enumerate() {
                let arrays = match kernel {
                    Kernel::Copy => Arrays { a: c, b: a, c: a, bytes: part },
                    Kernel::Scale => Arrays { a: b, b: c, c, bytes: part },
                    Kernel::Add => Arrays { a: c, b: a, c: b, bytes: part },
                    _ => Arrays { a, b, c, bytes: part },
                };
                barrier.wait();
                let begin = Instant::now();
                // SAFETY: this thread's parts of the three arrays, which outlive the scope.
                unsafe { pass(kernel, arrays) };
                barrier.wait();
                if t == 0
                    && let Ok(mut times) = times.lock()
                {
                    times[i].push(begin.elapsed().as_secs_f64());
                }
            }
        }
        placed.map(|()| error([a, b, c], part))
    };
    let errors: Vec<f64> = std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = threads
            .iter()
            .enumerate()
            .map(|(t, (cpu, page_node))| scope.spawn(move || one(t, *cpu, page_node)))
            .collect();
        let join =
            |h: std::thread::ScopedJoinHandle<_>| h.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        handles.into_iter().map(join).collect::<Result<_, String>>()
    })?;
    let times = times.into_inner().map_err(|_| "a thread ended early")?;
    let functions = Kernel::STREAM.into_iter().zip(&times).map(|(kernel, times)| {
        let counted = &times[1..];
        let (loads, stores) = kernel.arrays();
        let bytes = (loads + stores) as f64 * (part * threads.len()) as f64;
        let min_s = counted.iter().copied().fold(f64::MAX, f64::min);
        StreamFunction {
            kernel,
            best_mb_per_s: bytes / min_s / 1e6,
            average_s: counted.iter().sum::<f64>() / counted.len() as f64,
            min_s,
            max_s: counted.iter().copied().fold(0.0, f64::max),
        }
    });
    Ok((functions.collect(), errors.into_iter().fold(0.0, f64::max)))
}

fn fill(at: *mut u8, bytes: usize, value: f64) {
    // SAFETY: a thread's own part of an array, aligned to a line. Volatile, so that the first
    // touch is made here and in order.
    (0..bytes / 8).for_each(|i| unsafe { at.cast::<f64>().add(i).write_volatile(value) });
}

/// The largest relative error of any element, or infinity for what is not a number.
fn error(arrays: [*mut u8; 3], bytes: usize) -> f64 {
    let (mut a, mut b, mut c) = (2.0, 2.0, 0.0);
    for _ in 0..TIMES {
        c = a;
        b = SCALAR * c;
        c = a + b;
        a = b + SCALAR * c;
    }
    let mut largest = 0.0;
    for (array, expected) in arrays.into_iter().zip([a, b, c]) {
        for i in 0..bytes / 8 {
            // SAFETY: within this thread's part.
            let value = unsafe { array.cast::<f64>().add(i).read() };
            let off = (value / expected - 1.0).abs();
            // A value that is not a number compares as nothing.
            if off.is_nan() || off > largest {
                largest = if off.is_nan() { f64::INFINITY } else { off };
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_stream_is_checked_element_by_element() {
        let (table, error) = stream(&[(0, PageNode::Only)], 2 << 20).unwrap();
        assert!(error <= EPSILON, "{error}");
        assert_eq!(table.len(), 4);
        let ends: Vec<Vec<f64>> = (0..3).map(|_| vec![1.0; 8]).collect();
        let arrays: [*mut u8; 3] = std::array::from_fn(|i| ends[i].as_ptr().cast_mut().cast());
        assert!(super::error(arrays, 64) > 0.9);
        let not = [f64::NAN; 8];
        let nots: [*mut u8; 3] = [not.as_ptr().cast_mut().cast(); 3];
        assert_eq!(super::error(nots, 64), f64::INFINITY);
    }
}
