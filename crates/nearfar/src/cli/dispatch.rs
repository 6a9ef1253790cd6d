//! What each command runs.

use super::commands::{Cli, Command, command};
use super::{
    cache, check, completions, cure, diff, doctor, export, exporter, file, fix, import, layout, list, man,
    measure, record, report, reproduce, run, status, subject, top, topo, where_is, words,
};
use anyhow::Context;
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command line and gives the exit status.
pub fn main() -> ExitCode {
    // A pipe that closes early (| head) ends us silently, as it does other tools.
    // SAFETY: sets a disposition before any other thread runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let words: Vec<OsString> = std::env::args_os().collect();
    // What the program is, is the same everywhere: words.rs.
    let words = words::separated(words, &command());
    let parsed = match Cli::try_parse_from(words) {
        Ok(parsed) => parsed,
        // Help and the version are results: a full disk is an error for them, too.
        Err(said) => return answered(&said),
    };
    let result = match parsed.command {
        Command::Record(args) => return record::run(args),
        Command::Run(args) => return run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Layout(args) => return layout::run(&args),
        Command::Where(args) => where_is::run(&args),
        Command::Report(args) => report::run(args),
        Command::Show(args) => subject::run(&args),
        Command::List(args) => list::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Fix(args) => fix::run(&args),
        Command::Cure(args) => cure::run(&args),
        Command::Topo(args) => topo::run(&args),
        Command::Top(args) => top::run(args),
        Command::Exporter(args) => exporter::run(&args),
        Command::Measure(args) => measure::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Hold => nearfar_host::holder::wait(),
        Command::Completions { shell } => {
            file::write(Path::new("-"), completions::script(shell, command()), false)
                .map(|()| ExitCode::SUCCESS)
        }
        Command::Man { directory, force } => man::write(command(), &directory, force.force),
    };
    result.unwrap_or_else(|error| status::fail(&error))
}

/// Prints what the parser has to say: help, the version, or what is wrong with the words.
fn answered(said: &clap::Error) -> ExitCode {
    let printed = said.print().and_then(|()| std::io::stdout().flush());
    match printed.context("cannot write to standard output") {
        Err(error) if !said.use_stderr() => status::fail(&error),
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(status::ERROR)),
    }
}
