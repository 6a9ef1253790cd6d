//! Lines that nodes take from each other: what they are called, and what they cost.

use crate::made_recording::*;
use crate::whatif::waiting;
use nearfar_analyze::{Finding, Report, Verdict};
use nearfar_recording::*;

/// Threads that take one line from each other: who, which byte, and whether to write.
fn takes(w: &mut MadeRecording, at: (u64, u32), thread: u32, ip: u32, address: u64, store: bool) {
    let (time, epoch) = at;
    let access = if store { Access::Store } else { Access::Load };
    w.sample_as(time, thread, ip, address, Resolution::Exact, access);
    let i = w.samples.len() - 1;
    w.samples.weight_ns[i] = 0;
    w.samples.source[i] = SampleSource::Transfer as u8;
    (w.samples.lines[i], w.samples.page_node[i], w.samples.epoch[i]) = (1000, 0, epoch);
}

/// Four threads on two nodes that count in one line, each at `byte(thread)`; thread 0 reads all of it at the end.
fn counters(byte: impl Fn(u32) -> u64) -> MadeRecording {
    counters_in(ObjectKind::Static, byte)
}

fn counters_in(kind: ObjectKind, byte: impl Fn(u32) -> u64) -> MadeRecording {
    let mut w = waiting();
    let (count, sum) = (w.own("count", 30), w.own("sum", 40));
    w.object(kind, BASE, 4096, 0, "counters");
    for i in 0..60u64 {
        let epoch = (i % 16) as u32;
        for thread in 0..4 {
            w.works(epoch, 1, thread, 1000);
            takes(&mut w, (WORK + i, epoch), thread, count, BASE + byte(thread), true);
        }
        if i % 2 == 0 {
            for thread in 0..4 {
                takes(&mut w, (WORK + i, epoch), 0, sum, BASE + byte(thread), false);
            }
        }
    }
    w
}

fn shared(r: &Report) -> &Finding {
    r.findings.iter().find(|f| f.shares_lines()).unwrap_or_else(|| panic!("{:?}", r.findings))
}

#[test]
fn neighbours_with_bytes_of_their_own_share_a_line_falsely_whoever_reads_them() {
    let r = counters(|thread| u64::from(thread) * 4).real();
    let f = shared(&r);
    assert_eq!(f.kind, "false_sharing", "{f:?}");
    assert!(f.advice.starts_with("Pad counters"), "{}", f.advice);
    assert!(!f.advice.contains("counter per thread"), "{}", f.advice);
    let r = counters(|_| 0).real();
    assert_eq!(shared(&r).kind, "contended_line");
    assert!(
        shared(&r).advice.starts_with("Let threads write to counters less often"),
        "{}",
        shared(&r).advice
    );
}

/// Threads share a variable on the stack, not the stack.
#[test]
fn what_threads_share_on_a_stack_is_called_a_variable() {
    let r = counters_in(ObjectKind::Stack, |_| 0).real();
    let f = shared(&r);
    assert!(
        f.advice.starts_with("Let threads write to a variable on a thread's stack less often"),
        "{}",
        f.advice
    );
    assert_eq!(
        f.cause.text,
        "threads of several nodes write to the same bytes of a variable on a thread's stack"
    );
}

/// Emulated cpus run in turns of some microseconds, and keep a line that real ones would take from each other with each
/// access: a line that is taken in every turn costs a few percent at least, and up to all of the time.
#[test]
fn a_line_that_is_taken_in_every_turn_is_no_clean_bill() {
    let with = |lines: u32| {
        let mut w = counters(|thread| u64::from(thread) * 4);
        w.samples.lines.iter_mut().for_each(|n| *n = lines);
        w.real()
    };
    let r = with(8);
    assert_eq!(shared(&r).kind, "false_sharing");
    assert!(shared(&r).at_risk < 0.03, "{}", shared(&r).at_risk);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("at least"), "{}", r.verdict_why);
    // Taken now and then, it costs what it is seen to cost.
    let r = with(1);
    assert!(r.findings.is_empty(), "{:?}", r.findings);
    let r = with(1000);
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
}

/// Accesses to a line while cores take it from each other all the time.
fn contends(
    w: &mut MadeRecording,
    at: (u64, u32),
    thread: u32,
    ip: u32,
    address: u64,
    (access, n): (Access, u32),
) {
    takes(w, at, thread, ip, address, false);
    let i = w.samples.len() - 1;
    w.samples.source[i] = SampleSource::Contended as u8;
    (w.samples.access[i], w.samples.lines[i]) = (access as u8, n);
}

/// How often real cores take a line is known from how often it is accessed: locked accesses wait, plain stores may be hidden by
/// the store buffer, and what is only looked at waits for nothing that writers do not make.
#[test]
fn what_a_contended_line_costs_follows_from_the_accesses_to_it() {
    let with = |access: Access, n: u32| {
        let mut w = counters(|thread| u64::from(thread) * 4);
        w.samples.lines.iter_mut().for_each(|n| *n = 8);
        let count = w.own("count", 30);
        for i in 0..400u64 {
            let (epoch, thread) = ((i % 16) as u32, (i % 4) as u32);
            contends(&mut w, (WORK + i, epoch), thread, count, BASE + u64::from(thread) * 4, (access, n));
        }
        w.real()
    };
    let gain = |r: &Report| {
        let p = shared(r).predicted.clone().expect("a prediction");
        assert!(shared(r).predicted_why.is_none() && shared(r).predicted_from.is_some());
        [1.0 - p.high, 1.0 - p.low]
    };
    // Locked accesses of four threads on two nodes: 4/5 to 4 transfers each.
    let r = with(Access::LoadStore, 100_000);
    let [low, high] = gain(&r);
    assert!(low > 0.5 && high > 0.95 && low < high, "{low} {high}");
    assert_eq!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("of the cores' time"), "{}", r.verdict_why);
    // Seldom, they cost little: at most as much as a whole turn of all.
    let r = with(Access::LoadStore, 1000);
    let [low, high] = gain(&r);
    assert!(low > 0.03 && low < 0.1 && high < 0.5, "{low} {high}");
    // That is below what samples of a clock accuse of, too.
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    // Plain stores: from nothing on.
    let r = with(Access::Store, 10_000);
    let [low, high] = gain(&r);
    assert!(low == 0.0 && high > 0.5, "{low} {high}");
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    // Loads have no part in it.
    assert!(shared(&with(Access::Load, 1000)).predicted.is_none());
    // The line goes to one thread as often as it has gone to the others, however often that one accesses it.
    let mut w = counters(|thread| u64::from(thread) * 4);
    w.samples.lines.iter_mut().for_each(|n| *n = 8);
    let count = w.own("count", 30);
    for i in 0..400u64 {
        let (epoch, thread) = ((i % 16) as u32, (i % 4) as u32);
        let n = if thread == 0 { 400_000 } else { 10 };
        contends(
            &mut w,
            (WORK + i, epoch),
            thread,
            count,
            BASE + u64::from(thread) * 4,
            (Access::LoadStore, n),
        );
    }
    let r = w.real();
    assert!(!r.findings.iter().any(|f| f.shares_lines()), "{:?}", r.findings);
}

/// What one cache writes back and another reads goes through memory: that is of the line, not of where its page is.
#[test]
fn an_object_of_few_pages_whose_line_is_shared_is_not_accused_of_its_place_too() {
    let mut w = counters(|thread| u64::from(thread) * 4);
    let (init, count) = (w.own("init", 9), w.own("count", 30));
    w.touch(100, 0, init, BASE, 1);
    for i in 0..600u32 {
        w.moves((i % 16, 1), i % 4, count, BASE, 0, 400);
    }
    let kinds: Vec<String> = w.real().findings.into_iter().map(|f| f.kind).collect();
    assert_eq!(kinds, ["false_sharing"]);
}

#[test]
fn a_line_is_written_where_it_is_written_not_where_it_is_read() {
    let mut w = counters(|_| 0);
    let look = w.own("look", 50);
    for i in 0..600u64 {
        takes(&mut w, (WORK + i, (i % 16) as u32), (i % 4) as u32, look, BASE, false);
        w.sample(WORK + i, (i % 4) as u32, look, BASE);
    }
    let r = w.real();
    assert_eq!(shared(&r).cause.at.as_deref(), Some("main.c:30"), "{:?}", shared(&r));
}

/// Calls of a library are not followed on the virtual machine, and its function says what the line is written for.
#[test]
fn a_lock_is_written_in_the_function_that_takes_it() {
    let mut w = waiting();
    let lock = w.libc("pthread_mutex_lock");
    w.object(ObjectKind::Static, BASE, 40, 0, "lock");
    for i in 0..60u64 {
        for thread in 0..4 {
            w.works((i % 16) as u32, 1, thread, 1000);
            takes(&mut w, (WORK + i, (i % 16) as u32), thread, lock, BASE, true);
        }
    }
    let r = w.real();
    assert_eq!(shared(&r).cause.function.as_deref(), Some("pthread_mutex_lock"), "{:?}", shared(&r));
    assert!(shared(&r).evidence[0].contains("pthread_mutex_lock"), "{:?}", shared(&r).evidence);
}

#[test]
fn shares_of_the_cores_time_are_no_more_than_the_cores_time() {
    let mut w = counters(|_| 0);
    let count = w.own("count", 31);
    for object in 1..5u64 {
        w.object(ObjectKind::Static, BASE + object * 4096, 4096, 0, &format!("more{object}"));
        for i in 0..240u64 {
            let at = (WORK + i, (i % 16) as u32);
            takes(&mut w, at, (i % 4) as u32, count, BASE + object * 4096, true);
        }
    }
    w.samples.lines.iter_mut().for_each(|n| *n *= 1000);
    let r = w.real();
    let shares: Vec<f64> = r.findings.iter().filter(|f| f.shares_lines()).map(|f| f.at_risk).collect();
    assert_eq!(shares.len(), 5);
    assert!(shares.iter().sum::<f64>() <= 1.0 + 1e-9, "{shares:?}");
}

/// The runtime's own memory: threads wait there for each other, which is not a fault of the program's data.
#[test]
fn the_lines_of_a_runtimes_barrier_are_no_finding() {
    let with = |module: u32, kind: ObjectKind, allocated_by_runtime: bool| {
        let mut w = waiting();
        let libgomp =
            Module { id: 2, path: "/usr/lib/libgomp.so.1".into(), build_id: String::new(), runtime: 1 };
        w.input.modules.push(libgomp);
        let wait = w.code("team_barrier", "", 0, module);
        let object = w.object(kind, BASE, 65536, 0, "[heap]");
        if kind == ObjectKind::Heap {
            let (team, main) = (w.code("new_team", "", 0, 2), w.own("main", 3));
            let callers = [team, main];
            w.input.objects.chain[object as usize] =
                w.chain(if allocated_by_runtime { &callers } else { &callers[1..] });
        }
        for i in 0..60u64 {
            for thread in 0..4 {
                w.works((i % 16) as u32, 1, thread, 1000);
                takes(&mut w, (WORK + i, (i % 16) as u32), thread, wait, BASE, true);
            }
        }
        w.real().findings.iter().any(|f| f.shares_lines())
    };
    assert!(with(0, ObjectKind::Anonymous, false), "the program's own line");
    assert!(!with(2, ObjectKind::Anonymous, false), "the runtime's line");
    // A lock of the program, taken by the runtime's code.
    assert!(with(2, ObjectKind::Static, false));
    // What a runtime allocates for itself, below a line of the program, is none.
    assert!(with(2, ObjectKind::Heap, false) && !with(2, ObjectKind::Heap, true));
}

/// Four threads that each use what is theirs, and in one of `every` samples a line of all; `access` is what they do there.
fn own_parts_and_a_line(every: u64, access: Access, byte: impl Fn(u64) -> u64) -> MadeRecording {
    let mut w = MadeRecording::new(4);
    let (init, work, count) = (w.own("init", 10), w.own("work", 20), w.own("count", 30));
    let a = w.array("a", 1024);
    for t in 0..4 {
        w.touch(100, t, init, a + u64::from(t) * 256 * PAGE, 256);
    }
    let counters = w.array("counters", 16);
    w.touch(100, 0, init, counters, 16);
    w.use_blocked(4, 1000, work, a, 1024);
    for i in 0..4000 / every {
        let t = i % 4;
        w.sample_as(WORK + i * 1_000_000, t as u32, count, counters + byte(t), Resolution::Exact, access);
    }
    w
}

/// A clock cannot tell a hit from a wait for another node's cache, so what it calls clean must have little of either.
#[test]
fn by_the_clock_a_program_whose_nodes_write_to_a_line_is_not_called_clean() {
    let clean = |w: MadeRecording| {
        let r = w.on(2);
        assert!(r.findings.is_empty(), "{:?}", r.findings);
        assert_ne!(r.verdict, Verdict::Affected, "{}", r.verdict_why);
        let open = r.verdict_why.contains("cache lines that threads of several nodes use and write");
        assert_eq!(open, r.verdict == Verdict::Unknown, "{}", r.verdict_why);
        !open
    };
    // A twentieth of the time: 5.5 % at most, and five times as slow on two sockets.
    assert!(!clean(own_parts_and_a_line(20, Access::LoadStore, |_| 0)));
    assert!(!clean(own_parts_and_a_line(20, Access::Store, |t| t * 8)));
    // Also where caches hold all of it: a twentieth is below what counts there, where it was recorded.
    let mut w = own_parts_and_a_line(20, Access::LoadStore, |_| 0);
    w.input.meta.machine.caches = crate::cached::cached(32 << 20);
    w.input.meta.largest_process_bytes = 5 << 20;
    (w.input.meta.target_cpu_s, w.input.meta.target_system_s) = (4.0, 0.01);
    w.input.meta.target_faults = 2000;
    let r = w.on(2);
    assert!(r.caches.as_ref().is_some_and(|c| c.between_nodes_at_most < 0.1), "{:?}", r.caches);
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("another socket"), "{}", r.verdict_why);
    // What all read stays in each cache, lines of one node each do not move, and little is little.
    assert!(clean(own_parts_and_a_line(20, Access::Load, |_| 0)));
    assert!(clean(own_parts_and_a_line(20, Access::LoadStore, |t| t * 64)));
    assert!(clean(own_parts_and_a_line(200, Access::LoadStore, |_| 0)));
}

/// Memory of two processes, and where each has it.
#[derive(Clone, Copy)]
struct Memory {
    name: &'static str,
    /// 8 if it is shared.
    shared: u8,
    offset: [u64; 2],
    /// Both are children of one process, which had this memory before or did not; or they have nothing to do with each other.
    inherited: Option<bool>,
}

/// Two processes, each with an array of its own and with memory in which both count.
fn processes_with(memory: Memory) -> MadeRecording {
    let mut w = MadeRecording::new(1);
    let forked = memory.inherited.is_some();
    let (work, count) = (w.own("work", 20), w.own("count", 30));
    let map = |w: &mut MadeRecording, time_ns, process, start, pages, offset, flags, name: &str| {
        let (end, name) = (start + pages * PAGE, name.into());
        w.input.mappings.push(Mapping { time_ns, process, start, end, offset, module: NONE, flags, name });
    };
    let (flags, inherited) = (3 | memory.shared, BASE + (1 << 33));
    if memory.inherited == Some(true) {
        map(&mut w, 1, 0, inherited, 4, 0, flags, memory.name);
    }
    for nth in 0..2u64 {
        let process = w.process(if forked { 0 } else { NONE }, forked, if forked { 50 } else { 0 });
        let thread = w.thread(process);
        let own = BASE + nth * (1 << 30);
        let counts = if forked { inherited } else { own + (1 << 28) };
        map(&mut w, 60, process, own, 256, 0, 3, "");
        map(&mut w, 60, process, counts, 4, memory.offset[nth as usize], flags, memory.name);
        w.touch(100, thread, work, own, 256);
        w.touch(100, thread, work, counts, 4);
        for i in 0..2000u64 {
            let (ip, address) =
                if i % 20 == 0 { (count, counts + PAGE) } else { (work, own + i % 256 * PAGE) };
            w.sample_as(WORK + i * 1_000_000, thread, ip, address, Resolution::Exact, Access::LoadStore);
        }
    }
    w
}

#[test]
fn a_line_of_shared_memory_is_one_line_in_each_process_that_maps_it() {
    let open = |memory: Memory| {
        let r = processes_with(memory).on_machine(machine(2, 1));
        let open = r.verdict_why.contains("cache lines that threads of several nodes use and write");
        assert_eq!(r.verdict, if open { Verdict::Unknown } else { Verdict::Clean }, "{}", r.verdict_why);
        open
    };
    let file = Memory { name: "/dev/shm/counts", shared: 8, offset: [0, 0], inherited: None };
    assert!(open(file));
    // Other parts of it, and copies.
    assert!(!open(Memory { offset: [0, PAGE], ..file }));
    assert!(!open(Memory { shared: 0, ..file }));
    // Without a name it is known only by whom it was inherited from.
    let nameless = Memory { name: "/dev/zero (deleted)", ..file };
    assert!(open(Memory { inherited: Some(true), ..nameless }));
    assert!(!open(Memory { inherited: Some(false), ..nameless }));
    assert!(!open(nameless));
}
