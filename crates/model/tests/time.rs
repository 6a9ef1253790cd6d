//! The time model against arithmetic, against measured curves, and against the
//! published cases.

#[path = "time/world.rs"]
mod world;

use world::*;

#[test]
fn probe() {
    let m = described("xeon-e5-2699v4-2s");
    let n = 10_000_000;
    for cores in [1u16, 2, 4, 8, 11, 16, 22] {
        let t = World::all(0..cores, &[(0, reads(n))]).on(&m).unwrap();
        println!("{cores} cores read: {:.1} GB/s {:?} [{:.3} {:.3} {:.3}]", gbs(n * cores as u64, t.seconds), t.binds, t.low, t.seconds, t.high);
    }
    for cores in [1u16, 22] {
        let t = World::all(0..cores, &[(0, updates(n))]).on(&m).unwrap();
        println!("{cores} cores update: {:.1} GB/s {:?}", 2.0*gbs(n * cores as u64, t.seconds), t.binds);
        let t = World::all(0..cores, &[(0, Lines{demanded:n, ..Lines::default()})]).on(&m).unwrap();
        println!("{cores} cores demanded: {:.1} GB/s {:?}", gbs(n * cores as u64, t.seconds), t.binds);
    }
    let t = World::all(0..44, &[(0, reads(n))]).on(&m).unwrap();
    println!("all on 0 from 44: {:.1} GB/s {:?} {:?}", gbs(n * 44, t.seconds), t.binds, t.links);
    let t = World::all(22..44, &[(0, reads(n))]).on(&m).unwrap();
    println!("remote only: {:.1} GB/s {:?} {:?}", gbs(n * 22, t.seconds), t.binds, t.links);
    let t = World::all(0..1, &[(0, Lines{demanded:n, dependent:n, ..Lines::default()})]).on(&m).unwrap();
    println!("chase {:.1} ns", t.seconds/n as f64*1e9);
    let big = described("epyc-9654-2s-nps4");
    let mut w = World::default();
    let mut steps=0; let _=&mut steps; for e in 0..1000 { for c in 0..44u16 { let x = 0.5 + ((e*7+c as u32*13)%17) as f64/34.0; w.epoch(e,1,c,1e6*x,&[(0,reads((5000.0*x) as u64)),(1,updates(3000+((e*3)%2000) as u64))]); } }
    let s = std::time::Instant::now();
    let t = w.on(&m).unwrap();
    println!("1000 epochs {:?} stretches {} {:?}", s.elapsed(), t.stretches.len(), t.shares);
    let mut w = World::default();
    for e in 0..200 { for c in 0..192u16 { let x = 0.5 + ((e*7+c as u32*13)%17) as f64/34.0; let h: Vec<_> = (0..8).map(|h| (h as i16, reads(1000+((e*300)%2000) as u64))).collect(); w.epoch(e,1,c,1e6*x,&h); } }
    let s = std::time::Instant::now();
    let t = w.on(&big).unwrap();
    println!("200 epochs big {:?} stretches {} {:?}", s.elapsed(), t.stretches.len(), t.shares);
}

#[test]
fn cases() {
    // E5-2699 v4: MPoints/s for bytes per point.
    let m = described("xeon-e5-2699v4-2s");
    let points: u64 = 9_000_000_00;
    for (bytes_read, bytes_written) in [(12.0, 4.0), (15.8, 4.0)] {
        let per = |cores: u64| Lines { prefetched: (points as f64 / cores as f64 * bytes_read / 64.0) as u64, written: (points as f64 / cores as f64 * bytes_written / 64.0) as u64, instructions: points / cores * 15, ..Lines::default() };
        let mut ft = World::default();
        for c in 0..44 { ft.epoch(0, 1, c, 0.0, &[(if c < 22 {0} else {1}, per(44))]); }
        for (name, w) in [("one socket", World::all(0..22, &[(0, per(22))])), ("all on 0", World::all(0..44, &[(0, per(44))])), ("ft", ft)] {
            let t = w.on(&m).unwrap();
            println!("E5-2699 {bytes_read}+{bytes_written} {name}: {:.0} MPoints/s {:?} [{:.0}..{:.0}]", points as f64 / t.seconds / 1e6, t.binds, points as f64 / t.high / 1e6, points as f64 / t.low / 1e6);
        }
    }
    // Xeon 5500.
    let m = described("xeon-x5570-2s");
    let n = 100_000_000u64; // elements
    let l = n * 8 / 64 / 8;
    let nt = |h: u64| Lines { prefetched: 2 * l / h, streamed: l / h, instructions: n / 8 * 3, ..Lines::default() };
    let mut ft = World::default();
    for c in 0..8 { ft.epoch(0, 1, c, 0.0, &[(if c < 4 {0} else {1}, nt(1))]); }
    for (name, w, p) in [("one node", World::all(0..8, &[(0, nt(1))]), 5.1), ("interleaved", World::all(0..8, &[(0, nt(2)), (1, nt(2))]), 8.5), ("ft", ft, 12.5)] {
        let t = w.on(&m).unwrap();
        let bc = n as f64 * 24.0 / t.seconds / 2.93e9;
        println!("X5570 {name}: {bc:.2} B/cycle, published {p}: time {:+.0} % {:?} [{:.2} {:.2} {:.2}]", (p / bc - 1.0) * 100.0, t.shares, t.low, t.seconds, t.high);
    }
    // Opteron 285: 40 x 256 MiB memcpy.
    let m = described("opteron-285-2s");
    let l = 40u64 * 256 * 1024 * 1024 / 64;
    for (name, h, p) in [("local", 0i16, 7.95), ("remote", 1, 10.3)] {
        for pf in [true, false] {
            let lines = Lines { prefetched: if pf { 2 * l } else { 0 }, demanded: if pf {0} else { 2 * l }, written: l, instructions: l * 64 / 8 * 3, ..Lines::default() };
            let t = World::all(0..1, &[(h, lines)]).on(&m).unwrap();
            println!("Opteron {name} pf {pf}: {:.2} s, published {p}: {:+.0} % {:?}", t.seconds, (t.seconds / p - 1.0) * 100.0, t.binds);
        }
    }
    // Magny-Cours interleaved reads.
    let m = described("opteron-6174-4s");
    let l = 10_000_000u64;
    let homes: Vec<_> = (0..8).map(|h| (h, reads(l / 8))).collect();
    let t = World::all(0..48, &homes).on(&m).unwrap();
    println!("Magny-Cours interleaved {:.1} GB/s {:?}", gbs(l * 48, t.seconds), &t.shares);
    let mut ft = World::default();
    for c in 0..48 { ft.epoch(0, 1, c, 0.0, &[(c as i16 / 6, reads(l))]); }
    let t = ft.on(&m).unwrap();
    println!("Magny-Cours local {:.1} GB/s {:?}", gbs(l * 48, t.seconds), &t.shares);
    // Saturation curves of other machines.
    for (name, cores, published) in [("xeon-e5-2650v3-2s", vec![1u16,2,3,4,5,10], vec![8.9,17.9,26.5,34.6,42.1,61.0])] {
        let m = described(name);
        for (c, p) in cores.into_iter().zip(published) {
            let t = World::all(0..c, &[(0, reads(l))]).on(&m).unwrap();
            println!("{name} {c}: {:.1} measured {p}", gbs(l * c as u64, t.seconds));
        }
    }
    for name in ["xeon-8480p-2s","xeon-8480p-2s-snc4","epyc-7763-2s","epyc-9654-2s","epyc-9654-2s-nps4","epyc-9224-2s-nps2-cxl","altra-q80-2s","grace-2s"] {
        let m = described(name);
        let n0: Vec<u16> = m.cores_of(0).iter().map(|c| c.first().unwrap() as u16).collect();
        let far = m.nodes.iter().rposition(|n| !n.cpus.is_empty()).unwrap() as i16;
        let last = m.nodes.len() as i16 - 1;
        for h in [0, far, last] {
            let t = World::all(n0.iter().copied(), &[(h, reads(l))]).on(&m).unwrap();
            let t1 = World::all(0..1, &[(h, reads(l))]).on(&m).unwrap();
            println!("{name} node 0 -> {h}: {:.1} GB/s {:?}; one core {:.1} {:?}", gbs(l * n0.len() as u64, t.seconds), t.binds, gbs(l, t1.seconds), t1.binds);
        }
    }
}
