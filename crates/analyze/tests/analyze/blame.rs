//! Instructions that have nearly all samples of their loop, in code whose speed is not known.

use crate::estimate::with_cache;
use crate::made_recording::*;
use crate::native::{PAGES, used};
use nearfar_analyze::Verdict;
use nearfar_recording::*;

/// A loop of unknown speed over an array of which half of the samples are far. All samples blame one instruction, of which the first-level cache
/// answers in five cycles, and between two executions of it are at least `around` others of the loop.
fn held_up(around: u32) -> MadeRecording {
    let mut w = used(0.76, 3.0);
    // Its position does not move with its iterations.
    w.input.loops.step[0] = 0.0;
    let at = w.input.progress.ip[0];
    let behind = w.own("work", 21);
    let l = &mut w.input.locations;
    l.address[behind as usize] = l.address[at as usize] + 4;
    l.file_offset[behind as usize] = l.file_offset[at as usize] + 4;
    w.input.loop_operands.push(LoopOperand {
        loop_id: 0,
        ip: at,
        hit_cycles: 5.0,
        regular: 0,
        step: 0.0,
        bytes: 4,
        around,
        around_all: 0,
    });
    w.samples.ip.iter_mut().filter(|ip| **ip == at).for_each(|ip| *ip = behind);
    w
}

/// Moves nine of ten samples elsewhere in the loop, to an instruction that touches no memory.
fn most_computing(w: &mut MadeRecording) {
    let at = w.input.progress.ip[0];
    let other = w.own("work", 22);
    let l = &mut w.input.locations;
    l.address[other as usize] = l.address[at as usize] + 8;
    l.file_offset[other as usize] = l.file_offset[at as usize] + 8;
    for i in (0..w.samples.ip.len()).filter(|i| i % 10 > 0) {
        if w.samples.operand_ip[i] != at {
            continue;
        }
        (w.samples.ip[i], w.samples.operand_ip[i]) = (other, other);
        w.samples.resolution[i] = Resolution::Compute as u8;
    }
}

#[test]
fn an_instruction_with_nearly_all_samples_of_its_loop_waits_at_any_speed() {
    let r = held_up(40).on(2);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert!(r.remote_time_share_ci.unwrap().low > 0.4, "{:?}", r.remote_time_share_ci);
    assert!(r.notes.iter().any(|n| n.contains("nearly all samples of their loop")), "{:?}", r.notes);
    // So few instructions may all end together with it.
    let r = held_up(8).on(2);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(!r.notes.iter().any(|n| n.contains("nearly all samples")), "{:?}", r.notes);
}

#[test]
fn near_memory_saves_at_least_a_part_of_what_waits_for_certain() {
    let saves = |around: u32, cache: u64| {
        let mut w = held_up(around);
        w.samples.period.fill(1_000_000);
        1.0 - w.on_machine(with_cache(cache)).sampled_gain.unwrap().every_line_local.high
    };
    assert!(saves(40, 1 << 20) > 0.1, "{}", saves(40, 1 << 20));
    assert!(saves(8, 1 << 20) < 0.0, "{}", saves(8, 1 << 20));
    // A cache may answer: it waits for that, then.
    assert!(saves(40, 32 * PAGES * PAGE) < 0.0, "{}", saves(40, 32 * PAGES * PAGE));
}

#[test]
fn what_it_takes_is_in_proportion_to_what_the_loop_takes_beside_it() {
    // A ninth of what 40 instructions take: a cycle and less.
    let mut w = held_up(40);
    most_computing(&mut w);
    assert!(w.on(2).notes.iter().all(|n| !n.contains("nearly all samples")));
    // Of its function, the same: nothing of the loop is beside it, and the rest of the function has the samples.
    let mut w = held_up(0);
    w.input.loop_operands.around_all[0] = 40;
    (w.input.loops.function[0], w.input.loops.function_bytes[0]) = (w.input.loops.head[0], 400);
    assert_eq!(w.on(2).verdict, Verdict::Affected);
    most_computing(&mut w);
    assert!(w.on(2).notes.iter().all(|n| !n.contains("nearly all samples")));
}

#[test]
fn samples_in_the_loop_count_wherever_the_operand_is_that_they_are_taken_for() {
    let mut w = held_up(40);
    most_computing(&mut w);
    // In front of the loop, as for its first instructions.
    let other = w.own("before", 5);
    w.input.locations.file_offset[other as usize] = 0;
    let computing = Resolution::Compute as u8;
    for i in (0..w.samples.ip.len()).filter(|&i| w.samples.resolution[i] == computing).collect::<Vec<_>>() {
        (w.samples.operand_ip[i], w.samples.resolution[i]) = (other, Resolution::Near as u8);
    }
    assert!(w.on(2).notes.iter().all(|n| !n.contains("nearly all samples")));
}

#[test]
fn samples_elsewhere_than_behind_the_instruction_do_not_blame_it() {
    // Their address is known from registers that it used.
    let mut w = held_up(40);
    let far = w.own("work", 23);
    let at = w.input.progress.ip[0];
    let l = &mut w.input.locations;
    l.address[far as usize] = l.address[at as usize] + 12;
    l.file_offset[far as usize] = l.file_offset[at as usize] + 12;
    w.samples
        .ip
        .iter_mut()
        .zip(&w.samples.operand_ip)
        .filter(|(_, o)| **o == at)
        .for_each(|(ip, _)| *ip = far);
    assert_eq!(w.on(2).verdict, Verdict::Unknown);
}

#[test]
fn of_a_loop_of_known_speed_only_what_blames_an_instruction_is_its_time() {
    // An instruction takes 10 ns for each iteration beside others of unknown cost.
    let near = |resolution: Resolution| {
        let mut w = crate::native::with_unknown_cost(10.0);
        let at = w.input.progress.ip[0];
        let samples = w.samples.resolution.iter_mut().zip(&w.samples.operand_ip);
        samples.filter(|(_, o)| **o == at).for_each(|(r, _)| *r = resolution as u8);
        w.on(2).verdict
    };
    assert_eq!(near(Resolution::Exact), Verdict::Affected);
    assert_eq!(near(Resolution::Near), Verdict::Unknown);
}
