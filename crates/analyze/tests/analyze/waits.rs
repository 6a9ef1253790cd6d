//! Threads that write to one cache line, and what samples of a clock show of it: that they wait for each other, or not.

use crate::made_recording::*;
use nearfar_analyze::{Report, Verdict};
use nearfar_recording::*;

/// Clock of the cores, GHz.
const GHZ: f64 = 4.0;
/// Iterations of a pass.
const PASS: u64 = 1_000_000;

/// Two threads that count in words of one object at these bytes, each on the cpu of its number; an iteration takes so many ns. By
/// its instructions it takes 0.25 ns at least and 0.78 at most.
fn counting(at: [u64; 2], ns: f64) -> MadeRecording {
    let mut w = MadeRecording::new(2);
    let init = w.own("init", 10);
    let work = w.own("work", 20);
    let counts = w.array("counts", 1);
    w.touch(100, 0, init, counts, 1);
    w.input.meta.core_ghz = Some(GHZ);
    w.input.meta.in_place_ns = Some(0.3);
    w.input.loops.push(Loop {
        id: 0,
        head: work,
        bytes: 17,
        instructions: 6,
        stream: u16::MAX,
        step: 1.0,
        issue_cycles: 1.0,
        chain_cycles: 1.0,
        high_cycles: 14.0,
        in_place_cycles: 1.3,
        why: String::new().into(),
        function: NONE,
        function_bytes: 0,
    });
    w.input.loop_streams.push(LoopStream {
        loop_id: 0,
        number: 0,
        ip: work,
        access: Access::LoadStore as u8,
        bytes: 8,
        regular: 1,
        step: 0.0,
        always: 1,
    });
    for thread in 0..2u32 {
        let (mut cpu, mut seed) = (0u64, u64::from(thread) + 1);
        for nth in 0..3000u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cpu += 20_000 + (seed >> 33) % 200_000;
            let time_ns = WORK + cpu;
            w.sample(time_ns, thread, work, counts + at[thread as usize]);
            // The interrupt of each sample takes 4 µs from the program.
            let done = ((cpu - 4_000 * u64::from(nth)) as f64 / ns) as u64;
            w.input.progress.push(Progress {
                time_ns,
                cpu_ns: cpu,
                thread,
                cpu: thread as u16,
                ip: work,
                loop_id: 0,
                position: done % PASS,
                other: u16::MAX,
                other_address: 0,
                left: PASS - done % PASS,
                nth,
            });
        }
    }
    w
}

/// The share that a report says is waited for a line.
fn waits(r: &Report) -> Option<f64> {
    r.findings.iter().find(|f| f.kind == "false_sharing").map(|f| f.at_risk)
}

#[test]
fn threads_that_slow_each_other_down_at_different_bytes_of_a_line_share_it() {
    let r = counting([0, 8], 2.5).on(2);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    let share = waits(&r).expect("a finding");
    // 0.78 of 2.5 ns are work at most; a tenth of the pairs is left out.
    assert!((0.55..0.69).contains(&share), "{share}");
    let f = &r.findings[0];
    assert_eq!(f.objects, ["counts"]);
    assert!(f.advice.contains("Pad counts"), "{}", f.advice);
    assert!(f.cause.at.as_deref().is_some_and(|at| at.ends_with(":20")), "{:?}", f.cause.at);
    assert!(
        f.evidence[0].contains("took 2.5 ns") && f.evidence[0].contains("0.8 at most"),
        "{:?}",
        f.evidence
    );
}

#[test]
fn nothing_else_is_called_a_shared_line() {
    type Change = fn(&mut MadeRecording);
    let cases: [(&str, [u64; 2], f64, Change); 11] = [
        ("a line each", [0, 64], 2.5, |_| ()),
        ("the same word", [0, 0], 2.5, |_| ()),
        ("words that overlap", [0, 4], 2.5, |_| ()),
        ("a word across two lines", [0, 60], 2.5, |_| ()),
        ("as fast as the instructions", [0, 8], 0.8, |_| ()),
        ("one cpu", [0, 8], 2.5, |w| w.input.progress.cpu.fill(0)),
        ("one after the other", [0, 8], 2.5, |w| {
            let later = |time: &mut u64, thread: u32| *time += u64::from(thread) * 1_000_000_000;
            let p = &mut w.input.progress;
            p.time_ns.iter_mut().zip(&p.thread).for_each(|(time, &thread)| later(time, thread));
        }),
        ("nobody writes", [0, 8], 2.5, |w| w.input.loop_streams.access.fill(Access::Load as u8)),
        ("atomic", [0, 8], 2.5, |w| w.input.loops.in_place_cycles[0] = -1.0),
        ("another place that was not sampled", [0, 8], 2.5, |w| {
            let mut other = w.input.loop_streams.row(0);
            (other.number, other.ip) = (1, other.ip + 1);
            w.input.loop_streams.push(other);
        }),
        ("many short entries", [0, 8], 2.5, |w| {
            let left = w.input.progress.left.iter_mut().enumerate().filter(|(i, _)| i % 2 > 0);
            left.for_each(|(_, left)| *left %= 1000);
        }),
    ];
    for (what, at, ns, change) in cases {
        let mut w = counting(at, ns);
        change(&mut w);
        let r = w.on(2);
        assert_eq!(waits(&r), None, "{what}: {:?}", r.findings);
    }
}

#[test]
fn what_the_hypervisor_took_is_no_waiting() {
    let mut w = counting([0, 8], 2.5);
    w.input.meta.steal_share = 0.6;
    assert_eq!(waits(&w.on(2)), None);
}

#[test]
fn one_thread_that_writes_and_one_that_reads_share_a_line_too() {
    let mut w = counting([0, 8], 2.5);
    let reader = w.own("look", 30);
    let mut code = w.input.loops.row(0);
    (code.id, code.head) = (1, reader);
    w.input.loops.push(code);
    let mut stream = w.input.loop_streams.row(0);
    (stream.loop_id, stream.ip, stream.access) = (1, reader, Access::Load as u8);
    w.input.loop_streams.push(stream);
    let p = &mut w.input.progress;
    for i in (0..p.len()).filter(|&i| p.thread[i] == 1) {
        (p.loop_id[i], p.ip[i]) = (1, reader);
    }
    let s = &mut w.samples;
    for i in (0..s.thread.len()).filter(|&i| s.thread[i] == 1) {
        (s.ip[i], s.operand_ip[i]) = (reader, reader);
    }
    let r = w.on(2);
    // The writer has no other writer to wait for.
    let share = waits(&r).expect("a finding");
    assert!((0.25..0.36).contains(&share), "{share}");
    let cause = &r.findings[0].cause;
    assert!(cause.text.contains("a thread writes to counts"), "{}", cause.text);
    assert!(cause.at.as_deref().is_some_and(|at| at.ends_with(":20")), "{:?}", cause.at);
}

/// The time that the second thread is away from its cpus: 2.5 ms after each pass, or as often anywhere.
fn away(w: &mut MadeRecording, after_passes: bool) {
    let p = &mut w.input.progress;
    let of_thread: Vec<usize> = (0..p.len()).filter(|&i| p.thread[i] == 1).collect();
    let mut later = 0;
    for pair in of_thread.windows(2) {
        let pass = p.left[pair[1]] > p.left[pair[0]];
        if if after_passes { pass } else { pair[0] % 21 == 0 } {
            later += 2_500_000;
        }
        p.time_ns[pair[1]] += later;
    }
}

#[test]
fn a_thread_that_sleeps_between_passes_would_not_have_run_beside_and_one_that_lost_its_cpu_would() {
    let share = |after_passes| {
        let mut w = counting([0, 8], 2.5);
        away(&mut w, after_passes);
        waits(&w.on(2)).expect("a finding")
    };
    let (slept, lost) = (share(true), share(false));
    assert!(lost > slept + 0.08, "{slept} {lost}");
}

#[test]
fn threads_that_did_not_run_at_the_same_time_are_no_proof_that_a_line_is_not_wanted() {
    let fast = counting([0, 8], 0.26);
    let r = fast.on_machine(crate::native::far(1000.0, 1000.0));
    assert_ne!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    // The same where nothing is written.
    let mut w = counting([0, 8], 0.26);
    w.input.loop_streams.access.fill(Access::Load as u8);
    let r = w.on_machine(crate::native::far(1000.0, 1000.0));
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
}
