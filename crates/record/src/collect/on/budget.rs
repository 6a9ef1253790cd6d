//! How long a program may run in the virtual machine, and what is said meanwhile.

use crate::store::{COUNTED, GUEST, JOURNAL};
use nearfar_figures::sizes::size;
use nearfar_guest::Verdict;
use nearfar_host::live::{EVERY, Line};
use std::path::Path;
use std::time::{Duration, Instant};

/// The budget is the program's: it begins with the first lines that are counted of it (see [`Beginning`]). On a terminal a
/// line says how long the program has run; where there is none, or the program writes there, messages say it now and then.
pub(super) fn stop_after(
    budget: Option<Duration>,
    recording: &Path,
    quiet: bool,
) -> Box<dyn FnMut() -> Verdict + Send> {
    let journal = recording.join(JOURNAL);
    let counted = recording.join(GUEST).join(COUNTED);
    let mut beginning = Beginning::default();
    let mut begin: Option<Instant> = None;
    let (mut next, mut shown) = (FIRST_WORD, Duration::ZERO);
    let mut line: Option<Line> = None;
    Box::new(move || {
        if begin.is_none() && beginning.seen(bytes(&counted), bytes(&journal)) {
            begin = Some(Instant::now());
            line = (!quiet).then(Line::on_terminal).flatten();
        }
        let Some(runs) = begin.map(|begin| begin.elapsed()) else { return Verdict::GoOn };
        if budget.is_some_and(|budget| runs > budget) {
            return Verdict::Stop;
        }
        let told = || format!("nearfar: {}", still_runs(runs, budget, bytes(&journal).unwrap_or(0)));
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

/// Bytes of a file; `None` where there is none.
fn bytes(file: &Path) -> Option<u64> {
    std::fs::metadata(file).ok().map(|about| about.len())
}

/// When the program began. The recorder makes its journal before it starts the program and writes there before the program's first
/// instruction; on a busy host there may be seconds between. What is counted is the program's, so that no budget ends before something
/// is known; but a program may wait long before it has a line counted, as for the beginning of a marked region.
#[derive(Default)]
struct Beginning {
    /// When the journal was first seen, and when it was first not empty.
    made: Option<Instant>,
    written: Option<Instant>,
}

impl Beginning {
    /// Whether the program runs, by the bytes of what is counted and of the recorder's journal.
    fn seen(&mut self, counted: Option<u64>, journal: Option<u64>) -> bool {
        let some = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes > 0);
        if journal.is_some() {
            self.made.get_or_insert_with(Instant::now);
        }
        if some(journal) {
            self.written.get_or_insert_with(Instant::now);
        }
        let since = |first: Option<Instant>| first.map_or(Duration::ZERO, |first| first.elapsed());
        some(counted) || since(self.written) > UNCOUNTED_AT_MOST || since(self.made) > EMPTY_AT_MOST
    }
}

/// How long a line counted of a program is waited for that the recorder knows. // chosen
const UNCOUNTED_AT_MOST: Duration = Duration::from_secs(5);

/// How long a journal is waited for that stays empty, as one that cannot be written. With seven programs on two cores it took up to
/// 2.7 s. // chosen
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
    fn a_program_begins_with_the_first_lines_counted_of_it() {
        let mut beginning = Beginning::default();
        assert!(!beginning.seen(None, None));
        assert!(!beginning.seen(Some(0), Some(0)));
        assert!(!beginning.seen(Some(0), Some(1)));
        assert!(beginning.seen(Some(1), Some(0)));
    }

    #[test]
    fn a_run_of_which_nothing_is_counted_is_not_endless() {
        let before = |longest| Instant::now().checked_sub(longest + Duration::from_secs(1));
        // The program runs, and no line of it was counted.
        let runs = || Beginning { made: before(UNCOUNTED_AT_MOST), written: before(UNCOUNTED_AT_MOST) };
        assert!(runs().seen(Some(0), Some(1)));
        assert!(runs().seen(None, Some(1)));
        // The journal cannot be written.
        let empty = |longest| Beginning { made: before(longest), written: None };
        assert!(!empty(UNCOUNTED_AT_MOST).seen(Some(0), Some(0)));
        assert!(empty(EMPTY_AT_MOST).seen(Some(0), Some(0)));
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
