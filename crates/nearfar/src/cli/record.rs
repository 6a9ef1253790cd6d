//! `nearfar record`.

use super::RecordArgs;
use crate::collect::session::{Options, RecordError, Subject, record};
use std::process::ExitCode;

/// Records and then ends as the program ended.
pub fn run(args: RecordArgs) -> ExitCode {
    if let Some(machine) = &args.machine
        && let Err(error) = crate::discover::machine_from_argument(machine)
    {
        return super::fail(&error.context(format!("--as {machine}")));
    }
    let subject = match args.pid {
        Some(pid) => Subject::Process(pid),
        None => Subject::Command(args.command),
    };
    let options = Options {
        output: args.output,
        hz: args.frequency,
        min_object: args.min_object,
        wish: args.machine,
        call_graph: args.call_graph,
        agent: !args.no_agent,
        no_perf: args.no_perf,
        homes_interval: args.homes_interval,
        inside_guest: args.inside_guest,
    };
    match record(&subject, &options) {
        Ok(outcome) => {
            if !args.quiet {
                for line in &outcome.summary {
                    eprintln!("{line}");
                }
            }
            match outcome.ending {
                Some(ending) => ending.pass_on(),
                None => ExitCode::SUCCESS,
            }
        }
        Err(RecordError::Start(error)) => {
            eprintln!("nearfar: {error}");
            ExitCode::from(error.exit_status())
        }
        Err(error) => super::fail(&error.into()),
    }
}
