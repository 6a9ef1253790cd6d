//! The summaries of all ranks, merged.

use super::classes::{Class, classes};
use super::differ::Usual;
use super::hosts::{HostRow, hosts};
use super::objects::{CommonObject, common};
use super::phases::{CommonPhase, common_phases};
use super::spread::Spread;
use super::summary::Summary;
use nearfar_analyze::{Interval, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON of a run; it rises when a field is renamed, removed or changes its meaning.
pub const SCHEMA: u32 = 1;
/// Most ranks that are named as missing; of more, their number counts. // chosen
const MISSING: usize = 4096;

/// A rank's directory as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name of its host, as in the directory's name.
    pub host: String,
    /// Its number, as in the directory's name.
    pub rank: u32,
    /// Its summary.
    pub summary: Result<Box<Summary>, NoSummary>,
}

/// Why the summary is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSummary {
    /// The recorder was killed, or is on another host and still runs.
    Killed,
    /// The recorder still runs: its process id.
    Running(u32),
    /// It was written by another version of nearfar, in a form that this one cannot read.
    OtherVersion(String),
    /// Its files cannot be read.
    Damaged(String),
}

/// What became of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its program ended with exit status 0.
    Complete,
    /// With another one.
    Failed,
    /// Its program was ended by a signal.
    Killed,
    /// Its recording ends before its program: the recorder was killed, or stopped.
    Unfinished,
    /// It is still being recorded.
    Running,
    /// Recorded by a version of nearfar whose summary this one cannot read.
    OtherVersion,
    /// Its files cannot be read.
    Damaged,
}

/// One rank. Shares are of its own time; `null` is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct RankRow {
    /// Its number.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// What became of it.
    pub state: State,
    /// The same with details: exit status, signal, version.
    pub end: String,
    /// Position in `classes`; `null` without a summary.
    pub class: Option<usize>,
    /// Wall time of its recording, seconds.
    pub seconds: Option<f64>,
    /// CPU time of its program, seconds.
    pub cpu_seconds: Option<f64>,
    /// Samples.
    pub samples: Option<u64>,
    /// Its verdict.
    pub verdict: Option<Verdict>,
    /// Why, in one sentence.
    pub verdict_why: Option<String>,
    /// Share of its time at risk on far memory.
    pub far_share: Option<f64>,
    /// 95 % interval of `far_share`.
    pub far_share_ci: Option<Interval>,
    /// Share of its samples that wait for other threads or ranks.
    pub waiting_share: Option<f64>,
    /// In what it differs from the largest class, most telling first.
    pub differs: Vec<String>,
}

/// A run of several ranks.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the launch.
    pub launch: String,
    /// Which launcher.
    pub launcher: String,
    /// Ranks that there should be; `null` if the launcher did not say.
    pub size: Option<u32>,
    /// The command of most ranks.
    pub command: Vec<String>,
    /// The machine that most ranks were judged on.
    pub judged_on: Option<String>,
    /// Whether that machine is assumed.
    pub assumed: bool,
    /// All ranks that were found, by number.
    pub ranks: Vec<RankRow>,
    /// Ranks of which there is no recording, the first 4096 of them.
    pub missing: Vec<u32>,
    /// How many these are; `null` if `size` is.
    pub missing_count: Option<u64>,
    /// Ranks that are alike, the largest class first.
    pub classes: Vec<Class>,
    /// Wall time of the ranks, seconds.
    pub seconds: Option<Spread>,
    /// CPU time of the ranks' programs, seconds.
    pub cpu_seconds: Option<Spread>,
    /// Share of the ranks' time at risk on far memory, of the ranks of which it is known.
    pub far_share: Option<Spread>,
    /// Share of the ranks' samples that wait for other threads or ranks.
    pub waiting_share: Option<Spread>,
    /// Objects of all ranks, those first that cost one of them most far time.
    pub objects: Vec<CommonObject>,
    /// Phases of all ranks by name, those first in which one of them spent most time; at most 100.
    pub phases: Vec<CommonPhase>,
    /// The hosts, and what was counted of each.
    pub hosts: Vec<HostRow>,
    /// What is missing or doubtful, in words.
    pub notes: Vec<String>,
}

impl Run {
    /// Of all ranks: affected if one is; clean if all that the launcher started are there, are clean and ended well.
    pub fn verdict(&self) -> Verdict {
        let whole = self.missing_count == Some(0) && self.ranks.iter().all(|r| r.state == State::Complete);
        match () {
            () if self.ranks.iter().any(|r| r.verdict == Some(Verdict::Affected)) => Verdict::Affected,
            () if whole && self.ranks.iter().all(|r| r.verdict == Some(Verdict::Clean)) => Verdict::Clean,
            () => Verdict::Unknown,
        }
    }
}

/// Merges what was found of a launch.
pub fn merge(launch: &str, launcher: &str, size: Option<u32>, found: Vec<Found>, notes: Vec<String>) -> Run {
    let mut notes = notes;
    let mut by_rank: BTreeMap<u32, Found> = BTreeMap::new();
    for one in found {
        if let Some(other) = by_rank.get(&one.rank) {
            notes.push(format!(
                "Rank {} was found on {} and on {}: the second is ignored.",
                one.rank, other.host, one.host
            ));
        } else {
            by_rank.insert(one.rank, one);
        }
    }
    let summaries: Vec<&Summary> = by_rank.values().filter_map(|f| f.summary.as_deref().ok()).collect();
    let (classes, positions) = classes(&summaries);
    let class_of: BTreeMap<u32, usize> =
        summaries.iter().map(|s| s.rank.rank).zip(positions.iter().copied()).collect();
    let first: Vec<&Summary> =
        summaries.iter().zip(&positions).filter(|(_, p)| **p == 0).map(|(s, _)| *s).collect();
    // Of two ranks that differ, none is the usual one.
    let usual = classes.first().filter(|c| c.ranks.len() * 2 > summaries.len() || summaries.len() > 2);
    let usual = usual.and_then(|class| Usual::new(class, &first));
    let ranks: Vec<RankRow> = by_rank
        .values()
        .map(|f| {
            let class = class_of.get(&f.rank).copied();
            let mut row = row(f, class);
            if let (Some(usual), Ok(summary), Some(class)) = (&usual, &f.summary, class) {
                row.differs = usual.differences(summary, &classes[class]);
            }
            row
        })
        .collect();
    let known = |n: u32| by_rank.contains_key(&n);
    let missing: Vec<u32> = (0..size.unwrap_or(0)).filter(|&n| !known(n)).take(MISSING).collect();
    let missing_count = size.map(|size| (0..size).filter(|&n| !known(n)).count() as u64);
    if size.is_none() {
        notes.push(
            "The launcher did not say how many ranks there are: ranks without a recording are not noticed."
                .into(),
        );
    }
    let judged: Vec<&str> = summaries.iter().map(|s| s.judged_on.as_str()).collect();
    let usual_machine = first.first().map(|s| s.judged_on.clone());
    let others = judged.iter().filter(|name| Some(**name) != usual_machine.as_deref()).count();
    if others > 0 {
        notes.push(format!(
            "{others} ranks were judged on another machine: their far shares are compared all the same."
        ));
    }
    Run {
        schema: SCHEMA,
        launch: launch.to_owned(),
        launcher: launcher.to_owned(),
        size,
        command: first.first().map(|s| s.command.clone()).unwrap_or_default(),
        judged_on: usual_machine,
        assumed: first.first().is_some_and(|s| s.assumed),
        missing,
        missing_count,
        seconds: Spread::of(summaries.iter().map(|s| s.seconds)),
        cpu_seconds: Spread::of(summaries.iter().filter_map(|s| s.cpu_seconds)),
        far_share: Spread::of(summaries.iter().filter_map(|s| s.far_share)),
        waiting_share: Spread::of(summaries.iter().filter_map(|s| s.waiting_share)),
        objects: common(summaries.iter().copied()),
        hosts: hosts(summaries.iter().copied()),
        phases: common_phases(summaries.iter().copied()),
        ranks,
        classes: classes.clone(),
        notes,
    }
}

fn row(found: &Found, class: Option<usize>) -> RankRow {
    let (state, end) = match &found.summary {
        Ok(s) => ended(s),
        Err(NoSummary::Killed) => (State::Unfinished, "its recorder was killed".to_owned()),
        Err(NoSummary::Running(pid)) => (State::Running, format!("still recorded by process {pid}")),
        Err(NoSummary::OtherVersion(by)) => (State::OtherVersion, format!("recorded by nearfar {by}")),
        Err(NoSummary::Damaged(why)) => (State::Damaged, why.clone()),
    };
    let s = found.summary.as_deref().ok();
    RankRow {
        rank: found.rank,
        host: found.host.clone(),
        state,
        end,
        class,
        seconds: s.map(|s| s.seconds),
        cpu_seconds: s.and_then(|s| s.cpu_seconds),
        samples: s.map(|s| s.samples),
        verdict: s.map(|s| s.verdict),
        verdict_why: s.map(|s| s.verdict_why.clone()),
        far_share: s.and_then(|s| s.far_share),
        far_share_ci: s.and_then(|s| s.far_share_ci),
        waiting_share: s.and_then(|s| s.waiting_share),
        differs: Vec::new(),
    }
}

fn ended(s: &Summary) -> (State, String) {
    match (s.exit.as_deref(), &s.ended_early) {
        (Some("exit 0"), None) => (State::Complete, "exit 0".to_owned()),
        (Some(exit), _) if exit.starts_with("signal") => (State::Killed, exit.to_owned()),
        (Some(exit), None) => (State::Failed, exit.to_owned()),
        (_, Some(why)) => (State::Unfinished, why.clone()),
        (None, None) => (State::Unfinished, "how it ended is unknown".to_owned()),
    }
}
