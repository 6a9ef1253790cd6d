//! Runs on an emulated machine: its traffic counted, its time by the model.

use super::native::{tail, time};
use super::{Candidate, Plan};
use anyhow::{Context, anyhow};
use nearfar_analyze::{Judge, analyze};
use nearfar_compare::trials::{Kind, Metric, NotTried, Trial, Trials};
use nearfar_guest::Relay;
use nearfar_host::out::quoted_path;
use nearfar_host::target::Ending;
use nearfar_record::collect::on::{OnOptions, record_on};
use nearfar_record::collect::session::{CallGraph, Options};
use nearfar_record::store;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// Placements that make sense where no kernel migrates pages and threads are bound already.
const TOLD: [Kind; 4] = [Kind::AsIs, Kind::OneNode, Kind::Interleave, Kind::Objects];

/// How often, and where.
pub struct Rounds<'a> {
    /// Rounds.
    pub count: usize,
    /// Where the recordings go.
    pub directory: &'a Path,
    /// Collects the signals that ask us to end.
    pub relay: &'a Relay,
}

/// Records `command` under each candidate of `plan`; `flags` are those that emulate the same machine. A placement that
/// fails is noted and the others go on. Also gives the signal that asked us to end: what ran then is not counted,
/// whatever the program makes of the signal.
///
/// # Errors
/// If the machine cannot be emulated, or the command as it is fails.
pub fn run(
    command: &[OsString],
    plan: &Plan,
    on: &OnOptions,
    flags: &str,
    &Rounds { count: rounds, directory, relay }: &Rounds,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<(Trials, Option<i32>)> {
    let (told, untold): (Vec<&Candidate>, Vec<&Candidate>) =
        plan.candidates.iter().partition(|c| TOLD.contains(&c.kind));
    let mut trials: Vec<Trial> = told.iter().map(|c| c.trial(plan.cpus)).collect();
    let mut asked = None;
    let (begin, all, mut done) = (Instant::now(), rounds * told.len(), 0u32);
    'rounds: for round in 0..rounds {
        for (at, (candidate, trial)) in told.iter().zip(&mut trials).enumerate() {
            // The first one boots the machine, too: its time says little of the others'.
            let left = match done {
                0 => "how long it takes is known after the first run".to_owned(),
                _ => {
                    let each = begin.elapsed().as_secs_f64() / f64::from(done);
                    format!("about {} left", time(each * (all as f64 - f64::from(done))))
                }
            };
            say(&format!("round {} of {rounds}: {}; {left}", round + 1, candidate.name));
            done += 1;
            let output = directory.join(format!("{}-{}", candidate.name.replace(' ', "-"), round + 1));
            let ran = once(command, candidate, on, &output);
            asked = relay.ending();
            if asked.is_some() {
                break 'rounds;
            }
            match ran {
                Ok(Timed { seconds, range, threads, placed }) => {
                    trial.placed = placed;
                    trial.busy.push(threads as f64);
                    trial.values.push(Some(seconds));
                    trial.ranges.push(range);
                }
                Err(error) if at == 0 && round == 0 => return Err(error.context("the command as it is")),
                Err(error) => {
                    trial.values.push(None);
                    trial.failed.get_or_insert(format!("{error:#}"));
                }
            }
        }
    }
    let mut not_tried: Vec<NotTried> = Vec::new();
    for candidate in untold {
        let why = match candidate.kind {
            Kind::Pinned => {
                "threads are bound on the emulated machine already, unless you bind them yourself"
            }
            Kind::Balancing => "--numa-balancing emulates the machine with it",
            Kind::HugePages => "--thp always emulates the machine with them",
            _ => "emulated machines run one program at a time",
        };
        not_tried.push(NotTried { name: candidate.name.clone(), why: why.to_owned() });
    }
    let trials = Trials {
        command: command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        machine: on.machine.name.clone(),
        on: Some(flags.to_owned()),
        metric: Metric { source: "simulated time".to_owned(), unit: "s".to_owned(), less_is_better: true },
        rounds,
        warm_up: None,
        seed: 0,
        interrupted: asked.is_some(),
        trials,
        not_tried,
    };
    Ok((trials, asked))
}

/// What is known of a run.
struct Timed {
    /// By the model.
    seconds: f64,
    range: (f64, f64),
    /// Threads that did something.
    threads: usize,
    /// Objects that were placed.
    placed: Vec<String>,
}

fn once(command: &[OsString], candidate: &Candidate, on: &OnOptions, output: &Path) -> anyhow::Result<Timed> {
    let placement = &candidate.placements[0];
    let aside = output.with_extension("output");
    let on = OnOptions {
        cpus: placement.cpus.clone(),
        policy: placement.policy.clone(),
        aside: Some(aside.clone()),
        ..on.clone()
    };
    let options = Options {
        output: Some(output.to_owned()),
        hz: 997.0,
        min_object: 64 << 10,
        wish: None,
        call_graph: CallGraph::None,
        agent: true,
        no_perf: false,
        memory: None,
        look_interval: 1.0,
        max_size: nearfar_record::collect::options::MOST_BYTES,
        duration: None,
        progress: false,
        user: None,
        objects: placement.objects.clone(),
        rank: None,
        excerpts: None,
        inside_guest: None,
    };
    let outcome = record_on(command, &options, &on)?;
    match outcome.ending {
        Some(Ending::Exit(0)) => {}
        Some(ending) => {
            let printed = std::fs::read(&aside).unwrap_or_default();
            return Err(anyhow!("it ended with {}{}", ending.text(), tail(&printed, &[])));
        }
        None => return Err(anyhow!("its end was not seen")),
    }
    let stored = store::open(output)?;
    let judge = Judge { machine: stored.input.meta.machine.clone(), assume: None, whole: false };
    let report = analyze(&stored.input, &stored.samples, &judge)
        .with_context(|| format!("cannot analyse {}", output.display()))?;
    let timed = report.time;
    let timed = timed
        .ok_or_else(|| anyhow!("its time is unknown: nearfar report {} says why", quoted_path(output)))?;
    let threads = report.threads.iter().filter(|t| t.samples > 0).count();
    let placed = stored.input.meta.placed;
    Ok(Timed { seconds: timed.seconds, range: (timed.low, timed.high), threads, placed })
}
