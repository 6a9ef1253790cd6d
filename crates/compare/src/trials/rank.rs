//! The Wilcoxon signed-rank interval (Wilcoxon 1945; Hodges and Lehmann 1963; Hollander, Wolfe and Chicken,
//! Nonparametric Statistical Methods, §3.1–3.3).
//!
//! Each value is the difference of two runs of one round, whose order was drawn at random. If the placements do
//! not differ, swapping the two changes nothing: the difference is symmetric about 0 whatever the noise is
//! like, drift and outliers included. That is all that the interval needs, so its level is exact for few
//! runs too, where a bootstrap's is not.

/// The means of all pairs of values, each value with itself too, in order.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = (0..values.len())
        .flat_map(|i| (i..values.len()).map(move |j| (values[i] + values[j]) / 2.0))
        .collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The Hodges–Lehmann estimate of the middle of some differences; `None` of none.
pub fn middle(values: &[f64]) -> Option<f64> {
    let all = walsh_averages(values);
    let n = all.len();
    (n > 0).then(|| (all[(n - 1) / 2] + all[n / 2]) / 2.0)
}

/// The interval of the middle in which it is missed with probability `alpha` at most (both ends together);
/// `None` if there are too few values for that.
pub fn interval(values: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let out = outside(values.len(), alpha)?;
    let all = walsh_averages(values);
    Some((all[out], all[all.len() - 1 - out]))
}

/// Fewest values for which there is an interval at `alpha`.
pub fn fewest(alpha: f64) -> usize {
    (1..1000).find(|&n| outside(n, alpha).is_some()).unwrap_or(usize::MAX)
}

/// How many Walsh averages are left out at each end: the largest c with P(T ≤ c − 1) ≤ alpha / 2 is c, of
/// which the c-th smallest (counted from 1) is the end; this is c − 1. T is the sum of the ranks of positive
/// differences; its distribution is that of the sum of a random subset of 1..n.
fn outside(n: usize, alpha: f64) -> Option<usize> {
    let largest = n * (n + 1) / 2;
    let mut chances = vec![0.0; largest + 1];
    chances[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=largest).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    let mut below = 0.0;
    let mut count = 0;
    for chance in chances {
        below += chance;
        if below > alpha / 2.0 {
            break;
        }
        count += 1;
    }
    (count > 0).then(|| count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // Two-sided 5 % critical values of T (McCornack 1965, J. Am. Stat. Assoc. 60:864): n=6: 0, 8: 3,
        // 10: 8, 12: 13, 20: 52; there is none for 5.
        for (n, critical) in [(6, 0), (8, 3), (10, 8), (12, 13), (20, 52)] {
            assert_eq!(outside(n, 0.05), Some(critical), "n={n}");
        }
        assert_eq!(outside(5, 0.05), None);
        assert_eq!((fewest(0.05), fewest(0.01)), (6, 8));
    }

    #[test]
    fn middle_and_interval_by_hand() {
        // Walsh averages of 1, 2, 6: 1, 1.5, 2, 3.5, 4, 6.
        assert_eq!(middle(&[6.0, 1.0, 2.0]), Some(2.75));
        // Three values: P(T = 0) = 1/8, so 25 % leaves nothing out and 24 % has no interval.
        assert_eq!(interval(&[6.0, 1.0, 2.0], 0.25), Some((1.0, 6.0)));
        assert_eq!(interval(&[6.0, 1.0, 2.0], 0.24), None);
        assert_eq!((middle(&[]), interval(&[], 0.5)), (None, None));
    }
}
