//! How many accesses a second the simulator takes, without the emulator around it.
//!
//! Per loop, prefetcher and number of threads: million accesses per second of wall
//! time, all threads together, and the ns of cpu time that one takes, which a busy
//! host disturbs less. Each simulated cpu has its own thread, as under QEMU, and
//! its own part of the arrays.

use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_simulate::{Access, Core, Hierarchy, Kind, Options, PageNodeMap};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// Two sockets of four cores, with a fitting part of the third level.
fn machine() -> Machine {
    let text = include_str!("../../../machines/xeon-e5-2699v4-2s.toml");
    let mut machine = Machine::from_toml(text).expect("a described machine");
    for (i, node) in machine.nodes.iter_mut().enumerate() {
        let first = i as u32 * 4;
        node.cpus = format!("{first}-{}", first + 3).parse::<CpuList>().expect("a list");
    }
    machine.threads_per_core = 1;
    machine.caches[2].cores_per_instance = 4;
    machine.caches[2].size_bytes = machine.caches[2].size_bytes * 4 / 22;
    machine
}

/// Memory of each node.
const NODE_BYTES: u64 = 2 << 30;
/// Where the program's memory begins; physical addresses are the same from 0.
const BASE: u64 = 0x7f00_0000_0000;

/// A cpu's thread, as the plugin's callback drives it.
struct Cpu<'a> {
    core: Core,
    hierarchy: &'a Hierarchy,
    accesses: u64,
    lines: u64,
}

impl Cpu<'_> {
    #[inline(always)]
    fn touch(&mut self, at: u64, kind: Kind) {
        self.accesses += 1;
        let virt = BASE + at;
        if !self.core.quick_hit(virt, 8, kind) {
            self.slow(at, kind);
        }
    }

    #[inline(never)]
    fn slow(&mut self, at: u64, kind: Kind) {
        struct Lines<'a>(&'a mut u64);
        impl nearfar_simulate::Sink for Lines<'_> {
            fn dram(&mut self, physical: u64, _: usize, _: nearfar_simulate::DramKind) {
                *self.0 = self.0.wrapping_add(physical | 1);
            }
        }
        let access = Access { virt: BASE + at, physical: at, bytes: 8, kind, huge: false, chain: 0 };
        self.core.access(self.hierarchy, access, &mut Lines(&mut self.lines));
    }
}

type Loop = fn(&mut Cpu, part: u64, scale: u64);

/// a[i] = b[i] + s·c[i] over 3 × 32 MiB, vectors of 32 bytes that arrive as four accesses.
fn triad(cpu: &mut Cpu, part: u64, scale: u64) {
    let bytes = 32 << 20;
    let a = part * 4 * bytes;
    for _ in 0..scale {
        for at in (0..bytes).step_by(32) {
            cpu.core.execute(6);
            for (array, kind) in [(1, Kind::Load), (2, Kind::Load), (0, Kind::Store)] {
                for word in 0..4 {
                    cpu.touch(a + array * bytes + at + word * 8, kind);
                }
            }
        }
    }
}

/// A star of radius 8 in three dimensions, as iso3dfd: 128 × 256 × 64 floats, vectors of 32 bytes.
fn stencil(cpu: &mut Cpu, part: u64, scale: u64) {
    let (row, plane, depth) = (128 * 4, 256 * 128 * 4, 64);
    let prev = part * (64 << 20);
    let (next, vel) = (prev + plane * depth, prev + 2 * plane * depth);
    for _ in 0..scale {
        for z in 8..depth - 8 {
            for y in 8..248 {
                for x in (32..row - 32).step_by(32) {
                    let at = z * plane + y * row + x;
                    cpu.core.execute(70);
                    for word in 0..4 {
                        let at = at + word * 8;
                        cpu.touch(prev + at, Kind::Load);
                        for r in 1..=8 {
                            cpu.touch(prev + at - r * 4 / 8 * 8, Kind::Load);
                            cpu.touch(prev + at + r * 4 / 8 * 8, Kind::Load);
                            cpu.touch(prev + at - r * row, Kind::Load);
                            cpu.touch(prev + at + r * row, Kind::Load);
                            cpu.touch(prev + at - r * plane, Kind::Load);
                            cpu.touch(prev + at + r * plane, Kind::Load);
                        }
                        cpu.touch(vel + at, Kind::Load);
                        cpu.touch(next + at, Kind::Load);
                        cpu.touch(next + at, Kind::Store);
                    }
                }
            }
        }
    }
}

/// Every line of 64 MiB once, in an order without pattern: each misses everything.
fn chase(cpu: &mut Cpu, part: u64, scale: u64) {
    let lines = 1 << 20;
    let mut at = 0u64;
    for _ in 0..scale * lines {
        // A full-period generator: multiplier 1 mod 4, odd increment.
        at = (at.wrapping_mul(0x5851_F42D) + 0x1405_7B7F) % lines;
        cpu.core.execute(4);
        cpu.touch(part * lines * 64 + at * 64, Kind::Load);
    }
}

/// Half of all accesses written to 4 KiB that all cpus share: lines go to and fro.
fn shared(cpu: &mut Cpu, part: u64, scale: u64) {
    for i in 0..scale << 20 {
        cpu.core.execute(8);
        cpu.touch((i * 8) % 4096, if (i + part).is_multiple_of(2) { Kind::Store } else { Kind::Load });
    }
}

/// The thread's time on a cpu, ns; 0 where the host does not tell.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let machine = machine();
    let loops: [(&str, Loop, u64); 4] =
        [("triad", triad, 4), ("stencil", stencil, 1), ("chase", chase, 4), ("shared", shared, 4)];
    println!("{:<10}{:<10}{:>9}{:>14}{:>12}", "loop", "prefetch", "threads", "M accesses/s", "cpu ns each");
    // `-- triad` for one loop; cargo adds flags of its own.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, body, scale) in loops {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        for prefetch in [false, true] {
            for threads in [1, 2] {
                let page_nodes = PageNodeMap::ranges(&[NODE_BYTES, 2 * NODE_BYTES]);
                let hierarchy =
                    Hierarchy::new(&machine, &Options { prefetch, page_nodes }).expect("a hierarchy");
                let start = Barrier::new(threads);
                let run = |part: usize| {
                    // One cpu of each node, so that two threads share no cache.
                    let core = hierarchy.core(part * 4);
                    let mut cpu = Cpu { core, hierarchy: &hierarchy, accesses: 0, lines: 0 };
                    body(&mut cpu, part as u64, 1);
                    cpu.accesses = 0;
                    start.wait();
                    let cpu_begin = cpu_ns();
                    let begin = Instant::now();
                    body(&mut cpu, part as u64, scale);
                    black_box(cpu.lines);
                    (cpu.accesses, begin.elapsed().as_secs_f64(), cpu_ns() - cpu_begin)
                };
                let done: Vec<(u64, f64, u64)> = std::thread::scope(|scope| {
                    let run = &run;
                    let all: Vec<_> = (0..threads).map(|part| scope.spawn(move || run(part))).collect();
                    all.into_iter().map(|t| t.join().expect("a thread")).collect()
                });
                let accesses: u64 = done.iter().map(|d| d.0).sum();
                let seconds = done.iter().map(|d| d.1).fold(0.0, f64::max);
                println!(
                    "{name:<10}{:<10}{threads:>9}{:>14.1}{:>12.2}",
                    if prefetch { "on" } else { "off" },
                    accesses as f64 / seconds / 1e6,
                    done.iter().map(|d| d.2).sum::<u64>() as f64 / accesses as f64
                );
            }
        }
    }
}
