//! The run over time: near and far by part of the run, and the phases that the program marks.

use crate::analyze::attribute::Context;
use crate::analyze::hash::IdIndex;
use crate::analyze::stats::{BLOCKS, Block};
use crate::analyze::tally::Tally;
use crate::analyze::value::{Band, MomentShare};

/// Samples per part at least, about: fewer say nothing of a share. // chosen
const SAMPLES: u64 = 40;
/// Numbers of parts that divide the blocks of the pass.
const PARTS: [usize; 6] = [200, 100, 50, 40, 20, 10];
/// Most bands; the longest are kept. // chosen
const BANDS: usize = 200;

/// Near and far over time, seconds after the start of the recording.
pub(super) fn moments(context: &Context, tally: &Tally) -> Vec<MomentShare> {
    let (first, last) = context.region.bounds;
    if tally.total.samples == 0 || last <= first {
        return Vec::new();
    }
    let parts = PARTS.into_iter().find(|&p| tally.total.samples / p as u64 >= SAMPLES).unwrap_or(PARTS[5]);
    let per = BLOCKS / parts;
    let begin = seconds(context, first);
    let step = (last - first + 1) as f64 / 1e9 / parts as f64;
    let total = tally.working.weight.max(1) as f64;
    let sum = |blocks: &[Block], part: usize| {
        let own = &blocks[part * per..(part + 1) * per];
        (own.iter().map(|b| b.part).sum::<u64>(), own.iter().map(|b| b.whole).sum::<u64>())
    };
    let moment = |part: usize| {
        let (far, known) = sum(&tally.known_blocks, part);
        let working = sum(&tally.working_blocks, part).1;
        MomentShare {
            from_s: begin + step * part as f64,
            to_s: begin + step * (part + 1) as f64,
            share: working as f64 / total,
            near_share: known.saturating_sub(far) as f64 / total,
            far_share: far as f64 / total,
        }
    };
    (0..parts).map(moment).collect()
}

fn seconds(context: &Context, time_ns: u64) -> f64 {
    time_ns.saturating_sub(context.input.meta.start_ns) as f64 / 1e9
}

/// Phases of all threads by name, stretches that overlap or touch joined.
pub(super) fn bands(context: &Context, threads: &IdIndex) -> Vec<Band> {
    let p = &context.input.phases;
    let end = context.survey.last_ns.max(context.region.bounds.1);
    let mut all: Vec<(&str, u64, u64)> = (0..p.name.len())
        .filter(|&i| threads.get(p.thread[i]).is_some())
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
        from_s: seconds(context, from),
        to_s: seconds(context, to),
    };
    joined.into_iter().map(band).collect()
}
