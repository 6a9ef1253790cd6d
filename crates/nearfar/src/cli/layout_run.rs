//! `nearfar layout` of a recorded run of ranks: which rank was bound wrongly, and the launcher's line that repairs it.

use super::layout_flags::LayoutArgs;
use super::layout_plan::{RANKFILE, plan};
use super::ranks::{How, found};
use super::show;
use crate::layout::launcher::choose;
use anyhow::{Context, Result};
use nearfar_compare::ranks::{Bindings, Summary, bindings};
use nearfar_figures::json::pretty;
use nearfar_host::discover::machine_from_argument;
use nearfar_machine::Machine;
use nearfar_machine::binding::Bind;
use nearfar_machine::cpulist::{CpuList, RankList};
use nearfar_machine::launch::launch;
use nearfar_machine::layout::{Ask, LayoutError, lay_out};
use nearfar_record::ranks::read::{self, RunDir};
use nearfar_record::store::read_meta;
use nearfar_recording::Meta;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints each class with what is wrong with its binding; then the line, if anything is.
pub(super) fn run(path: &Path, args: &LayoutArgs) -> Result<ExitCode> {
    let (machine, launcher, threads) = (args.machine.as_deref(), args.launcher.as_deref(), args.threads);
    let run = read::open(path)?;
    let found = found(&run, How { machine: None, bind: Bind::Compact, whole: false });
    let known: Vec<&Summary> = found.iter().filter_map(|f| f.summary.as_deref().ok()).collect();
    let first = known.first().context("no rank of the run has a summary: where they ran is unknown")?;
    let meta = read_meta(&run.rank(first.rank.rank)?.path)?;
    let machine = machine_of(&meta, machine)?;
    let bound = bindings(&known, &machine);
    let mut text = classes(&bound);
    // Writing to a String does not fail.
    let silent: RankList = found.iter().filter(|f| f.summary.is_err()).map(|f| f.rank).collect();
    let unknown: RankList = silent.iter().chain(bound.unknown.iter().copied()).collect();
    if !unknown.is_empty() {
        let _ = writeln!(text, "unknown: where rank {unknown} might run was not recorded");
    }
    let wrong = bound.wrong();
    let alike = known.iter().all(|s| s.machine_key == first.machine_key);
    let line = match alike {
        _ if !wrong => None,
        false => {
            Some(Err("the hosts are different machines, and a line is for hosts that are alike".to_owned()))
        }
        true => {
            Some(line(&run, &bound, &machine, &meta, launcher, threads).map_err(|why| format!("{why:#}")))
        }
    };
    match &line {
        None => _ = writeln!(text, "no rank that is known is bound wrongly on {}", machine.name),
        Some(Ok(line)) => _ = write!(text, "\nA launch that binds each rank:\n{line}"),
        Some(Err(why)) => _ = writeln!(text, "\nno line: {why}"),
    }
    let page = match args.json {
        true => json(&machine, &bound, &unknown, line)?,
        false => args.look.dressed(&text, args.look.resolve()),
    };
    show::page(&page)?;
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How the ranks of a run were bound, as JSON.
fn json(
    machine: &Machine,
    bound: &Bindings,
    unknown: &RankList,
    line: Option<Result<String, String>>,
) -> Result<String> {
    /// Ranks that were bound alike.
    #[derive(Serialize)]
    struct Class<'a> {
        ranks: &'a [u32],
        /// Program, cpus, nodes and verdict, in words.
        of: &'a str,
        /// What is wrong, in words.
        wrong: &'a [String],
    }
    #[derive(Serialize)]
    struct Written<'a> {
        machine: &'a str,
        classes: Vec<Class<'a>>,
        /// Ranks of which it was not recorded where they might run.
        unknown: &'a RankList,
        /// Whether any rank is bound wrongly.
        wrong: bool,
        /// The layout that binds each rank and its line, as text; null if none is wrong, or none is known.
        repair: Option<&'a str>,
        /// Why none is known.
        why_no_repair: Option<&'a str>,
    }
    let written = Written {
        machine: &machine.name,
        classes: bound
            .classes
            .iter()
            .map(|c| Class { ranks: &c.ranks, of: &c.of, wrong: &c.wrong })
            .collect(),
        unknown,
        wrong: bound.wrong(),
        repair: line.as_ref().and_then(|line| line.as_deref().ok()),
        why_no_repair: line.as_ref().and_then(|line| line.as_ref().err().map(String::as_str)),
    };
    Ok(pretty(&written))
}

/// The machine whose nodes the ranks' cpus are counted by: the one asked for or wished, if it has the cpus of the one
/// that was recorded.
fn machine_of(meta: &Meta, asked: Option<&str>) -> Result<Machine> {
    let cpus = |m: &Machine| m.nodes.iter().flat_map(|n| n.cpus.iter()).collect::<CpuList>();
    let wanted = match asked {
        Some(name) => Some(machine_from_argument(name).with_context(|| format!("--as {name}"))?),
        None => meta.wished_machine.clone(),
    };
    match wanted {
        Some(machine) if cpus(&machine) == cpus(&meta.machine) => Ok(machine),
        Some(machine) if asked.is_some() => anyhow::bail!(
            "{} has cpus {}, and the ranks ran on a machine with cpus {}: where they would be on it is unknown",
            machine.name,
            cpus(&machine),
            cpus(&meta.machine)
        ),
        _ => Ok(meta.machine.clone()),
    }
}

fn classes(bound: &Bindings) -> String {
    let mut text = String::new();
    for class in &bound.classes {
        let ranks: RankList = class.ranks.iter().copied().collect();
        let s = if class.ranks.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "{} rank{s} ({ranks}): {}", class.ranks.len(), class.of);
        for wrong in &class.wrong {
            let _ = writeln!(text, "    {wrong}");
        }
    }
    text
}

/// The layout of the same launch, and its line.
fn line(
    run: &RunDir,
    bound: &Bindings,
    machine: &Machine,
    meta: &Meta,
    launcher: Option<&str>,
    threads: Option<u32>,
) -> Result<String> {
    let ranks = run.launch.size.context("the launcher did not say how many ranks there are")? as usize;
    let named = launcher.or(match run.launch.launcher.as_str() {
        "Open MPI" => Some("mpirun"),
        "Hydra" => Some("mpiexec"),
        "Slurm" | "PMI" | "PMIx" => Some("srun"),
        _ => None,
    });
    let named = named.with_context(|| {
        format!("no flags are known for {}; choose a launcher by --launcher", run.launch.launcher)
    })?;
    let chosen = choose(Some(named), true)?;
    let wanted = threads.map(|n| n as usize).or(bound.threads);
    let wanted =
        wanted.context("how many threads a rank has is unknown: no rank has samples; say it by -t")?;
    let ask = |oversubscribe| Ask {
        ranks: Some(ranks),
        threads: Some(wanted),
        hosts: bound.hosts,
        hwthreads: false,
        oversubscribe,
    };
    let layout = match lay_out(machine, None, &ask(false)) {
        // As the run did.
        Err(LayoutError::TooFew { .. }) => lay_out(machine, None, &ask(true))?,
        other => other?,
    };
    let line = launch(&layout, chosen.launcher, &chosen.program, RANKFILE);
    let command: Vec<OsString> = meta.command.iter().map(OsString::from).collect();
    let mut text = plan(&layout, machine, &chosen, &line, &command);
    if threads.is_none() {
        let _ = writeln!(
            text,
            "mind: threads a rank: those that worked in most ranks, no more than the cpus that most were given; \
             `nearfar layout -t N RUN` says otherwise"
        );
    }
    Ok(text)
}
