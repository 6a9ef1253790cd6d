//! Predicted against measured curves of few cores. The published cases are in tests/reproduce.rs.

use crate::made_tables::*;

#[track_caller]
fn close(what: &str, predicted: f64, published: f64, low: f64, high: f64) {
    let off = (predicted / published - 1.0) * 100.0;
    println!("{what}: {predicted:.2}, published {published}: {off:+.1} %");
    assert!(off >= low && off <= high, "{what}: {predicted} is {off:+.1} % off {published}");
}

/// kerncraft's likwid-bench load, one core upward.
#[test]
fn bandwidth_of_few_cores_adds_up_as_measured() {
    let n = 10_000_000;
    for (name, measured) in [
        ("xeon-e5-2650v3-2s", &[(1, 8.9), (2, 17.9), (3, 26.5), (4, 34.6), (5, 42.1)][..]),
        ("xeon-e5-2699v4-2s", &[(1, 11.2), (2, 20.8)][..]),
    ] {
        let m = described(name);
        for &(cores, published) in measured {
            let seconds = MadeTables::all(0..cores, &[(0, reads(n))]).seconds(&m);
            close(
                &format!("{name}, {cores} cores"),
                gbs(n * u64::from(cores), seconds),
                published,
                -8.0,
                4.0,
            );
        }
    }
}
