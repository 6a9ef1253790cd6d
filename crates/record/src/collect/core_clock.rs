//! How fast a core runs: a chain of additions takes a cycle for each, on every processor of the last twenty years.

use std::time::{Duration, Instant};

/// Additions of a chain: about 15 microseconds, so that most chains are not interrupted. // chosen
const ADDITIONS: u64 = 65_536;
/// Chains that are timed; the fastest counts. // chosen: less than half a millisecond in all
const CHAINS: usize = 24;

/// Fastest clock of the cpus that this ran on, GHz; `None` where that cannot be.
pub fn core_ghz() -> Option<f64> {
    let fastest = (0..CHAINS).filter_map(|_| chain()).min()?;
    let ghz = ADDITIONS as f64 / fastest.as_nanos() as f64;
    (0.1..=20.0).contains(&ghz).then_some(ghz)
}

/// Time of a chain.
#[cfg(target_arch = "x86_64")]
fn chain() -> Option<Duration> {
    let begun = Instant::now();
    // SAFETY: registers alone are changed, and they are declared.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "add {sum}, {left}",
            "sub {left}, 8",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            left = inout(reg) ADDITIONS => _,
            options(nostack, nomem),
        );
    }
    Some(begun.elapsed()).filter(|took| !took.is_zero())
}

/// Loops are decoded on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
fn chain() -> Option<Duration> {
    None
}
