//! A run of several ranks: hosts from above, their ranks from the left, the stronger the more of a rank's time is at risk.

use super::drawing::{Anchor, Drawing};
use crate::layout::{count, percent as with_unit, shorten};
use nearfar_compare::ranks::{RankRow, Run};
use nearfar_figures::percent;
use std::collections::BTreeMap;

/// Of so many ranks, cells have numbers. // chosen
const NUMBERS: usize = 256;
const WIDTH: f64 = 900.0;
const LEFT: f64 = 150.0;

/// Percent of each rank's time that is at risk on far memory.
pub(super) fn ranks(run: &Run) -> Drawing {
    let numbered = run.ranks.len() <= NUMBERS;
    let side = if numbered { 30.0 } else { 12.0 };
    let across = ((WIDTH - LEFT) / side) as usize;
    let most = run.ranks.iter().filter_map(|r| r.far_share).fold(0.1, f64::max);
    let mut hosts: BTreeMap<&str, Vec<&RankRow>> = BTreeMap::new();
    for one in &run.ranks {
        hosts.entry(&one.host).or_default().push(one);
    }
    let mut d = Drawing::new(WIDTH, "Percent of each rank's time at risk on far memory, by host and rank");
    let mut y = Drawing::TOP + 4.0;
    for (host, own) in hosts {
        d.text(10.0, y + side * 0.65, "", Anchor::Start, &shorten(host, 20));
        for (at, rank) in own.into_iter().enumerate() {
            if at > 0 && at % across == 0 {
                y += side;
            }
            cell(&mut d, rank, (LEFT + (at % across) as f64 * side, y), side - 1.5, most, numbered);
        }
        y += side + 6.0;
    }
    d.keys(&[
        ("far", format!("strongest: {} of the rank's time", with_unit(Some(most)))),
        ("unknown", "no verdict on it (?) or no summary (\u{d7}): unknown".to_owned()),
    ]);
    let samples: u64 = run.ranks.iter().filter_map(|r| r.samples).sum();
    d.foot(&format!("source: {} samples of {} ranks", count(samples), run.ranks.len()));
    d
}

fn cell(d: &mut Drawing, rank: &RankRow, at: (f64, f64), inner: f64, most: f64, numbered: bool) {
    match rank.far_share {
        None => d.cell("unknown", at, inner, 1.0),
        Some(share) => {
            d.cell("box", at, inner, 1.0);
            if share > 0.0 {
                d.cell("far", at, inner, 0.08 + 0.92 * share / most);
            }
        }
    }
    if numbered {
        let words = match rank.far_share {
            Some(share) => percent::number(share),
            None if rank.verdict.is_none() => "\u{d7}".to_owned(),
            None => "?".to_owned(),
        };
        let class = if rank.far_share.is_some_and(|s| s / most > 0.55) { "in" } else { "" };
        d.text(at.0 + inner / 2.0, at.1 + inner / 2.0 + 4.0, class, Anchor::Middle, &words);
    }
}
