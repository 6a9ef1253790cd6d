//! The recorder's side inside the virtual machine, started by [`super::on`].
//!
//! It is a program of its own, `nearfar-inside`: each block of code that runs there is translated anew in every run, and each
//! page of a program is fetched from the host.

use super::options::{Inside, RecordError, Subject};
use super::within_limits::record_within_limits;
use anyhow::{Context, anyhow, bail};
use nearfar_host::{hypercall, input};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Name of the program.
pub const PROGRAM: &str = "nearfar-inside";

/// What both sides have to agree on: that of the same version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The status of a recorder that could not do its work, as of all of nearfar's commands.
const FAILED: u8 = 2;

/// Records the program that `words` say and ends as it ended. `words`: [`VERSION`], the file with an [`Inside`], the program
/// and its arguments.
pub fn run(words: &[OsString]) -> ExitCode {
    // Nothing of it is counted, so the plugin need not look at it.
    hypercall::tell_own_code();
    let ending = recorded(words);
    match ending {
        Ok(Some(ending)) => ending.pass_on(),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            nearfar_host::say!("nearfar: {error:#}");
            match error.downcast_ref() {
                Some(RecordError::Start(error)) => ExitCode::from(error.exit_status()),
                _ => ExitCode::from(FAILED),
            }
        }
    }
}

fn recorded(words: &[OsString]) -> anyhow::Result<Option<nearfar_host::target::Ending>> {
    let [version, file, program @ ..] = words else {
        bail!(
            "{PROGRAM} is a part of `nearfar record --on`, which starts it in its virtual machine. Type that"
        );
    };
    if version != VERSION {
        bail!(
            "{PROGRAM} is of version {VERSION}, and nearfar of {}: install both from the same package",
            version.display()
        );
    }
    if program.is_empty() {
        bail!("{PROGRAM} was given no program");
    }
    let options = read(Path::new(file))?.options();
    match record_within_limits(&Subject::Command(program.to_vec()), &options)? {
        Ok(outcome) => Ok(outcome.ending),
        Err(why) => Err(anyhow!("nothing can be recorded, as {why}")),
    }
}

fn read(path: &Path) -> anyhow::Result<Inside> {
    let text =
        input::read(path, input::MOST_MADE).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| path.display().to_string())
}
