//! `fma` and `fmaf` for QEMU itself, if this library is preloaded into it (LD_PRELOAD).
//!
//! QEMU emulates a fused multiply-add by calling the host's `fma`. Its own code around that call is
//! SSE; the C library's is AVX with FMA. If the upper halves of the vector registers are not zero at
//! that point, some processors save or merge them at every switch between the two, which was measured
//! at 158 ns instead of 3. Clearing them first removes the switch; nothing is lost, since a
//! caller's upper halves do not survive a call.
//!
//! The results are the processor's, correctly rounded as IEEE 754 has it, and so are the exception flags,
//! from which QEMU's emulation draws conclusions.

use std::arch::asm;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// 0 not asked yet, 1 the processor has FMA, 2 it has not.
static FMA: AtomicU8 = AtomicU8::new(0);

#[cold]
fn ask() -> bool {
    let has = std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("avx");
    FMA.store(if has { 1 } else { 2 }, Ordering::Relaxed);
    has
}

#[inline]
fn has_fma() -> bool {
    match FMA.load(Ordering::Relaxed) {
        0 => ask(),
        known => known == 1,
    }
}

/// x·y + z, rounded once.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
    if !has_fma() {
        return libm_fma(x, y, z);
    }
    let mut result = x;
    // SAFETY: has_fma() says that the processor knows both instructions. vzeroupper clears the upper
    // halves of all vector registers, which the compiler does not use: the lower halves, where x, y
    // and z are, it leaves alone.
    unsafe {
        asm!("vzeroupper", "vfmadd213sd {x}, {y}, {z}", x = inout(xmm_reg) result, y = in(xmm_reg) y,
             z = in(xmm_reg) z, options(pure, nomem, nostack, preserves_flags));
    }
    result
}

/// x·y + z, rounded once, in single precision.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
    if !has_fma() {
        return libm_fmaf(x, y, z);
    }
    let mut result = x;
    // SAFETY: as in `fma`.
    unsafe {
        asm!("vzeroupper", "vfmadd213ss {x}, {y}, {z}", x = inout(xmm_reg) result, y = in(xmm_reg) y,
             z = in(xmm_reg) z, options(pure, nomem, nostack, preserves_flags));
    }
    result
}

/// The next `fma` in the order of lookup: the C library's.
fn libm_fma(x: f64, y: f64, z: f64) -> f64 {
    static NEXT: OnceLock<usize> = OnceLock::new();
    let address = *NEXT.get_or_init(|| next(c"fma"));
    // SAFETY: C's fma has this type.
    let fma: extern "C" fn(f64, f64, f64) -> f64 = unsafe { std::mem::transmute(address) };
    fma(x, y, z)
}

/// The same for `fmaf`.
fn libm_fmaf(x: f32, y: f32, z: f32) -> f32 {
    static NEXT: OnceLock<usize> = OnceLock::new();
    let address = *NEXT.get_or_init(|| next(c"fmaf"));
    // SAFETY: C's fmaf has this type.
    let fmaf: extern "C" fn(f32, f32, f32) -> f32 = unsafe { std::mem::transmute(address) };
    fmaf(x, y, z)
}

/// Our own comes first in that order only where this library was preloaded; elsewhere the C library is
/// asked by name. Aborts if there is none: then the caller had no `fma` before either.
fn next(name: &CStr) -> usize {
    // SAFETY: both names end with a zero; a handle that could not be had is not used.
    let address = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        let libm = if next.is_null() { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_LAZY) } else { next };
        if next.is_null() && !libm.is_null() { libc::dlsym(libm, name.as_ptr()) } else { next }
    };
    assert!(!address.is_null(), "no C library with {name:?} in this process");
    address as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all kinds: every exponent, both signs, zeros, subnormals, infinities, NaN.
    fn numbers() -> Vec<f64> {
        let mut state = 1u64;
        let mut all =
            vec![0.0, -0.0, 1.0, -1.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::INFINITY, f64::NAN];
        for exponent in (0..2047u64).step_by(31) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all.push(f64::from_bits(exponent << 52 | state >> 12));
            all.push(-f64::from_bits(exponent << 52 | (state >> 12) & !0xffff));
        }
        all
    }

    #[test]
    fn every_result_is_the_c_librarys() {
        let numbers = numbers();
        for &x in &numbers {
            for &y in &numbers {
                // z near −x·y cancels, so that only a single rounding gives the right answer.
                for z in [-(x * y), x * y * 1.000_000_1, 1.0, -0.0, 3e-310, f64::INFINITY] {
                    let (ours, theirs) = (fma(x, y, z), libm_fma(x, y, z));
                    let same = ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan();
                    assert!(same, "{x:e}·{y:e}+{z:e}: {ours:e}, not {theirs:e}");
                    let (a, b, c) = (x as f32, y as f32, z as f32);
                    let (ours, theirs) = (fmaf(a, b, c), libm_fmaf(a, b, c));
                    let same = ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan();
                    assert!(same, "{a:e}·{b:e}+{c:e}: {ours:e}, not {theirs:e}");
                }
            }
        }
    }

    #[test]
    fn it_rounds_once() {
        // (1 + 2^-30)(1 − 2^-30) = 1 − 2^-60, which a rounded product does not show.
        let tiny = (-30f64).exp2();
        assert_eq!(fma(1.0 + tiny, 1.0 - tiny, -1.0), -(-60f64).exp2());
    }
}
