//! Floating-point operations per second: independent chains of multiply-add in registers, by the
//! widest instructions that this processor has, on every core of a node at once.

use super::bench::{Bench, Effort, pin, spread};
use nearfar_observed::measured::{Flops, Measured, Spread};
use std::sync::Barrier;
use std::time::Instant;

/// Accumulators: more than latency times units (4 cycles and 2 on most cores, 5 and 2 on some).
const CHAINS: usize = 12;

/// Each node's cores.
pub fn run(bench: &mut Bench, measured: &mut Measured) {
    let nodes: Vec<_> = bench.nodes().into_iter().map(|(node, _)| (node, bench.cores(node))).collect();
    let effort = bench.effort(4.0, 0.4, 2 * nodes.len());
    let unit = Unit::here();
    for (node, cpus) in nodes {
        bench.say(&format!("arithmetic of node {node}"));
        measured.flops.push(Flops {
            node,
            cores: cpus.len() as u32,
            instructions: unit.name().into(),
            f64_gflops: gflops(unit, false, &cpus, &effort).into(),
            f32_gflops: gflops(unit, true, &cpus, &effort).into(),
        });
    }
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Fma,
    #[cfg(target_arch = "x86_64")]
    Avx,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    None,
}

impl Unit {
    #[cfg(target_arch = "x86_64")]
    fn here() -> Unit {
        if std::arch::is_x86_feature_detected!("avx512f") {
            Unit::Avx512
        } else if std::arch::is_x86_feature_detected!("fma") {
            Unit::Fma
        } else if std::arch::is_x86_feature_detected!("avx") {
            Unit::Avx
        } else {
            Unit::Sse2
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn here() -> Unit {
        Unit::Neon
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn here() -> Unit {
        Unit::None
    }

    fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512 => "AVX-512 FMA",
            #[cfg(target_arch = "x86_64")]
            Unit::Fma => "AVX2 FMA",
            #[cfg(target_arch = "x86_64")]
            Unit::Avx => "AVX multiplications and additions",
            #[cfg(target_arch = "x86_64")]
            Unit::Sse2 => "SSE2 multiplications and additions",
            #[cfg(target_arch = "aarch64")]
            Unit::Neon => "NEON FMA",
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            Unit::None => "nothing",
        }
    }

    /// Bytes of a register; 0 if no kernel exists.
    fn width(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512 => 64,
            #[cfg(target_arch = "x86_64")]
            Unit::Fma | Unit::Avx => 32,
            #[cfg(target_arch = "x86_64")]
            Unit::Sse2 => 16,
            #[cfg(target_arch = "aarch64")]
            Unit::Neon => 16,
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            Unit::None => 0,
        }
    }
}

/// 10⁹ operations per second of all cpus together.
fn gflops(unit: Unit, single: bool, cpus: &[u32], effort: &Effort) -> Result<Spread, String> {
    if unit.width() == 0 {
        return Err("not written for this architecture".into());
    }
    if cpus.is_empty() {
        return Err("no core of it may be used".into());
    }
    // A multiplication and an addition for each number in each chain.
    let each = (CHAINS * 2 * unit.width() / if single { 4 } else { 8 }) as f64;
    let barrier = Barrier::new(cpus.len());
    let turns = (effort.seconds * 2e8) as usize + 1;
    let one = |cpu: u32| -> Result<Vec<(Instant, Instant)>, String> {
        let pinned = pin(cpu);
        barrier.wait();
        pinned?;
        compute(unit, single, turns);
        Ok((0..effort.runs)
            .map(|_| {
                let begin = Instant::now();
                compute(unit, single, turns);
                (begin, Instant::now())
            })
            .collect())
    };
    let times: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || one(cpu))).collect();
        let join =
            |t: std::thread::ScopedJoinHandle<_>| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        threads.into_iter().map(join).collect::<Result<_, String>>()
    })?;
    // Each core by its own clock: they work at once, but nothing makes them end at once.
    let rate = |run: usize| -> f64 {
        let one = |t: &Vec<(Instant, Instant)>| turns as f64 * each / (t[run].1 - t[run].0).as_secs_f64();
        times.iter().map(one).sum::<f64>() / 1e9
    };
    spread(&(0..effort.runs).map(rate).collect::<Vec<f64>>())
}

/// `turns` times one operation on each chain. The numbers stay near 2: nothing overflows or vanishes.
#[cfg(target_arch = "x86_64")]
fn compute(unit: Unit, single: bool, turns: usize) {
    use std::arch::asm;
    let (half64, half32) = ([0.5f64; 8], [0.5f32; 16]);
    let (one64, one32) = ([1.0f64; 8], [1.0f32; 16]);
    let half: *const u8 = if single { half32.as_ptr().cast() } else { half64.as_ptr().cast() };
    let one: *const u8 = if single { one32.as_ptr().cast() } else { one64.as_ptr().cast() };
    macro_rules! chains {
        ($load:literal, $register:literal, $($step:literal),+ ; $end:literal) => {
            // SAFETY: reads 64 bytes at two addresses of this function's own; the processor has the
            // instructions (`Unit::here`); all registers used are named.
            unsafe {
                asm!(
                    concat!($load, " ", $register, "14, [{half}]"),
                    concat!($load, " ", $register, "15, [{one}]"),
                    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                    concat!($load, " ", $register, "\\n, [{one}]"),
                    ".endr",
                    "2:",
                    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                    $($step,)+
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    $end,
                    turns = inout(reg) turns.max(1) => _, half = in(reg) half, one = in(reg) one,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm14") _, out("xmm15") _,
                    options(nostack, readonly)
                )
            }
        };
    }
    match (unit, single) {
        (Unit::Avx512, false) => {
            chains!("vmovupd", "zmm", "vfmadd213pd zmm\\n, zmm14, zmm15"; "vzeroupper")
        }
        (Unit::Avx512, true) => {
            chains!("vmovupd", "zmm", "vfmadd213ps zmm\\n, zmm14, zmm15"; "vzeroupper")
        }
        (Unit::Fma, false) => chains!("vmovupd", "ymm", "vfmadd213pd ymm\\n, ymm14, ymm15"; "vzeroupper"),
        (Unit::Fma, true) => chains!("vmovupd", "ymm", "vfmadd213ps ymm\\n, ymm14, ymm15"; "vzeroupper"),
        (Unit::Avx, false) => {
            chains!("vmovupd", "ymm", "vmulpd ymm\\n, ymm\\n, ymm14", "vaddpd ymm\\n, ymm\\n, ymm15"; "vzeroupper")
        }
        (Unit::Avx, true) => {
            chains!("vmovupd", "ymm", "vmulps ymm\\n, ymm\\n, ymm14", "vaddps ymm\\n, ymm\\n, ymm15"; "vzeroupper")
        }
        (Unit::Sse2, false) => chains!("movupd", "xmm", "mulpd xmm\\n, xmm14", "addpd xmm\\n, xmm15"; ""),
        (Unit::Sse2, true) => chains!("movupd", "xmm", "mulps xmm\\n, xmm14", "addps xmm\\n, xmm15"; ""),
    }
}

/// `turns` times one operation on each chain. Sums of tiny products: nothing overflows.
#[cfg(target_arch = "aarch64")]
fn compute(_: Unit, single: bool, turns: usize) {
    use std::arch::asm;
    macro_rules! chains {
        ($kind:literal) => {
            // SAFETY: registers only, all of them named; NEON is part of aarch64.
            unsafe {
                asm!(
                    "fmov v14.2d, #0.5",
                    "fmov v15.2d, #0.5",
                    "2:",
                    ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                    // Without the parentheses the point would belong to the name.
                    concat!("fmla v\\n\\()", $kind, ", v14", $kind, ", v15", $kind),
                    ".endr",
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    turns = inout(reg) turns.max(1) => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                    out("v14") _, out("v15") _,
                    options(nostack, nomem)
                )
            }
        };
    }
    if single { chains!(".4s") } else { chains!(".2d") }
}

/// No kernel exists; `width` reports it.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn compute(_: Unit, _: bool, _: usize) {}
