//! Predicted against published. docs/time-model.md has the table; the tolerances
//! here are a little above what it says, so that a change of the model shows.

use crate::world::*;
use nearfar_model::machine::Machine;
use nearfar_model::time::Time;

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
            let seconds = World::all(0..cores, &[(0, reads(n))]).seconds(&m);
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

/// The stencil of cases 1, 2 and 4: reads of prev (re-read by its blocks), vel and
/// next, and next written: 19.8 bytes per point.
fn stencil(m: &Machine, cores: u16, home: impl Fn(u16) -> i16) -> (f64, Time) {
    let points = 9e8;
    let lines = |bytes: f64| (points * bytes / 64.0 / f64::from(cores)) as u64;
    let mut world = World::default();
    for cpu in 0..cores {
        let instructions = (points * 15.0 / f64::from(cores)) as u64;
        let lines = Lines { prefetched: lines(15.8), written: lines(4.0), instructions, ..Lines::default() };
        world.epoch(0, 1, cpu, 0.0, &[(home(cpu), lines)]);
    }
    let t = world.on(m).unwrap();
    (points / t.seconds / 1e6, t)
}

#[test]
fn the_stencil_on_two_broadwells() {
    let m = described("xeon-e5-2699v4-2s");
    let (one, _) = stencil(&m, 22, |_| 0);
    let (serial, t) = stencil(&m, 44, |_| 0);
    let (first_touch, _) = stencil(&m, 44, |cpu| (cpu / 22) as i16);
    close("one socket, MPoints/s", one, 2948.22, -5.0, 5.0);
    close("all pages on node 0, MPoints/s", serial, 2765.70, -5.0, 5.0);
    close("first touch, MPoints/s", first_touch, 5682.07, -3.0, 9.0);
    close("without first touch to with it", serial / first_touch, 0.487, -8.0, 3.0);
    assert!(t.high / t.low < 1.25, "{} to {}", t.low, t.high);
}

/// Case 13: b + x*c streamed to a, 8 threads, bytes per cycle at 2.93 GHz.
#[test]
fn the_streamed_triad_on_two_nehalems() {
    let m = described("xeon-x5570-2s");
    let elements = 100_000_000u64;
    let triad = |homes: u64| {
        let lines = elements * 8 / 64 / 8 / homes;
        Lines {
            prefetched: 2 * lines,
            streamed: lines,
            instructions: elements * 3 / 8 / homes,
            ..Lines::default()
        }
    };
    let bytes_per_cycle = |world: &World| elements as f64 * 24.0 / world.seconds(&m) / 2.93e9;
    let mut first_touch = World::default();
    for cpu in 0..8 {
        first_touch.epoch(0, 1, cpu, 0.0, &[((cpu / 4) as i16, triad(1))]);
    }
    let one_node = World::all(0..8, &[(0, triad(1))]);
    let interleaved = World::all(0..8, &[(0, triad(2)), (1, triad(2))]);
    close("first touch, bytes per cycle", bytes_per_cycle(&first_touch), 12.5, -9.0, 3.0);
    close("interleaved, bytes per cycle", bytes_per_cycle(&interleaved), 8.5, -6.0, 6.0);
    // Without η: this machine would want 1.2.
    close("one node, bytes per cycle", bytes_per_cycle(&one_node), 5.1, 5.0, 20.0);
}

/// Case 17: 40 copies of 256 MiB, regular stores: three lines moved per line.
#[test]
fn the_copy_on_two_opterons() {
    let m = described("opteron-285-2s");
    let lines = 40 * 256 * 1024 * 1024 / 64;
    let copy = Lines { prefetched: 2 * lines, written: lines, instructions: lines * 24, ..Lines::default() };
    let seconds = |home| World::all(0..1, &[(home, copy)]).seconds(&m);
    close("local copy, s", seconds(0), 7.95, -5.0, 5.0); // the bandwidth is fitted to it
    close("remote copy, s", seconds(1), 10.3, -9.0, 5.0);
}

/// Case 10 is arithmetic on two rates: 35 of 96 GB/s. A queueing model finds more,
/// since a core does not stop reading the near node while it waits for far ones.
#[test]
fn interleaved_pages_on_eight_nodes() {
    let m = described("opteron-6174-4s");
    let n = 10_000_000;
    let mut local = World::default();
    for cpu in 0..48 {
        local.epoch(0, 1, cpu, 0.0, &[((cpu / 6) as i16, reads(n))]);
    }
    let homes: Vec<(i16, Lines)> = (0..8).map(|home| (home, reads(n / 8))).collect();
    let interleaved = World::all(0..48, &homes).seconds(&m);
    close("local, GB/s", gbs(48 * n, local.seconds(&m)), 96.0, -3.0, 0.1);
    close("interleaved, GB/s", gbs(48 * n, interleaved), 35.0, 25.0, 45.0);
}
