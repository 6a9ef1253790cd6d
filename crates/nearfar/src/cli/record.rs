//! `nearfar record`.

use super::{OnArgs, RecordArgs};
use crate::collect::on::{OnOptions, record_on};
use crate::collect::session::{Inside, Options, Outcome, RecordError, Subject, record};
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;

/// Records and then ends as the program ended.
pub fn run(args: RecordArgs) -> ExitCode {
    let quiet = args.quiet;
    match recorded(args) {
        Ok(outcome) => {
            if !quiet {
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

fn recorded(args: RecordArgs) -> Result<Outcome, RecordError> {
    if let Some(machine) = &args.machine {
        crate::discover::machine_from_argument(machine).with_context(|| format!("--as {machine}"))?;
    }
    let inside = args.inside_guest.as_deref().map(read_inside).transpose()?;
    let options = Options {
        output: args.output,
        hz: args.frequency,
        min_object: args.min_object,
        wish: args.machine,
        call_graph: args.call_graph,
        agent: !args.no_agent,
        no_perf: args.no_perf,
        homes_interval: args.homes_interval,
        inside_guest: inside,
    };
    if let Some(name) = args.on.machine.on.as_deref() {
        let on = on_options(name, &args.on, args.quiet)?;
        return record_on(&args.command, &options, &on);
    }
    let subject = match args.pid {
        Some(pid) => Subject::Process(pid),
        None => Subject::Command(args.command),
    };
    record(&subject, &options)
}

fn read_inside(path: &Path) -> anyhow::Result<Inside> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| path.display().to_string())
}

pub(super) fn on_options(name: &str, args: &OnArgs, quiet: bool) -> anyhow::Result<OnOptions> {
    Ok(OnOptions {
        machine: args.machine.scaled(name, args.interleaved)?,
        interleaved: args.interleaved,
        unbound: args.unbound,
        huge_pages: args.thp,
        numa_balancing: args.numa_balancing,
        prefetch: !args.no_prefetch,
        memory_per_node: args.machine.memory_per_node,
        lines_per_sample: args.lines_per_sample,
        budget: args.budget,
        quiet,
        cpus: None,
        policy: None,
        aside: None,
    })
}
