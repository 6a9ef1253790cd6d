//! In what a rank differs from most others, in words.

use super::classes::{Class, Kind};
use super::spread::{LEAST, Spread, outlier_above};
use super::summary::{RankPhase, Summary};
use nearfar_analyze::THRESHOLD;
use nearfar_figures::percent::percent;
use std::collections::HashMap;

/// The figures of the ranks that others are compared with: the largest class.
pub struct Usual<'a> {
    kind: &'a Kind,
    seconds: Option<Spread>,
    slow: Option<f64>,
    far: Option<Spread>,
    exit: Option<&'a str>,
    nearfar: &'a str,
    /// Time on far pages by object's key, as a share of all time.
    objects: HashMap<&'a str, f64>,
    /// Own seconds of phases: the median, and from where on one stands out.
    phases: HashMap<&'a str, (f64, f64)>,
}

impl<'a> Usual<'a> {
    /// Of the ranks of a class.
    pub fn new(class: &'a Class, of_class: &[&'a Summary]) -> Option<Usual<'a>> {
        let seconds: Vec<f64> = of_class.iter().map(|s| s.seconds).collect();
        let mut costs: HashMap<&str, Vec<f64>> = HashMap::new();
        for object in of_class.iter().flat_map(|s| &s.objects) {
            costs.entry(&object.key).or_default().extend(object.far_time_share);
        }
        let median = |costs: Vec<f64>| Spread::of(costs).map(|s| s.median);
        let mut times: HashMap<&str, Vec<f64>> = HashMap::new();
        for phase in of_class.iter().flat_map(|s| &s.phases) {
            times.entry(&phase.name).or_default().push(phase.own_seconds);
        }
        let phases = times.into_iter().filter_map(|(name, own)| {
            let from = outlier_above(&own)?;
            Some((name, (Spread::of(own)?.median, from)))
        });
        Some(Usual {
            phases: phases.collect(),
            kind: &class.of,
            slow: outlier_above(&seconds),
            seconds: Spread::of(seconds),
            far: Spread::of(of_class.iter().filter_map(|s| s.far_share)),
            exit: of_class.first()?.exit.as_deref(),
            nearfar: &of_class.first()?.nearfar,
            objects: costs.into_iter().filter_map(|(key, costs)| Some((key, median(costs)?))).collect(),
        })
    }

    /// What is different in a rank, most telling first; empty if nothing is.
    pub fn differences(&self, s: &Summary, class: &Class) -> Vec<String> {
        let (usual, own) = (self.kind, &class.of);
        let mut all = Vec::new();
        if own.program != usual.program {
            all.push(format!("runs {}, the others {}", own.program, usual.program));
        } else if own.build != usual.build {
            all.push(format!("runs another build of {}", own.program));
        }
        if own.machine_key != usual.machine_key {
            all.push(format!("on another kind of machine: {} (others: {})", own.machine, usual.machine));
        }
        let binding = |k: &Kind| (k.cpus, k.nodes, k.shared);
        if binding(own) != binding(usual) {
            all.push(format!(
                "bound differently: {} (others: {})",
                bound_to(own, &format!(" ({})", s.rank.cpus)),
                bound(usual)
            ));
        }
        if own.thread_nodes != usual.thread_nodes && own.nodes == usual.nodes {
            all.push(format!(
                "its threads ran on {} (others: {})",
                nodes(own.thread_nodes),
                nodes(usual.thread_nodes)
            ));
        }
        all.extend(self.far(s));
        if let (Some(from), Some(seconds)) = (self.slow, self.seconds)
            && s.seconds > from
        {
            all.push(format!("slower: {:.2} s (median of the others: {:.2} s)", s.seconds, seconds.median));
        }
        all.extend(self.phase(s));
        if own.verdict != usual.verdict {
            all.push(format!("verdict {} (others: {})", own.verdict, usual.verdict));
        } else if own.findings != usual.findings {
            all.push(format!("found: {} (others: {})", list(&own.findings), list(&usual.findings)));
        }
        if s.exit.as_deref() != self.exit {
            let exit = |e: Option<&str>| e.unwrap_or("end unknown").to_owned();
            all.push(format!("ended with {} (others: {})", exit(s.exit.as_deref()), exit(self.exit)));
        }
        if s.nearfar != self.nearfar {
            all.push(format!("recorded by nearfar {} (others: {})", s.nearfar, self.nearfar));
        }
        all
    }

    /// The phase that takes much longer than in the others. A rank that the others wait for is as fast as they are in all;
    /// calls of MPI are left out, since the rank that is longest in them is one that waits.
    fn phase(&self, s: &Summary) -> Option<String> {
        let least = LEAST * self.seconds?.median;
        let own_work =
            |p: &&RankPhase| !p.name.rsplit(" => ").next().is_some_and(|own| own.starts_with("MPI_"));
        let longer = s.phases.iter().filter(own_work).filter_map(|p| {
            let &(median, from) = self.phases.get(p.name.as_str())?;
            let more = p.own_seconds - median;
            (p.own_seconds > from && more >= least).then_some((more, median, p))
        });
        let (_, median, phase) = longer.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!(
            "phase {} takes longer: {:.2} s (median of the others: {median:.2} s)",
            phase.name, phase.own_seconds
        ))
    }

    /// More time on far memory than the others, for certain; and the object that has it.
    fn far(&self, s: &Summary) -> Vec<String> {
        let mut all = Vec::new();
        if let (Some(share), Some(ci), Some(far)) = (s.far_share, s.far_share_ci, self.far)
            && ci.low > far.max
            && share - far.median >= THRESHOLD / 2.0
        {
            all.push(format!(
                "{} of its time is at risk on far memory (others: {} to {})",
                percent(share),
                percent(far.min),
                percent(far.max)
            ));
            let worst = s
                .objects
                .iter()
                .filter_map(|o| Some((o.far_time_share?, o)))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((cost, object)) = worst {
                let usual = self.objects.get(object.key.as_str());
                let others = usual.map_or("not among their largest objects".to_owned(), |&c| percent(c));
                let at = object.allocated_at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                all.push(format!(
                    "{}{at} is on far pages for {} of the time (others: {others})",
                    object.name,
                    percent(cost)
                ));
            }
            let phase = s.phases.iter().filter_map(|p| Some((p.part_of_far?, p)));
            if let Some((part, phase)) = phase.max_by(|a, b| a.0.total_cmp(&b.0))
                && part > 0.5
            {
                all.push(format!("{} of its far samples are in phase {}", percent(part), phase.name));
            }
        }
        all
    }
}

/// `2 cpus on 2 nodes`.
pub(super) fn bound(kind: &Kind) -> String {
    bound_to(kind, "")
}

fn bound_to(kind: &Kind, which: &str) -> String {
    if kind.cpus == 0 {
        return "cpus unknown".to_owned();
    }
    let unit = if kind.cpus == 1 { "cpu" } else { "cpus" };
    let shared = if kind.shared { ", with more ranks on one of them than is usual" } else { "" };
    format!("{} {unit}{which} on {}{shared}", kind.cpus, nodes(kind.nodes))
}

fn nodes(n: u64) -> String {
    match n {
        1 => "1 node".to_owned(),
        n => format!("{n} nodes"),
    }
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
