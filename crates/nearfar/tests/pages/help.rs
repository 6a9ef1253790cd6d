//! The examples below each command's help, as pages.

use super::block::Block;

/// A placement file that a machine with one node obeys.
const PLACEMENT: &str = "printf 'format = 1\\n[[object]]\\nname = \"grid\"\\nallocated_at = \"app.c:23\"\\npolicy = \"bind\"\\nnodes = \"0\"\\n' >fix.toml";

/// What the comments in front of a block say, for the examples of a command: its name, key, text.
const MARKS: &[(&str, &str, &str)] = &[
    // The program of this test has other names and options than that of the help.
    ("nearfar", "here", " --its-flags = "),
    ("show", "here", "main.c:12 = app.c:23"),
    ("show", "here", "--function solve = --function walk"),
    // A process that is there.
    ("where", "here", "$(pgrep -n app) = $$"),
    ("where", "here", "where 1234 = where $$"),
    ("nearfar", "here", "where 1234 = where $$"),
    ("top", "here", "-p 1234 = -p $$"),
    ("where", "here", "sudo nearfar = nearfar"),
    ("where", "interrupted", "nearfar where 1234 -i"),
    // A kept result, and the newest recording with phases.
    ("check", "first", "nearfar check -o kept.json ./app"),
    ("export", "first", "rm -r run.nearfar"),
    (
        "export",
        "first",
        "nearfar record -q -o run.nearfar -- target/workloads/five-phases --seconds 1 --mb 4",
    ),
    ("export", "here", "flamegraph.pl = cat"),
    // Of that recording nothing is known to be far.
    ("export", "here", "--weight remote = --weight all"),
    ("fix", "first", "rm -r app.nearfar"),
    (
        "fix",
        "skipped",
        "nearfar run: it needs the nodes that the file names: crates/nearfar/tests/virtual_placement",
    ),
    // Cpus of any host, and a launcher that says its version.
    ("run", "here", "S0:0-3@S1:0-3 = S0:0"),
    ("run", "first", PLACEMENT),
    ("layout", "here", "-n 8 -t 12 = -n 1 -t 1"),
    ("layout", "here", "--launcher srun = --launcher mpirun"),
    // Longer than it takes to look at it.
    ("layout", "here", "layout ./app = layout target/workloads/five-phases --seconds 2 --mb 4"),
    ("layout", "first", "mpirun -n 2 nearfar record -q -o run/ -- ./app"),
    ("layout", "needs", "mpirun"),
    // A part that takes a second, whatever the host's caches are.
    ("measure", "here", "measure --quick = measure bandwidth --quick --array 16M"),
    ("measure", "here", "measure -o = measure bandwidth --quick --array 16M -o"),
    ("topo", "needs", "jq"),
    ("exporter", "interrupted", "nearfar exporter"),
    (
        "exporter",
        "skipped",
        "curl: it asks the exporter of the line before, which has ended: crates/nearfar/tests/exporter.rs",
    ),
    // Until it has shown two moments.
    ("top", "here", "nearfar top --on xeon = nearfar top -n 2 --on xeon"),
    ("top", "skipped", "nearfar top --on app-001: the next line shows such a recording"),
    ("top", "interrupted", "nearfar top$"),
    ("top", "interrupted", "nearfar top 5"),
    ("top", "interrupted", "nearfar top 1 --csv - --columns"),
    ("top", "here", "-n 10 = -n 2"),
    ("nearfar", "interrupted", "nearfar top$"),
    (
        "check",
        "skipped",
        "nearfar check --on: two runs of each placement take a minute: crates/nearfar/tests/virtual_placement",
    ),
    (
        "nearfar",
        "skipped",
        "nearfar cure: on several nodes it takes a minute, and is an example of its own help",
    ),
    ("cure", "skipped", "nearfar cure --on: its runs take a minute: web/check makes one"),
    (
        "reproduce",
        "skipped",
        "nearfar reproduce: it takes minutes: crates/nearfar/tests/reproduce.rs runs cases of each kind",
    ),
    ("import", "needs", "perf"),
    ("import", "skipped", "perf mem: it needs a PMU with memory samples: crates/nearfar/tests/import.rs"),
    ("import", "skipped", "perf stat: it needs a PMU that counts cycles: crates/nearfar/tests/import.rs"),
    ("import", "skipped", "perf script: it needs a PMU with memory samples: crates/nearfar/tests/import.rs"),
    (
        "import",
        "skipped",
        "nearfar import: it reads what a PMU or Intel's program wrote: crates/nearfar/tests/import.rs",
    ),
];

/// A page for each command that has examples.
pub fn pages() -> Vec<(String, Vec<Block>)> {
    let mut definition = nearfar::cli::command();
    definition.build();
    let mut all = Vec::new();
    for command in std::iter::once(&definition).chain(definition.get_subcommands()) {
        let Some(help) = command.get_after_help() else { continue };
        let help = help.to_string();
        let Some((_, examples)) = help.split_once("Examples:\n") else { continue };
        // Words behind several blanks say what it is for; a line that begins farther in goes on with them.
        let typed = examples.lines().take_while(|line| line.starts_with("  "));
        let typed =
            typed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.trim().split("   ").next());
        let body: String = typed.map(|line| line.split("  ").next().unwrap().to_owned() + "\n").collect();
        let of_it = MARKS.iter().filter(|(of, ..)| *of == command.get_name());
        let marks = of_it.map(|&(_, key, text)| (key.to_owned(), text.to_owned())).collect();
        let name = format!("nearfar {} --help", command.get_name());
        all.push((name, vec![Block { line: 0, language: "sh".to_owned(), body, marks }]));
    }
    all
}
