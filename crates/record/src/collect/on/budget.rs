//! How long a program may run in the virtual machine, and what is said meanwhile.

use nearfar_figures::sizes::size;
use nearfar_guest::Verdict;
use nearfar_host::live::{EVERY, Line};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The budget is the program's: it begins when the recorder has written what the program did first (see [`Beginning`]). On a terminal a
/// line says how long the program has run; where there is none, or the program writes there, messages say it now and then.
pub(super) fn stop_after(
    budget: Option<Duration>,
    journal: PathBuf,
    quiet: bool,
) -> Box<dyn FnMut() -> Verdict + Send> {
    let mut beginning = Beginning::default();
    let mut begin: Option<Instant> = None;
    let (mut next, mut shown) = (FIRST_WORD, Duration::ZERO);
    let mut line: Option<Line> = None;
    Box::new(move || {
        if begin.is_none() && beginning.seen(std::fs::metadata(&journal).ok().map(|about| about.len())) {
            begin = Some(Instant::now());
            line = (!quiet).then(Line::on_terminal).flatten();
        }
        let Some(runs) = begin.map(|begin| begin.elapsed()) else { return Verdict::GoOn };
        if budget.is_some_and(|budget| runs > budget) {
            return Verdict::Stop;
        }
        let told = || {
            let bytes = std::fs::metadata(&journal).map_or(0, |about| about.len());
            format!("nearfar: {}", still_runs(runs, budget, bytes))
        };
        match &mut line {
            Some(line) if !line.is_over() => {
                line.give_way();
                if runs >= shown + EVERY {
                    line.show(&told());
                    shown = runs;
                }
            }
            _ if runs >= next && !quiet => {
                nearfar_host::say!("{}", told());
                next = after(next);
            }
            _ => {}
        }
        Verdict::GoOn
    })
}

/// When the program began. The recorder makes its journal before it starts the program, and on a busy host there may be seconds between.
#[derive(Default)]
struct Beginning {
    /// When the journal was first seen.
    made: Option<Instant>,
}

impl Beginning {
    /// Whether the program runs, by the bytes of the journal, `None` where there is none. One that stays empty cannot be written.
    fn seen(&mut self, journal_bytes: Option<u64>) -> bool {
        let Some(bytes) = journal_bytes else { return false };
        let made = *self.made.get_or_insert_with(Instant::now);
        bytes > 0 || made.elapsed() > EMPTY_AT_MOST
    }
}

/// How long a journal is waited for that stays empty. With seven programs on two cores it took up to 2.7 s. // chosen
const EMPTY_AT_MOST: Duration = Duration::from_secs(15);

/// When it is first said that the program runs, and how often at least. // chosen
const FIRST_WORD: Duration = Duration::from_secs(10);
const SELDOM: Duration = Duration::from_secs(120);

/// Ever more rarely: 10, 20, 40, 80, 160 s, then every two minutes.
fn after(said: Duration) -> Duration {
    said + said.min(SELDOM)
}

fn still_runs(runs: Duration, budget: Option<Duration>, journal_bytes: u64) -> String {
    let of = budget.map(|budget| format!(" of at most {} s", budget.as_secs())).unwrap_or_default();
    format!("the program has run for {} s{of}; {} recorded so far", runs.as_secs(), size(journal_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_begins_when_the_recorder_has_written_of_it() {
        let mut beginning = Beginning::default();
        assert!(!beginning.seen(None));
        assert!(!beginning.seen(Some(0)));
        assert!(beginning.seen(Some(1)));
        // A journal that cannot be written does not make a run endless.
        let long_ago = Instant::now().checked_sub(EMPTY_AT_MOST + Duration::from_secs(1));
        assert!(Beginning { made: long_ago }.seen(Some(0)));
    }

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
