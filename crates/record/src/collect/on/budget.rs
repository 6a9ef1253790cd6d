//! How long a program may run in the virtual machine, and what is said meanwhile.

use nearfar_figures::sizes::size;
use nearfar_guest::Verdict;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The budget is the program's: it begins with the recorder's journal, not with the machine. Says now and then that the
/// program still runs.
pub(super) fn stop_after(
    budget: Option<Duration>,
    journal: PathBuf,
    quiet: bool,
) -> Box<dyn FnMut() -> Verdict + Send> {
    let mut begin: Option<Instant> = None;
    let mut next = FIRST_WORD;
    Box::new(move || {
        if begin.is_none() && journal.exists() {
            begin = Some(Instant::now());
        }
        let Some(runs) = begin.map(|begin| begin.elapsed()) else { return Verdict::GoOn };
        if budget.is_some_and(|budget| runs > budget) {
            return Verdict::Stop;
        }
        if runs >= next && !quiet {
            let bytes = std::fs::metadata(&journal).map_or(0, |about| about.len());
            nearfar_host::say!("nearfar: {}", still_runs(runs, budget, bytes));
            next = after(next);
        }
        Verdict::GoOn
    })
}

/// When it is first said that the program runs, and how often at least. // chosen
const FIRST_WORD: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(120);

/// Ever more rarely: 10, 20, 40, 80, 160 s, then every two minutes.
fn after(said: Duration) -> Duration {
    said + said.min(EVERY)
}

fn still_runs(runs: Duration, budget: Option<Duration>, journal_bytes: u64) -> String {
    let of = budget.map(|budget| format!(" of at most {} s", budget.as_secs())).unwrap_or_default();
    format!(
        "the program has run for {} s{of}; {} of its allocations, page faults and nodes of pages are recorded",
        runs.as_secs(),
        size(journal_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_said_to_go_on_ever_more_rarely() {
        let seconds: Vec<u64> = std::iter::successors(Some(FIRST_WORD), |&t| Some(after(t)))
            .take(7)
            .map(|t| t.as_secs())
            .collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 280, 400]);
        let line = still_runs(Duration::from_secs(20), Some(Duration::from_secs(300)), 1_200_000);
        assert!(line.contains("for 20 s of at most 300 s; 1.1 MiB"), "{line}");
    }
}
