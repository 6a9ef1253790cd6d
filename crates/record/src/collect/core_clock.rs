//! How fast a core runs: a chain of additions takes a cycle for each, on every processor of the last twenty years. And how
//! fast it adds to a word in memory again and again: some processors wait for their own store, some know its value.

use std::time::Duration;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

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

/// Additions to a word in memory: 3 to 25 microseconds. // chosen
const IN_PLACE: u64 = 16_384;

/// What an addition to a word in memory takes whose line is the core's own, ns: of some forms of the address the slowest, of
/// each the fastest chain. `None` where that cannot be.
pub fn in_place_ns() -> Option<f64> {
    let of_form = |form: Form| {
        let mut words = Words([0; 4]);
        (0..CHAINS).filter_map(|_| form(&mut words.0)).min()
    };
    let slowest = FORMS.iter().map(|form| of_form(*form)).collect::<Option<Vec<_>>>()?.into_iter().max()?;
    let ns = slowest.as_nanos() as f64 / IN_PLACE as f64;
    (0.01..=1000.0).contains(&ns).then_some(ns)
}

/// Adds to one of the words again and again; the time that it took.
type Form = fn(&mut [u64; 4]) -> Option<Duration>;

/// Words in one cache line.
#[repr(align(64))]
struct Words([u64; 4]);

/// A loop that adds to a word in memory, with the given instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! in_place {
    ($($instruction:literal),*) => {
        |words: &mut [u64; 4]| {
            let begun = Instant::now();
            // SAFETY: what is written is `words`, at most 16 bytes from its begin; registers that change are declared.
            unsafe {
                std::arch::asm!(
                    "2:",
                    $($instruction,)*
                    "sub {left}, 1",
                    "jnz 2b",
                    left = inout(reg) IN_PLACE => _,
                    value = out(reg) _,
                    at = in(reg) words.as_mut_ptr(),
                    one = in(reg) 1u64,
                    options(nostack),
                );
            }
            Some(begun.elapsed()).filter(|took| !took.is_zero())
        }
    };
}

/// An addition of 4 or 8 bytes, by one instruction or three, with one register in the address or two.
#[cfg(target_arch = "x86_64")]
const FORMS: [Form; 4] = [
    in_place!("mov {value}, [{at}]", "add {value}, {one}", "mov [{at}], {value}"),
    in_place!("add qword ptr [{at}], 1", "/* {value} {one} */"),
    in_place!("add dword ptr [{at} + 4], 1", "/* {value} {one} */"),
    in_place!("add qword ptr [{at} + {one}*8], 1", "/* {value} */"),
];

/// Loops are decoded on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
const FORMS: [Form; 1] = [|_| None];

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
