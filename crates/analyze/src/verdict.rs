//! The verdict: clean, affected, or unknown with what is missing.
//!
//! What decides is the time at risk on far memory. A timer's samples are time, so their remote
//! share is that. Lines from DRAM are not: a program may fetch few of them, all remote, and lose
//! nothing. There the time at risk is the remote share of the lines times the share of the time
//! that waits for memory; where no time is known, the second may be anything up to 1.

mod between_nodes;
mod evidence;
mod open;
mod reasons;

use super::cached::of_recorded;
use super::counters::Counters;
use super::hardware::Beside;
use super::input::{Input, Judge};
use super::stats::LEAST_SAMPLES;
use super::thresholds::WORTH;
use super::thresholds::{MOST_UNKNOWN, THRESHOLD};
use super::value::{Basis, CacheBound, Finding, Verdict};
pub use between_nodes::BetweenNodes;
pub use evidence::Evidence;
use nearfar_figures::percent::percent;
use nearfar_figures::sizes::{capacity, size};
use nearfar_recording::Resolution;
use open::{high_end, low_end, may_not_wait, objects, saves_little};
use reasons::{page_node_reason, source_reason};

/// Least share of the time that caches may hold for a verdict on far memory to speak of it. // chosen
const SAID: f64 = 0.05;
/// Decides, and says why in one sentence.
pub fn verdict(
    input: &Input,
    judge: &Judge,
    counters: &Counters,
    evidence: &Evidence,
    findings: &[Finding],
) -> (Verdict, String) {
    let decided =
        between_nodes::left_open(evidence.between_nodes, decided(input, judge, counters, evidence, findings));
    with_small(decided, findings)
}

fn decided(
    input: &Input,
    judge: &Judge,
    counters: &Counters,
    evidence: &Evidence,
    findings: &[Finding],
) -> (Verdict, String) {
    let &Evidence { remote_time, interval, marked, files, .. } = evidence;
    let unknown = |why: String| (Verdict::Unknown, why);
    if judge.machine.nodes.len() < 2 {
        return unknown(
            "The machine has one node: nothing can be far. `--as 2x4` predicts a machine with two nodes of 4 cpus."
                .to_string(),
        );
    }
    let n = counters.working.samples;
    if let Some(beside) = evidence.beside {
        return of_loads(evidence, beside, findings);
    }
    if evidence.basis == Basis::DramLines && (n > 0 || evidence.counted.is_some()) {
        return of_lines(input, judge, counters, evidence, findings);
    }
    if n == 0 && marked {
        return unknown(
            "The region of interest that the program marks holds no samples: mark a longer one, or judge the whole run (--whole)."
                .to_string(),
        );
    }
    if n == 0 && counters.total.samples > 0 {
        return unknown(
            "Every sample hit a thread that was waiting at a barrier or lock, so nothing can be said about its memory."
                .to_string(),
        );
    }
    if n == 0 {
        return unknown(format!("The recording has no samples. {}", source_reason(input)));
    }
    if let Some(f) = findings.iter().find(|f| f.shares_lines()) {
        return (Verdict::Affected, of_shared_lines(f));
    }
    if let Some(caches) = evidence.caches {
        return of_caches(caches, n);
    }
    let memory = counters.memory.weight.max(1) as f64;
    let all = counters.working.weight.max(1) as f64;
    let (Some(share), Some(interval)) = (remote_time, interval) else {
        if let (true, Some(interval)) = (evidence.leaves_open(), interval) {
            if let Some(most) = evidence.saves_at_most.filter(|most| *most < WORTH && n >= LEAST_SAMPLES) {
                return clean(format!(
                    "By the speed of its loops and what the caches hold, near memory in place of far would save {} of the time at most",
                    percent(most)
                ));
            }
            if let Some((share, saves)) = &evidence.saves_little {
                return unknown(saves_little(*share, saves));
            }
            let shape = of_recorded(input, judge).then_some(judge.machine.name.as_str());
            return unknown(may_not_wait(evidence, interval, shape));
        }
        let may_wait = counters.computing_waits as f64;
        if counters.memory.weight as f64 + may_wait < THRESHOLD * all && n >= LEAST_SAMPLES {
            return clean(
                percent(counters.memory.weight as f64 / all)
                    + match counters.computing {
                        0 => " of the time touches memory at all",
                        _ => {
                            " of the time is in code that can wait for memory: the loops of the rest compute"
                        }
                    },
            );
        }
        return unknown(format!("The node of no page is known. {}", page_node_reason(input, judge)));
    };
    if interval.low > THRESHOLD {
        let range = match (evidence.held, evidence.computed) {
            (Some(held), _) if held.far_share >= SAID => {
                format!("at least {} if a cache held {}", low_end(interval), objects(held))
            }
            (_, Some(computed)) if computed.far_share >= SAID => {
                format!("at least {}, by how long iterations of its loops take", low_end(interval))
            }
            _ => format!("95 % interval {} to {}", low_end(interval), high_end(interval)),
        };
        return match findings.first() {
            Some(f) => (
                Verdict::Affected,
                format!(
                    "{} of the time is spent on far memory ({range}); first cause: {}.",
                    percent(share),
                    f.cause.text
                ),
            ),
            None => unknown(format!(
                "{} of the time is spent on far memory, but {}",
                percent(share),
                why_unnamed(evidence, "of the time")
            )),
        };
    }
    if n < LEAST_SAMPLES {
        return unknown(format!(
            "{n} samples are too few for a verdict ({LEAST_SAMPLES} are needed): record longer or with a higher rate (-F)."
        ));
    }
    // Constants and tables of mapped files are small, read by all and cached: their unknown page nodes decide nothing.
    let unknown_weight = counters.page_node_unknown.saturating_sub(files) as f64;
    let memory = (memory - files as f64).max(1.0);
    // If even all of the unknown were remote, it would stay below the threshold.
    let bounded = interval.high + unknown_weight / all <= THRESHOLD;
    if interval.high <= THRESHOLD && (bounded || unknown_weight / memory <= MOST_UNKNOWN) {
        let outside = match input.meta.kernel_share() {
            Some(kernel) if kernel >= THRESHOLD => " outside the kernel",
            _ => "",
        };
        return clean(format!(
            "{} to {} of the time{outside} is spent on far memory",
            low_end(interval),
            high_end(interval)
        ));
    }
    if interval.high > THRESHOLD {
        return unknown(format!(
            "{} of the time is spent on far memory, but the 95 % interval ({} to {}) includes the {} threshold: record longer or with a higher rate (-F).",
            percent(share),
            low_end(interval),
            high_end(interval),
            percent(THRESHOLD)
        ));
    }
    unknown(format!(
        "The node of the page is unknown for {} of the samples that touch memory. {}",
        percent(unknown_weight / memory),
        page_node_reason(input, judge)
    ))
}

/// The verdict on a program that a cache holds as a whole.
fn of_caches(caches: &CacheBound, samples: u64) -> (Verdict, String) {
    let held = format!(
        "The program had at most {} of memory at a time, which the level {} cache ({}) holds",
        size(caches.memory_bytes),
        caches.cache_level,
        capacity(caches.cache_bytes)
    );
    let CacheBound {
        far_share_at_most: far,
        moving_threads_at_most: moving,
        between_nodes_at_most: between,
        ..
    } = *caches;
    if caches.at_most() <= THRESHOLD && samples >= LEAST_SAMPLES {
        return clean(format!(
            "{held}: at most {} of the time can have gone to far memory or to other nodes' caches",
            percent(caches.at_most())
        ));
    }
    let why = if far > THRESHOLD {
        format!(
            "{held}, but fetching it once may take {} of so short a run: record a longer one.",
            percent(far)
        )
    } else if samples < LEAST_SAMPLES {
        format!(
            "{held}; {samples} samples are too few to tell whether nodes share its data ({LEAST_SAMPLES} are needed): \
             record longer or with a higher rate (-F)."
        )
    } else if moving > between {
        format!(
            "{held}, but threads changed between caches, and each change fetches their data again: that can have taken up to \
             {} of the time. Bind the threads (OMP_PROC_BIND=close OMP_PLACES=cores, or taskset) and record again.",
            percent(moving)
        )
    } else {
        format!(
            "{held}, so page placement hardly matters. But up to {} of the time is on data that threads of several nodes use, \
             and timer samples cannot show whether one of them writes to it, and the others fetch it from that node's cache: \
             `nearfar record --on MACHINE` counts that.",
            percent(between)
        )
    };
    (Verdict::Unknown, why)
}

/// The verdict where the processor said which loads memory answered.
fn of_loads(evidence: &Evidence, beside: &Beside, findings: &[Finding]) -> (Verdict, String) {
    let unknown = |why: String| (Verdict::Unknown, why);
    let [all, memory] = beside.samples();
    // Memory may be near, or answer little, where nodes take lines from each other's caches all the time.
    let between = beside.between_nodes_at_most();
    let stores = beside.far_stores_at_most();
    let clean = |what: String| {
        if between <= THRESHOLD && stores <= THRESHOLD {
            return clean(what);
        }
        if between <= THRESHOLD {
            return unknown(format!(
                "{what}. But up to {} of the {} is in stores to pages of other nodes, and no processor says where the lines of \
                 stores came from: `nearfar record --on MACHINE` counts them.",
                percent(stores),
                if beside.waits().is_ok() { "time" } else { "stores" }
            ));
        }
        unknown(format!(
            "{what}. But up to {} of the time waits for lines in caches of other nodes, and these samples do not show why: \
             `nearfar record --on MACHINE` counts who writes them.",
            percent(between)
        ))
    };
    if beside.too_few() {
        if let Some(most) = beside.waits_at_most().filter(|&most| most <= THRESHOLD) {
            return clean(format!(
                "Memory answered {memory} of {all} sampled accesses: at most {} of the time waits for memory",
                percent(most)
            ));
        }
        return unknown(format!(
            "Memory answered {memory} of {all} sampled accesses; {LEAST_SAMPLES} are needed to tell how many of them are far: \
             record longer or with a higher rate (-F)."
        ));
    }
    let (Some(share), Some(interval)) = (evidence.remote_time, evidence.interval) else {
        return unknown(
            "The processor did not say of which node the memory was, and the pages are not known.".into(),
        );
    };
    let loads = format!(
        "{} of the loads that memory answered were on far memory ({} to {})",
        percent(share),
        percent(interval.low),
        percent(interval.high)
    );
    if interval.high <= THRESHOLD {
        return clean(loads);
    }
    let (estimate, most) = match beside.waits() {
        Ok(waits) => waits,
        Err(why) => {
            return unknown(format!("{loads}, but how much of the time waits for memory is unknown: {why}."));
        }
    };
    let waits =
        format!("about {} of the time waits for memory ({} at most)", percent(estimate), percent(most));
    if interval.high * most <= THRESHOLD {
        return clean(format!("{loads}, and {waits}"));
    }
    if interval.low * estimate > THRESHOLD {
        return match findings.first() {
            Some(f) => (Verdict::Affected, format!("{loads}, and {waits}; first cause: {}.", f.cause.text)),
            None => unknown(format!("{loads}, and {waits}, but {}", why_unnamed(evidence, "of these loads"))),
        };
    }
    unknown(format!(
        "{loads}, and {waits}: that is {} to {} of the time, which includes the {} threshold.",
        percent(interval.low * estimate),
        percent(interval.high * most),
        percent(THRESHOLD)
    ))
}

/// Why lines that nodes take from each other cost time.
fn of_shared_lines(f: &Finding) -> String {
    let costs = match &f.predicted {
        Some(p) if p.high > 0.9995 => {
            format!("that takes {}, and nothing if store buffers hide it", p.of_cores())
        }
        Some(p) => format!("that takes {}", p.of_cores()),
        None => f.predicted_why.clone().unwrap_or_default(),
    };
    format!("{}; {costs}.", f.cause.text)
}

/// The verdict where lines are counted instead of time.
fn of_lines(
    input: &Input,
    judge: &Judge,
    counters: &Counters,
    evidence: &Evidence,
    findings: &[Finding],
) -> (Verdict, String) {
    let unknown = |why: String| (Verdict::Unknown, why);
    if let Some(f) = findings.first().filter(|f| f.shares_lines()) {
        let text = of_shared_lines(f);
        // What it costs has a wide range. As with samples of a clock, its low end accuses.
        let least = f.predicted.as_ref().map_or(f.at_risk, |p| 1.0 - p.high);
        let verdict = if least >= THRESHOLD { Verdict::Affected } else { Verdict::Unknown };
        return (verdict, text);
    }
    if let Some(why) = evidence.too_few_windows() {
        return unknown(why);
    }
    let margin = evidence.margin();
    if evidence.counted == Some(0) {
        return clean("The caches held everything: no line moved from or to DRAM".to_string());
    }
    let (Some(share), Some(interval)) = (evidence.remote_time, evidence.interval) else {
        return unknown(format!(
            "The node of the page is unknown for every line. {}",
            page_node_reason(input, judge)
        ));
    };
    let traffic = format!("{} of the DRAM traffic goes to far memory", percent(share));
    // Unknown page nodes may all be far; exact counts have their unknown ends in the interval's denominator.
    let blind = match evidence.counted {
        Some(_) => 0.0,
        None => counters.page_node_unknown as f64 / counters.working.weight.max(1) as f64,
    };
    let far = (interval.high + blind).min(1.0);
    let (low, high) = match &evidence.memory_bound {
        Ok(bound) => (interval.low * bound, far * bound),
        Err(_) => (0.0, far),
    };
    let bound = match &evidence.memory_bound {
        Ok(bound) => format!("{} of the time waits for memory", percent(*bound)),
        Err(why) => format!("how much of the time waits for memory is unknown ({why})"),
    };
    if let Some(what_if) = evidence.what_if {
        // What a repair gains says more than what is remote: much of it may cost nothing, or have no single cause.
        if let Some(f) = findings.first() {
            let gain = f.predicted.as_ref().map(|p| 1.0 - p.ratio);
            if let Some(gain) = gain.filter(|&g| g < WORTH + margin) {
                return unknown(format!(
                    "{traffic}, and {bound}; the best repair is predicted to save {}, too close to the {} threshold for a \
                     verdict: record more work. First cause: {}.",
                    percent(gain),
                    percent(WORTH),
                    f.cause.text
                ));
            }
            return (Verdict::Affected, format!("{traffic}, and {bound}; first cause: {}.", f.cause.text));
        }
        // Predictions are of lines whose ends are known.
        if high - low > THRESHOLD {
            return unknown(format!(
                "{traffic}, and {bound}, but where {} of the lines went is not known. {}",
                percent(interval.high - interval.low),
                page_node_reason(input, judge)
            ));
        }
        match what_if.best.as_ref().map(|b| &b.predicted) {
            Some(p) if 1.0 - p.high >= THRESHOLD => {
                return unknown(format!(
                    "{traffic}, and {bound}; another placement of many objects is predicted to save {} of the time \
                     or more, but of none of them enough to name a cause.",
                    percent(1.0 - p.high)
                ));
            }
            // It may gain nothing, so it is no finding; but a program of which it may gain so much is not clean.
            Some(p) if 1.0 - p.ratio >= WORTH => {
                return unknown(format!(
                    "{traffic}, and {bound}; another placement of memory is predicted to save {} of the time, but it may save \
                     {}: record more work.",
                    percent(1.0 - p.ratio),
                    if p.high < 1.0 {
                        format!("{} only", percent(1.0 - p.high))
                    } else {
                        "nothing".to_owned()
                    },
                ));
            }
            Some(p) if 1.0 - p.ratio > WORTH - margin => {
                return unknown(format!(
                    "{traffic}, and {bound}; another placement of memory is predicted to save {}, too close to the {} \
                     threshold for a verdict: record more work.",
                    percent(1.0 - p.ratio),
                    percent(WORTH)
                ));
            }
            _ => {
                return (
                    Verdict::Clean,
                    format!(
                        "{traffic}, and {bound}; no other placement of memory is predicted to save {} of the time.",
                        percent(WORTH)
                    ),
                );
            }
        }
    }
    if evidence.counted.is_some() && low > THRESHOLD - margin && high < THRESHOLD + margin {
        return unknown(format!(
            "{traffic}, and {bound}: that is within {} of {}, where another run may be on the other side: count more work.",
            percent(margin),
            percent(THRESHOLD)
        ));
    }
    if low > THRESHOLD {
        return match findings.first() {
            Some(f) => (Verdict::Affected, format!("{traffic}, and {bound}; first cause: {}.", f.cause.text)),
            None => unknown(format!("{traffic}, and {bound}, but {}", why_unnamed(evidence, "of it"))),
        };
    }
    if evidence.counted.is_none() && counters.working.samples < LEAST_SAMPLES {
        return unknown(format!(
            "{} samples are too few for a verdict ({LEAST_SAMPLES} are needed), and no page was counted.",
            counters.working.samples
        ));
    }
    if high <= THRESHOLD {
        return match &evidence.memory_bound {
            Ok(_) => clean(format!("{traffic}, and {bound}: that is {} of the time at most", percent(high))),
            Err(_) => clean(traffic),
        };
    }
    unknown(match &evidence.memory_bound {
        Err(_) => format!("{traffic}, but {bound}."),
        Ok(_) => format!(
            "{traffic} (interval {} to {}), and {bound}: that includes the {} threshold.",
            low_end(interval),
            percent(far),
            percent(THRESHOLD)
        ),
    })
}

/// Why far memory has no cause: one is not certain, or none has enough of it.
fn why_unnamed(evidence: &Evidence, what: &str) -> String {
    evidence.unnamed.map_or_else(
        || "it is spread over too many objects to name a cause.".to_owned(),
        |unnamed| unnamed.why(what),
    )
}

fn clean(what: String) -> (Verdict, String) {
    (Verdict::Clean, format!("{what}; below {} nothing is worth changing.", percent(THRESHOLD)))
}

/// A clean verdict above findings says what they are.
fn with_small(clean: (Verdict, String), findings: &[Finding]) -> (Verdict, String) {
    let (verdict, why) = clean;
    let nothing = format!("below {} nothing is worth changing.", percent(THRESHOLD));
    let most = findings.iter().map(|f| f.at_risk).fold(0.0, f64::max);
    let small = format!(
        "that is below the {} of an affected program. Small findings, of {} at most, are listed.",
        percent(THRESHOLD),
        percent(most)
    );
    match (verdict, findings.is_empty()) {
        (Verdict::Clean, false) => (verdict, why.replace(&nothing, &small)),
        _ => (verdict, why),
    }
}

/// Share of samples that are unresolved, for notes.
pub fn unresolved_share(counters: &Counters) -> f64 {
    counters.resolved(Resolution::Unresolved) as f64 / counters.total.weight.max(1) as f64
}
