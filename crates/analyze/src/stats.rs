//! Intervals of shares.
//!
//! Consecutive samples resemble each other (a program stays in a loop), so the
//! binomial interval of n samples is too narrow. We use a block bootstrap:
//! time is cut into contiguous blocks, blocks are drawn with replacement, and
//! the share is recomputed 1000 times (Carlstein 1986, Ann. Statist. 14,
//! 1171–1179, for disjoint blocks; Künsch 1989, Ann. Statist. 17, 1217–1241, for
//! blocks in general). Disjoint blocks because they need one addition per sample.
//!
//! Two guards: the interval is never narrower than Wilson's (Wilson 1927, JASA
//! 22, 209–212) at the effective sample size, since few or equal blocks know
//! nothing about their own spread; and 0 of n and n of n, where a bootstrap
//! always answers "no spread", get the exact bound of Clopper & Pearson (1934,
//! Biometrika 26, 404–413), which has a closed form there: 1 − (α/2)^(1/n).

use super::value::Interval;

/// Fewest samples for a verdict: at 300, a true 5 % is distinguished from 10 % in 19 of 20 recordings.
pub const LEAST_SAMPLES: u64 = 300;

/// Fewest samples of an object, a phase or another part: below, a share of them is an anecdote.
pub const LEAST_OF_A_PART: u64 = 20;

/// Two-sided error probability of every interval: 95 % intervals.
const ALPHA: f64 = 0.05;
/// Normal quantile of 1 − α/2.
const Z: f64 = 1.959_964;
/// Bootstrap resamples; 1000 is the usual least number for percentile intervals (Efron & Tibshirani 1993, ch. 13).
const RESAMPLES: usize = 1000;
/// Number of time blocks that the pass keeps; fewer are made by merging neighbours.
pub const BLOCKS: usize = 200;
/// Fewest blocks the bootstrap draws from.
const MIN_BLOCKS: usize = 20;

/// Sums over some samples. Integers, so that the order in which threads add does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of samples.
    pub samples: u64,
    /// Sum of weights.
    pub weight: u64,
    /// Sum of squared weights, for the effective sample size.
    pub squares: u128,
}

impl Sum {
    /// Adds one sample.
    #[inline]
    pub fn add(&mut self, weight: u64) {
        self.samples += 1;
        self.weight += weight;
        self.squares += u128::from(weight) * u128::from(weight);
    }
    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        self.samples += other.samples;
        self.weight += other.weight;
        self.squares += other.squares;
    }
    /// Kish's effective sample size (Kish 1965, Survey Sampling): (Σw)² / Σw².
    pub fn effective(&self) -> f64 {
        if self.squares == 0 {
            return 0.0;
        }
        (self.weight as f64).powi(2) / self.squares as f64
    }
}

/// Numerator and denominator of a share in one block of time, as weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Weight that counts.
    pub part: u64,
    /// Weight it is a share of.
    pub whole: u64,
}

/// The blocks of one of many rows: those that hold anything, in order, until they are many. A hundred thousand
/// objects with a sample or two each would take 3 KiB each otherwise.
#[derive(Clone, Debug, Default)]
pub struct SparseBlocks {
    held: Vec<(u8, Block)>,
}

const _: () = assert!(BLOCKS <= 256, "a block's number is a byte");

impl SparseBlocks {
    /// Adds to a block.
    #[inline]
    pub fn add(&mut self, number: usize, part: u64, whole: u64) {
        let number = number as u8;
        let at = match self.held.last() {
            // Samples come in the order of time, mostly.
            Some(last) if last.0 == number => self.held.len() - 1,
            Some(last) if last.0 > number => match self.held.binary_search_by_key(&number, |b| b.0) {
                Ok(at) => at,
                Err(at) => {
                    self.held.insert(at, (number, Block::default()));
                    at
                }
            },
            _ => {
                self.held.push((number, Block::default()));
                self.held.len() - 1
            }
        };
        let block = &mut self.held[at].1;
        block.part += part;
        block.whole += whole;
    }

    /// Adds another's blocks.
    pub fn merge(&mut self, other: &SparseBlocks) {
        other.held.iter().for_each(|&(number, b)| self.add(usize::from(number), b.part, b.whole));
    }

    /// All blocks, the empty ones too.
    pub fn all(&self) -> Vec<Block> {
        let mut all = vec![Block::default(); BLOCKS];
        self.held.iter().for_each(|&(number, b)| all[usize::from(number)] = b);
        all
    }
}

/// The 95 % interval of Σpart / Σwhole; `whole` are the samples behind the denominator.
/// `None` if there are none.
pub fn share_interval(blocks: &[Block], whole: &Sum) -> Option<Interval> {
    let n = whole.effective();
    let total: u64 = blocks.iter().map(|b| b.whole).sum();
    let part: u64 = blocks.iter().map(|b| b.part).sum();
    if total == 0 || n <= 0.0 {
        return None;
    }
    // Where the parts do not vary nothing shows how samples of one moment hang together: a phase of a thousand samples
    // in one block of time is one observation of it, not a thousand.
    let moments = blocks.iter().filter(|b| b.whole > 0).count() as f64;
    let spread = if part == 0 || part >= total { n.min(moments) } else { n };
    let n = spread.max(1.0);
    if part == 0 {
        return Some(Interval { low: 0.0, high: 1.0 - (ALPHA / 2.0).powf(1.0 / n) });
    }
    if part >= total {
        return Some(Interval { low: (ALPHA / 2.0).powf(1.0 / n), high: 1.0 });
    }
    let share = part as f64 / total as f64;
    let least = wilson(share, n, Z);
    let found = bootstrap(&merge_blocks(blocks, whole.samples), share);
    Some(Interval { low: found.low.min(least.low).max(0.0), high: found.high.max(least.high).min(1.0) })
}

/// The 95 % interval of a share of which `hits` of `draws` independent draws spoke: Wilson's, and the exact
/// bound where none or all did. `None` without draws.
pub fn draws_interval(hits: u64, draws: u64) -> Option<Interval> {
    let n = draws as f64;
    let bound = (ALPHA / 2.0).powf(1.0 / n);
    match hits {
        _ if draws == 0 => None,
        0 => Some(Interval { low: 0.0, high: 1.0 - bound }),
        hits if hits >= draws => Some(Interval { low: bound, high: 1.0 }),
        hits => Some(wilson(hits as f64 / n, n, Z)),
    }
}

/// Wilson's score interval of a share of `n` draws, `z` standard errors wide on each side.
pub fn wilson(share: f64, n: f64, z: f64) -> Interval {
    let z2 = z * z;
    let mid = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = z / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    Interval { low: (mid - half).max(0.0), high: (mid + half).min(1.0) }
}

/// About √n blocks, at least 20 and at most [`BLOCKS`], of those that hold anything:
/// long enough to outlast the autocorrelation, many enough to show the spread.
fn merge_blocks(blocks: &[Block], samples: u64) -> Vec<Block> {
    let wanted = ((samples as f64).sqrt() as usize).clamp(MIN_BLOCKS, BLOCKS);
    let full: Vec<Block> = blocks.iter().copied().filter(|b| b.whole > 0).collect();
    let wanted = wanted.min(full.len()).max(1);
    let mut merged = vec![Block::default(); wanted];
    for (i, block) in full.iter().enumerate() {
        let to = &mut merged[i * wanted / full.len()];
        to.part += block.part;
        to.whole += block.whole;
    }
    merged
}

fn bootstrap(blocks: &[Block], share: f64) -> Interval {
    let k = blocks.len();
    if k < 2 {
        return Interval { low: share, high: share };
    }
    let mut random = Random::new(0x6E65_6172_6661_7221 ^ k as u64);
    let mut shares = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let (mut part, mut whole) = (0u64, 0u64);
        for _ in 0..k {
            let b = blocks[random.below(k)];
            part += b.part;
            whole += b.whole;
        }
        if whole > 0 {
            shares.push(part as f64 / whole as f64);
        }
    }
    shares.sort_by(f64::total_cmp);
    let at = |q: f64| shares[((shares.len() - 1) as f64 * q).round() as usize];
    // A percentile interval of k blocks is that of a normal, with variance (k−1)/k:
    // widened to Student's t with k − 1 degrees (Efron & Tibshirani 1993, 12.4).
    let widen = student(k - 1) / Z * (k as f64 / (k as f64 - 1.0)).sqrt();
    Interval {
        low: share - (share - at(ALPHA / 2.0)) * widen,
        high: share + (at(1.0 - ALPHA / 2.0) - share) * widen,
    }
}

/// 97.5 % quantile of Student's t: Cornish–Fisher expansion (Abramowitz & Stegun 26.7.5),
/// within 1 % for 5 degrees and more; a table for fewer.
pub(crate) fn student(degrees: usize) -> f64 {
    const SMALL: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    if let Some(t) = degrees.checked_sub(1).and_then(|i| SMALL.get(i)) {
        return *t;
    }
    let d = degrees as f64;
    Z + (Z.powi(3) + Z) / (4.0 * d) + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * d * d)
}

/// xorshift64* (Vigna 2016, ACM TOMS 42:30): fixed seed, so that a recording always gives the same report.
pub struct Random(u64);

impl Random {
    /// Starts from a seed; 0 is replaced.
    pub fn new(seed: u64) -> Random {
        Random(if seed == 0 { 1 } else { seed })
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    /// A number below `n` (multiply-shift; the bias is below 2^-32 here).
    pub fn below(&mut self, n: usize) -> usize {
        (((self.bits() >> 32) * n as u64) >> 32) as usize
    }
    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The middle of some values: the mean of the two middle ones where their number is even; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| middle(values.to_vec()))
}

/// The same of at least one value.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

/// 95 % percentile-bootstrap interval of the median of independent runs (Efron 1979), from a fixed
/// seed. Ends of the values' own unit; `None` of no values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    (!values.is_empty()).then(|| bootstrap_interval(|random| resampled_median(values, random)))
}

/// 95 % percentile-bootstrap interval of what `draw` computes from a resample (Efron 1979), from a fixed seed.
pub fn bootstrap_interval(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
    const RESAMPLES: usize = 2000;
    let mut random = Random::new(1);
    let mut all: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    all.sort_by(f64::total_cmp);
    (all[RESAMPLES / 40], all[RESAMPLES - 1 - RESAMPLES / 40])
}

/// The median of as many values, drawn with replacement from at least one.
pub fn resampled_median(values: &[f64], random: &mut Random) -> f64 {
    middle(values.iter().map(|_| values[random.below(values.len())]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(n: u64) -> Sum {
        Sum { samples: n, weight: n, squares: u128::from(n) }
    }

    #[test]
    fn none_of_n_gets_the_exact_bound() {
        // 1 - 0.025^(1/100) = 0.03622 (Clopper–Pearson tables, 0 of 100).
        let i = share_interval(&[Block { part: 0, whole: 1 }; 100], &sum(100)).unwrap();
        assert_eq!(i.low, 0.0);
        assert!((i.high - 0.036_22).abs() < 1e-5, "{i:?}");
        let i = share_interval(&[Block { part: 1, whole: 1 }; 100], &sum(100)).unwrap();
        assert!((i.low - 0.963_78).abs() < 1e-5 && i.high == 1.0, "{i:?}");
    }

    #[test]
    fn a_thousand_samples_of_one_moment_are_one_observation() {
        let mut blocks = vec![Block::default(); BLOCKS];
        blocks[7] = Block { part: 0, whole: 1000 };
        let i = share_interval(&blocks, &sum(1000)).unwrap();
        assert!(i.high > 0.9, "{i:?}");
        blocks[150] = Block { part: 0, whole: 1000 };
        // 1 - 0.025^(1/2)
        let i = share_interval(&blocks, &sum(2000)).unwrap();
        assert!((i.high - 0.841_9).abs() < 1e-3, "{i:?}");
    }

    #[test]
    fn independent_draws_have_bounds_at_both_ends() {
        assert!(draws_interval(0, 0).is_none());
        let none = draws_interval(0, 100).unwrap();
        let all = draws_interval(100, 100).unwrap();
        // 1 − 0.025^(1/100), Clopper and Pearson 1934.
        assert!(none.low == 0.0 && (none.high - 0.0362).abs() < 1e-4, "{none:?}");
        assert!(all.high == 1.0 && (all.low - 0.9638).abs() < 1e-4, "{all:?}");
        let some = draws_interval(81, 263).unwrap();
        assert!((some.low - 0.2553).abs() < 1e-3 && (some.high - 0.3662).abs() < 1e-3, "{some:?}");
    }

    #[test]
    fn wilson_matches_the_published_example() {
        // Newcombe 1998 (Stat. Med. 17, 857–872), table I: 81 of 263: 0.2553 to 0.3662.
        let i = wilson(81.0 / 263.0, 263.0, Z);
        assert!((i.low - 0.2553).abs() < 1e-4 && (i.high - 0.3662).abs() < 1e-4, "{i:?}");
    }

    #[test]
    fn student_matches_tables() {
        for (d, t) in [(1, 12.706), (4, 2.776), (5, 2.571), (10, 2.228), (19, 2.093), (100, 1.984)] {
            assert!((student(d) / t - 1.0).abs() < 0.01, "{d}: {}", student(d));
        }
    }

    #[test]
    fn one_block_is_never_narrower_than_binomial() {
        let i = share_interval(&[Block { part: 50, whole: 100 }], &sum(100)).unwrap();
        assert!(i.low < 0.41 && i.high > 0.59, "{i:?}");
    }

    #[test]
    fn no_samples_no_interval() {
        assert!(share_interval(&[Block::default(); 4], &Sum::default()).is_none());
    }

    #[test]
    fn unequal_weights_count_for_less() {
        let mut s = Sum::default();
        s.add(1000);
        for _ in 0..10 {
            s.add(1);
        }
        assert!(s.effective() < 1.1);
    }

    /// A two-state chain that stays put with probability 0.9: its samples are worth a
    /// nineteenth of their number. The interval must still hold the true share.
    #[test]
    fn covers_the_truth_on_autocorrelated_samples() {
        for (n, truth, stay) in [(4_000u64, 0.5, 0.9), (20_000, 0.2, 0.95), (2_000, 0.3, 0.0)] {
            let (mut hits, runs) = (0, 300);
            for run in 0..runs {
                let mut random = Random::new(run * 7919 + 17);
                let mut state = random.unit() < truth;
                let mut blocks = vec![Block::default(); BLOCKS];
                for i in 0..n {
                    if random.unit() >= stay {
                        state = random.unit() < truth;
                    }
                    let block = &mut blocks[(i as usize * BLOCKS) / n as usize];
                    block.whole += 1;
                    block.part += u64::from(state);
                }
                let i = share_interval(&blocks, &sum(n)).unwrap();
                hits += u64::from(i.low <= truth && truth <= i.high);
            }
            let coverage = hits as f64 / runs as f64;
            assert!(coverage >= 0.90, "n {n} stay {stay}: coverage {coverage}");
        }
    }

    #[test]
    fn the_interval_of_a_median_holds_it_and_shrinks_to_a_point_where_all_runs_agree() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let (low, high) = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert!((1.0..4.0).contains(&low) && 4.0 < high && high <= 7.0, "{low} {high}");
        assert_eq!(median_interval(&[1.5; 7]), Some((1.5, 1.5)));
        assert_eq!((median(&[]), median_interval(&[])), (None, None));
    }
}
