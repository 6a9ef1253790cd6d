//! Samples of the processor: what they decide, alone and beside a clock's.

use crate::made_recording::*;
use nearfar_analyze::{Basis, Report, Verdict};
use nearfar_machine::Machine;
use nearfar_recording::*;

/// An array that thread 0 initialises and two threads use, on a machine of two nodes with a cpu each.
pub struct Made {
    pub w: MadeRecording,
    array: u64,
    work: u32,
    next: u64,
}

impl Made {
    pub fn new() -> Made {
        let mut w = MadeRecording::new(2);
        let init = w.own("init", 10);
        let work = w.own("work", 20);
        let array = w.array("a", 4096);
        w.touch(100, 0, init, array, 4096);
        w.input.meta.machine = machine(2, 1);
        let active = |source| SourceReport { source, active: true, why: String::new(), hz: 0.0 };
        w.input.meta.sources = vec![active(Source::Hardware), active(Source::Clock)];
        Made { w, array, work, next: 0 }
    }

    /// `n` samples of a thread, each of a thousand loads.
    pub fn loads(&mut self, thread: u32, served: Served, latency_cycles: u32, n: u64) {
        for i in 0..n {
            // Spread over the run, beside those of the other calls.
            self.next += 1;
            let time = WORK + i * (WORK / n) + self.next;
            let address = self.array + self.next * 4160 % (4096 * PAGE);
            self.w.sample_as(time, thread, self.work, address, Resolution::Exact, Access::Load);
            let s = &mut self.w.samples;
            let last = s.time_ns.len() - 1;
            s.source[last] = SampleSource::Hardware as u8;
            (s.served[last], s.latency_cycles[last], s.period[last]) = (served as u8, latency_cycles, 1000);
            s.weight_ns[last] = 0;
        }
    }

    /// `n` samples of a clock, of which these many hundredths touch memory.
    pub fn clock(&mut self, thread: u32, percent: u64, n: u64) {
        for i in 0..n {
            self.next += 1;
            let time = WORK + i * (WORK / n) + self.next;
            let how = if i % 100 < percent { Resolution::Exact } else { Resolution::Compute };
            let address = self.array + self.next * 4160 % (4096 * PAGE);
            self.w.sample_as(time, thread, self.work, address, how, Access::Load);
        }
    }

    pub fn report(&self) -> Report {
        let mut w = MadeRecording::new(0);
        w.input = self.w.input.clone();
        in_order(self.w.samples.rows(), &mut w.samples);
        w.real()
    }
}

#[test]
fn far_loads_that_the_time_waits_for_are_affected() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::RemoteMemory, 400, 500);
    m.loads(0, Served::Cache, 10, 1000);
    (0..2).for_each(|thread| m.clock(thread, 80, 1000));
    let r = m.report();
    assert_eq!((r.verdict, r.basis), (Verdict::Affected, Basis::MemoryLoads), "{}", r.verdict_why);
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.001);
    let interval = r.remote_share_ci.unwrap();
    assert!(interval.low < 0.5 && interval.high > 0.5 && interval.high - interval.low < 0.1);
    assert_eq!(r.objects[0].name, "a");
    assert!(r.verdict_why.contains("50 % of the loads that memory answered"), "{}", r.verdict_why);
    assert!(
        r.notes
            .iter()
            .any(|n| n.contains("2000 accesses were sampled") && n.contains("memory answered 1000"))
    );
    assert!(r.notes.iter().any(|n| n.contains("Clock samples beside them")), "{:#?}", r.notes);
}

#[test]
fn what_caches_answer_is_no_far_memory_though_its_pages_are_far() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 20);
    m.loads(1, Served::RemoteMemory, 400, 20);
    m.loads(1, Served::Cache, 40, 5000);
    (0..2).for_each(|thread| m.clock(thread, 90, 1000));
    let r = m.report();
    assert_eq!(r.verdict, Verdict::Clean, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("Memory answered 40 of 5040"), "{}", r.verdict_why);
    // By the clock alone half of the time is on far pages.
    let mut alone = m.report_by_clock();
    assert_eq!(alone.basis, Basis::StallTime);
    assert!((alone.remote_share.take().unwrap() - 0.5).abs() < 0.05);
}

#[test]
fn too_few_from_memory_and_no_clock_is_that_answer_and_no_share() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 30);
    m.loads(0, Served::Cache, 10, 1000);
    m.w.input.meta.sources.truncate(1);
    let r = m.report();
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(
        r.verdict_why.contains("Memory answered 30 of 1030 sampled accesses; 300 are needed"),
        "{}",
        r.verdict_why
    );
}

#[test]
fn without_a_clock_far_loads_are_a_share_and_no_accusation() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::RemoteMemory, 400, 500);
    m.loads(1, Served::Cache, 10, 100);
    let r = m.report();
    assert_eq!(r.verdict, Verdict::Unknown);
    assert!(
        r.verdict_why.contains("it takes clock samples beside them, and there are 0"),
        "{}",
        r.verdict_why
    );
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.001);
}

/// False sharing has no far memory: its lines go from cache to cache.
#[test]
fn lines_from_other_nodes_caches_are_no_far_memory_and_not_clean() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 400);
    m.loads(1, Served::OtherNodesCache, 500, 1000);
    m.loads(0, Served::Cache, 10, 2000);
    (0..2).for_each(|thread| m.clock(thread, 80, 1000));
    let r = m.report();
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!(r.verdict_why.contains("waits for lines in caches of other nodes"), "{}", r.verdict_why);
    // Some always do.
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 1000);
    m.loads(1, Served::OtherNodesCache, 500, 2);
    m.loads(0, Served::Cache, 10, 9000);
    assert_eq!(m.report().verdict, Verdict::Clean);
}

/// Where only slow loads are sampled, all of them are: nothing says how much of the time waits for memory.
#[test]
fn samples_of_slow_loads_only_accuse_nothing() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::RemoteMemory, 400, 500);
    m.loads(0, Served::Cache, 60, 10);
    (0..2).for_each(|thread| m.clock(thread, 80, 1000));
    assert_eq!(m.report().verdict, Verdict::Affected);
    m.w.input.meta.hardware_filtered = true;
    let r = m.report();
    assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.001);
}

#[test]
fn near_loads_are_clean() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 1000);
    m.loads(1, Served::RemoteMemory, 400, 20);
    assert_eq!(m.report().verdict, Verdict::Clean);
}

#[test]
fn a_load_from_another_node_is_far_though_nobody_knows_which() {
    let mut m = Made::new();
    // Four nodes, and pages whose placement was not seen: which of three is unknown, that it is another is known.
    m.w.input.meta.machine = machine(4, 1);
    m.w.input.faults = Default::default();
    m.loads(0, Served::LocalMemory, 200, 600);
    m.loads(1, Served::RemoteMemory, 400, 400);
    let r = m.report();
    assert!((r.remote_share.unwrap() - 0.4).abs() < 0.001);
    assert_eq!(r.page_node_unknown_share, 0.0);
    let told: f64 = r.node_matrix.iter().flatten().sum();
    assert!((told - 0.6).abs() < 0.001, "{:?}", r.node_matrix);
}

#[test]
fn on_an_assumed_machine_the_pages_are_placed_anew_and_the_processors_word_is_of_another() {
    let mut m = Made::new();
    m.loads(0, Served::LocalMemory, 200, 500);
    m.loads(1, Served::LocalMemory, 200, 500);
    let mut w = MadeRecording::new(0);
    w.input = m.w.input.clone();
    in_order(m.w.samples.rows(), &mut w.samples);
    let r = w.on_machine(Machine::from_shape("2x1").unwrap());
    assert!((r.remote_share.unwrap() - 0.5).abs() < 0.05, "thread 0 placed the pages of both");
}

impl Made {
    /// The same without the processor's samples.
    fn report_by_clock(&self) -> Report {
        let mut w = MadeRecording::new(0);
        w.input = self.w.input.clone();
        w.input.meta.sources.retain(|s| s.source != Source::Hardware);
        in_order(self.w.samples.rows().filter(|s| s.source == SampleSource::Clock as u8), &mut w.samples);
        w.real()
    }
}

/// Rows come in the order of time.
fn in_order(rows: impl Iterator<Item = AccessSample>, to: &mut AccessSamples) {
    let mut rows: Vec<AccessSample> = rows.collect();
    rows.sort_by_key(|s| s.time_ns);
    rows.into_iter().for_each(|row| to.push(row));
}

/// A program that writes to far memory and reads its own has hardly a far load: its stores are what costs.
#[test]
fn stores_to_far_pages_are_no_far_loads_and_not_clean() {
    let with_stores = |percent_of_stores: u64, clock: bool| {
        let mut m = Made::new();
        m.loads(0, Served::LocalMemory, 200, 1000);
        m.loads(1, Served::Cache, 10, 1000);
        m.loads(1, Served::Unknown, 0, 1000);
        let at = |m: &Made| m.w.samples.time_ns.len();
        let hardware = at(&m);
        m.w.samples.access[hardware - 1000..].fill(Access::Store as u8);
        if percent_of_stores == 0 {
            m.w.samples.served[hardware - 1000..].fill(Served::Cache as u8);
        }
        if clock {
            (0..2).for_each(|thread| m.clock(thread, 80, 1000));
            for i in (hardware..at(&m)).filter(|i| (*i as u64) % 100 < percent_of_stores) {
                m.w.samples.access[i] = Access::Store as u8;
            }
        }
        m.report()
    };
    // The pages are on node 0: half of the clock's stores are those of thread 1, on node 1.
    for (percent, clock, of) in [(60, true, "time"), (60, false, "stores")] {
        let r = with_stores(percent, clock);
        assert_eq!(r.verdict, Verdict::Unknown, "{}", r.verdict_why);
        let why = format!("of the {of} is in stores to pages of other nodes");
        assert!(r.verdict_why.contains(&why), "{}", r.verdict_why);
    }
    for (percent, clock) in [(10, true), (0, false)] {
        assert_eq!(with_stores(percent, clock).verdict, Verdict::Clean);
    }
}
