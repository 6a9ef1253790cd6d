//! Whether a node's pages are all equally far. Firmware that interleaves nodes shows one node
//! whose pages are of several memories in turns, and so may a hypervisor: latency page by page
//! then has two peaks where a true node has one.

use serde::Serialize;

/// Latency of pages of one node, each the least of several loads of lines that no cache had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageLatency {
    /// Pages measured.
    pub pages: u32,
    /// Width of a bin, ns.
    pub bin_ns: f64,
    /// First bin's low end, ns.
    pub from_ns: f64,
    /// Pages in each bin.
    pub bins: Vec<u32>,
    /// Pages that are in none: as many of the slowest as of the fastest.
    pub left_out: u32,
    /// One peak, or two where the latencies fall into two separate groups; empty: see `why`.
    pub peaks: Vec<Peak>,
    /// Why there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A group of pages alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Median latency, ns.
    pub ns: f64,
    /// Part of the pages.
    pub share: f64,
}

/// Slowest pages that are left out, and as many of the fastest: interrupts and lines that a cache had, not
/// distance.
const TAIL: f64 = 0.02;
/// A group smaller than this is not a memory of its own.
const LEAST_SHARE: f64 = 0.1;
/// Memory of another socket costs at least so much more (published two-socket machines: 1.4 to 2.2).
const LEAST_RATIO: f64 = 1.2;
/// Part of the pages that may be in the middle half of the way from one group to the other.
const MOST_BETWEEN: f64 = 0.05;
/// Columns of the histogram.
const BINS: usize = 24;

impl PageLatency {
    /// Of at least twenty latencies, ns; `None` of fewer.
    pub fn of(values: &[f64]) -> Option<PageLatency> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite() && *v > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < 20 {
            return None;
        }
        let tail = (sorted.len() as f64 * TAIL) as usize;
        let kept = &sorted[tail..sorted.len() - tail];
        let (low, high) = (kept[0], kept[kept.len() - 1]);
        // Whole numbers, so that a person can read the columns.
        let bin_ns = ((high - low) / BINS as f64).max(1.0).ceil();
        let from_ns = (low / bin_ns).floor() * bin_ns;
        let mut bins = vec![0; ((high - from_ns) / bin_ns) as usize + 1];
        for value in kept {
            bins[((value - from_ns) / bin_ns) as usize] += 1;
        }
        Some(PageLatency {
            pages: sorted.len() as u32,
            bin_ns,
            from_ns,
            bins,
            left_out: 2 * tail as u32,
            peaks: peaks(kept),
            why: None,
        })
    }

    /// Without figures.
    pub fn unknown(why: String) -> PageLatency {
        PageLatency {
            pages: 0,
            bin_ns: 0.0,
            from_ns: 0.0,
            bins: Vec::new(),
            left_out: 0,
            peaks: Vec::new(),
            why: Some(why),
        }
    }
}

/// One group, or two: the cut with the least squares inside the groups, if what it cuts is apart.
fn peaks(sorted: &[f64]) -> Vec<Peak> {
    let n = sorted.len();
    let middle = |part: &[f64]| part[part.len() / 2];
    let one = vec![Peak { ns: middle(sorted), share: 1.0 }];
    let all: f64 = sorted.iter().sum();
    let mut below = 0.0;
    let (mut best, mut cut) = (f64::MIN, 0);
    for i in 1..n {
        below += sorted[i - 1];
        // Most between the groups is least inside them.
        let between = below * below / i as f64 + (all - below) * (all - below) / (n - i) as f64;
        if between > best {
            (best, cut) = (between, i);
        }
    }
    let (near, far) = sorted.split_at(cut);
    let share = |part: &[f64]| part.len() as f64 / n as f64;
    let (a, b) = (middle(near), middle(far));
    let quarter = (b - a) / 4.0;
    let between = sorted.iter().filter(|v| (a + quarter..b - quarter).contains(*v)).count() as f64;
    let apart = share(near).min(share(far)) >= LEAST_SHARE
        && b / a >= LEAST_RATIO
        && between <= MOST_BETWEEN * n as f64;
    if apart {
        return vec![Peak { ns: a, share: share(near) }, Peak { ns: b, share: share(far) }];
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_analyze::stats::Random;

    /// Latencies as machines have them: a peak, a shoulder of row misses, a tail of interrupts.
    fn pages(random: &mut Random, at: f64, count: usize) -> Vec<f64> {
        let mut unit = || random.below(1 << 20) as f64 / f64::from(1 << 20);
        (0..count)
            .map(|_| {
                let spread = unit() + unit() + unit() - 1.5;
                let slow = if unit() < 0.03 { at * 3.0 * unit() } else { 0.0 };
                let row = if unit() < 0.3 { 0.12 * at } else { 0.0 };
                at * (1.0 + 0.05 * spread) + row + slow
            })
            .collect()
    }

    #[test]
    fn one_memory_never_has_two_peaks() {
        for seed in 1..500 {
            let found = PageLatency::of(&pages(&mut Random::new(seed), 95.0, 1000)).unwrap();
            assert_eq!(found.peaks.len(), 1, "{seed}: {found:?}");
            assert!((found.peaks[0].ns - 97.0).abs() < 6.0, "{found:?}");
            assert_eq!(found.bins.iter().sum::<u32>() + found.left_out, 1000);
        }
    }

    #[test]
    fn two_memories_shown_as_one_are_found() {
        for seed in 1..200 {
            let mut random = Random::new(seed);
            let mut mixed = pages(&mut random, 90.0, 600);
            mixed.extend(pages(&mut random, 145.0, 400));
            let found = PageLatency::of(&mixed).unwrap();
            let [near, far] = found.peaks[..] else { panic!("{seed}: {found:?}") };
            assert!((near.ns - 92.0).abs() < 6.0 && (far.ns - 149.0).abs() < 9.0, "{found:?}");
            assert!((near.share - 0.6).abs() < 0.05, "{found:?}");
        }
    }

    #[test]
    fn few_pages_say_nothing() {
        assert_eq!(PageLatency::of(&[90.0; 19]), None);
    }
}
