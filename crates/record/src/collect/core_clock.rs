//! How fast a core runs: a chain of additions takes a cycle for each, on every processor of the last twenty years. And how
//! fast it adds to a word in memory again and again: some processors wait for their own store, some know its value. And by how much
//! slower it is while the program runs: a clock rises and falls, and what runs on the core's other thread takes half of its pipes,
//! which a virtual machine does not see.

use std::time::Duration;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

/// Additions of a chain: about 15 microseconds, so that most chains are not interrupted. // chosen
const ADDITIONS: u64 = 65_536;
/// Chains that are timed; the fastest counts. // chosen: less than half a millisecond in all
const CHAINS: usize = 24;

/// Fastest clock of the cpus that this ran on, GHz; `None` where that cannot be.
pub fn core_ghz() -> Option<f64> {
    let fastest = (0..CHAINS).filter_map(|_| chain(ADDITIONS)).min()?;
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

/// A loop of eight additions to registers.
#[cfg(target_arch = "x86_64")]
macro_rules! additions {
    ($additions:expr, $($register:literal),*) => {{
        let begun = Instant::now();
        // SAFETY: registers alone are changed, and they are declared.
        unsafe {
            std::arch::asm!(
                "2:",
                $(concat!("add ", $register, ", {left}"),)*
                "sub {left}, 8",
                "jnz 2b",
                left = inout(reg) $additions => _,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                options(nostack, nomem),
            );
        }
        Some(begun.elapsed()).filter(|took| !took.is_zero())
    }};
}

/// Time of a chain of so many additions, a multiple of 8.
#[cfg(target_arch = "x86_64")]
fn chain(additions: u64) -> Option<Duration> {
    additions!(additions, "r8", "r8", "r8", "r8", "r8", "r8", "r8", "r8")
}

/// Time of so many additions, of which four do not wait for each other.
#[cfg(target_arch = "x86_64")]
fn abreast(additions: u64) -> Option<Duration> {
    additions!(additions, "r8", "r9", "r10", "r11", "r8", "r9", "r10", "r11")
}

/// Loops are decoded on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
fn chain(_: u64) -> Option<Duration> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn abreast(_: u64) -> Option<Duration> {
    None
}

/// Additions of a beat: 3 microseconds one by one, and as long abreast. // chosen
const BEAT: [u64; 2] = [8192, 24_576];
/// Additions that every core of `nearfar_decode` can do in a cycle, with the loop around them: four in 2.25 cycles, rounded down. // chosen
const ABREAST: f64 = 3.0;
/// Time between two beats. // chosen: both kinds twice take 0.02 % of it
const EVERY: Duration = Duration::from_millis(50);
/// Beats that are kept; when there are more, every second one goes. // chosen
const KEPT: usize = 8192;
/// Beats below which nothing is said. // chosen
const LEAST: usize = 8;
/// Most that a beat counts for: one that took longer was interrupted. // chosen
const SLOWEST: f64 = 4.0;

/// By how much cores are slower than at their fastest while the program runs.
pub struct Beats {
    /// ns of a beat one by one, and abreast.
    took: Vec<[f64; 2]>,
    every: Duration,
    last: Option<Instant>,
}

impl Default for Beats {
    fn default() -> Beats {
        Beats { took: Vec::new(), every: EVERY, last: None }
    }
}

impl Beats {
    /// Times one, if it is time; of two after each other the faster, as the first one's code is not in a cache yet.
    pub fn beat(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() < self.every) {
            return;
        }
        self.last = Some(Instant::now());
        let faster = |timed: fn(u64) -> Option<Duration>, additions| {
            Some(timed(additions)?.min(timed(additions)?).as_nanos() as f64)
        };
        if let (Some(one), Some(abreast)) = (faster(chain, BEAT[0]), faster(abreast, BEAT[1])) {
            self.keep([one, abreast]);
        }
    }

    fn keep(&mut self, took: [f64; 2]) {
        self.took.push(took);
        if self.took.len() > KEPT {
            let mut nth = 0;
            self.took.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.every *= 2;
        }
    }

    /// How many times longer than at the fastest clock, with the core for itself, the same instructions took, in the mean; `None` if
    /// that is not known. `ghz`: the fastest clock.
    pub fn slowdown(&self, ghz: f64) -> Option<f64> {
        if self.took.len() < LEAST {
            return None;
        }
        let least = |i: usize, cycles: f64| self.took.iter().map(|took| took[i]).fold(cycles / ghz, f64::min);
        let fastest = [least(0, BEAT[0] as f64), least(1, BEAT[1] as f64 / ABREAST)];
        let of_beat = |took: &[f64; 2]| (took[0] / fastest[0]).max(took[1] / fastest[1]).clamp(1.0, SLOWEST);
        Some(self.took.iter().map(of_beat).sum::<f64>() / self.took.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_as_slow_as_the_slower_kind_and_an_interrupted_one_counts_four_times() {
        let beats = |took: &[[f64; 2]]| Beats { took: took.to_vec(), ..Beats::default() };
        // 2 GHz: a chain takes 4,096 ns, and three abreast take as long.
        let own = [4096.0, 4096.0];
        assert_eq!(beats(&[own; 7]).slowdown(2.0), None, "too few");
        assert_eq!(beats(&[own; 8]).slowdown(2.0), Some(1.0));
        // Another program has the core's other thread all the time.
        assert_eq!(beats(&[[4096.0, 8192.0]; 8]).slowdown(2.0), Some(2.0));
        // The clock is half of the fastest.
        assert_eq!(beats(&[[8192.0, 8192.0]; 8]).slowdown(2.0), Some(2.0));
        let mut mixed = [own; 8];
        mixed[3] = [1e6, 4096.0];
        assert_eq!(beats(&mixed).slowdown(2.0), Some((7.0 + 4.0) / 8.0));
        // A core that adds four in a cycle.
        let mut wide = [[4096.0, 3072.0]; 8];
        wide[0] = own;
        assert!((beats(&wide).slowdown(2.0).unwrap() - (7.0 + 4.0 / 3.0) / 8.0).abs() < 1e-9);
    }

    #[test]
    fn hours_are_kept_in_few_beats() {
        let mut beats = Beats::default();
        (0..3 * KEPT).for_each(|_| beats.keep([1.0, 1.0]));
        assert!(beats.took.len() <= KEPT && beats.every > EVERY);
    }
}
