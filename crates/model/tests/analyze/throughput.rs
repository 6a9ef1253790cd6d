//! How long ten million samples take. Run it with
//! `cargo test --release -p nearfar-model --test analyze -- --ignored --nocapture`.

use crate::world::*;
use nearfar_model::analyze::{Judge, analyze};
use nearfar_model::machine::binding::Bind;
use nearfar_model::recording::*;
use std::time::Instant;

#[test]
#[ignore = "a measurement, without a limit"]
fn ten_million_samples_and_a_million_faults() {
    let threads = 16;
    let mut w = World::new(threads);
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
            let offset = w.random() % (65536 * PAGE / u64::from(threads)) + u64::from(t) * 65536 * PAGE / u64::from(threads);
            let ip = lines[(i % 40) as usize];
            w.sample_as(WORK + i * 1000, t, ip, a + offset, Resolution::Exact, Access::Load);
        }
    }
    let judge = Judge { machine: machine(2, 8), assume: Some(Bind::Compact) };
    let start = Instant::now();
    let r = analyze(&w.input, &w.samples, &judge).unwrap();
    println!("{:.2} s, verdict {:?}, remote {:?}", start.elapsed().as_secs_f64(), r.verdict, r.remote_share);
}
