//! From runs to the verdict.

use super::{Gain, Hurts, Judged, Kind, Placed, Trial, Trials, rank};
use nearfar_analyze::stats::median;
use nearfar_figures::percent::{percent, signed_numbers};

/// Differences below this part are called no effect, and only where the whole interval is below.
pub const EFFECT: f64 = 0.02;
/// Chance of calling a harmless program harmful, over all placements together. Below the 5 % of the printed
/// intervals: a false alarm costs an engineer a day.
const FALSE_ALARM: f64 = 0.01;
/// Part of the speed-up over one node that its cpus promise, below which a program is not called harmless: the
/// rest may be lost to far memory that none of the placements brings near. Chosen; STREAM and a stencil with
/// every page in its place reach 0.96 and more on the emulated machines.
const SCALES: f64 = 0.8;
/// Of the intervals that are printed.
const PRINTED: f64 = 0.05;

/// What can be said of one placement against the command as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    Faster,
    Slower,
    /// The whole interval lies within ±[`EFFECT`].
    None,
    /// Not faster by [`EFFECT`]: what a slower placement has too whose size is open.
    NotFaster,
    Open,
}

struct Compared {
    gain: Gain,
    effect: Effect,
}

/// Judges the runs.
pub fn judge(trials: &Trials) -> Judged {
    let Some((as_is, others)) = trials.trials.split_first() else {
        return Judged { verdict: Hurts::Unknown, why: "nothing was run".to_owned(), placements: Vec::new() };
    };
    let numa = others.iter().filter(|t| t.kind.tells_of_numa() && !t.known().is_empty()).count();
    let compared: Vec<Option<Compared>> = others.iter().map(|t| compare(trials, as_is, t, numa)).collect();
    let mut placements = vec![placed(trials, as_is, None)];
    placements.extend(others.iter().zip(&compared).map(|(t, c)| placed(trials, t, c.as_ref())));
    let with: Vec<(&Trial, &Compared)> =
        others.iter().zip(&compared).filter_map(|(t, c)| Some((t, c.as_ref()?))).collect();
    let (verdict, why) = verdict(trials, as_is, &with, numa);
    Judged { verdict, why, placements }
}

impl Kind {
    /// Whether being faster that way says that NUMA hurts.
    fn tells_of_numa(self) -> bool {
        // Copies of a program with a serial part are faster without any NUMA.
        matches!(self, Kind::OneNode | Kind::Interleave | Kind::Objects | Kind::Pinned | Kind::Balancing)
    }
}

/// `None` where there are too few runs for an interval.
fn compare(trials: &Trials, as_is: &Trial, other: &Trial, numa: usize) -> Option<Compared> {
    // ln of (work per time as placed / work per time as it is).
    let log = |a: f64, b: f64| {
        let ratio = if trials.metric.less_is_better { a / b } else { b / a };
        (a > 0.0 && b > 0.0).then(|| ratio.ln())
    };
    let limit = EFFECT.ln_1p();
    let pairs = as_is.values.iter().zip(&other.values);
    let logs: Vec<f64> = pairs.filter_map(|(a, b)| log((*a)?, (*b)?)).collect();
    let (middle, (low, high), strict) = if trials.simulated() {
        // Both times come from the same figures of the same machine: where those are too low or too high,
        // both are.
        let strict = simulated(trials, as_is, other, FALSE_ALARM / numa.max(1) as f64)?;
        (log(as_is.summary()?.0, other.summary()?.0)?, simulated(trials, as_is, other, PRINTED)?, strict)
    } else {
        let printed = rank::interval(&logs, PRINTED)?;
        let strict = rank::interval(&logs, FALSE_ALARM / numa.max(1) as f64);
        (rank::middle(&logs)?, printed, strict.unwrap_or((f64::NEG_INFINITY, f64::INFINITY)))
    };
    let effect = match () {
        () if strict.0 > 0.0 && middle >= limit => Effect::Faster,
        () if low > -limit && high < limit => Effect::None,
        () if strict.1 < 0.0 && middle <= -limit => Effect::Slower,
        () if high < limit => Effect::NotFaster,
        () => Effect::Open,
    };
    let gain = Gain { estimate: middle.exp_m1(), low: low.exp_m1(), high: high.exp_m1() };
    Some(Compared { gain, effect })
}

/// Of simulated runs: ln of (work per time in `other` / work per time in `as_is`) in an interval over what runs differ by, at
/// `alpha`, and over the ends that the machine's figures allow.
fn simulated(trials: &Trials, as_is: &Trial, other: &Trial, alpha: f64) -> Option<(f64, f64)> {
    let ends = (0..3).filter_map(|figures| by_figures(trials, as_is, other, figures, alpha));
    ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The same by the figures as they are (0), or by their lower (1) or upper ends (2).
fn by_figures(
    trials: &Trials,
    as_is: &Trial,
    other: &Trial,
    figures: usize,
    alpha: f64,
) -> Option<(f64, f64)> {
    let logs = |trial: &Trial| -> Vec<f64> {
        let values = trial.modelled().map(|run| run[figures]).filter(|&value| value > 0.0);
        values.map(|value| if trials.metric.less_is_better { -value.ln() } else { value.ln() }).collect()
    };
    rank::difference(&logs(as_is), &logs(other), alpha)
}

fn placed(trials: &Trials, trial: &Trial, compared: Option<&Compared>) -> Placed {
    let summary = trial.summary();
    let words = match (compared, trial.kind, &trial.failed) {
        (Some(c), ..) => match c.effect {
            Effect::Faster => "faster",
            Effect::Slower => "slower",
            Effect::None => "no effect",
            Effect::NotFaster => "not faster",
            Effect::Open => "cannot be told",
        },
        (None, Kind::AsIs, None) => "",
        (None, _, Some(_)) if summary.is_none() => "failed",
        (None, Kind::AsIs, _) => "",
        _ if summary.is_none() => "not run",
        _ => "too few runs",
    };
    Placed {
        name: trial.name.clone(),
        what: trial.what.clone(),
        run: trial.run.clone(),
        kind: trial.kind,
        median: summary.map(|s| s.0),
        low: summary.map(|s| s.1),
        high: summary.map(|s| s.2),
        unit: trials.metric.unit.clone(),
        runs: trial.known().len(),
        outliers: trial.outliers(),
        gain: compared.map(|c| c.gain),
        words: words.to_owned(),
        failed: trial.failed.clone(),
    }
}

fn verdict(trials: &Trials, as_is: &Trial, with: &[(&Trial, &Compared)], numa: usize) -> (Hurts, String) {
    let unknown = |why: String| (Hurts::Unknown, why);
    if as_is.known().is_empty() {
        let why = as_is.failed.as_deref().unwrap_or("it was stopped before its first run ended");
        return unknown(format!("the command as it is gave no value: {why}"));
    }
    let telling: Vec<&(&Trial, &Compared)> = with.iter().filter(|(t, _)| t.kind.tells_of_numa()).collect();
    if telling.is_empty() {
        let rounds = as_is.known().len();
        let needed = rank::fewest(FALSE_ALARM / numa.max(1) as f64);
        return unknown(match numa {
            0 if trials.interrupted => "it was stopped before another placement had run".to_owned(),
            0 => "no other placement could be run".to_owned(),
            _ => format!(
                "{rounds} rounds are too few for any interval: --runs {needed} is the least that can tell"
            ),
        });
    }
    let faster = telling.iter().filter(|(_, c)| c.effect == Effect::Faster);
    let best = faster.max_by(|a, b| a.1.gain.estimate.total_cmp(&b.1.gain.estimate));
    if let Some((trial, compared)) = best {
        let (Some(then), Some(now)) = (trial.summary(), as_is.summary()) else {
            return unknown("a placement without values was compared".to_owned());
        };
        let unit = &trials.metric.unit;
        let cause = match trial.kind {
            Kind::OneNode => {
                "one node with fewer cpus does more than all: far memory, or threads that wait for \
                              threads on other nodes"
            }
            Kind::Interleave => {
                "spreading the pages helps: they are on too few nodes, as after a serial \
                                 initialisation"
            }
            Kind::Objects => "these objects are on the wrong nodes as it is",
            Kind::Pinned => "threads that stay help: without pinning they leave their memory behind",
            _ => "the kernel's page migration costs more than it brings",
        };
        let why = format!(
            "{} is faster than the command as it is: {} against {} ({}): {cause}",
            trial.name,
            value(then.0, unit),
            value(now.0, unit),
            gain(&compared.gain, trials.simulated()),
        );
        return (Hurts::Harmful, why);
    }
    let strict = FALSE_ALARM / numa.max(1) as f64;
    let open: Vec<&&(&Trial, &Compared)> = telling.iter().filter(|(_, c)| c.effect == Effect::Open).collect();
    let Some((trial, compared)) = open.iter().max_by(|a, b| a.1.gain.high.total_cmp(&b.1.gain.high)) else {
        if let Some(why) = does_not_scale(as_is, &telling) {
            return unknown(why);
        }
        let sensitive =
            telling.iter().filter(|(t, c)| c.effect == Effect::Slower && t.kind == Kind::Interleave);
        let care = match sensitive.max_by(|a, b| b.1.gain.estimate.total_cmp(&a.1.gain.estimate)) {
            Some((t, c)) => format!(
                "; placement matters, and it is right as it is: {} is {} slower",
                t.name,
                percent(-c.gain.estimate)
            ),
            None => String::new(),
        };
        let tried: Vec<&str> = telling.iter().map(|(t, _)| t.name.as_str()).collect();
        return (
            Hurts::Harmless,
            format!("no placement tried ({}) is faster by {} %{care}", tried.join(", "), 100.0 * EFFECT),
        );
    };
    let rounds = as_is.known().len();
    let mut why = format!("{} may be faster: {}", trial.name, gain(&compared.gain, trials.simulated()));
    if trials.simulated() {
        let runs = by_figures(trials, as_is, trial, 0, PRINTED).map_or(0.0, |(low, high)| high - low);
        let needed = rank::fewest_with_one_odd(PRINTED);
        why += &match runs > 2.0 * EFFECT.ln_1p() {
            true if rounds < needed => {
                format!("; the runs differ too much: with --runs {needed}, one odd run changes nothing")
            }
            true => "; the runs differ too much".to_owned(),
            false => "; the machine's figures do not allow to tell".to_owned(),
        };
    } else if rounds < rank::fewest(strict) {
        why += &format!("; --runs {} is the least that can tell", rank::fewest(strict));
    } else {
        // The width falls with the root of the rounds.
        let half = (compared.gain.high - compared.gain.low) / 2.0;
        let needed = rounds as f64 * (half / EFFECT).powi(2);
        why += &match needed {
            n if n <= 300.0 => format!("; about --runs {:.0} would tell", n.max(rounds as f64 * 1.5).ceil()),
            _ => "; the runs differ too much from each other: a quieter machine is needed".to_owned(),
        };
    }
    unknown(why)
}

/// Why all nodes do less than they should beside the best single one, whose memory is all near; or that there
/// is none to compare with.
fn does_not_scale(as_is: &Trial, telling: &[&(&Trial, &Compared)]) -> Option<String> {
    let one = telling.iter().filter(|(t, _)| t.kind == Kind::OneNode);
    let Some((one, compared)) = one.max_by(|a, b| a.1.gain.estimate.total_cmp(&b.1.gain.estimate)) else {
        return Some(format!(
            "no placement tried is faster by {} %, but none of them was a single node, whose memory is all near: \
             far memory that no placement brings near would not show",
            100.0 * EFFECT
        ));
    };
    let busy = median(&as_is.busy).unwrap_or(as_is.cpus as f64);
    let ideal = busy.min(as_is.cpus as f64) / busy.min(one.cpus as f64);
    let speedup = 1.0 / (1.0 + compared.gain.estimate);
    (speedup < SCALES * ideal).then(|| {
        format!(
            "no placement tried is faster by {} %, but as it is, with {busy:.1} cpus in use, the command is only \
             {speedup:.2} times as fast as on {}, where all memory is near and {ideal:.2} times fewer cpus are: far \
             memory that no placement brings near, or threads that wait for each other",
            100.0 * EFFECT,
            one.name
        )
    })
}

/// `2766 MPoints/s`, four digits.
pub fn value(value: f64, unit: &str) -> String {
    let digits = (3.0 - value.abs().max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    format!("{value:.digits$}{unit}")
}

/// `+6.6 %, 95 % interval +5.1 to +8.0 %`.
pub fn gain(gain: &Gain, simulated: bool) -> String {
    let kind = if simulated { "by the machine's figures" } else { "95 % interval" };
    let [estimate, low, high] = signed_numbers(gain.estimate, gain.low, gain.high);
    format!("{estimate} %, {kind} {low} to {high} %")
}
