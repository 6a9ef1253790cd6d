//! Does rule P hold on this cpu? It rests on where a timer's sample lands: one
//! instruction past the one that waited. That was measured on some cpus only, so
//! every recording first samples a loop of its own whose addresses it knows.

use super::perf::event::Body;
use super::perf::open::{PerfSet, PerfSettings, Rings, Target};
use nearfar_decode::{Decoder, FunctionCode, Registers};
use nearfar_host::proc;
use nearfar_host::symbols::Module;
use nearfar_recording::Resolution;
use std::path::Path;

/// Result of the test.
#[derive(Clone, Debug, PartialEq)]
pub enum Skid {
    /// Share of samples whose address was right.
    Holds(f64),
    /// The samples did not lead to the right addresses (share that did).
    Fails(f64),
    /// Could not be tested here.
    Untested,
    /// Not this architecture.
    Unsupported,
}

impl Skid {
    /// For reports.
    pub fn text(&self) -> String {
        match self {
            Skid::Holds(share) => {
                format!("self-test: {:.0} % of samples led to the right address", share * 100.0)
            }
            Skid::Fails(share) => format!(
                "self-test failed: only {:.0} % of samples led to the right address on this cpu, so samples \
                 name functions but no data",
                share * 100.0
            ),
            Skid::Untested => "the self-test could not run here".into(),
            Skid::Unsupported => {
                format!(
                    "samples name functions but no data: decoding is not available on {}",
                    std::env::consts::ARCH
                )
            }
        }
    }
}

/// Bytes of the ring of pointers: larger than second-level caches, so that loads wait.
const BYTES: usize = 4 << 20;
/// CPU time of the test, ns.
const LENGTH_NS: u64 = 20_000_000;
/// Share of right addresses above which rule P is taken to hold. Where it does,
/// 96 to 99 % are right; where samples land anywhere in the loop, at most half.
const ENOUGH: f64 = 0.8;

/// Samples a pointer chase in this process.
pub fn measure_skid() -> Skid {
    // SAFETY: no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let settings = PerfSettings {
        hz: 4000.0,
        faults: false,
        chains: false,
        stack_bytes: 0,
        rings: Rings::Ranks(1),
        memory: None,
    };
    let Ok(mut perf) = PerfSet::open(&Target::Running(vec![me]), &proc::online_cpus(), &settings) else {
        return Skid::Untested;
    };
    let ring = ring_of_pointers();
    perf.enable();
    let begin = proc::monotonic_ns();
    let mut at: *const usize = ring.as_ptr().cast();
    while proc::monotonic_ns() - begin < LENGTH_NS {
        at = chase(at, 10_000);
    }
    perf.disable();
    std::hint::black_box(at);

    let range = ring.as_ptr() as u64..ring.as_ptr() as u64 + BYTES as u64;
    let chase_at = chase as *const () as u64;
    let Some((bias, file)) = own_code(chase_at) else {
        return Skid::Untested;
    };
    let Some(function) = file.code_range(chase_at.wrapping_sub(bias)) else {
        return Skid::Untested;
    };
    let function = function.start.wrapping_add(bias)..function.end.wrapping_add(bias);
    let Some(code) = file.code(function.start.wrapping_sub(bias)..function.end.wrapping_sub(bias)) else {
        return Skid::Untested;
    };
    let mut decoder = Decoder::new();
    let (mut in_loop, mut right) = (0u32, 0u32);
    perf.drain(|event| {
        let Body::Clock { ip, registers, .. } = event.body else { return };
        let Some(registers) = super::events::general_registers(&registers, ip) else { return };
        if !function.contains(&ip) {
            return;
        }
        in_loop += 1;
        let code = FunctionCode { start: function.start, bytes: code, synced: true };
        let resolved = decoder.resolve(0, &Registers { ip, ..registers }, |_| Some(code));
        let known = matches!(resolved.resolution, Resolution::Exact | Resolution::Next | Resolution::Near);
        right += u32::from(known && range.contains(&resolved.address));
    });
    if in_loop < 10 {
        return Skid::Untested;
    }
    let share = f64::from(right) / f64::from(in_loop);
    if share >= ENOUGH { Skid::Holds(share) } else { Skid::Fails(share) }
}

/// Pointers that lead once around the array in steps that no prefetcher follows.
fn ring_of_pointers() -> Vec<*const usize> {
    let n = BYTES / 8;
    let mut ring = vec![std::ptr::null(); n];
    let base: *const *const usize = ring.as_ptr();
    for (i, link) in ring.iter_mut().enumerate() {
        // n is a power of two: a generator with these constants visits every index in
        // one cycle (Hull and Dobell 1962).
        *link = base.wrapping_add((i.wrapping_mul(1_664_525) + 1_013_904_223) % n).cast();
    }
    ring
}

/// Follows `steps` links from `at`. In assembly, so that a debug build samples the same loop.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn chase(mut at: *const usize, steps: usize) -> *const usize {
    // SAFETY: every link points into the ring, which outlives the test; nothing is written.
    unsafe {
        std::arch::asm!(
            "2:",
            "mov {at}, [{at}]",
            "dec {left}",
            "jnz 2b",
            at = inout(reg) at,
            left = inout(reg) steps => _,
            options(nostack, readonly),
        );
    }
    at
}

/// Decoding is not available on other architectures, so nothing is tested there.
#[cfg(not(target_arch = "x86_64"))]
#[inline(never)]
fn chase(at: *const usize, _steps: usize) -> *const usize {
    at
}

/// This executable and its load address.
fn own_code(address: u64) -> Option<(u64, Module)> {
    let me = std::process::id();
    let map = proc::maps(me).into_iter().find(|m| (m.start..m.end).contains(&address))?;
    let file = Module::open(Path::new("/proc/self/exe")).ok()?;
    let bias = file.bias_of_mapping(map.start, map.offset)?;
    Some((bias, file))
}
