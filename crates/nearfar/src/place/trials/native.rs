//! Runs on the machine itself, in rounds.

use super::metric::{Measure, catch};
use super::{Candidate, Plan};
use anyhow::anyhow;
use nearfar_analyze::stats::Random;
use nearfar_compare::trials::{Trial, Trials};
use nearfar_guest::memory_file::in_memory;
use nearfar_host::policy::Policy;
use nearfar_host::target::{Before, Ending, Held, INTERRUPTED, Running, interrupt_ends_recording};
use nearfar_record::collect::objects::{ObjectPolicies, Table};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How to go about it.
pub struct Rounds {
    /// Runs of each placement.
    pub count: usize,
    /// What is taken of each run.
    pub measure: Measure,
    /// For the order within rounds.
    pub seed: u64,
}

/// What a run gave.
enum Ran {
    Value { value: f64, unit: String, busy: f64, placed: Vec<String> },
    Failed(String),
    Interrupted,
}

/// Bytes of a failed program's output that are shown.
const SHOWN: usize = 400;
/// How long a program has after Ctrl-C before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Runs `command` in rounds of all candidates of `plan`; `say` hears of progress.
///
/// # Errors
/// If the command cannot be run as it is, or gives no value in its first run. A failure in another
/// placement is noted there, and the others go on.
pub fn run(
    command: &[OsString],
    machine: &str,
    plan: &Plan,
    rounds: &Rounds,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Trials> {
    interrupt_ends_recording();
    let mut trials: Vec<Trial> = plan.candidates.iter().map(|c| c.trial(plan.cpus)).collect();
    say("once to warm up");
    let begin = Instant::now();
    let mut warm_up = None;
    let mut unit = String::new();
    let mut interrupted = false;
    match once(command, &plan.candidates[0], &rounds.measure)? {
        Ran::Value { value, unit: of, .. } => (warm_up, unit) = (Some(value), of),
        Ran::Failed(why) => return Err(anyhow!("the command as it is gives no value: {why}")),
        Ran::Interrupted => interrupted = true,
    }
    let mut random = Random::new(rounds.seed);
    let mut seconds = (begin.elapsed().as_secs_f64(), 1.0);
    let all = rounds.count * plan.candidates.len();
    let mut done = 0;
    'rounds: for round in 0..rounds.count {
        for at in shuffled(plan.candidates.len(), &mut random) {
            if interrupted {
                break 'rounds;
            }
            let (candidate, trial) = (&plan.candidates[at], &mut trials[at]);
            let left = (all - done) as f64 * seconds.0 / seconds.1;
            say(&format!(
                "round {} of {}: {}; about {} left",
                round + 1,
                rounds.count,
                candidate.name,
                time(left)
            ));
            let begin = Instant::now();
            let value = match once(command, candidate, &rounds.measure) {
                Ok(Ran::Value { value, busy, placed, .. }) => {
                    if trial.busy.is_empty() {
                        trial.placed = placed;
                    }
                    trial.busy.push(busy);
                    Some(value)
                }
                Ok(Ran::Failed(why)) => {
                    trial.failed.get_or_insert(why);
                    None
                }
                Ok(Ran::Interrupted) => {
                    interrupted = true;
                    break 'rounds;
                }
                Err(error) => {
                    trial.failed.get_or_insert(format!("{error:#}"));
                    None
                }
            };
            trial.values.resize(round, None);
            trial.values.push(value);
            done += 1;
            seconds = (seconds.0 + begin.elapsed().as_secs_f64(), seconds.1 + 1.0);
        }
    }
    Ok(Trials {
        command: command.iter().map(|w| w.to_string_lossy().into_owned()).collect(),
        machine: machine.to_owned(),
        on: None,
        metric: rounds.measure.metric(&unit),
        rounds: rounds.count,
        warm_up,
        seed: rounds.seed,
        interrupted,
        trials,
        not_tried: plan.not_tried.clone(),
    })
}

/// 0..n in an order drawn at random (Fisher and Yates).
fn shuffled(n: usize, random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        all.swap(i, random.below(i + 1));
    }
    all
}

pub(super) fn time(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        s if s < 100 => format!("{s} s"),
        s if s < 6000 => format!("{} min", s.div_ceil(60)),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// A started copy, its outputs, and when it began.
struct Copy {
    running: Running,
    outputs: [File; 2],
    begin: Instant,
    table: Option<Table>,
    /// What could not be set.
    lost: Option<String>,
    took: f64,
    cpu: f64,
    ending: Option<Ending>,
}

/// All copies of a candidate once. The value is a copy's share: of times, the slowest divided by the
/// number of copies; of others, the sum.
fn once(command: &[OsString], candidate: &Candidate, measure: &Measure) -> anyhow::Result<Ran> {
    let mut copies = Vec::new();
    for placement in &candidate.placements {
        if let Some(policy) = &placement.policy {
            policy.try_here().map_err(|why| anyhow!(why))?;
        }
        if let Some(objects) = &placement.objects {
            objects.try_here().map_err(|why| anyhow!(why))?;
        }
        let table = placement.objects.as_ref().map(ObjectPolicies::table).transpose()?;
        let (mut variables, lost) = placement.environment(command, table.as_ref());
        variables.extend(candidate.variables.iter().map(|(name, value)| (name.into(), value.into())));
        let cpus = placement.confined();
        let policy = placement.policy.as_ref().map(Policy::prepare);
        let nothing = File::open("/dev/null")?;
        let outputs = [File::from(in_memory(&[])?), File::from(in_memory(&[])?)];
        let before = Before {
            cpus: cpus.as_ref(),
            policy: policy.as_ref(),
            streams: Some([nothing.as_raw_fd(), outputs[0].as_raw_fd(), outputs[1].as_raw_fd()]),
            no_huge_pages: candidate.no_huge_pages,
            ..Before::default()
        };
        let held = Held::start(command, &variables, &before)?;
        let begin = Instant::now();
        let running = held.release()?;
        copies.push(Copy { running, outputs, begin, table, lost, took: 0.0, cpu: 0.0, ending: None });
    }
    if !wait_for_all(&mut copies) {
        return Ok(Ran::Interrupted);
    }
    let count = copies.len() as f64;
    let mut values = Vec::new();
    for copy in &mut copies {
        let [out, err] = [read(&mut copy.outputs[0])?, read(&mut copy.outputs[1])?];
        match copy.ending {
            Some(Ending::Exit(0)) => {}
            Some(ending) => {
                return Ok(Ran::Failed(format!("it ended with {}{}", words(ending), tail(&err, &out))));
            }
            None => return Ok(Ran::Failed("its end was not seen".to_owned())),
        }
        match measure {
            Measure::Time => values.push((copy.took, "s".to_owned())),
            Measure::Output { expression, .. } => match catch(expression, [&out, &err]) {
                Ok(caught) => values.push((caught.value, caught.unit)),
                Err(why) => return Ok(Ran::Failed(format!("{why}{}", tail(&out, &err)))),
            },
        }
    }
    let unit = values.first().map(|v| v.1.clone()).unwrap_or_default();
    let value = if measure.metric(&unit).less_is_better {
        values.iter().map(|v| v.0).fold(0.0, f64::max) / count
    } else {
        values.iter().map(|v| v.0).sum()
    };
    let busy = copies.iter().map(|c| c.cpu / c.took.max(1e-9)).sum();
    let mut placed = Vec::new();
    for (copy, placement) in copies.iter_mut().zip(&candidate.placements) {
        if let (Some(objects), Some(table)) = (&placement.objects, &copy.table) {
            placed.extend(copy.lost.take().map_or_else(|| objects.outcome(table), |why| vec![why]));
        }
    }
    Ok(Ran::Value { value, unit, busy, placed })
}

/// Whether all ended by themselves; after Ctrl-C they are ended.
fn wait_for_all(copies: &mut [Copy]) -> bool {
    let mut told: Option<Instant> = None;
    loop {
        let mut open = false;
        for copy in copies.iter_mut().filter(|c| c.ending.is_none()) {
            if let Some((ending, taken)) = copy.running.try_wait() {
                copy.cpu = taken.cpu_s;
                copy.took = copy.begin.elapsed().as_secs_f64();
                copy.ending = Some(ending);
                continue;
            }
            open = true;
            if INTERRUPTED.load(Ordering::Relaxed) {
                let late = told.is_some_and(|t| t.elapsed() > GRACE);
                if told.is_none() || late {
                    // SAFETY: a signal to our own child, which has not been waited for.
                    unsafe { libc::kill(copy.running.pid, if late { libc::SIGKILL } else { libc::SIGTERM }) };
                }
            }
        }
        if INTERRUPTED.load(Ordering::Relaxed) {
            told.get_or_insert_with(Instant::now);
        }
        if !open {
            // A terminal's Ctrl-C has ended them already.
            return !INTERRUPTED.load(Ordering::Relaxed);
        }
        let first = copies.iter().find(|c| c.ending.is_none());
        if let Some(copy) = first {
            copy.running.wait(Duration::from_millis(if copies.len() == 1 { 200 } else { 2 }));
        }
    }
}

fn words(ending: Ending) -> String {
    match ending {
        Ending::Signal(libc::SIGKILL) => format!("{}: too little memory on the node, perhaps", ending.text()),
        _ => ending.text(),
    }
}

/// The end of what it printed, for people.
pub(super) fn tail(first: &[u8], second: &[u8]) -> String {
    let text = if first.iter().all(u8::is_ascii_whitespace) { second } else { first };
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).trim().replace('\n', " | ");
    if text.is_empty() { "; it printed nothing".to_owned() } else { format!("; its output ends: {text}") }
}

fn read(file: &mut File) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut all)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_once_and_differs() {
        let mut random = Random::new(7);
        let orders: Vec<Vec<usize>> = (0..20).map(|_| shuffled(5, &mut random)).collect();
        assert!(orders.iter().all(|o| o.iter().collect::<std::collections::BTreeSet<_>>().len() == 5));
        // Each comes first now and then.
        for i in 0..5 {
            assert!(orders.iter().any(|o| o[0] == i), "{orders:?}");
        }
    }

    #[test]
    fn times_are_round() {
        assert_eq!([time(12.2), time(150.0), time(7300.0)], ["13 s", "3 min", "2 h 1 min"]);
    }
}
