//! Phases that the program marks, on the clock of the run's timeline.

use crate::context::Context;
use crate::counters::Counters;
use crate::value::Band;

/// Most bands; the longest are kept. // chosen
const BANDS: usize = 200;

/// Recorded times with the seconds that they are in the run's timeline, ascending in both. Where lines were counted,
/// samples know both; elsewhere the timeline is on the recorder's clock.
pub(super) struct Clock {
    points: Vec<(u64, f64)>,
    start_ns: u64,
}

impl Clock {
    pub(super) fn new(context: &Context, counters: &Counters) -> Clock {
        let mut points: Vec<(u64, f64)> = Vec::new();
        if let Some(timing) = context.timing {
            let mut epochs: Vec<_> = counters.over_time.clock.iter().map(|(&e, &r)| (e, r)).collect();
            epochs.sort_unstable_by_key(|e| e.0);
            for (epoch, recorded) in epochs {
                for (time, within) in [(recorded.first, 0.0), (recorded.last, 1.0)] {
                    let Some(at) = timing.moment(epoch, within) else { continue };
                    // Cpus are not exactly as far as each other.
                    let time = points.last().map_or(time, |p| p.0.max(time));
                    points.push((time, at * timing.time.seconds));
                }
            }
        }
        Clock { points, start_ns: context.input.meta.start_ns }
    }

    pub(super) fn seconds(&self, time_ns: u64) -> f64 {
        if self.points.is_empty() {
            return time_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        }
        let after = self.points.partition_point(|p| p.0 <= time_ns);
        match (after.checked_sub(1).map(|i| self.points[i]), self.points.get(after)) {
            (Some(before), Some(&next)) => {
                let part = (time_ns - before.0) as f64 / (next.0 - before.0).max(1) as f64;
                before.1 + part * (next.1 - before.1)
            }
            (Some(last), None) => last.1,
            (None, first) => first.map_or(0.0, |f| f.1),
        }
    }
}

/// Phases of all threads by name, parts that overlap or touch joined.
pub(super) fn bands(context: &Context, clock: &Clock) -> Vec<Band> {
    let p = &context.input.phases;
    let end = context.survey.last_ns.max(context.region.bounds.1);
    let mut all: Vec<(&str, u64, u64)> = (0..p.name.len())
        .filter(|&i| context.threads.get(p.thread[i]).is_some())
        .map(|i| (p.name[i].as_str(), p.begin_ns[i], p.end_ns[i].min(end).max(p.begin_ns[i])))
        .collect();
    all.sort_unstable();
    let mut joined: Vec<(&str, u64, u64)> = Vec::new();
    for band in all {
        match joined.last_mut().filter(|l| l.0 == band.0 && band.1 <= l.2) {
            Some(last) => last.2 = last.2.max(band.2),
            None => joined.push(band),
        }
    }
    joined.sort_by_key(|b| (std::cmp::Reverse(b.2 - b.1), b.1));
    joined.truncate(BANDS);
    joined.sort_by_key(|b| b.1);
    let band = |(name, from, to): (&str, u64, u64)| Band {
        name: name.to_owned(),
        from_s: clock.seconds(from),
        to_s: clock.seconds(to),
    };
    joined.into_iter().map(band).collect()
}
