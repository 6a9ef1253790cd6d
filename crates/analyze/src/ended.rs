//! Whether a program came to its own end.

use super::input::Input;
use nearfar_recording::{Columns, Source};

/// Why the program's own end is not in the recording. Attaching ends the recording, not the program.
pub(super) fn ended_early(input: &Input) -> Option<String> {
    let l = &input.losses;
    let reason = (0..l.len()).find(|&i| l.what[i] == "end").map(|i| l.why[i].clone());
    let signal = input.meta.exit.strip_prefix("signal ").map(|s| {
        // What a cpu that is emulated lacks is the usual reason.
        let emulated = input.meta.sources.iter().any(|s| s.source == Source::Simulated);
        let hint = match s.contains("SIGILL") && emulated {
            true => "; the emulated cpu has no AVX-512, which code built with -march=native may need: build with -march=x86-64-v3",
            false => "",
        };
        format!("the program was ended by signal {s}{hint}")
    });
    reason.or(signal).or_else(|| killed_inside(&input.meta.exit))
}

/// What a status that tells of a failure says of the recording.
pub(super) fn failed(exit: &str) -> Option<String> {
    let status = exit.strip_prefix("exit ").filter(|&status| status != "0")?;
    Some(format!("The command ended with exit status {status}: it may have done less than it was to do."))
}

/// Shells and launchers of ranks end with 128 and the number of the signal that ended what they ran.
fn killed_inside(exit: &str) -> Option<String> {
    let status: u32 = exit.strip_prefix("exit ")?.parse().ok()?;
    let signal = status.checked_sub(128).filter(|signal| CRASHES.contains(signal))?;
    Some(format!(
        "the command ended with exit status {status}, as if signal {signal} had ended a process of it"
    ))
}

/// SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV and SIGTERM, as Linux numbers them (signal(7)).
const CRASHES: [u32; 7] = [4, 6, 7, 8, 9, 11, 15];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_is_not_0_is_told() {
        assert!(failed("exit 2").unwrap().contains("exit status 2"));
        assert!(["exit 0", "signal 11", ""].iter().all(|exit| failed(exit).is_none()));
    }

    #[test]
    fn launchers_say_by_their_status_that_a_rank_crashed() {
        let early = |exit: &str| killed_inside(exit);
        assert!(early("exit 139").unwrap().contains("exit status 139, as if signal 11"));
        for other in ["exit 0", "exit 1", "exit 128", "exit 130", "exit 255", "signal 11", "", "exit x"] {
            assert_eq!(early(other), None, "{other}");
        }
    }
}
