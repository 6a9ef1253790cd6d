//! Two reports, before and after a change: what became of the program, and of each object, function and
//! node. docs/diff.md says how it is decided.
#![forbid(unsafe_code)]

mod change;
mod comparable;
mod nodes;
mod phases;
pub mod ranks;
pub mod reproduce;
mod rivals;
mod rows;
pub mod trials;
mod value;
mod warnings;
mod work;

pub use change::{EFFECT, FEW, SAME_RUN};
pub use value::*;

use value::Decided;

use comparable::{Comparable, cpu_seconds};
use nearfar_analyze::{Basis, MOST_UNKNOWN, Report};
use nearfar_figures::percent::percent;
use nearfar_timing::Binding;

/// Version of the JSON.
const SCHEMA: u32 = 2;

/// Compares two reports, if they are of the same work as far as can be seen.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    compared(before, after, work::differs(before, after))
}

/// Compares two reports that are of the same work, whatever it looks like: the caller knows.
pub fn compare_same_work(before: &Report, after: &Report) -> Comparison {
    compared(before, after, Ok(()))
}

fn compared(before: &Report, after: &Report, work: Result<(), String>) -> Comparison {
    let order = nodes::renumber(before, after);
    let renumbered = renumbered(before, after, order.as_deref());
    let comparable = Comparable::new(before, after, work);
    let (b, mut a) = (side(before), side(after));
    if let Some(time) = &mut a.time {
        time.binds = rename(time.binds, &renumbered);
    }
    let time = comparable.time.clone().and_then(|()| time(&b, &a));
    let remote = comparable.shares.clone().and_then(|()| remote(&b, &a));
    let (verdict, why, decided_by) = verdict(&b, &a, &time, &remote, &comparable);
    let objects = rows::objects(before, after, &comparable);
    let decided = contradicted((verdict, why, decided_by), &objects);
    let (decided, time_with_waits) = rivals::with_waits(decided, time.as_ref().ok(), before, after);
    let (verdict, why, decided_by) = decided;
    let mut warnings = warnings::warnings(before, after);
    warnings.extend(time.as_ref().ok().and_then(|t| warnings::short(&b, &a, *t)));
    if !renumbered.is_empty() {
        warnings.insert(0, warnings::renumbered(&renumbered));
    }
    let mut comparison = Comparison {
        schema: SCHEMA,
        verdict,
        why,
        decided_by,
        objects,
        functions: rows::functions(before, after, &comparable),
        nodes: rows::nodes(before, after, order.as_deref(), &comparable),
        phases: phases::phases(before, after),
        before: b,
        after: a,
        work_why: comparable.work.as_ref().err().cloned(),
        time_why: time.as_ref().err().cloned(),
        time: time.ok(),
        time_with_waits,
        remote_why: remote.as_ref().err().cloned(),
        remote: remote.ok(),
        renumbered,
        warnings,
    };
    // As JSON, since floating-point numbers that are not finite differ from themselves.
    let all = |r: &Report| serde_json::to_string(r).ok();
    if all(before) == all(after) {
        twice(&mut comparison);
    }
    comparison
}

/// One recording twice has no differences, however little it knows.
fn twice(c: &mut Comparison) {
    c.verdict = Change::NoEffect;
    c.why = "both recordings say exactly the same: they are one, or copies".to_owned();
    (c.decided_by, c.work_why) = (None, None);
    let rows = c.objects.iter_mut().chain(&mut c.functions).map(|r| &mut r.change);
    rows.chain(c.nodes.iter_mut().map(|n| &mut n.change)).for_each(|change| *change = Change::NoEffect);
}

fn renumbered(before: &Report, after: &Report, order: Option<&[usize]>) -> Vec<(u32, u32)> {
    let pair = |(i, &p): (usize, &usize)| (before.machine.node_ids[i], after.machine.node_ids[p]);
    match order {
        Some(order) if order.iter().enumerate().any(|(i, &p)| i != p) => {
            order.iter().enumerate().map(pair).collect()
        }
        _ => Vec::new(),
    }
}

/// A resource of the second recording by the node numbers of the first.
fn rename(binds: Binding, renumbered: &[(u32, u32)]) -> Binding {
    let node = |id: u32| renumbered.iter().find(|p| p.1 == id).map_or(id, |p| p.0);
    match binds {
        Binding::Memory { node: id } => Binding::Memory { node: node(id) },
        Binding::Link { from, to } => Binding::Link { from: node(from), to: node(to) },
        other => other,
    }
}

fn side(r: &Report) -> Side {
    let dram = |c: &nearfar_analyze::Counted| {
        let sum = |near: bool| {
            let flows = c.dram.iter().filter(|d| (d.from == d.page_node) == near);
            flows.map(|d| d.read_bytes + d.write_bytes).sum()
        };
        Bytes { local: sum(true), remote: sum(false) }
    };
    Side {
        recording: String::new(),
        command: r.command.clone(),
        exit: r.exit.clone(),
        machine: r.machine.name.clone(),
        assumed: r.machine.assumed,
        basis: r.basis,
        region: r.region,
        sources: warnings::sources(r),
        samples: r.samples(),
        threads: r.threads.len(),
        verdict: r.verdict,
        wall_seconds: (r.basis == Basis::StallTime).then_some(r.seconds),
        cpu_seconds: cpu_seconds(r),
        time: r.time.as_ref().map(|t| TimeRange {
            seconds: t.seconds,
            low: t.low,
            high: t.high,
            binds: t.binds,
        }),
        remote_share: r.remote_time_share,
        remote_share_ci: r.remote_time_share_ci,
        page_node_unknown_share: r.page_node_unknown_share,
        // Of the time that is not spent waiting, as the remote share is.
        memory_share: 1.0 - r.compute_share / (1.0 - r.spinning_share).max(1e-9),
        dram: r.counters.as_ref().map(dram),
    }
}

fn time(before: &Side, after: &Side) -> Result<TimeChange, String> {
    match (&before.time, &after.time) {
        (Some(b), Some(a)) if b.seconds > 0.0 && b.low > 0.0 && b.high > 0.0 => {
            Ok(TimeChange { ratio: a.seconds / b.seconds, low: a.low / b.high, high: a.high / b.low })
        }
        (Some(_), Some(_)) => Err("the first recording's work took no time".to_owned()),
        (None, None) if before.basis == Basis::StallTime => {
            Err("samples of a clock say where time went, not what the same work takes".to_owned())
        }
        (None, _) => Err("of the first recording no time is known".to_owned()),
        (_, None) => Err("of the second recording no time is known".to_owned()),
    }
}

fn remote(before: &Side, after: &Side) -> Result<Difference, String> {
    let share = |s: &Side| {
        let ci = change::blind_whole(s.remote_share_ci?, s.page_node_unknown_share, s.memory_share);
        Some((s.remote_share?, ci))
    };
    match (share(before), share(after)) {
        (Some(b), Some(a)) => Ok(change::difference(b, a)),
        (None, _) => Err("of the first recording no remote share is known".to_owned()),
        (_, None) => Err("of the second recording no remote share is known".to_owned()),
    }
}

/// A program that is better although each object that changed is worse: what became faster is not their placement.
fn contradicted(decided: Decided, objects: &[RowChange]) -> Decided {
    let (verdict, why, by) = decided;
    let of = |change: Change| objects.iter().filter(move |o| o.change == change).count();
    let better = of(Change::Better) + of(Change::Repaired);
    if !matches!(verdict, Change::Better | Change::Repaired) || better > 0 || of(Change::Worse) == 0 {
        return (verdict, why, by);
    }
    let worse = objects.iter().find(|o| o.change == Change::Worse).map_or("", |o| &o.name);
    match by {
        Some(DecidedBy::Time) => {
            let why =
                format!("{why}; but more of {worse} is remote, so placement is not what made it faster");
            (Change::Better, why, by)
        }
        _ => {
            let why = format!(
                "{why}, but each object that changed is worse, {worse} first: they may not have done the same work"
            );
            (Change::Unknown, why, by)
        }
    }
}

fn verdict(
    before: &Side,
    after: &Side,
    time: &Result<TimeChange, String>,
    remote: &Result<Difference, String>,
    comparable: &Comparable,
) -> Decided {
    if let Err(why) = &comparable.work {
        let why = format!("not comparable: {why}. If it is the same work all the same, say --same-work");
        return (Change::Unknown, why, None);
    }
    if let Ok(t) = time {
        return by_time(before, after, *t, comparable.machine);
    }
    if let (Ok(()), Some(why)) = (&comparable.time, both_bounded(before, after)) {
        return (Change::NoEffect, why, None);
    }
    match (&comparable.time, remote) {
        (Ok(()), Ok(d)) => by_share(before, after, *d),
        (Err(why), _) | (_, Err(why)) => (Change::Unknown, why.clone(), None),
    }
}

/// Caches hold both: of neither a share is known, and no difference can be larger than what both may be at most.
fn both_bounded(before: &Side, after: &Side) -> Option<String> {
    let most = |s: &Side| s.remote_share_ci.filter(|_| s.remote_share.is_none()).map(|ci| ci.high);
    let (b, a) = (most(before)?, most(after)?);
    (b.max(a) <= SAME_RUN).then(|| {
        format!("at most {} and {} of the time went to far memory: caches hold both", percent(b), percent(a))
    })
}

fn by_time(before: &Side, after: &Side, t: TimeChange, same_machine: bool) -> Decided {
    let far = match (before.remote_share, after.remote_share) {
        (Some(b), Some(a)) => format!("remote traffic went from {} to {}", percent(b), percent(a)),
        _ => "how much of the traffic is remote is unknown".to_owned(),
    };
    let by = match 100.0 * (t.ratio - 1.0) {
        by if by.abs() < 0.05 => "the modelled time of the counted work stayed the same".to_owned(),
        by => format!(
            "the modelled time of the counted work {} by {}",
            if by < 0.0 { "fell" } else { "rose" },
            percent(by.abs() / 100.0)
        ),
    };
    let decided = Some(DecidedBy::Time);
    if !same_machine && t.low <= 1.0 && t.high >= 1.0 {
        let why =
            format!("{by}, but the machines differ and their figures leave open which is faster; {far}");
        return (Change::Unknown, why, decided);
    }
    let fell = |b: u64, a: u64| a as f64 <= b as f64 / 2.0;
    let lines = before.dram.zip(after.dram).is_some_and(|(b, a)| fell(b.remote, a.remote));
    let share = before.remote_share.zip(after.remote_share).is_some_and(|(b, a)| change::repaired(b, a));
    let change = match t.ratio {
        r if r > 1.0 + SAME_RUN => Change::Worse,
        r if r >= 1.0 - SAME_RUN => Change::NoEffect,
        _ if lines && share => Change::Repaired,
        _ => Change::Better,
    };
    let why = match change {
        Change::NoEffect => format!(
            "{by} ({} and less may be two runs of one program); {far}{}",
            percent(SAME_RUN),
            if share { ", but hardly anything had waited for it" } else { "" }
        ),
        _ => format!("{by}; {far}"),
    };
    (change, why, decided)
}

fn by_share(before: &Side, after: &Side, d: Difference) -> Decided {
    let (b, a) = (before.remote_share.unwrap_or(0.0), after.remote_share.unwrap_or(0.0));
    let change = match change::whole(d) {
        Change::Better if change::repaired(b, a) => Change::Repaired,
        change => change,
    };
    let basis = before.basis.words();
    let interval = match d.high - d.low < 0.0005 {
        true => String::new(),
        false => format!(", 95 % interval {:+.1} to {:+.1}", 100.0 * d.low, 100.0 * d.high),
    };
    let far = format!(
        "the remote share of {basis} went from {} to {} ({:+.1} points{interval})",
        percent(b),
        percent(a),
        100.0 * d.value
    );
    let why = match (change, before.basis) {
        (Change::Unknown, _)
            if before.page_node_unknown_share.max(after.page_node_unknown_share) > MOST_UNKNOWN =>
        {
            format!(
                "{far}, but the node of the page is unknown for {} and {} of the samples that touch memory",
                percent(before.page_node_unknown_share),
                percent(after.page_node_unknown_share)
            )
        }
        (Change::Unknown, _) => {
            format!("{far}: too few samples to tell; record longer or with a higher rate (-F)")
        }
        (_, Basis::StallTime) => {
            format!("{far}; what that is in seconds is not known from samples: `nearfar check` times it")
        }
        _ => format!("{far}; no time is known of both"),
    };
    (change, why, Some(DecidedBy::RemoteShare))
}

/// The answer for continuous integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Not worse by more than allowed.
    Passed,
    /// Worse by more; the sentence says by how much.
    Worse(String),
    /// It cannot be told; the sentence says why.
    Unknown(String),
}

impl Comparison {
    /// Whether the second recording is worse by more than `allowed` percent of the time, or, where no time is
    /// known of both, percentage points of the remote share.
    pub fn gate(&self, allowed: f64) -> Gate {
        let unknown = || Gate::Unknown(format!("it cannot be told whether it is worse: {}", self.why));
        if self.verdict == Change::Unknown {
            return unknown();
        }
        match (self.decided_by, self.time, self.remote) {
            (Some(DecidedBy::Time), Some(t), _) => {
                // Of a range with waits, what is more at least.
                let (ratio, what) = match self.time_with_waits {
                    Some(waits) => (waits.low, "the time with waits for contended lines is at least"),
                    None => (t.ratio, "the modelled time is"),
                };
                let by = 100.0 * (ratio - 1.0);
                match by > allowed {
                    true => {
                        Gate::Worse(format!("{what} {} more; {allowed} % are allowed", percent(by / 100.0)))
                    }
                    false => Gate::Passed,
                }
            }
            (Some(DecidedBy::RemoteShare), _, Some(d)) => {
                let by = 100.0 * d.value;
                match (by > allowed, d.low > 0.0) {
                    (false, _) => Gate::Passed,
                    (true, true) => Gate::Worse(format!(
                        "the remote share is {by:.1} percentage points more; {allowed} are allowed"
                    )),
                    (true, false) => unknown(),
                }
            }
            // One recording twice.
            (None, ..) => Gate::Passed,
            _ => unknown(),
        }
    }
}
