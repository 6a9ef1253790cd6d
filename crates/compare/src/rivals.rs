//! Waits for cache lines that nodes take from each other. The modelled time of a counted run does not have them, because
//! emulated cpus take such lines less often than real ones.

use super::change::SAME_RUN;
use super::value::{Change, Decided, DecidedBy, TimeChange};
use nearfar_analyze::{Finding, Report};
use nearfar_figures::percent::range;

/// What a run takes with these waits, in modelled times: from, to. 1 without any.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factor {
    low: f64,
    high: f64,
}

fn findings(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|f| f.shares_lines())
}

/// `None` if the report has such a finding, but not what it costs.
fn factor(report: &Report) -> Option<Factor> {
    let none = Factor { low: 1.0, high: 1.0 };
    findings(report).try_fold(none, |sum, f| {
        let p = f.predicted.as_ref().filter(|p| p.low > 0.0)?;
        // Each finding's waits come on top of the same time without rivals.
        Some(Factor { low: sum.low + 1.0 / p.high - 1.0, high: sum.high + 1.0 / p.low - 1.0 })
    })
}

/// `waits for lines of a, b that nodes take from each other, 85–97 % of the cores' time`.
fn said(report: &Report, factor: Factor) -> String {
    let mut names: Vec<&str> = findings(report).flat_map(|f| &f.objects).map(String::as_str).collect();
    names.dedup();
    let share = |x: f64| 1.0 - 1.0 / x;
    match names[..] {
        [] => "no waits for lines that nodes take from each other".to_owned(),
        _ => format!(
            "waits for lines of {} that nodes take from each other, {} of the cores' time",
            names.join(", "),
            range(share(factor.low), share(factor.high))
        ),
    }
}

/// The decision by modelled times, with these waits on top of them.
pub(super) fn with_waits(
    decided: Decided,
    time: Option<&TimeChange>,
    before: &Report,
    after: &Report,
) -> (Decided, Option<TimeChange>) {
    let (Some(DecidedBy::Time), Some(t)) = (decided.2, time) else { return (decided, None) };
    if findings(before).chain(findings(after)).next().is_none() {
        return (decided, None);
    }
    let (change, why, by) = decided;
    let (Some(b), Some(a)) = (factor(before), factor(after)) else {
        let why = format!("{why}. How long cores wait for lines that nodes take from each other is unknown");
        return ((Change::Unknown, why, by), None);
    };
    let (low, high) = (t.ratio * a.low / b.high, t.ratio * a.high / b.low);
    let change = match change {
        _ if high < 1.0 - SAME_RUN && findings(after).next().is_none() => Change::Repaired,
        _ if high < 1.0 - SAME_RUN => Change::Better,
        _ if low > 1.0 + SAME_RUN => Change::Worse,
        _ => Change::Unknown,
    };
    let why = format!(
        "before: {}; after: {}. With them the work takes {low:.2} to {high:.2} times as long; without them, {why}",
        said(before, b),
        said(after, a),
    );
    ((change, why, by), Some(TimeChange { ratio: (low * high).sqrt(), low, high }))
}
