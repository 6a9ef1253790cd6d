//! Shares as text, by one rule: a number that stands in two places of a page has the same digits in both.
//!
//! From 10 % on a share is printed in whole percent, below with one decimal, and below 0.095 % with as many as its
//! first digit needs, because "at most 0.0 %" claims more than was found. All arguments are fractions: 0.5 is 50 %.

/// Largest number of decimals: `0.001 %`. What is smaller is `< 0.001 %`.
const MOST: usize = 3;

/// Decimals of a share in percent.
fn decimals(share: f64) -> usize {
    match (share * 100.0).abs() {
        p if p >= 9.95 || p == 0.0 => 0,
        p if p >= 0.095 => 1,
        p => ((-p.log10()).ceil().max(1.0) as usize).min(MOST),
    }
}

/// `46`, `9.4`, `0.03`: a share without its unit, for columns whose heading has it.
pub fn number(share: f64) -> String {
    if share > 0.0 && share < 0.000_01 {
        return "< 0.001".to_owned();
    }
    // No -0.
    format!("{:.*}", decimals(share), share * 100.0 + 0.0)
}

/// `46 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", number(share))
}

/// The same; `unknown` where no number exists.
pub fn percent_if_known(share: Option<f64>) -> String {
    share.filter(|s| s.is_finite()).map_or("unknown".to_owned(), percent)
}

/// `46 % (44–49)`, the interval rounded outward: what an end excludes is excluded.
pub fn with_interval(share: f64, low: f64, high: f64) -> String {
    let [low, high] = outward(low, high, decimals(share).max(1));
    format!("{} ({low}–{high})", percent(share))
}

/// `43–57 %`, rounded outward.
pub fn range(low: f64, high: f64) -> String {
    let [low, high] = outward(low, high, decimals(high).max(1));
    format!("{low}–{high} %")
}

/// `[1.2 %, 7.4 %]`: the ends of an interval for a sentence, rounded outward like those beside a share.
pub fn ends(low: f64, high: f64) -> [String; 2] {
    outward(low, high, decimals(high).max(1)).map(|end| format!("{end} %"))
}

/// `+6.6 %`: a change, with its sign and at most one decimal.
pub fn change(by: f64) -> String {
    format!("{} %", signed(by))
}

/// `+6.6 % (+5.1 to +8.0)`.
pub fn change_with_interval(by: f64, low: f64, high: f64) -> String {
    let [by, low, high] = signed_numbers(by, low, high);
    format!("{by} % ({low} to {high})")
}

/// `[+6.6, +5.1, +8.0]`: a change and the ends of its interval.
pub fn signed_numbers(by: f64, low: f64, high: f64) -> [String; 3] {
    [by, low, high].map(signed)
}

/// `[52, 48, 55]`: a share and the ends of its range, rounded; negative ones with their sign.
pub fn numbers(share: f64, low: f64, high: f64) -> [String; 3] {
    signed_numbers(share, low, high).map(|s| s.trim_start_matches('+').to_owned())
}

fn signed(by: f64) -> String {
    let digits = decimals(by).min(1);
    let text = format!("{:+.digits$}", by * 100.0 + 0.0);
    // What rounds to nothing has no sign.
    if text.trim_start_matches(['-', '+']).chars().all(|c| "0.".contains(c)) {
        return text.replace('-', "+");
    }
    text
}

/// Ends of an interval, each with the decimals of its size, but at most `most`.
fn outward(low: f64, high: f64, most: usize) -> [String; 2] {
    let end = |share: f64, round: fn(f64) -> f64, shift: f64| {
        let digits = decimals(share).min(most);
        let unit = 10f64.powi(digits as i32);
        // The small shift keeps 0.479 from becoming 47.8 in binary arithmetic.
        let percent = round(share * 100.0 * unit + shift).max(0.0) / unit;
        if percent == 0.0 { "0".to_owned() } else { format!("{percent:.digits$}") }
    };
    [end(low, f64::floor, 1e-5), end(high, f64::ceil, -1e-5)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_digits_that_its_size_asks_for() {
        for (share, text) in [
            (0.0, "0 %"),
            (-0.0, "0 %"),
            (0.0003, "0.03 %"),
            (0.000_04, "0.004 %"),
            (1e-9, "< 0.001 %"),
            (0.0009, "0.09 %"),
            (0.000_96, "0.1 %"),
            (0.0121, "1.2 %"),
            (0.0994, "9.9 %"),
            (0.0996, "10 %"),
            (0.4630, "46 %"),
            (0.9999, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
        assert_eq!(percent_if_known(None), "unknown");
        assert_eq!(percent_if_known(Some(f64::NAN)), "unknown");
    }

    #[test]
    fn intervals_are_rounded_outward_with_the_digits_of_what_they_are_of() {
        assert_eq!(with_interval(0.463, 0.443, 0.483), "46 % (44–49)");
        assert_eq!(with_interval(0.042, 0.0391, 0.1106), "4.2 % (3.9–12)");
        assert_eq!(with_interval(0.5, 0.479, 0.522), "50 % (47–53)");
        assert_eq!(with_interval(0.0, -0.1, 0.0004), "0 % (0–0.1)");
        assert_eq!(range(0.43, 0.57), "43–57 %");
        assert_eq!(range(0.0, 0.0123), "0–1.3 %");
        assert_eq!(range(0.0004, 0.6), "0–60 %");
        assert_eq!(ends(0.0, 0.0191), ["0 %", "2.0 %"]);
    }

    #[test]
    fn changes_have_a_sign_unless_they_round_to_nothing() {
        assert_eq!(change(0.066), "+6.6 %");
        assert_eq!(change(-0.24), "-24 %");
        assert_eq!(change(-0.0001), "+0.0 %");
        assert_eq!(numbers(0.52, 0.484, 0.5549), ["52", "48", "55"]);
        assert_eq!(numbers(0.032, -0.0004, 0.055), ["3.2", "0.0", "5.5"]);
        assert_eq!(change_with_interval(0.24, 0.219, 0.2671), "+24 % (+22 to +27)");
        assert_eq!(change_with_interval(0.066, 0.051, 0.11), "+6.6 % (+5.1 to +11)");
    }
}
