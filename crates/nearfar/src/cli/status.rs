//! Exit statuses that all commands share. docs/exit-status.md lists what each command ends with.

use nearfar_guest::GuestError;
use nearfar_host::target::Ending;
use nearfar_record::collect::options::RecordError;
use std::process::ExitCode;

/// What a gate (`--fail-on`, `--fail-if-worse`) was asked to catch is the case.
pub const CAUGHT: u8 = 1;
/// The command could not do its work.
pub const ERROR: u8 = 2;
/// The command did its work, and could not judge: a gate must not pass what could not be judged.
pub const NO_VERDICT: u8 = 3;

/// The status of a command that a signal ended after it wrote what it had, as a shell has it of one that a signal killed.
pub(super) fn ended_by(signal: i32) -> u8 {
    128 + signal as u8
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing that it was asked to catch.
    Passed,
    /// What it was asked to catch.
    Caught,
    /// No verdict.
    Undecided,
}

impl From<Gate> for ExitCode {
    fn from(gate: Gate) -> ExitCode {
        match gate {
            Gate::Passed => ExitCode::SUCCESS,
            Gate::Caught => ExitCode::from(CAUGHT),
            Gate::Undecided => ExitCode::from(NO_VERDICT),
        }
    }
}

/// Gate of a command with `--fail-on VERDICT`: `bad` and `unknown` are whether the verdict is the bad one or none.
pub fn gate(fail_on: Option<&str>, bad: bool, unknown: bool) -> Gate {
    match fail_on {
        None => Gate::Passed,
        Some(_) if bad => Gate::Caught,
        Some("unknown") if unknown => Gate::Caught,
        Some(_) if unknown => Gate::Undecided,
        Some(_) => Gate::Passed,
    }
}

/// Prints an error and gives the status for it. A signal that ended the preparations of a virtual machine ends us, too.
pub(super) fn fail(error: &anyhow::Error) -> ExitCode {
    nearfar_host::say!("nearfar: {error:#}");
    let interrupted = error.chain().find_map(|cause| match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(&GuestError::Interrupted { signal }), _) => Some(signal),
        (_, Some(error)) => RecordError::interrupted_by(error),
        _ => None,
    });
    interrupted.map_or(ExitCode::from(ERROR), |signal| Ending::Signal(signal).pass_on())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_passes_nothing_that_has_no_verdict() {
        for (fail_on, bad, unknown, expected) in [
            (None, true, false, Gate::Passed),
            (None, false, true, Gate::Passed),
            (Some("affected"), true, false, Gate::Caught),
            (Some("affected"), false, true, Gate::Undecided),
            (Some("affected"), false, false, Gate::Passed),
            (Some("unknown"), true, false, Gate::Caught),
            (Some("unknown"), false, true, Gate::Caught),
            (Some("unknown"), false, false, Gate::Passed),
        ] {
            assert_eq!(gate(fail_on, bad, unknown), expected, "{fail_on:?} {bad} {unknown}");
        }
    }
}
