//! Intervals from ranks, for runs in pairs and for runs of two kinds.
//!
//! For pairs, the Wilcoxon signed-rank interval (Wilcoxon 1945; Hodges and Lehmann 1963; Hollander, Wolfe and Chicken,
//! Nonparametric Statistical Methods, §3.1–3.3). Each value is the difference of two runs of one round, whose order was drawn at random. If the placements do
//! not differ, swapping the two changes nothing: the difference is symmetric about 0 whatever the noise is
//! like, drift and outliers included. That is all that the interval needs, so its level is exact for few
//! runs too, where a bootstrap's is not.
//!
//! For two kinds of runs that share no rounds, the interval of the rank-sum test (Mann and Whitney 1947; Moses 1953; ibid.
//! §4.1–4.3): of all differences between a run of one and a run of the other, the outermost are left out.

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
    left_out(chances, alpha)
}

/// The interval of what `to` is above `from`, in which that is missed with probability `alpha` at most; all differences where
/// there are too few for that, and `None` of none.
pub fn difference(from: &[f64], to: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let mut all: Vec<f64> = from.iter().flat_map(|a| to.iter().map(move |b| b - a)).collect();
    all.sort_by(f64::total_cmp);
    let out = outside_of_two(from.len(), to.len(), alpha).unwrap_or(0);
    (!all.is_empty()).then(|| (all[out], all[all.len() - 1 - out]))
}

/// Fewest runs of each kind with which one that is far from all others moves no end at `alpha`.
pub fn fewest_with_one_odd(alpha: f64) -> usize {
    (1..100).find(|&n| outside_of_two(n, n, alpha).is_some_and(|out| out >= n)).unwrap_or(usize::MAX)
}

/// How many differences are left out at each end, as [`outside`] says. U counts the pairs in which the second is the larger.
fn outside_of_two(n: usize, m: usize, alpha: f64) -> Option<usize> {
    if n.max(m) > EXACT {
        // U is normal then, with this middle and variance (Hollander, Wolfe and Chicken, equation 4.9).
        let (n, m) = (n as f64, m as f64);
        let out = n * m / 2.0 - quantile(alpha / 2.0) * (n * m * (n + m + 1.0) / 12.0).sqrt() - 1.0;
        return (out >= 0.0).then_some(out as usize);
    }
    // Of i and j values, the largest is one of the i, above all j, or one of the j: ways[i][j][u] is the sum of both.
    let mut ways = vec![vec![vec![0.0; n * m + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            for u in 0..=i * j {
                ways[i][j][u] = match (i, j) {
                    (0, _) | (_, 0) => 1.0,
                    _ if u >= j => ways[i - 1][j][u - j] + ways[i][j - 1][u],
                    _ => ways[i][j - 1][u],
                };
            }
        }
    }
    let ways = &ways[n][m];
    let all: f64 = ways.iter().sum();
    left_out(ways.iter().map(|ways| ways / all), alpha)
}

/// Runs of a kind up to which the chances of U are counted one by one. // chosen: beyond, the normal distribution is off by one or two
const EXACT: usize = 20;

/// What a normal value is above with probability `p`, at most 0.5 (Abramowitz and Stegun 26.2.23; off by 4.5e-4 at most).
fn quantile(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515517 + t * (0.802853 + t * 0.010328);
    t - above / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
}

/// The largest number whose chance, with all smaller ones, is at most alpha / 2; `None` if that of 0 is not.
fn left_out(chances: impl IntoIterator<Item = f64>, alpha: f64) -> Option<usize> {
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

    #[test]
    fn critical_values_of_two_kinds_are_those_of_the_tables() {
        // Two-sided 5 % critical values of U (Mann and Whitney 1947, tables of Auble 1953): 4×4: 0, 5×5: 2, 6×6: 5, 7×7: 8,
        // 8×10: 17, 12×12: 37; there is none for 3×3.
        for (n, m, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (7, 7, 8), (8, 10, 17), (10, 8, 17), (12, 12, 37)]
        {
            assert_eq!(outside_of_two(n, m, 0.05), Some(critical), "{n}×{m}");
        }
        assert_eq!(outside_of_two(3, 3, 0.05), None);
        // Of more runs by the normal distribution: 21×21 is 142 exactly.
        assert_eq!(outside_of_two(20, 20, 0.05), Some(127));
        assert_eq!(outside_of_two(21, 21, 0.05), Some(141));
        assert!((quantile(0.025) - 1.95996).abs() < 5e-4 && (quantile(0.001) - 3.09023).abs() < 5e-4);
        assert_eq!(outside_of_two(1, 100, 0.01), None);
        assert_eq!(fewest_with_one_odd(0.05), 7);
    }

    #[test]
    fn of_few_runs_all_differences_count_and_of_many_no_single_run_decides() {
        assert_eq!(difference(&[1.0, 2.0], &[5.0, 4.0], 0.05), Some((2.0, 4.0)));
        assert_eq!(difference(&[], &[1.0], 0.05), None);
        let from = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let mut to = from.map(|v| v + 10.0);
        let quiet = difference(&from, &to, 0.05).unwrap();
        to[0] = -1000.0;
        let odd = difference(&from, &to, 0.05).unwrap();
        assert!(quiet.0 <= 10.0 && 10.0 <= quiet.1, "{quiet:?}");
        assert!(odd.0 > 0.0 && odd.1 <= quiet.1, "{odd:?}");
    }
}
