//! Where the frames of memory are in shared caches.
//!
//! The guest's kernel has just booted and gives out frames in order. Arrays that a loop initialises side by side then get every
//! so many frames, and where that shares a factor with the colours of a cache (its sets over the lines of a page), an array has
//! half of the sets or fewer for itself. Memory elsewhere gets frames in another order, and the same program other misses:
//! a property of that one boot. A kernel that has run for days gives frames in no order. So here frames are scattered, always
//! in the same way. Eight frames in a row stay eight in a row in another order, so do eight times eight, and the 512 of a huge page:
//! what is contiguous fills the sets evenly, as it would unscattered.

/// log2 of the lines of a page of 4 KiB.
const LINES: u32 = 6;
/// log2 of the frames whose order a step changes, and the steps.
const DIGIT: u32 = 3;
/// Odd numbers whose multiples' highest bits are spread evenly: the golden ratio, and MurmurHash3's two.
const SPREAD: [u32; 3] = [0x9e37_79b1, 0x85eb_ca6b, 0xc2b2_ae35];

/// A line's number with its frame scattered; different lines stay different.
#[inline(always)]
pub(super) fn scattered(line: u64) -> u64 {
    let frame = (line >> LINES) as u32;
    // Each digit changes by what is above it, so that the digits above can be told back, and with them this one.
    let digit =
        |at: u32| frame.wrapping_shr(DIGIT * (at + 1)).wrapping_mul(SPREAD[at as usize]) >> (32 - DIGIT);
    let changed = digit(0) | digit(1) << DIGIT | digit(2) << (2 * DIGIT);
    line ^ u64::from(changed) << LINES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_contiguous_stays_together() {
        for frames in [1, 8, 64, 512] {
            let lines = frames * 64;
            for block in [0, 77, 1001] {
                let all: BTreeSet<u64> = (block * lines..(block + 1) * lines).map(scattered).collect();
                let (first, last) = (all.first().unwrap(), all.last().unwrap());
                assert_eq!(
                    (all.len() as u64, last - first + 1, first % lines),
                    (lines, lines, 0),
                    "{frames}"
                );
                assert!(frames < 512 || *first == block * lines, "a huge page stays where it is");
            }
        }
    }

    /// Pages of each colour, the most over the mean, of frames that are so many apart.
    fn unevenness(apart: u64, colours: usize, index: impl Fn(u64) -> u64) -> f64 {
        let mut pages = vec![0; colours];
        for page in 0..28 * colours as u64 {
            pages[(index((40_000 + apart * page) * 64) / 64) as usize % colours] += 1;
        }
        f64::from(*pages.iter().max().unwrap()) / 28.0
    }

    #[test]
    fn frames_at_any_distance_get_all_colours() {
        for colours in [6, 8, 12, 16, 64, 256] {
            let mean = |index: &dyn Fn(u64) -> u64| {
                (1..=64).map(|apart| unevenness(apart, colours, index)).sum::<f64>() / 64.0
            };
            let (plain, here) = (mean(&|line| line), mean(&scattered));
            assert!(plain > 2.4 && here < 1.6, "{colours} colours: {plain:.2} in order, {here:.2} here");
            assert!(unevenness(1, colours, scattered) < 1.1, "{colours}");
        }
    }
}
