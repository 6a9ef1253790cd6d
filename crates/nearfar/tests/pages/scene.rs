//! The directory in which the commands of a page are typed: what a reader has, made small.

use super::block::{Block, lacks, shape};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that pages call `./app`: shown in docs/first-five-minutes.md.
pub const APP: &str = include_str!("app.c");
/// Names of recordings that pages speak of.
const RECORDINGS: &[&str] = &["app-001", "app", "before", "after", "main", "branch", "run"];

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn bash(script: &str, place: &Path) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_nearfar")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["300", "bash", "-c", script]).current_dir(place).env("PATH", path);
    command.env("OMP_WAIT_POLICY", "passive").env_remove("OMP_NUM_THREADS").env_remove("LD_PRELOAD");
    // Open MPI starts nothing for root, and no more ranks than cores, unless it is told so.
    for name in
        ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"]
    {
        command.env(name, "1");
    }
    command.stdin(Stdio::null());
    command
}

/// What all pages begin with: made once, copied for each.
pub struct Props(tempfile::TempDir);

impl Props {
    /// The program, a recording of it under every name, and the folders of a checkout.
    pub fn new() -> Props {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("app.c"), APP).unwrap();
        let mut script = "set -e; gcc -g -O1 -fopenmp -o app app.c; cp app bench\n".to_owned();
        script += "nearfar record -q -o app-001.nearfar --as 2x22 ./app >/dev/null\n";
        for name in &RECORDINGS[1..] {
            script += &format!("cp -r app-001.nearfar {name}.nearfar\n");
        }
        let made = bash(&script, place.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Props(place)
    }

    /// A fresh copy.
    fn copy(&self) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let from = format!("{}/.", self.0.path().display());
        assert!(Command::new("cp").args(["-r", &from]).arg(place.path()).status().unwrap().success());
        for folder in ["target", "share", "include"] {
            symlink(root().join(folder), place.path().join(folder)).unwrap();
        }
        // Commands write there.
        let machines = root().join("machines");
        assert!(Command::new("cp").arg("-r").arg(machines).arg(place.path()).status().unwrap().success());
        place
    }
}

/// What came of a page.
#[derive(Default)]
pub struct Outcome {
    /// Commands that ran.
    pub ran: usize,
    /// Commands that did not, each with the reason.
    pub left_out: Vec<String>,
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// A command, as it is run.
struct Step {
    /// Line of the page; 0 of one that is not on it.
    line: usize,
    typed: String,
    run: String,
    may_end: Vec<i32>,
}

/// Whether a tool is here; `guest` is the virtual machine.
fn there(tool: &str, guest: bool) -> bool {
    let found =
        |tool| Command::new("sh").args(["-c", "command -v \"$0\"", tool]).stdout(Stdio::null()).status();
    if tool == "guest" { guest } else { found(tool).is_ok_and(|s| s.success()) }
}

/// The lines of a block, as they are run here, and what is left out.
fn steps(block: &Block, guest: bool, outcome: &mut Outcome) -> Vec<Step> {
    let commands = block.commands();
    let lacking = block.marks("needs").flat_map(str::split_whitespace).find(|tool| !there(tool, guest));
    let lacking = lacking.map(|tool| format!("no {tool}"));
    if let Some(why) = block.marks("not run").next().map(str::to_owned).or(lacking) {
        let from = |(line, typed): &(usize, String)| format!("line {line}: {typed}: {why}");
        outcome.left_out.extend(commands.iter().map(from));
        return Vec::new();
    }
    let mut all: Vec<Step> = Vec::new();
    for first in block.marks("first") {
        all.push(Step { line: block.line, typed: first.into(), run: first.into(), may_end: vec![0] });
    }
    for (line, typed) in commands {
        let skip = block.marks("skipped").filter_map(|mark| mark.split_once(": "));
        if let Some((_, why)) = skip.into_iter().find(|(prefix, _)| typed.starts_with(prefix)) {
            outcome.left_out.push(format!("line {line}: {typed}: {why}"));
            continue;
        }
        let mut run = typed.clone();
        for (old, new) in block.marks("here").filter_map(|mark| mark.split_once(" = ")) {
            run = run.replace(old, new);
        }
        let mut may_end = vec![0];
        for (key, prefix) in &block.marks {
            if let Some(status) = key.strip_prefix("exit ").filter(|_| typed.starts_with(prefix.as_str())) {
                may_end = vec![status.parse().unwrap()];
            }
        }
        let begins = |prefix: &str| match prefix.strip_suffix('$') {
            Some(whole) => typed == whole,
            None => typed.starts_with(prefix),
        };
        if block.marks("interrupted").any(begins) {
            run = format!("env --default-signal=INT timeout --preserve-status -s INT 3 {run}");
            may_end = vec![0, 130];
        }
        all.push(Step { line, typed, run, may_end });
    }
    all
}

/// Types the commands of a page, in one shell, and compares what is shown of their output.
pub fn play(blocks: &[Block], props: &Props, guest: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut all, mut shown) = (Vec::new(), Vec::new());
    for block in blocks {
        if block.language == "sh" {
            all.extend(steps(block, guest, &mut outcome));
        } else if block.marks("shown").next().is_some() {
            shown.push((all.len(), block));
        }
    }
    if all.is_empty() {
        return outcome;
    }
    let (place, said) = (props.copy(), tempfile::tempdir().unwrap());
    let said_by = |at: usize, stream: &str| said.path().join(format!("{at}.{stream}"));
    let mut script = String::new();
    for (at, step) in all.iter().enumerate() {
        let may_end: Vec<String> = step.may_end.iter().map(|status| format!(" {status} ")).collect();
        let (out, err, end) = (said_by(at, "out"), said_by(at, "err"), said_by(at, "end"));
        script += &format!(
            "{{ {}\n}} >{} 2>{}; ended_=$?; echo $ended_ >{}; case '{}' in *\" $ended_ \"*) ;; *) exit 0;; esac\n",
            step.run,
            out.display(),
            err.display(),
            end.display(),
            may_end.concat()
        );
    }
    let shell = bash(&script, place.path()).output().unwrap();
    let read = |at, stream| fs::read(said_by(at, stream)).map(|b| String::from_utf8_lossy(&b).into_owned());
    for (at, step) in all.iter().enumerate() {
        let status = read(at, "end").ok().and_then(|text| text.trim().parse::<i32>().ok());
        if !status.is_some_and(|status| step.may_end.contains(&status)) {
            let ended = status.map_or("did not end".to_owned(), |s| format!("ended with {s}"));
            let (out, err) = (read(at, "out").unwrap_or_default(), read(at, "err").unwrap_or_default());
            let shell = String::from_utf8_lossy(&shell.stderr).into_owned();
            outcome.wrong.push(format!("line {}: {}\n{ended}: {out}{err}{shell}", step.line, step.typed));
            return outcome;
        }
        outcome.ran += 1;
    }
    for (after, block) in shown {
        let Some(last) = after.checked_sub(1) else { continue };
        let output = read(last, "out").unwrap_or_default();
        if let Some(word) = lacks(&output, &shape(&block.body)) {
            let typed = &all[last].typed;
            outcome.wrong.push(format!("line {}: `{typed}` prints no {word:?}:\n{output}", block.line));
        }
    }
    outcome
}
