//! The layout of ranks as text: which rank goes where, and the launcher's line to paste.

use super::words::quoted;
use crate::layout::launcher::Chosen;
use crate::layout::rank::RankSeen;
use crate::layout::table::columns;
use nearfar_figures::json::pretty;
use nearfar_machine::Machine;
use nearfar_machine::cpulist::{CpuList, NodeList};
use nearfar_machine::launch::{Launch, environment};
use nearfar_machine::layout::{Layout, Rank};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

/// What the rankfile is called in a line to paste.
pub(super) const RANKFILE: &str = "nearfar.rankfile";

/// A layout and its line, as JSON.
#[derive(Serialize)]
pub(super) struct Planned<'a> {
    /// What each host is like.
    machine: &'a str,
    hosts: usize,
    /// Threads of each rank.
    threads: usize,
    ranks: Vec<Row<'a>>,
    /// What should be known about it.
    notes: Vec<&'a str>,
    /// Variables that the program is started with.
    environment: BTreeMap<&'static str, String>,
    launcher: &'static str,
    /// The words in front of the program.
    line: &'a [String],
    /// The file that they name; null if they name none.
    rankfile: Option<&'a str>,
    /// Null where nothing was launched.
    launched: Option<Launched<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    rank: usize,
    /// Counted from 0.
    host: usize,
    nodes: &'a NodeList,
    cpus: &'a CpuList,
}

/// What became of a launch.
#[derive(Serialize)]
pub(super) struct Launched<'a> {
    /// `exit 0`.
    pub(super) ending: String,
    /// The ranks that were seen.
    pub(super) seen: Vec<&'a RankSeen>,
    /// What is wrong or unknown.
    pub(super) errors: &'a [String],
}

impl<'a> Planned<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        machine: &'a Machine,
        chosen: &'a Chosen,
        line: &'a Launch,
    ) -> Planned<'a> {
        let row =
            |rank: &'a Rank| Row { rank: rank.number, host: rank.host, nodes: &rank.nodes, cpus: &rank.cpus };
        let notes = layout.notes.iter().chain(&line.notes).chain(&chosen.note);
        Planned {
            machine: &machine.name,
            hosts: layout.hosts,
            threads: layout.threads,
            ranks: layout.ranks.iter().map(row).collect(),
            notes: notes.map(String::as_str).collect(),
            environment: environment(layout).into_iter().collect(),
            launcher: chosen.launcher.name(),
            line: &line.words,
            rankfile: line.rankfile.as_deref(),
            launched: None,
        }
    }

    /// As text.
    pub(super) fn json(self, launched: Option<Launched<'a>>) -> String {
        pretty(&Planned { launched, ..self })
    }
}

/// Which rank goes where, and the line that does it.
pub(super) fn plan(
    layout: &Layout,
    machine: &Machine,
    chosen: &Chosen,
    line: &Launch,
    command: &[OsString],
) -> String {
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
