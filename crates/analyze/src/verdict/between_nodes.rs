//! Lines that nodes may take from each other, where only samples of a clock are known.

use crate::counters::Counters;
use crate::stats::draws_interval;
use crate::thresholds::THRESHOLD;
use crate::value::Verdict;
use nearfar_figures::percent::percent;

/// How many times longer a core waits for a line that a core of another node has changed than for one of its own node, at most:
/// 140 to 250 ns in place of 30 to 60. // chosen
const FARTHER: f64 = 5.0;

/// Time on lines that threads of several nodes use, and one was seen to write: upper ends of 95 % intervals.
#[derive(Clone, Copy, Debug)]
pub struct BetweenNodes {
    /// As a part of the time.
    recorded: f64,
    /// As a part of the time on the judged machine, where such a line may come from farther away.
    judged: f64,
}

impl BetweenNodes {
    /// `assumed`: whether the judged machine is another than the recorded one.
    pub fn new(counters: &Counters, assumed: bool) -> BetweenNodes {
        let all = counters.working;
        let share = counters.met.between_nodes() as f64 / all.weight.max(1) as f64;
        let hits = (share * all.samples as f64).ceil() as u64;
        let recorded = draws_interval(hits.min(all.samples), all.samples).map_or(1.0, |i| i.high);
        let farther = if assumed { FARTHER } else { 1.0 };
        BetweenNodes { recorded, judged: farther * recorded / (1.0 + (farther - 1.0) * recorded) }
    }
}

/// Near memory is not all: of a program whose nodes may take lines from each other for long, a clock does not say that it is clean.
pub(super) fn left_open(lines: Option<BetweenNodes>, (verdict, why): (Verdict, String)) -> (Verdict, String) {
    let open = lines.filter(|b| verdict == Verdict::Clean && b.judged > THRESHOLD);
    let Some(BetweenNodes { recorded, judged }) = open else { return (verdict, why) };
    let what = why.split_once("; below ").map_or(why.as_str(), |(what, _)| what);
    let there = if judged > recorded {
        format!(", which may be {} where they come from another socket", percent(judged))
    } else {
        String::new()
    };
    let text = format!(
        "{what}. But up to {} of the time is on cache lines that threads of several nodes use and write{there}; a clock cannot \
         tell whether they wait for each other: `nearfar record --on MACHINE` counts that.",
        percent(recorded)
    );
    (Verdict::Unknown, text)
}
