//! Writes runs under several placements as a table and a verdict.

use super::layout::{Page, Style, columns, left, plural, right};
use nearfar_compare::trials::{Change, FEWEST, Hurts, Judged, Placed, Trials, value};
use nearfar_figures::percent::change_with_interval;

/// Columns of the run's value and interval, and of the gain.
const VALUE: usize = 30;
const GAIN: usize = 27;

/// The verdict, the placements, what was left out and what to type next, in `width` columns.
pub fn to_text(trials: &Trials, judged: &Judged, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let (style, word) = match judged.verdict {
        Hurts::Harmful => (Style::Bad, "NUMA hurts this program"),
        Hurts::Harmless => (Style::Good, "NUMA does not hurt this program"),
        Hurts::Unknown => (Style::Unsure, "Unknown whether NUMA hurts this program"),
    };
    page.headline(style, &format!("{word}: {}", judged.why));
    if !judged.placements.is_empty() {
        page.blank();
        page.paragraph(&how(trials));
        page.blank();
        table(&mut page, judged, trials.simulated());
    }
    notes(&mut page, trials, judged);
    page.heading("Next");
    for line in next(trials, judged) {
        page.line(&format!("  {line}"));
    }
    page.finish()
}

fn how(trials: &Trials) -> String {
    let better = if trials.metric.less_is_better { "less is better" } else { "more is better" };
    let how = if trials.simulated() {
        format!(
            "simulated: traffic counted exactly, time by the model; range of {} and of the machine's figures",
            plural(trials.rounds, "run")
        )
    } else {
        format!("median of {} in random order, 95 % bootstrap interval", plural(trials.rounds, "round"))
    };
    format!("{} ({better}) on {}; {how}", trials.metric.source, trials.machine)
}

fn table(page: &mut Page, judged: &Judged, simulated: bool) {
    let name = judged.placements.iter().map(|p| columns(&p.name)).max().unwrap_or(0) + 2;
    page.line(&format!(
        "{}{}{}{}",
        left("", name),
        right(if simulated { "time" } else { "median (interval)" }, VALUE),
        right("faster than as is by", GAIN),
        "  "
    ));
    for placed in &judged.placements {
        let what = match (placed.median, placed.low, placed.high) {
            (Some(median), Some(low), Some(high)) => {
                let unit = &placed.unit;
                format!("{} ({}–{}){}", value(median, ""), value(low, ""), value(high, ""), spaced(unit))
            }
            _ => "no value".to_owned(),
        };
        let gain = placed.gain.map_or_else(String::new, |g| change_with_interval(g.estimate, g.low, g.high));
        page.line(&format!(
            "{}{}{}  {}",
            left(&placed.name, name),
            right(&what, VALUE),
            right(&gain, GAIN),
            placed.words
        ));
    }
}

fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

fn notes(page: &mut Page, trials: &Trials, judged: &Judged) {
    let mut lines: Vec<String> = Vec::new();
    if trials.interrupted {
        lines.push(format!("stopped before all {} were done", plural(trials.rounds, "round")));
    }
    for placed in &judged.placements {
        if let Some(why) = &placed.failed {
            let of = trials.trials.iter().find(|t| t.name == placed.name);
            let failed = of.map_or(0, |t| t.values.iter().filter(|v| v.is_none()).count());
            lines.push(format!("{}: {} without a value: {why}", placed.name, plural(failed, "run")));
        }
        lines.extend(outliers(placed, trials));
    }
    if judged.placements.iter().any(|p| p.kind == nearfar_compare::trials::Kind::Copies && p.runs > 0) {
        lines.push(
            "copies: one per node at the same time, per copy's share; a program with a serial part gains by them \
             without any NUMA, so they do not enter the verdict"
                .to_owned(),
        );
    }
    if !lines.is_empty() {
        page.heading("Mind");
        lines.iter().for_each(|l| page.bullet(l));
    }
    if trials.trials.iter().any(|t| !t.placed.is_empty()) {
        page.heading("Placed");
        trials.trials.iter().flat_map(|t| &t.placed).for_each(|line| page.bullet(line));
    }
    if !trials.not_tried.is_empty() {
        page.heading("Not tried");
        for left_out in &trials.not_tried {
            page.bullet(&format!("{}: {}", left_out.name, left_out.why));
        }
    }
}

fn outliers(placed: &Placed, trials: &Trials) -> Option<String> {
    let trial = trials.trials.iter().find(|t| t.name == placed.name)?;
    let list: Vec<String> = placed
        .outliers
        .iter()
        .filter_map(|&round| {
            Some(format!("{} in round {}", value((*trial.values.get(round)?)?, ""), round + 1))
        })
        .collect();
    (!list.is_empty()).then(|| format!("{}: far from the other runs: {}", placed.name, list.join(", ")))
}

/// What to type next.
fn next(trials: &Trials, judged: &Judged) -> Vec<String> {
    let command = nearfar_figures::shell::command(&trials.command);
    let best = judged.placements.iter().filter(|p| p.words == "faster").max_by(|a, b| {
        a.gain
            .map(|g| g.estimate)
            .partial_cmp(&b.gain.map(|g| g.estimate))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let record = match &trials.on {
        Some(on) => format!("nearfar record {on} -- {command}"),
        None => format!("nearfar record -- {command}"),
    };
    match (judged.verdict, best) {
        (Hurts::Harmful, Some(best)) => {
            let mut lines = vec![format!("{record}    # which data, whose first touch")];
            if !best.run.is_empty() {
                // Node numbers are those of the machine that was tried, which this host need not be like.
                let place = match trials.simulated() {
                    true => format!("on a machine like {}: as it was fastest there", trials.machine),
                    false => "as it was fastest here".to_owned(),
                };
                lines.push(format!("nearfar run {} -- {command}    # {place}", best.run));
            }
            lines
        }
        (Hurts::Unknown, _) if judged.placements.is_empty() => {
            vec![format!("nearfar check --on xeon-e5-2699v4-2s --cpus-per-node 4 -- {command}")]
        }
        _ => vec![format!("{record}    # each object's near and far accesses")],
    }
}

/// What has changed since earlier runs.
pub fn changes_to_text(changes: &[Change], trials: &Trials, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    page.heading("Since then");
    for change in changes {
        let unit = &trials.metric.unit;
        let [then, now] = [change.then, change.now].map(|v| value(v, unit));
        let by = match &change.gain {
            Some(g) => format!("faster by {}", nearfar_compare::trials::gain(g, false)),
            None => format!("whether that is a change is unknown: fewer than {FEWEST} runs"),
        };
        page.bullet(&format!("{}: {then}, now {now}; {by}", change.name));
    }
    if changes.is_empty() {
        page.bullet("no placement has values then and now");
    }
    page.finish()
}
