//! An object's pages along its addresses, and over time.

use super::drawing::{Anchor, Drawing, node_class};
use super::source::source;
use crate::counted::seconds_short;
use crate::layout::{shorten, size};
use nearfar_analyze::{Report, Run, Strip, StripAxis};

const LEFT: f64 = 140.0;
const WIDTH: f64 = 560.0;

fn node(r: &Report, id: Option<u32>) -> String {
    node_class(id.and_then(|id| r.machine.node_ids.iter().position(|&n| n == id)))
}

/// Runs as boxes that are divided from above.
fn row(r: &Report, d: &mut Drawing, runs: &[Run], bins: usize, y: f64, height: f64) {
    let step = WIDTH / bins.max(1) as f64;
    let mut bin = 0;
    for run in runs {
        let all: u32 = run.mix.iter().map(|m| m.1).sum();
        let mut top = y;
        for &(id, part) in &run.mix {
            let high = height * f64::from(part) / f64::from(all.max(1));
            d.rect(&node(r, id), (LEFT + bin as f64 * step, top), (run.bins as f64 * step, high));
            top += high;
        }
        bin += run.bins;
    }
}

fn keys(r: &Report) -> Vec<(String, String)> {
    let ids = r.machine.node_ids.iter().take(8);
    let mut keys: Vec<(String, String)> = ids.map(|&id| (node(r, Some(id)), format!("node {id}"))).collect();
    keys.push(("unknown".to_owned(), "unknown".to_owned()));
    keys
}

fn finish(r: &Report, d: &mut Drawing, more: &[(&str, String)]) {
    let own = keys(r);
    let mut all: Vec<(&str, String)> =
        own.iter().map(|(class, words)| (class.as_str(), words.clone())).collect();
    all.extend(more.iter().cloned());
    d.keys(&all);
    d.foot(&source(r));
}

fn end(s: &Strip) -> String {
    match s.axis {
        StripAxis::Offset => size(s.extent),
        StripAxis::Allocations => format!("{} allocations", s.extent),
    }
}

/// The strip.
pub(super) fn strip(r: &Report, s: &Strip, name: &str) -> Drawing {
    let mut d = Drawing::new(LEFT + WIDTH + 20.0, &format!("Pages of {}", shorten(name, 60)));
    let mut y = Drawing::TOP;
    let mut rows: Vec<(&str, &[Run])> =
        vec![("node of the page", &s.node), ("first touch", &s.first_touch), ("main user", &s.user)];
    if let Some(repaired) = &s.repaired {
        rows.push(("with the repair", repaired));
    }
    for (name, runs) in rows {
        d.text(10.0, y + 14.0, "", Anchor::Start, name);
        row(r, &mut d, runs, s.bins, y, 20.0);
        y += 24.0;
        if name == "main user" {
            d.text(10.0, y + 14.0, "", Anchor::Start, "far share of its use");
            let step = WIDTH / s.bins.max(1) as f64;
            for (bin, share) in s.remote.iter().enumerate() {
                if let Some(share) = share {
                    let x = LEFT + bin as f64 * step;
                    d.rect("near", (x, y), (step, 20.0 * (1.0 - share)));
                    d.rect("far", (x, y + 20.0 * (1.0 - share)), (step, 20.0 * share));
                }
            }
            y += 24.0;
        }
    }
    d.text(LEFT, y + 12.0, "small", Anchor::Start, "0");
    d.text(LEFT + WIDTH, y + 12.0, "small", Anchor::End, &end(s));
    finish(r, &mut d, &[("near", "near".to_owned()), ("far", "far".to_owned())]);
    d
}

/// Pages × time; `None` where they were looked at once or never.
pub(super) fn over_time(r: &Report, s: &Strip, name: &str) -> Option<Drawing> {
    let looks = s.over_time.as_ref()?;
    let mut d =
        Drawing::new(LEFT + WIDTH + 20.0, &format!("Pages of {} over time, from above", shorten(name, 50)));
    let step = WIDTH / looks.bins.max(1) as f64;
    let (mut y, mut moved) = (Drawing::TOP, String::new());
    for look in &looks.looks {
        d.text(10.0, y + 10.0, "small", Anchor::Start, &format!("looked at {}", seconds_short(look.at_s)));
        row(r, &mut d, &look.node, looks.bins, y, 11.0);
        for &bin in &look.moved {
            moved.push_str(&format!("M{:.1} {y:.1}h{step:.1}", LEFT + bin as f64 * step));
        }
        y += 13.0;
    }
    d.path("line", &moved, y);
    d.text(LEFT, y + 12.0, "small", Anchor::Start, "0");
    d.text(LEFT + WIDTH, y + 12.0, "small", Anchor::End, &end(s));
    finish(r, &mut d, &[]);
    d.foot("line above a part: most of its pages are on another node than at the look before");
    Some(d)
}
