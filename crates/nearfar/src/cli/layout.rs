//! `nearfar layout`.

use super::LayoutArgs;
use crate::collect::target::{Ending, find_program};
use crate::discover;
use crate::layout::launcher::{Chosen, choose};
use crate::layout::table::{Verdict, columns, judge};
use crate::layout::{Meeting, execute, rank};
use anyhow::{Context, Result, ensure};
use nearfar_model::machine::Machine;
use nearfar_model::machine::cpulist::CpuList;
use nearfar_model::machine::launch::{Launch, environment, launch};
use nearfar_model::machine::layout::{Ask, Layout, lay_out};
use nearfar_model::machine::select::cpus;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// What the rankfile is called in a line to paste.
const RANKFILE: &str = "nearfar.rankfile";

/// Says the layout, runs it and says what became of it.
pub fn run(args: &LayoutArgs) -> ExitCode {
    if let Some(meeting) = &args.as_rank {
        return match rank::run(&args.command, meeting) {
            Ok(ending) => ending.pass_on(),
            Err(error) => {
                eprintln!("nearfar: {error}");
                ExitCode::from(error.exit_status())
            }
        };
    }
    match go(args) {
        Ok(code) => code,
        Err(error) => super::fail(&error),
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
    if args.dry_run {
        print!("{plan}");
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = find_program(&args.command[0]) {
        eprintln!("nearfar: {error}");
        return Ok(ExitCode::from(error.exit_status()));
    }
    if args.machine.is_some() && layout.hosts == 1 && chosen.program != "srun" {
        let here = rank::own_cpus();
        let out: CpuList =
            layout.ranks.iter().flat_map(|r| r.cpus.iter()).filter(|&c| !here.contains(c)).collect();
        ensure!(
            out.is_empty(),
            "the layout is for {} and takes cpus {out}, which may not be used here (there are {here}); add --dry-run \
             to see its line, or start it on that machine",
            machine.name
        );
    }
    eprint!("{plan}");
    let meeting = Meeting::new(layout.hosts).context("ranks cannot leave what they see")?;
    let file = meeting.rankfile();
    let line = launch(&layout, chosen.launcher, &chosen.program, &file.to_string_lossy());
    if let Some(text) = &line.rankfile {
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let (ending, seen) = match execute(&line.words, &args.command, &meeting.path) {
        Ok(ran) => ran,
        Err(error) => {
            eprintln!("nearfar: {error}");
            return Ok(ExitCode::from(error.exit_status()));
        }
    };
    drop(meeting);
    if seen.is_empty() && ending != Ending::Exit(0) {
        eprintln!("nearfar: {} started no rank ({}); its own words are above", chosen.program, ending.text());
        ending.pass_on();
    }
    let Verdict { table, errors } = judge(&layout, &machine, chosen.launcher, &seen);
    eprint!("\n{table}");
    errors.iter().for_each(|error| eprintln!("nearfar: {error}"));
    if errors.is_empty() {
        let shared = if layout.shared { "; they share cores, as --oversubscribe allows" } else { "" };
        eprintln!("nearfar: every rank is where it was asked to be{shared}");
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

/// Who goes where, and the line that does it.
fn plan(layout: &Layout, machine: &Machine, chosen: &Chosen, line: &Launch, command: &[OsString]) -> String {
    let count = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    // Writing to a String does not fail.
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} of {} on {} like {}",
        count(layout.ranks.len(), "rank"),
        count(layout.threads, "thread"),
        count(layout.hosts, "host"),
        machine.name
    );
    let mut rows = vec![["rank", "host", "NUMA node", "cpus"].map(str::to_owned).to_vec()];
    for rank in &layout.ranks {
        let (host, nodes) = (rank.host.to_string(), rank.nodes.to_string());
        rows.push(vec![rank.number.to_string(), host, nodes, rank.cpus.to_string()]);
    }
    text.push_str(&columns(&rows));
    for note in layout.notes.iter().chain(&line.notes).chain(&chosen.note) {
        let _ = writeln!(text, "mind: {note}");
    }
    let pairs: Vec<String> = environment(layout).iter().map(|(n, v)| format!("{n}={v}")).collect();
    let _ = writeln!(text, "environment: {}", pairs.join(" "));
    let _ = writeln!(text, "launch line ({}):", chosen.launcher.name());
    if let Some(file) = &line.rankfile {
        let _ = writeln!(text, "cat >{RANKFILE} <<'END'\n{file}END");
    }
    let program = [OsString::from("./app")];
    let command = if command.is_empty() { &program[..] } else { command };
    let own = line.words.iter().map(OsStr::new);
    let words: Vec<String> = own.chain(command.iter().map(OsString::as_os_str)).map(quoted).collect();
    let _ = writeln!(text, "{}", words.join(" "));
    text
}

/// As a shell reads it back.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
