//! Copies within memory that one cpu touched first, made by every other: which cpus are far from
//! which memory, by the plainest test there is. Pages are not bound; where first touch put them
//! is asked, since that is part of what the test shows.

use super::Effort;
use super::kernels::{Arrays, pass};
use super::memory::Memory;
use crate::collect::target::stay_on;
use nearfar_model::machine::NodeId;
use nearfar_model::measured::{Copy, Kernel, Spread};
use std::time::Instant;

/// What `cpus` take to copy half of `bytes` to the other half, touched first by `toucher`.
pub fn measure(toucher: u32, node: Option<NodeId>, cpus: &[u32], bytes: usize, effort: &Effort) -> Vec<Copy> {
    let work = || -> Result<Vec<Copy>, String> {
        let pin = |cpu: u32| {
            stay_on(&std::iter::once(cpu).collect()).map_err(|e| format!("cpu {cpu} may not be used: {e}"))
        };
        pin(toucher)?;
        let memory = Memory::touched(bytes, node)?;
        let half = bytes / 2 / 64 * 64;
        let arrays = Arrays { a: memory.at(0), b: memory.at(half), c: memory.at(half), bytes: half };
        let one = |cpu: u32| -> Result<Spread, String> {
            pin(cpu)?;
            let seconds = || {
                let begin = Instant::now();
                // SAFETY: two halves of this function's own memory.
                unsafe { pass(Kernel::Copy, arrays) };
                begin.elapsed().as_secs_f64()
            };
            seconds();
            let values: Vec<f64> = (0..effort.runs).map(|_| seconds()).collect();
            Spread::of(&values).ok_or_else(|| "nothing was measured".into())
        };
        Ok(cpus
            .iter()
            .map(|&cpu| {
                let result = one(cpu);
                Copy {
                    toucher,
                    cpu,
                    bytes: half as u64,
                    seconds: result.as_ref().ok().copied(),
                    why: result.err(),
                }
            })
            .collect())
    };
    let result = std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    result.unwrap_or_else(|why| {
        let unknown = |&cpu: &u32| Copy {
            toucher,
            cpu,
            bytes: bytes as u64 / 2,
            seconds: None,
            why: Some(why.clone()),
        };
        cpus.iter().map(unknown).collect()
    })
}
