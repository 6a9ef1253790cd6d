//! Least, middle and most of a figure over ranks, and which ranks stand out.

use nearfar_analyze::stats::median;
use serde::Serialize;

/// A figure over the ranks of which it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Ranks of which it is known.
    pub ranks: u64,
    /// Least.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Most.
    pub max: f64,
}

/// A rank stands out in time from this many scaled median deviations on (B. Iglewicz and D. Hoaglin, How to Detect and
/// Handle Outliers, 1993: 3.5).
const DEVIATIONS: f64 = 3.5;
/// Median deviation of a normal distribution in standard deviations.
const SCALE: f64 = 1.4826;
/// Nor does a rank that differs by less than this part of the median. // chosen: as what is at risk below 10 % is clean
pub const LEAST: f64 = 0.10;

impl Spread {
    /// Of these figures; `None` of none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut all: Vec<f64> = figures.into_iter().collect();
        all.sort_by(f64::total_cmp);
        Some(Spread { ranks: all.len() as u64, min: *all.first()?, median: median(&all)?, max: *all.last()? })
    }
}

/// From which figure on one stands out above the others; `None` if they are too few to say what is usual.
pub fn outlier_above(figures: &[f64]) -> Option<f64> {
    if figures.len() < 3 {
        return None;
    }
    let middle = median(figures)?;
    let apart: Vec<f64> = figures.iter().map(|x| (x - middle).abs()).collect();
    Some(middle + (DEVIATIONS * SCALE * median(&apart)?).max(LEAST * middle))
}
