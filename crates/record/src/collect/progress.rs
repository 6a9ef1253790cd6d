//! How far threads were in loops when clock samples were taken: the registers of a sample say it, and are not kept.

use super::process_table::ProcessTable;
use crate::store::Tables;
use nearfar_decode::Registers;
use nearfar_decode::loops::CodeLoop;
use nearfar_recording::*;
use std::collections::{HashMap, HashSet};

/// Samples of a thread in a loop that are kept one by one. Beyond them, every second run of [`RUN`] samples is kept, beyond
/// twice as many every fourth, and so on: the rows of an hour are some 20,000. // chosen: 40 pairs are needed
const KEPT: u32 = 2048;
/// Samples that follow each other and are kept together: pairs of them are what counts. // chosen
const RUN: u32 = 64;

/// When and where a sample was taken.
pub struct At {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// CPU time of the thread, ns; [`UNCOUNTED`] if unknown.
    pub cpu_ns: u64,
    /// Address space.
    pub space: u32,
    /// Number of the thread.
    pub thread: u32,
    /// Cpu.
    pub cpu: u16,
    /// Location of the instruction.
    pub ip: u32,
}

/// Numbers of the loops, and how many samples were in them.
#[derive(Default)]
pub struct Progress {
    /// Loops by module and offset of the head in its file; of generated code by address space and address.
    loops: HashMap<(u32, u32, u64), u32>,
    /// Samples by thread and loop.
    samples: HashMap<(u32, u32), u32>,
    /// Locations of which a row was written.
    seen: HashSet<u32>,
}

impl Progress {
    /// Keeps how far a thread was, if the sample is in a loop.
    pub fn note(&mut self, at: At, registers: &Registers, processes: &mut ProcessTable, tables: &mut Tables) {
        let Some(code) = processes.decoder.loop_around(at.space, registers.ip) else { return };
        let loop_id = self.number(&code, at.space, processes, tables);
        let nth = self.samples.entry((at.thread, loop_id)).or_default();
        let number = *nth;
        *nth = nth.saturating_add(1);
        // The analysis learns from a row which loop its instruction is in.
        if !kept(number) && !self.seen.insert(at.ip) {
            return;
        }
        self.seen.insert(at.ip);
        let place = code.at(registers, number as usize);
        let other = place.and_then(|p| p.other);
        tables.progress.push(nearfar_recording::Progress {
            time_ns: at.time_ns,
            cpu_ns: at.cpu_ns,
            thread: at.thread,
            cpu: at.cpu,
            ip: at.ip,
            loop_id,
            position: place.map_or(0, |p| p.position),
            other: other.map_or(NO_STREAM, |o| o.0 as u16),
            other_address: other.map_or(0, |o| o.1),
            left: place.and_then(|p| p.left).unwrap_or(UNCOUNTED),
            nth: number,
        });
    }

    fn number(
        &mut self,
        code: &CodeLoop,
        space: u32,
        processes: &mut ProcessTable,
        tables: &mut Tables,
    ) -> u32 {
        let map = processes.spaces[space as usize].map_at(code.head).filter(|(_, map)| map.module != NONE);
        let key = match map {
            Some((start, map)) => (map.module, NONE, map.offset + (code.head - start)),
            None => (NONE, space, code.head),
        };
        if let Some(&number) = self.loops.get(&key) {
            return number;
        }
        let id = self.loops.len() as u32;
        self.loops.insert(key, id);
        let head = processes.location(space, code.head, tables);
        let [first, last] = code.function;
        let function = processes.location(space, first, tables);
        let cost = code.cost.as_ref();
        tables.loops.push(Loop {
            id,
            head,
            bytes: u32::try_from(code.last - code.head).unwrap_or(u32::MAX),
            instructions: code.instructions as u32,
            stream: code.position.and_then(|p| p.stream).map_or(NO_STREAM, |stream| stream as u16),
            step: code.position.map_or(0.0, |p| p.step as f64),
            issue_cycles: code.issue.unwrap_or(-1.0),
            chain_cycles: cost.map_or(-1.0, |c| c.chain),
            high_cycles: cost.map_or(-1.0, |c| c.high),
            in_place_cycles: cost.ok().and_then(|c| c.in_place).unwrap_or(-1.0),
            why: code.cost.as_ref().err().cloned().unwrap_or_default().into(),
            function,
            function_bytes: u32::try_from(last - first).unwrap_or(u32::MAX),
        });
        for operand in &code.operands {
            let ip = processes.location(space, operand.ip, tables);
            tables.loop_operands.push(LoopOperand {
                loop_id: id,
                ip,
                hit_cycles: operand.hit_cycles.unwrap_or(-1.0),
                regular: u8::from(operand.step.is_some()),
                step: operand.step.unwrap_or(0) as f64,
                bytes: operand.bytes.unwrap_or(0),
                around: operand.around.unwrap_or(0),
                around_all: operand.around_all.unwrap_or(0),
            });
        }
        for (number, stream) in code.streams.iter().enumerate() {
            let ip = processes.location(space, stream.ip, tables);
            tables.loop_streams.push(LoopStream {
                loop_id: id,
                number: number as u16,
                ip,
                access: stream.access as u8,
                bytes: u32::try_from(stream.bytes).unwrap_or(u32::MAX),
                regular: u8::from(stream.step.is_some()),
                step: stream.step.unwrap_or(0) as f64,
                always: u8::from(stream.always),
            });
        }
        id
    }
}

/// Whether the sample with this number is kept.
fn kept(number: u32) -> bool {
    match (number / KEPT).checked_ilog2() {
        None => true,
        Some(doublings) => (number / RUN).is_multiple_of(2 << doublings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_grow_with_the_logarithm_of_the_samples_and_come_in_runs() {
        let count = |samples: u32| (0..samples).filter(|&n| kept(n)).count() as u32;
        assert_eq!(count(KEPT), KEPT);
        // Each doubling adds half a start's worth.
        for doublings in 1..8 {
            assert_eq!(count(KEPT << doublings), KEPT + doublings * KEPT / 2);
        }
        let runs = (0..KEPT * 8 / RUN).filter(|run| kept(run * RUN));
        assert!(runs.clone().all(|run| (0..RUN).all(|n| kept(run * RUN + n))), "a run is kept as a whole");
    }
}
