//! Cells of a measurement's tables, and the reasons of those that are empty.

use super::super::layout::{Page, plural};
use nearfar_observed::measured::{Found, Spread};

/// Columns of a row's name, and of a cell.
pub(super) const LABEL: usize = 16;
pub(super) const CELL: usize = 22;

/// `81.2 (80.9–83.0)`.
pub(super) fn cell(value: Spread) -> String {
    let digits = match value.median {
        v if v < 9.95 => 2,
        v if v < 999.5 => 1,
        _ => 0,
    };
    format!("{:.digits$} ({:.digits$}–{:.digits$})", value.median, value.low, value.high)
}

/// The figure, or `unknown`; the reason goes elsewhere.
pub(super) fn found(found: &Found) -> String {
    found.value.map_or_else(|| "unknown".to_owned(), cell)
}

/// Each reason once, with what it is about.
pub(super) fn reasons<'a>(page: &mut Page, about: &str, whys: impl Iterator<Item = &'a str>) {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for why in whys {
        match seen.iter_mut().find(|r| r.0 == why) {
            Some(reason) => reason.1 += 1,
            None => seen.push((why, 1)),
        }
    }
    for (why, times) in seen {
        page.bullet(&format!("{} unknown: {why}", plural(times, about)));
    }
}
