//! `nearfar layout`.

use super::layout_flags::LayoutArgs;
use super::layout_plan::{Launched, Planned, RANKFILE, plan};
use super::{layout_run, show};
use crate::layout::launcher::choose;
use crate::layout::table::{Verdict, judge};
use crate::layout::{Meeting, execute, rank};
use anyhow::{Context, Result, ensure};
use nearfar_host::discover;
use nearfar_host::target::{Ending, find_program};
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_machine::launch::launch;
use nearfar_machine::layout::{Ask, lay_out};
use nearfar_machine::select::cpus;
use nearfar_record::ranks::read::is_run;
use std::path::Path;
use std::process::ExitCode;

/// Says the layout, runs it and says what became of it.
pub fn run(args: &LayoutArgs) -> ExitCode {
    if let Some(meeting) = &args.as_rank {
        return match rank::run(&args.command, meeting) {
            Ok(ending) => ending.pass_on(),
            Err(error) => {
                nearfar_host::say!("nearfar: {error}");
                ExitCode::from(error.exit_status())
            }
        };
    }
    let recorded = match &args.command[..] {
        [one] if is_run(Path::new(one)) => Some(Path::new(one)),
        _ => None,
    };
    let done = match recorded {
        Some(path) => layout_run::run(path, args),
        None => go(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => super::status::fail(&error),
    }
}

fn go(args: &LayoutArgs) -> Result<ExitCode> {
    let (machine, allowed) = machine(args)?;
    let ask = Ask {
        ranks: args.ranks.map(|n| n as usize),
        threads: args.threads.map(|n| n as usize),
        hosts: args.nodes as usize,
        hwthreads: args.hwthreads,
        oversubscribe: args.oversubscribe,
    };
    let layout = lay_out(&machine, allowed.as_ref(), &ask)?;
    let chosen = choose(args.launcher.as_deref(), args.dry_run)?;
    let line = launch(&layout, chosen.launcher, &chosen.program, RANKFILE);
    let plan = plan(&layout, &machine, &chosen, &line, &args.command);
    let asked = Planned::new(&layout, &machine, &chosen, &line);
    if args.dry_run {
        let page = match args.json {
            true => asked.json(None),
            false => args.look.dressed(&plan, args.look.resolve()),
        };
        show::page(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = find_program(&args.command[0]) {
        nearfar_host::say!("nearfar: {error}");
        return Ok(ExitCode::from(error.exit_status()));
    }
    if args.machine.is_some() && layout.hosts == 1 && chosen.program != "srun" {
        let here = nearfar_record::ranks::launch::own_cpus();
        let out: CpuList =
            layout.ranks.iter().flat_map(|r| r.cpus.iter()).filter(|&c| !here.contains(c)).collect();
        ensure!(
            out.is_empty(),
            "the layout is for {} and takes cpus {out}, which may not be used here (there are {here}); add --dry-run \
             to see its line, or start it on that machine",
            machine.name
        );
    }
    if !args.json {
        args.look.page_to_stderr(&plan);
    }
    let meeting = Meeting::new(layout.hosts).context("ranks cannot leave what they see")?;
    let file = meeting.rankfile();
    let line = launch(&layout, chosen.launcher, &chosen.program, &file.to_string_lossy());
    if let Some(text) = &line.rankfile {
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let (ending, seen) = match execute(&line.words, &args.command, &meeting.path) {
        Ok(ran) => ran,
        Err(error) => {
            nearfar_host::say!("nearfar: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    drop(meeting);
    if seen.is_empty() && ending != Ending::Exit(0) {
        nearfar_host::say!(
            "nearfar: {} started no rank ({}); its own words are above",
            chosen.program,
            ending.text()
        );
        ending.pass_on();
    }
    let Verdict { table, errors } = judge(&layout, &machine, chosen.launcher, &seen);
    if args.json {
        let launched = Launched { ending: ending.text(), seen: seen.values().collect(), errors: &errors };
        nearfar_host::out::page_to_stderr(&asked.json(Some(launched)));
    } else {
        args.look.page_to_stderr(&format!("\n{table}"));
        errors.iter().for_each(|error| args.look.say(error));
        if errors.is_empty() {
            let shared = if layout.shared { "; they share cores, as --oversubscribe allows" } else { "" };
            args.look.say(&format!("every rank is where it was asked to be{shared}"));
        }
    }
    if ending != Ending::Exit(0) {
        ending.pass_on();
    }
    Ok(ExitCode::from(u8::from(!errors.is_empty())))
}

/// The machine of each host, and which of its cpus may be used, if not all.
fn machine(args: &LayoutArgs) -> Result<(Machine, Option<CpuList>)> {
    let (machine, mut allowed) = match &args.machine {
        Some(name) => (discover::machine_from_argument(name)?, None),
        None => {
            let root = Path::new("/");
            (discover::discover(root)?.machine, discover::topology(root)?.allowed.cpus)
        }
    };
    if let Some(text) = &args.cpus {
        allowed = Some(cpus(text, &machine, allowed.as_ref()).context("--cpus")?);
    }
    Ok((machine, allowed))
}
