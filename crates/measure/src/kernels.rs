//! What is timed, in instructions that no compiler rewrites: a loop that copies becomes
//! memcpy otherwise, which stores past the caches when it likes.

use nearfar_observed::measured::Kernel;

/// Bytes of a line, and of one turn of every kernel.
pub const LINE: usize = nearfar_machine::LINE_BYTES as usize;
/// What scale and triad multiply with.
pub const SCALAR: f64 = 3.0;

/// Arrays of one thread, each `bytes` long and aligned to a line.
#[derive(Clone, Copy)]
pub struct Arrays {
    /// The one that is stored to, or the one that is read.
    pub a: *mut u8,
    /// First source.
    pub b: *const u8,
    /// Second source.
    pub c: *const u8,
    /// Bytes of each, a multiple of [`LINE`], not 0.
    pub bytes: usize,
}

// SAFETY: a thread's own arrays, handed to it before it starts.
unsafe impl Send for Arrays {}

/// Whether this architecture has the kernel.
pub fn available(kernel: Kernel) -> bool {
    cfg!(target_arch = "x86_64") || !matches!(kernel, Kernel::WriteNt | Kernel::CopyNt | Kernel::TriadNt)
}

/// One pass of `kernel` over the arrays.
///
/// # Safety
/// The arrays that the kernel uses are mapped, writable where it stores, and nothing else's.
#[cfg(target_arch = "x86_64")]
pub unsafe fn pass(kernel: Kernel, arrays: Arrays) {
    use std::arch::asm;
    use std::arch::x86_64::_mm_set1_pd;
    let Arrays { a, b, c, bytes } = arrays;
    // SAFETY: SSE2 is part of x86-64.
    let (one, scalar) = unsafe { (_mm_set1_pd(1.0), _mm_set1_pd(SCALAR)) };
    // Offsets run from -bytes to 0, so that one instruction counts and compares.
    macro_rules! each_line {
        ($($line:expr),+ ; $fence:expr) => {
            // SAFETY: touches [a, a + bytes), and b's and c's where the kernel names them, as promised by
            // the caller; clobbers are named.
            unsafe {
                asm!(
                    "2:",
                    $($line,)+
                    "add {i}, 64",
                    "jnz 2b",
                    $fence,
                    i = inout(reg) -(bytes as isize) => _,
                    a = in(reg) a.add(bytes),
                    b = in(reg) b.wrapping_add(bytes),
                    c = in(reg) c.wrapping_add(bytes),
                    inout("xmm0") one => _, inout("xmm1") one => _,
                    inout("xmm2") one => _, inout("xmm3") one => _,
                    in("xmm7") scalar,
                    options(nostack)
                )
            }
        };
    }
    // One text for ordinary stores and for those past the caches.
    macro_rules! stored {
        ($($line:literal),* ; $store:literal, $fence:literal) => {
            each_line!(
                "/* {b} {c} */", $($line,)*
                concat!($store, " [{a} + {i}], xmm0"), concat!($store, " [{a} + {i} + 16], xmm1"),
                concat!($store, " [{a} + {i} + 32], xmm2"), concat!($store, " [{a} + {i} + 48], xmm3");
                $fence
            )
        };
    }
    macro_rules! copied {
        ($store:literal, $fence:literal) => {
            stored!("movaps xmm0, [{b} + {i}]", "movaps xmm1, [{b} + {i} + 16]",
                "movaps xmm2, [{b} + {i} + 32]", "movaps xmm3, [{b} + {i} + 48]"; $store, $fence)
        };
    }
    macro_rules! triad {
        ($store:literal, $fence:literal) => {
            stored!("movaps xmm0, [{c} + {i}]", "movaps xmm1, [{c} + {i} + 16]",
                "movaps xmm2, [{c} + {i} + 32]", "movaps xmm3, [{c} + {i} + 48]",
                "mulpd xmm0, xmm7", "mulpd xmm1, xmm7", "mulpd xmm2, xmm7", "mulpd xmm3, xmm7",
                "addpd xmm0, [{b} + {i}]", "addpd xmm1, [{b} + {i} + 16]",
                "addpd xmm2, [{b} + {i} + 32]", "addpd xmm3, [{b} + {i} + 48]"; $store, $fence)
        };
    }
    match kernel {
        Kernel::Read => each_line!(
            "/* {b} {c} */", "movaps xmm0, [{a} + {i}]", "movaps xmm1, [{a} + {i} + 16]",
            "movaps xmm2, [{a} + {i} + 32]", "movaps xmm3, [{a} + {i} + 48]"; ""),
        Kernel::Write => stored!(; "movaps", ""),
        Kernel::WriteNt => stored!(; "movntps", "sfence"),
        Kernel::Scale => stored!("movaps xmm0, [{b} + {i}]", "movaps xmm1, [{b} + {i} + 16]",
            "movaps xmm2, [{b} + {i} + 32]", "movaps xmm3, [{b} + {i} + 48]",
            "mulpd xmm0, xmm7", "mulpd xmm1, xmm7", "mulpd xmm2, xmm7", "mulpd xmm3, xmm7"; "movaps", ""),
        Kernel::Add => stored!("movaps xmm0, [{c} + {i}]", "movaps xmm1, [{c} + {i} + 16]",
            "movaps xmm2, [{c} + {i} + 32]", "movaps xmm3, [{c} + {i} + 48]",
            "addpd xmm0, [{b} + {i}]", "addpd xmm1, [{b} + {i} + 16]",
            "addpd xmm2, [{b} + {i} + 32]", "addpd xmm3, [{b} + {i} + 48]"; "movaps", ""),
        Kernel::Copy => copied!("movaps", ""),
        Kernel::CopyNt => copied!("movntps", "sfence"),
        Kernel::Triad => triad!("movaps", ""),
        Kernel::TriadNt => triad!("movntps", "sfence"),
    }
}

/// One pass of `kernel` over the arrays. Volatile accesses, since no compiler merges or drops those.
///
/// # Safety
/// The arrays that the kernel uses are mapped, writable where it stores, and nothing else's.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn pass(kernel: Kernel, arrays: Arrays) {
    let n = arrays.bytes / 8;
    let (a, b, c) = (arrays.a.cast::<f64>(), arrays.b.cast::<f64>(), arrays.c.cast::<f64>());
    // SAFETY: within the arrays, as promised by the caller.
    unsafe {
        match kernel {
            Kernel::Read => (0..n).for_each(|i| {
                a.add(i).read_volatile();
            }),
            Kernel::Write | Kernel::WriteNt => (0..n).for_each(|i| a.add(i).write_volatile(1.0)),
            Kernel::Copy | Kernel::CopyNt => {
                (0..n).for_each(|i| a.add(i).write_volatile(b.add(i).read_volatile()))
            }
            Kernel::Scale => (0..n).for_each(|i| a.add(i).write_volatile(SCALAR * b.add(i).read_volatile())),
            Kernel::Add => (0..n)
                .for_each(|i| a.add(i).write_volatile(b.add(i).read_volatile() + c.add(i).read_volatile())),
            Kernel::Triad | Kernel::TriadNt => (0..n).for_each(|i| {
                a.add(i).write_volatile(b.add(i).read_volatile() + SCALAR * c.add(i).read_volatile())
            }),
        }
    }
}

/// One pass over `bytes` at `at` in four streams side by side, a quarter of it each: loads, or stores.
/// Prefetchers follow each stream by itself, so a core moves more in several than in one.
///
/// # Safety
/// `[at, at + bytes)` is mapped, writable if `store`, aligned to a line, and nothing else's.
pub unsafe fn four_streams(store: bool, at: *mut u8, bytes: usize) {
    let quarter = bytes / 4 / LINE * LINE;
    if quarter == 0 {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::asm;
        use std::arch::x86_64::_mm_set1_pd;
        // SAFETY: SSE2 is part of x86-64.
        let one = unsafe { _mm_set1_pd(1.0) };
        macro_rules! turns {
            ($of:literal) => {
                // SAFETY: touches four quarters of the range that the caller promises; clobbers are named.
                unsafe {
                    asm!(
                        "2:",
                        ".irp at, {a}, {b}, {c}, {d}",
                        ".irp offset, 0, 16, 32, 48",
                        $of,
                        ".endr",
                        ".endr",
                        "add {i}, 64",
                        "jnz 2b",
                        i = inout(reg) -(quarter as isize) => _,
                        a = in(reg) at.add(quarter),
                        b = in(reg) at.add(2 * quarter),
                        c = in(reg) at.add(3 * quarter),
                        d = in(reg) at.add(4 * quarter),
                        in("xmm0") one, out("xmm1") _,
                        options(nostack)
                    )
                }
            };
        }
        if store {
            turns!("movaps [\\at + {i} + \\offset], xmm0")
        } else {
            turns!("movaps xmm1, [\\at + {i} + \\offset]")
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in (0..quarter).step_by(8) {
        for stream in 0..4 {
            // SAFETY: within the range. Volatile accesses, since no compiler merges or drops those.
            unsafe {
                let word = at.add(stream * quarter + i).cast::<u64>();
                if store {
                    word.write_volatile(1)
                } else {
                    std::hint::black_box(word.read_volatile());
                }
            }
        }
    }
}

/// Instructions of a triad per line on x86-64: 4 loads, 4 multiplications, 4 additions from memory, 4
/// stores, the counter and the branch.
#[cfg(target_arch = "x86_64")]
pub const TRIAD_INSTRUCTIONS: Option<f64> = Some(18.0);
/// What a compiler makes of the loop elsewhere is not known.
#[cfg(not(target_arch = "x86_64"))]
pub const TRIAD_INSTRUCTIONS: Option<f64> = None;

/// Follows `steps` pointers from `at`; where it ends.
///
/// # Safety
/// `at` begins a chain of pointers without an end, all of it readable.
pub unsafe fn follow(mut at: *const *const u8, steps: usize) -> *const u8 {
    for _ in 0..steps {
        // SAFETY: every element points to another, as promised by the caller. Volatile: each load is made.
        at = unsafe { at.read_volatile() }.cast();
    }
    at.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_streams_store_everywhere() {
        #[repr(align(64))]
        struct Aligned([f64; 72]);
        let mut all = Aligned([9.0; 72]);
        // SAFETY: eight of nine lines, which are this test's own.
        unsafe {
            four_streams(false, all.0.as_mut_ptr().cast(), 8 * LINE);
            assert!(all.0.iter().all(|&x| x == 9.0));
            four_streams(true, all.0.as_mut_ptr().cast(), 8 * LINE);
        }
        assert!(all.0[..64].iter().all(|&x| x != 9.0) && all.0[64..].iter().all(|&x| x == 9.0));
    }

    #[test]
    fn every_kernel_computes_what_its_name_says() {
        #[repr(align(64))]
        struct Aligned([f64; 32]);
        for kernel in
            [Kernel::MATRIX.as_slice(), &Kernel::STREAM].concat().into_iter().filter(|&k| available(k))
        {
            let (mut a, mut b, mut c) = (Aligned([9.0; 32]), Aligned([0.0; 32]), Aligned([0.0; 32]));
            for i in 0..32 {
                (b.0[i], c.0[i]) = (i as f64, 100.0 * i as f64);
            }
            // The last line is left alone.
            let arrays = Arrays {
                a: a.0.as_mut_ptr().cast(),
                b: b.0.as_ptr().cast(),
                c: c.0.as_ptr().cast(),
                bytes: 3 * LINE,
            };
            // SAFETY: three lines of arrays of four, which are this test's own.
            unsafe { pass(kernel, arrays) };
            for i in 0..32 {
                let expected = match kernel {
                    _ if i >= 24 => 9.0,
                    Kernel::Read => 9.0,
                    Kernel::Write | Kernel::WriteNt => 1.0,
                    Kernel::Copy | Kernel::CopyNt => i as f64,
                    Kernel::Scale => 3.0 * i as f64,
                    Kernel::Add => 101.0 * i as f64,
                    Kernel::Triad | Kernel::TriadNt => 301.0 * i as f64,
                };
                assert_eq!(a.0[i], expected, "{kernel:?} {i}");
            }
        }
    }
}
