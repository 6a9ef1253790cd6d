//! `nearfar fix --to`: the best policy of the whole process, as another tool keeps it.

use super::fix_flags::{FixArgs, To};
use super::fix_said::Said;
use super::judged::{Judged, judged_with};
use super::repair::nothing;
use super::{file, status};
use anyhow::{Result, bail};
use nearfar_host::discover;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_record::ranks::read::is_run;
use nearfar_report::policy::{Form, Known, Policy, Refused, choose, text};
use std::path::Path;
use std::process::ExitCode;

/// Writes it, or says why there is none.
pub(super) fn run(path: &Path, to: To, args: &FixArgs) -> Result<ExitCode> {
    let recording = nearfar_host::out::quoted_path(path);
    if is_run(path) {
        bail!(
            "{recording} is a run of several ranks, and a policy is of one process: name the recording of one, \
             host=H/rank=R in it"
        );
    }
    let output = args.output.as_deref().unwrap_or(Path::new("-"));
    // Before the analysis, which may take long.
    file::may_write(output, args.force.force)?;
    let mut said = Said::new(args)?;
    let Judged { report, meta, machine, .. } = judged_with(path, args.machine.as_deref(), args.bind, false)?;
    let form = form(to);
    let nodes: NodeList = machine.cpu_nodes().map(|n| n.id).collect();
    let memory: NodeList = machine.memory_nodes().map(|n| n.id).collect();
    let choice = match choose(&report, &nodes, &memory, form) {
        Ok(choice) => choice,
        Err(refused) => {
            let (why, code) = match refused {
                Refused::NothingGains => {
                    (format!("nothing to place: {}", nothing(&report)), ExitCode::SUCCESS)
                }
                Refused::OnlyObjects(why) => (
                    format!(
                        "nothing is written: {why}, and only a placement file holds that: nearfar fix {recording}"
                    ),
                    ExitCode::from(status::CAUGHT),
                ),
                Refused::Unpredicted(why) => (
                    format!(
                        "nothing is written, because no policy's gain is known: {why}. `nearfar check` tries policies of \
                         the whole process on the program itself"
                    ),
                    ExitCode::from(status::NO_VERDICT),
                ),
            };
            said.nothing(&why, why.clone());
            said.end()?;
            return Ok(code);
        }
    };
    let known = Known {
        command: report.command.clone(),
        machine: report.machine.name.clone(),
        threads: report.threads.len(),
        process_bytes: (meta.largest_process_bytes > 0).then_some(meta.largest_process_bytes),
        cpus: match choice.policy {
            Policy::OneNode(node) => cpus_here(node, &machine),
            _ => None,
        },
        single_threaded_cores: machine.threads_per_core == 1,
    };
    file::write(output, text(form, &choice, &known), args.force.force)?;
    if output != Path::new("-") {
        said.policy(output, choice.policy.words(), choice.gain());
        said.end()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn form(to: To) -> Form {
    match to {
        To::Numactl => Form::Numactl,
        To::Oci => Form::Oci,
        To::K8s => Form::Kubernetes,
        To::Slurm => Form::Slurm,
        To::Systemd => Form::Systemd,
    }
}

/// The cpus of a node, by this machine where it has as many nodes as the one that was judged: an emulated machine
/// numbers its cpus on its own, and may have fewer.
fn cpus_here(node: u32, judged: &Machine) -> Option<CpuList> {
    let here = discover::discover(Path::new("/")).ok()?.machine;
    let alike = here.cpu_nodes().map(|n| n.id).eq(judged.cpu_nodes().map(|n| n.id));
    here.nodes.into_iter().find(|n| alike && n.id == node).map(|n| n.cpus)
}
