//! How long ten million samples take. Run it with
//! `cargo test --release -p nearfar-analyze --test analyze -- --ignored --nocapture`.

use crate::made_recording::*;
use nearfar_analyze::{Judge, SampleReader, analyze};
use nearfar_machine::binding::Bind;
use nearfar_recording::SampleSurvey;
use nearfar_recording::*;
use std::time::Instant;

/// Samples as a recording stores them: in row groups.
struct Segments(Vec<AccessSamples>);

impl SampleReader for Segments {
    fn segments(&self) -> usize {
        self.0.len()
    }
    fn segment(&self, i: usize) -> Result<AccessSamples, String> {
        Ok(self.0[i].clone())
    }
    fn survey(&self) -> Result<SampleSurvey, String> {
        let mut survey = SampleSurvey::default();
        self.0.iter().for_each(|s| survey.add(&s.time_ns, &s.thread));
        Ok(survey)
    }
}

fn cut(samples: &AccessSamples) -> Vec<AccessSamples> {
    let mut cut = Vec::new();
    for (i, row) in samples.rows().enumerate() {
        if i % 100_000 == 0 {
            cut.push(AccessSamples::default());
        }
        cut.last_mut().expect("just pushed").push(row);
    }
    cut
}

#[test]
#[ignore = "a measurement, without a limit"]
fn ten_million_samples_and_a_million_faults() {
    let threads = 16;
    let mut w = MadeRecording::new(threads);
    let init = w.own("init", 10);
    let lines: Vec<u32> = (0..40).map(|l| w.own("work", 20 + l)).collect();
    let arrays: Vec<u64> = (0..16).map(|i| w.array(&format!("a{i}"), 65536)).collect();
    for (i, &a) in arrays.iter().enumerate() {
        w.touch(1000 * i as u64, i as u32 % threads, init, a, 65536);
    }
    let each = 10_000_000 / u64::from(threads);
    for i in 0..each {
        for t in 0..threads {
            let a = arrays[(w.random() % 16) as usize];
            // A thread sweeps its block, as loops do, with the odd jump.
            let block = 65536 * PAGE / u64::from(threads);
            let sweep = (i * 4096 + w.random() % 4096) % block;
            let offset = u64::from(t) * block + sweep;
            let ip = lines[(i % 40) as usize];
            w.sample_as(WORK + i * 1000, t, ip, a + offset, Resolution::Exact, Access::Load);
        }
    }
    let segments = Segments(cut(&w.samples));
    w.samples = AccessSamples::default();
    let judge = Judge { machine: machine(2, 8), assume: Some(Bind::Compact), whole: false };
    let start = Instant::now();
    let r = analyze(&w.input, &segments, &judge).unwrap();
    println!("{:.2} s, verdict {:?}, remote {:?}", start.elapsed().as_secs_f64(), r.verdict, r.remote_share);
}
