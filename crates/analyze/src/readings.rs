//! Values of counters that are in an imported recording, in words.

use nearfar_recording::{Columns, Counters};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Places and values of a place that are printed; the table `counters` has all. // chosen
const PLACES: usize = 40;
const VALUES: usize = 40;

/// The values of one counter of one place, over all intervals.
#[derive(Default)]
struct Sum {
    sum: f64,
    known: u64,
    unknown: u64,
    /// Least part of the time that it ran.
    ran: Option<f64>,
    why: String,
}

/// A note for each place.
pub fn notes(counters: &Counters) -> Vec<String> {
    // In the order in which they first come.
    let mut places: Vec<(String, String)> = Vec::new();
    let mut names: Vec<Vec<(String, String)>> = Vec::new();
    let mut sums: HashMap<(usize, String, String), Sum> = HashMap::new();
    let mut positions: HashMap<(String, String), usize> = HashMap::new();
    for row in counters.rows() {
        let place = (row.place, row.source);
        let at = *positions.entry(place.clone()).or_insert_with(|| {
            places.push(place);
            names.push(Vec::new());
            places.len() - 1
        });
        let sum = sums.entry((at, row.name.clone(), row.unit.clone())).or_insert_with(|| {
            names[at].push((row.name, row.unit));
            Sum::default()
        });
        match row.value.is_finite() {
            true => (sum.sum, sum.known) = (sum.sum + row.value, sum.known + 1),
            false => (sum.unknown, sum.why) = (sum.unknown + 1, row.why),
        }
        if (0.0..=1.0).contains(&row.running_share) {
            sum.ran = Some(sum.ran.map_or(row.running_share, |ran| ran.min(row.running_share)));
        }
    }
    let mut notes: Vec<String> = Vec::new();
    for (at, (place, source)) in places.iter().enumerate().take(PLACES) {
        let mut words = Vec::new();
        for (name, unit) in names[at].iter().take(VALUES) {
            words.push(value(name, unit, &sums[&(at, name.clone(), unit.clone())]));
        }
        if names[at].len() > VALUES {
            words.push(format!("and {} more", names[at].len() - VALUES));
        }
        let place = if place.is_empty() { "all" } else { place };
        let source = if source.is_empty() { String::new() } else { format!(" by {source}") };
        notes.push(format!("Counted{source}, {place}: {}.", words.join("; ")));
    }
    if places.len() > PLACES {
        notes.push(format!(
            "Counters of {} more places are in the recording's table `counters`.",
            places.len() - PLACES
        ));
    }
    notes
}

/// Rates and ratios are not added up over intervals.
fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s") || matches!(unit, "IPC" | "%")
}

fn value(name: &str, unit: &str, sum: &Sum) -> String {
    if sum.known == 0 {
        let why = if sum.why.is_empty() { "no value" } else { &sum.why };
        return format!("{name} unknown ({why})");
    }
    let (value, how) = match is_rate(unit) && sum.known > 1 {
        true => (sum.sum / sum.known as f64, format!(", mean of {} intervals", sum.known)),
        false => (sum.sum, String::new()),
    };
    let mut text = format!("{name} {}", number(value));
    if !unit.is_empty() && unit != "IPC" {
        let _ = write!(text, " {unit}");
    }
    text += &how;
    if let Some(ran) = sum.ran.filter(|ran| *ran < 0.995) {
        let _ = write!(text, ", scaled: it ran {:.0} % of the time", 100.0 * ran);
    }
    if sum.unknown > 0 {
        let _ = write!(text, ", and unknown in {} intervals", sum.unknown);
    }
    text
}

/// All digits of what was counted, four of what was measured.
fn number(value: f64) -> String {
    match value {
        v if v == v.trunc() && v.abs() < 1e15 => format!("{v:.0}"),
        v if v.abs() >= 1000.0 => format!("{v:.0}"),
        v => {
            let digits = (3 - v.abs().log10().floor() as i32).clamp(0, 6) as usize;
            format!("{v:.digits$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::Counter;

    #[test]
    fn values_are_summed_and_rates_are_not_and_what_is_missing_has_its_reason() {
        let mut counters = Counters::default();
        let mut add = |time_ns, node, name: &str, value: Option<f64>, unit: &str, ran: Option<f64>| {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            let why = if value.is_none() { "not counted".to_owned() } else { String::new() };
            counters.push(Counter {
                time_ns,
                cpu: u16::MAX,
                node,
                name,
                value: value.unwrap_or(f64::NAN),
                unit,
                place: format!("node {node}"),
                running_share: ran.unwrap_or(-1.0),
                source: "perf stat".to_owned(),
                why,
                thread: u32::MAX,
                interval_ns: 0,
            });
        };
        add(1, 0, "cycles", Some(10.0), "", Some(1.0));
        add(2, 0, "cycles", Some(20.0), "", Some(0.5));
        add(1, 0, "read", Some(100.0), "MB/s", None);
        add(2, 0, "read", Some(50.5), "MB/s", None);
        add(1, 1, "cycles", None, "", None);
        assert_eq!(
            notes(&counters),
            [
                "Counted by perf stat, node 0: cycles 30, scaled: it ran 50 % of the time; read 75.25 MB/s, mean of 2 \
                 intervals.",
                "Counted by perf stat, node 1: cycles unknown (not counted).",
            ]
        );
    }
}
