//! How far a recording is, for the terminal.

use super::Session;
use nearfar_figures::sizes::size;
use std::time::Duration;

impl Session<'_> {
    /// Time, samples, losses and size until now.
    pub(super) fn progress(&self, elapsed: Duration, attached: bool) -> String {
        let (seen, processes) = (&self.interpreter, self.interpreter.processes.living().count());
        let lost = match (seen.lost, seen.throttled) {
            (0, 0) => "none lost".to_owned(),
            (lost, throttled) => format!("{lost} records lost, {throttled} times throttled"),
        };
        format!(
            "nearfar: {:.0} s, {} samples of {processes} process{}, {lost}, {}{}",
            elapsed.as_secs_f64(),
            seen.samples,
            if processes == 1 { "" } else { "es" },
            size(self.writer.bytes()),
            if attached { "; Ctrl-C ends it" } else { "" }
        )
    }
}
