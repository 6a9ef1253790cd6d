//! Standard streams that are full, closed or left early, signals, and odd terminals.

use crate::common::{nearfar, text};
use crate::{Fixture, Use};

#[test]
fn of_outputs() {
    crate::all(USES);
}

const FULL: &[&str] = &["cannot write to standard output", "No space left"];

pub const USES: &[Use] = &[
    ("nearfar --help >/dev/full", 2, FULL),
    ("nearfar --version >/dev/full", 2, FULL),
    ("nearfar help report >/dev/full", 2, FULL),
    ("nearfar doctor >/dev/full", 2, FULL),
    ("nearfar topo --as 2x2 >/dev/full", 2, FULL),
    ("nearfar topo --as 2x2 --json >/dev/full", 2, FULL),
    ("nearfar topo --as 2x2 --svg - >/dev/full", 2, FULL),
    ("nearfar report r.nearfar >/dev/full", 2, FULL),
    ("nearfar report r.nearfar --json >/dev/full", 2, FULL),
    ("nearfar report r.nearfar --html - >/dev/full", 2, FULL),
    ("nearfar report r.nearfar --phases >/dev/full", 2, FULL),
    ("nearfar list >/dev/full", 2, FULL),
    ("nearfar diff r.nearfar r.nearfar >/dev/full", 2, FULL),
    ("nearfar export --to sarif -o - r.nearfar >/dev/full", 2, FULL),
    ("nearfar export --to parquet -o - r.nearfar >/dev/full", 2, FULL),
    ("nearfar fix --json r.nearfar >/dev/full", 2, FULL),
    ("nearfar cache >/dev/full", 2, FULL),
    ("nearfar where $$ >/dev/full", 2, FULL),
    ("nearfar reproduce --list >/dev/full", 2, FULL),
    ("nearfar completions zsh >/dev/full", 2, FULL),
    ("nearfar run --dry-run --json -C 0 true >/dev/full", 2, FULL),
    ("nearfar layout --dry-run -n 2 --as 2x2 true >/dev/full", 2, FULL),
    // A closed output is not an error, nor is a message that cannot be written.
    ("nearfar topo --as 2x2 >&-", 0, &[]),
    ("nearfar report r.nearfar --fail-on affected >&-", 3, &[]),
    ("nearfar topo --as nosuch 2>/dev/full", 2, &[]),
    ("nearfar topo --as nosuch 2>&-", 2, &[]),
    ("nearfar topo --as 2x2 <&-", 0, &[]),
    // As other tools are: ended by SIGPIPE, without a word.
    ("{ sleep 0.2; nearfar topo --as 2x2; } | true", 141, &[]),
    ("{ sleep 0.2; nearfar --help; } | true", 141, &[]),
    ("{ sleep 0.2; nearfar completions bash; } | true", 141, &[]),
    ("{ sleep 0.2; nearfar export --to sarif -o - r.nearfar; } | true", 141, &[]),
    ("{ sleep 0.2; nearfar run --dry-run --json -C 0 true; } | true", 141, &[]),
    // Signals to commands that write no file.
    ("timeout --preserve-status -s INT 1 nearfar top >/dev/null", 0, &[]),
    ("timeout --preserve-status -s TERM 1 nearfar exporter --listen 127.0.0.1:0 2>/dev/null", 0, &[]),
    // Terminals and widths.
    ("COLUMNS=0 nearfar topo --as 2x2", 0, &[]),
    ("COLUMNS=-7 nearfar topo --as 2x2", 0, &[]),
    ("COLUMNS=1 nearfar report r.nearfar", 0, &[]),
    ("COLUMNS=99999999999999999999 nearfar list", 0, &[]),
    ("COLUMNS=wide nearfar doctor", 0, &[]),
    ("TERM= nearfar report r.nearfar", 0, &[]),
    ("TERM=no-such-terminal nearfar topo --as 16x256", 0, &[]),
    ("env -i PATH=$PATH nearfar report r.nearfar", 0, &[]),
    ("HOME=/nosuch XDG_CACHE_HOME= nearfar report r.nearfar", 0, &[]),
    ("LC_ALL=C nearfar report r.nearfar", 0, &[]),
    ("nearfar report r.nearfar --width 1", 0, &[]),
    ("NEARFAR_PAGER=nosuch nearfar report r.nearfar", 0, &[]),
];

#[test]
fn pages_keep_to_narrow_terminals() {
    let fixture = Fixture::new();
    let shown = [
        "report r.nearfar",
        "report r.nearfar --details",
        "report r.nearfar --as 16x256",
        "diff r.nearfar r.nearfar",
        "topo --as 16x256",
        "topo",
        "list",
        "check true",
        "doctor",
        "where --all",
        "where PID",
        "reproduce --list",
        "cache",
        "show variable r.nearfar",
        "measure core --quick --array 8M",
    ];
    let own = std::process::id().to_string();
    for width in [60, 80] {
        for line in shown {
            let words = line.split(' ').map(|word| if word == "PID" { &own } else { word });
            let mut command = nearfar();
            command.args(words).current_dir(fixture.path("")).env("COLUMNS", width.to_string());
            let output = command.output().unwrap();
            let page = text(&output.stdout);
            assert!(output.status.success() && page.lines().count() > 1, "{line}: {}", text(&output.stderr));
            // Commands to copy stay whole.
            let wide = |l: &&str| l.chars().count() > width && !l.contains("nearfar ");
            let wide: Vec<&str> = page.lines().filter(wide).collect();
            assert!(wide.is_empty(), "{line} at {width}: {wide:#?}");
        }
    }
}

#[test]
fn commands_to_copy_are_read_back_by_a_shell() {
    let fixture = Fixture::new();
    let in_it = |words: &[&str]| {
        let output = nearfar().args(words).current_dir(fixture.path("")).output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let (_, said) = in_it(&["report", "it's"]);
    assert!(said.contains(r"nearfar record -o 'it'\''s' -- command"), "{said}");
    let (_, said) = in_it(&["record", "-o", "x y.nearfar", "sh", "-c", "true; true"]);
    assert!(said.contains("nearfar report 'x y.nearfar'"), "{said}");
    let (page, _) = in_it(&["check", "sh", "-c", "a; b"]);
    assert!(page.contains("'a; b'") || !page.contains("a; b"), "{page}");
}

#[test]
fn a_recording_that_was_killed_is_named_and_reported() {
    let fixture = Fixture::new();
    let output = nearfar().args(["report", "cut.nearfar"]).current_dir(fixture.path("")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}
