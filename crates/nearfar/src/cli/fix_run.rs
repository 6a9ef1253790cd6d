//! `nearfar fix` of a run of several ranks: a placement file for each kind of rank, and a script that picks it.

use super::file;
use super::fix_flags::FixArgs;
use super::fix_said::Said;
use super::judged::judged;
use super::ranks::{How, found};
use super::repair::{next, nothing};
use anyhow::{Context, Result};
use nearfar_compare::ranks::{Alike, Summary, alike};
use nearfar_machine::cpulist::{NodeList, RankList};
use nearfar_machine::placement_file::{ObjectPolicy, PlacementFile};
use nearfar_record::ranks::launch::NUMBERS;
use nearfar_record::ranks::read::{self, RunDir};
use nearfar_report::placement::{Placement, to_placement};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The script's name.
const SCRIPT: &str = "place";
/// Ranks of a pattern of the script in a line.
const IN_A_LINE: usize = 16;

/// A file and the ranks that it is for.
struct OfRanks {
    placement: Placement,
    ranks: Vec<u32>,
    /// How its ranks are called.
    name: String,
}

/// Writes the files, and says which ranks they are for and which ranks have none.
pub(super) fn run(path: &Path, args: &FixArgs) -> Result<ExitCode> {
    let run = read::open(path)?;
    let found = found(&run, How { machine: args.machine.as_deref(), bind: args.bind, whole: false });
    let known: Vec<&Summary> = found.iter().filter_map(|f| f.summary.as_deref().ok()).collect();
    let unknown: RankList = found.iter().filter(|f| f.summary.is_err()).map(|f| f.rank).collect();
    let mut said = Said::new(args)?;
    if !unknown.is_empty() {
        let why =
            format!("rank {unknown} has no summary (`nearfar report` says why): nothing is written for it");
        said.nothing(&why, why.clone());
    }
    let mut files: Vec<OfRanks> = Vec::new();
    let mut without = !unknown.is_empty();
    for group in alike(&known) {
        match of_group(&run, &group, args, &mut said)? {
            Ok(placement) => add(&mut files, placement, &group),
            Err(why) => {
                without = true;
                let ranks = list(&group.ranks);
                said.nothing(
                    &format!("rank {ranks}: nothing to place: {why}"),
                    format!("rank {ranks}: {why}"),
                );
            }
        }
    }
    let missing = run.launch.size.is_none_or(|size| size as usize != found.len());
    match &files[..] {
        [] => {}
        [one] if !without && !missing => write_one(path, args, one, &run, &mut said)?,
        _ => write_several(path, args, &files, &run, &mut said)?,
    }
    said.end()?;
    Ok(ExitCode::SUCCESS)
}

/// Joins what is the same for several groups.
fn add(files: &mut Vec<OfRanks>, placement: Placement, group: &Alike) {
    let same = |file: &PlacementFile| {
        let mut objects = file.objects.clone();
        // Comments are for people.
        objects.iter_mut().for_each(|o| o.comment = None);
        objects
    };
    match files.iter_mut().find(|f| same(&f.placement.file) == same(&placement.file)) {
        Some(there) => {
            there.ranks.extend(&group.ranks);
            there.ranks.sort_unstable();
        }
        None => {
            let name = format!("ranks-of-{}.placement", group.worst);
            files.push(OfRanks { placement, ranks: group.ranks.clone(), name });
        }
    }
}

/// What repairs the ranks of a group, by the recording of the one that loses most; or why nothing does.
fn of_group(
    run: &RunDir,
    group: &Alike,
    args: &FixArgs,
    said: &mut Said,
) -> Result<Result<Placement, String>> {
    let rank = run.rank(group.worst)?;
    let report = judged(&rank.path, args.machine.as_deref(), args.bind, false)
        .with_context(|| format!("rank {}", group.worst))?;
    let (placement, left) = to_placement(&report);
    let whose = format!("rank {}: ", list(&group.ranks));
    left.into_iter().for_each(|line| said.left(&whose, line));
    let Some(mut placement) = placement else { return Ok(Err(nothing(&report))) };
    let names_nodes = placement
        .file
        .objects
        .iter()
        .any(|o| !matches!(o.policy, ObjectPolicy::Interleave | ObjectPolicy::Local));
    if group.adrift && names_nodes {
        return Ok(Err(format!(
            "its threads may run on nodes {} and share these cpus with other ranks, so no node is theirs. Bind the ranks \
             first: nearfar layout {}",
            NodeList::from_iter(group.nodes.iter().copied()),
            args.recording.as_deref().unwrap_or(Path::new("RUN")).display()
        )));
    }
    placement.file.comment = Some(format!(
        "Ranks {}: as rank {}, whose recording this is made of.\n{}",
        list(&group.ranks),
        group.worst,
        placement.file.comment.unwrap_or_default()
    ));
    Ok(Ok(placement))
}

/// All ranks take one file.
fn write_one(path: &Path, args: &FixArgs, one: &OfRanks, run: &RunDir, said: &mut Said) -> Result<()> {
    let file = args.output.clone().unwrap_or_else(|| path.with_extension("placement"));
    file::write(&file, one.placement.file.to_toml(), args.force.force)?;
    if file == Path::new("-") {
        return Ok(());
    }
    said.file(&file, Some(&one.ranks), &one.placement);
    let report = judged(&run.rank(one.ranks[0])?.path, args.machine.as_deref(), args.bind, false)?;
    said.next("next", "here", format!("{} {}", launcher(run), next(&file, &one.placement, &report)));
    Ok(())
}

/// A directory with the files and a script that takes each rank's.
fn write_several(
    path: &Path,
    args: &FixArgs,
    files: &[OfRanks],
    run: &RunDir,
    said: &mut Said,
) -> Result<()> {
    let directory = args.output.clone().unwrap_or_else(|| path.with_extension("placements"));
    anyhow::ensure!(
        directory != Path::new("-"),
        "the ranks need {} files and a script: name a directory with -o",
        files.len()
    );
    match std::fs::create_dir(&directory) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && args.force.force => {}
        made => {
            made.with_context(|| format!("cannot make {} (--force writes into it)", directory.display()))?
        }
    }
    for one in files {
        let file = directory.join(&one.name);
        file::write(&file, one.placement.file.to_toml(), args.force.force)?;
        said.file(&file, Some(&one.ranks), &one.placement);
    }
    let script: PathBuf = directory.join(SCRIPT);
    file::write(&script, script_of(files), args.force.force)?;
    let (launcher, script) = (launcher(run), script.display());
    said.next("next", "here", format!("{launcher} sh {script} run -- {}", command(run)?));
    said.next("or", "here", format!("{launcher} sh {script} record -o after/ -- {}", command(run)?));
    Ok(())
}

/// The launcher's part of the line: the user's own has more words, which no recording has.
fn launcher(run: &RunDir) -> String {
    let ranks = run.launch.size.map_or("RANKS".to_owned(), |n| n.to_string());
    match run.launch.launcher.as_str() {
        "Hydra" => format!("mpiexec -n {ranks}"),
        "Slurm" | "PMI" | "PMIx" => format!("srun -n {ranks}"),
        _ => format!("mpirun -n {ranks}"),
    }
}

fn command(run: &RunDir) -> Result<String> {
    let first = run.ranks.first().context("the run has no rank")?;
    let meta = nearfar_record::store::read_meta(&first.path)?;
    Ok(meta.command.iter().map(|word| super::words::quoted(word.as_ref())).collect::<Vec<_>>().join(" "))
}

/// The script: which file is which rank's. A rank without one is started as it is.
fn script_of(files: &[OfRanks]) -> String {
    let rank = NUMBERS.iter().rev().fold(String::new(), |inner, name| match inner.is_empty() {
        true => format!("${name}"),
        false => format!("${{{name}:-{inner}}}"),
    });
    let mut cases = String::new();
    for one in files {
        let lines: Vec<String> = one
            .ranks
            .chunks(IN_A_LINE)
            .map(|part| part.iter().map(u32::to_string).collect::<Vec<_>>().join("|"))
            .collect();
        // Writing to a String does not fail.
        let _ = writeln!(cases, "{})\n    file={}", lines.join("|\\\n"), one.name);
        if one.placement.pinned {
            cases.push_str(
                "    # Its parts follow threads, which must stay on their cores.\n    \
                 export OMP_PROC_BIND=\"${OMP_PROC_BIND:-close}\" OMP_PLACES=\"${OMP_PLACES:-cores}\"\n",
            );
        }
        cases.push_str("    ;;\n");
    }
    format!(
        "#!/bin/sh\n\
         # Written by nearfar fix: starts each rank with the placement file of its kind.\n\
         #     mpirun -n 4 sh {SCRIPT} run -- ./app\n\
         #     mpirun -n 4 sh {SCRIPT} record -o after/ -- ./app\n\
         # It needs this directory and nearfar (or $NEARFAR) on every host.\n\
         here=$(dirname \"$0\")\n\
         nearfar=${{NEARFAR:-nearfar}}\n\
         verb=$1\n\
         shift\n\
         file=\n\
         case {rank} in\n{cases}esac\n\
         if [ -n \"$file\" ]; then\n    exec \"$nearfar\" \"$verb\" --placement \"$here/$file\" \"$@\"\nfi\n\
         # Nothing to place in this rank.\n\
         if [ \"$verb $1\" = \"run --\" ]; then\n    shift\n    exec \"$@\"\nfi\n\
         exec \"$nearfar\" \"$verb\" \"$@\"\n"
    )
}

fn list(ranks: &[u32]) -> RankList {
    ranks.iter().copied().collect()
}
