//! `nearfar run`.

use super::RunArgs;
use crate::collect::objects::{ObjectPolicies, on_one_node};
use crate::collect::openmp;
use crate::discover;
use crate::host::policy::Policy;
use crate::host::target::User;
use crate::place::{Placement, RunError, run as run_placed};
use anyhow::Context;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::select::{cpus, cpus_of_nodes, nodes, thread_cpus};
use std::path::Path;
use std::process::ExitCode;

/// Runs and then ends as the program ended.
pub fn run(args: &RunArgs) -> ExitCode {
    let prepared = prepare(args);
    let (machine, placement) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return super::fail(&error),
    };
    let say = |line: &str| {
        if !args.quiet {
            super::record::say(&format!("nearfar: {line}"));
        }
    };
    say(&placement.words());
    for warning in placement.warnings(&machine) {
        crate::say!("nearfar: mind: {warning}");
    }
    if args.dry_run {
        return ExitCode::SUCCESS;
    }
    let user = match args.user.as_deref().map(User::asked_for).transpose() {
        Ok(user) => user,
        Err(error) => return super::fail(&error),
    };
    if user.is_none() && !args.quiet {
        super::record::warn_of_root();
    }
    match run_placed(&args.command, &placement, &machine, user.as_ref()) {
        Ok(ran) => {
            ran.lines.iter().for_each(|line| say(line));
            ran.ending.pass_on()
        }
        Err(RunError::Start(error)) => {
            crate::say!("nearfar: {error}");
            ExitCode::from(error.exit_status())
        }
        Err(error) => super::fail(&error.into()),
    }
}

fn prepare(args: &RunArgs) -> anyhow::Result<(Machine, Placement)> {
    let root = Path::new("/");
    let machine = discover::discover(root)?.machine;
    let topology = discover::topology(root)?;
    let allowed = topology.allowed;
    let (may_run, may_have) = (allowed.cpus.as_ref(), allowed.nodes.as_ref());
    let with_memory: CpuList =
        machine.nodes.iter().filter(|n| n.memory_bytes != Some(0)).map(|n| n.id).collect();
    let node_list = |text: &str, option: &str| {
        let list = nodes(text, &machine, may_have).with_context(|| option.to_owned())?;
        let without: CpuList = list.iter().filter(|&n| !with_memory.contains(n)).collect();
        anyhow::ensure!(without.is_empty(), "{option}: node {without} has no memory");
        Ok(list)
    };
    let mut cpu_list = None;
    if let Some(text) = &args.physcpubind {
        cpu_list = Some(cpus(text, &machine, may_run).context("--physcpubind")?);
    }
    if let Some(text) = &args.cpunodebind {
        cpu_list = Some(cpus_of_nodes(text, &machine, may_run).context("--cpunodebind")?);
    }
    let policy = match args {
        RunArgs { membind: Some(text), .. } => Some(Policy::Bind(node_list(text, "--membind")?)),
        RunArgs { interleave: Some(text), .. } => Some(Policy::Interleave(node_list(text, "--interleave")?)),
        RunArgs { weighted_interleave: Some(text), .. } => {
            Some(Policy::WeightedInterleave(node_list(text, "--weighted-interleave")?))
        }
        RunArgs { preferred: Some(text), .. } => {
            let list = node_list(text, "--preferred")?;
            let [node] = list.as_slice() else {
                anyhow::bail!("--preferred takes one node, {list} are more; --preferred-many takes several");
            };
            Some(Policy::Preferred(*node))
        }
        RunArgs { preferred_many: Some(text), .. } => {
            Some(Policy::PreferredMany(node_list(text, "--preferred-many")?))
        }
        RunArgs { localalloc: true, .. } => Some(Policy::Local),
        _ => None,
    };
    let count = args.threads.map(|n| n as usize);
    let within = cpu_list.as_ref().or(may_run);
    let threads = match &args.bind {
        Some(text) => {
            let packages = topology.packages.unwrap_or_default().into_iter().map(|p| (p.id, p.cpus));
            let packages: Vec<(u32, CpuList)> = packages.collect();
            thread_cpus(text, count, &machine, &packages, within).context("--bind")?
        }
        None => Vec::new(),
    };
    let count = count.or((!threads.is_empty()).then_some(threads.len()));
    let objects = match &args.placement {
        Some(file) => {
            let objects = ObjectPolicies::read(file, &args.command, &machine, may_have)?;
            let pinned = !threads.is_empty()
                || openmp::pins(|name| std::env::var(name).ok())
                || on_one_node(&machine, within);
            objects.require_pinned(pinned, "with --bind compact, or OMP_PROC_BIND=close OMP_PLACES=cores")?;
            Some(objects)
        }
        None => None,
    };
    let mut skip = args.skip.clone();
    skip.sort_unstable();
    skip.dedup();
    anyhow::ensure!(skip.len() <= 64, "--skip takes at most 64 threads");
    let placement = Placement { cpus: cpu_list, policy, count, threads, skip, objects };
    anyhow::ensure!(
        placement != Placement::default(),
        "nothing is asked for: where is it to run? For example: nearfar run --cpunodebind 0 --membind 0 -- ./app"
    );
    Ok((machine, placement))
}
