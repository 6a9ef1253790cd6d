//! The layout of ranks as text: which rank goes where, and the launcher's line to paste.

use super::words::quoted;
use crate::layout::launcher::Chosen;
use crate::layout::table::columns;
use nearfar_machine::Machine;
use nearfar_machine::launch::{Launch, environment};
use nearfar_machine::layout::Layout;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;

/// What the rankfile is called in a line to paste.
pub(super) const RANKFILE: &str = "nearfar.rankfile";

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
