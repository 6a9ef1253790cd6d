//! One grammar for all commands: where a program begins, which flags there are, what happens to files that exist,
//! which status a command ends with, how wide a page is and when it goes through a pager.

mod common;

use common::{Scratch, nearfar, skip, text};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::{Command, Output, Stdio};

fn run(words: &[&str]) -> Output {
    nearfar().args(words).stdin(Stdio::null()).output().unwrap()
}

fn nodes_here() -> usize {
    nearfar_host::discover::discover(std::path::Path::new("/")).unwrap().machine.nodes.len()
}

#[test]
fn a_program_needs_no_dashes_and_keeps_its_own_flags() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let output = run(&["record", "-q", "-o", recording.to_str().unwrap(), "echo", "-o", "--quiet", "-q"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "-o --quiet -q\n");
    assert!(recording.join("meta.json").exists());
    let output = run(&["run", "-q", "-C", "0", "echo", "--", "-C"]);
    assert_eq!(text(&output.stdout), "-- -C\n", "{}", text(&output.stderr));
    let output = run(&["where", "sh", "-c", "sleep 0.3; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    // An unknown option before the program is not taken for its name.
    let output = run(&["record", "--no-such", "echo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--no-such"), "{}", text(&output.stderr));
}

#[test]
fn what_prints_a_result_has_the_same_flags() {
    // These hand on a program's output, or write a file.
    let others = [
        "record",
        "import",
        "export",
        "exporter",
        "completions",
        "man",
        nearfar_host::holder::COMMAND,
        "help",
    ];
    for sub in nearfar::cli::command().get_subcommands().filter(|sub| !others.contains(&sub.get_name())) {
        for flag in ["json", "width", "color"] {
            let there = sub.get_arguments().any(|arg| arg.get_long() == Some(flag));
            assert!(there, "{} has no --{flag}", sub.get_name());
        }
    }
}

#[test]
fn what_starts_programs_gives_its_result_as_json_too() {
    let json = |bytes: &[u8]| -> serde_json::Value {
        serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {}", text(bytes)))
    };
    // Standard output is the program's.
    let ran = run(&["run", "--json", "-C", "0", "sh", "-c", "echo out; sleep 0.3; exit 7"]);
    assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(7), "out\n"), "{}", text(&ran.stderr));
    let said = json(&ran.stderr);
    assert_eq!((&said["cpus"], &said["ending"]), (&"0".into(), &"exit 7".into()), "{said}");
    assert_eq!(said["seen"]["threads"][0]["allowed"], "0", "{said}");
    let asked = run(&["run", "--json", "--dry-run", "-m", "0", "echo", "ran"]);
    let asked = json(&asked.stdout);
    assert_eq!(
        (&asked["memory"], &asked["ending"]),
        (&"bound to node 0".into(), &serde_json::Value::Null),
        "{asked}"
    );
    let plan = ["layout", "--dry-run", "--launcher", "mpirun", "--as", "2x4x4", "-n", "4", "./app"];
    let planned = json(&run(&[&plan[..1], &["--json"], &plan[1..]].concat()).stdout);
    assert_eq!(planned["ranks"].as_array().map(Vec::len), Some(4), "{planned}");
    assert_eq!(
        (&planned["launcher"], &planned["line"][0]),
        (&"Open MPI 4".into(), &"mpirun".into()),
        "{planned}"
    );
    assert!(
        planned["environment"]["OMP_NUM_THREADS"].is_string() && planned["launched"].is_null(),
        "{planned}"
    );
}

#[test]
fn messages_keep_to_the_width_that_is_asked_for_and_lines_to_copy_stay_whole() {
    let narrow =
        run(&["run", "--dry-run", "--width", "60", "-i", "0", "--threads", "8", "--bind", "0", "true"]);
    let said = text(&narrow.stderr);
    assert!(said.lines().count() > 1 && said.lines().all(|line| line.chars().count() <= 60), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    let marked = run(&["run", "--dry-run", "--color", "always", "-C", "0", "true"]);
    assert!(
        text(&marked.stderr).starts_with("\u{1b}[1mnearfar:\u{1b}[0m cpus 0"),
        "{}",
        text(&marked.stderr)
    );
}

#[test]
fn the_version_says_what_this_build_has() {
    let short = text(&run(&["-V"]).stdout);
    assert_eq!(short, format!("nearfar {}\n", env!("CARGO_PKG_VERSION")));
    let long = text(&run(&["--version"]).stdout);
    assert!(
        long.starts_with(&short) && long.contains("+agent") && long.contains("recordings up to format"),
        "{long}"
    );
    assert!(long.contains(std::env::consts::ARCH), "{long}");
    let lacking = nearfar().arg("--version").env("NEARFAR_PLUGIN", "/no/such").output().unwrap();
    assert!(text(&lacking.stdout).contains("-emulator-plugin"), "{}", text(&lacking.stdout));
}

#[test]
fn a_flag_means_one_thing() {
    let mut letters: BTreeMap<char, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for sub in nearfar::cli::command().get_subcommands() {
        for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if let (Some(letter), Some(long)) = (arg.get_short(), arg.get_long()) {
                let of = letters.entry(letter).or_default().entry(long.to_owned()).or_default();
                of.push(sub.get_name().to_owned());
            }
        }
        // A machine that is judged by or shown is --as, one that is emulated --on; nothing else names one.
        for arg in sub.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let machine = arg.get_value_names().unwrap_or_default().iter().any(|name| *name == "MACHINE");
            assert!(!machine || matches!(arg.get_long(), Some("as" | "on")), "{} {:?}", sub.get_name(), arg);
        }
    }
    // The others of `run` are numactl's, and -n and -t of `layout` the launchers'.
    for letter in ['m', 'o', 'q', 'N', 'F'] {
        let means = letters.get(&letter).map_or(0, BTreeMap::len);
        assert!(means <= 1, "-{letter}: {:?}", letters[&letter]);
    }
    let output = run(&["check", "-m", "x: ([0-9]+)", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--metric"), "{}", text(&output.stderr));
    // The old name of --as.
    assert_eq!(
        run(&["topo", "--machine", "4x2", "--json"]).stdout,
        run(&["topo", "--as", "4x2", "--json"]).stdout
    );
}

#[test]
fn what_exists_is_replaced_by_force_only() {
    let scratch = Scratch::new();
    let picture = scratch.path("machine.svg");
    let draw = |flags: &[&str]| {
        let output =
            nearfar().args(["topo", "--as", "4x2", "--svg"]).arg(&picture).args(flags).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    fs::write(&picture, "old").unwrap();
    let (status, said) = draw(&[]);
    assert_eq!(status, Some(2));
    assert!(said.contains("machine.svg") && said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(&picture).unwrap(), "old");
    assert_eq!(draw(&["--force"]).0, Some(0));
    assert!(fs::read_to_string(&picture).unwrap().contains("<svg"));
    let output = run(&["topo", "--as", "4x2", "--svg", "-"]);
    assert!(text(&output.stdout).contains("<svg"), "{}", text(&output.stderr));
    // Each flag that names a file to write has --force beside it.
    for sub in nearfar::cli::command().get_subcommands() {
        let file = |id: &str| {
            sub.get_arguments().any(|arg| {
                arg.get_long() == Some(id) && arg.get_value_names().is_some_and(|names| names[0] == "FILE")
            })
        };
        if ["output", "svg", "html"].into_iter().any(file) {
            let force = sub.get_arguments().any(|arg| arg.get_long() == Some("force"));
            assert!(force, "{} writes a file and has no --force", sub.get_name());
        }
    }
}

#[test]
fn a_report_names_its_recording_its_day_its_host_and_its_command() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let name = recording.to_str().unwrap();
    let recorded = run(&["record", "-q", "-o", name, "sh", "-c", "exit 3"]);
    assert_eq!(recorded.status.code(), Some(3), "{}", text(&recorded.stderr));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let json: serde_json::Value = serde_json::from_slice(&run(&["report", "--json", name]).stdout).unwrap();
    assert_eq!(json["recorded"]["host"], host.trim(), "{json}");
    let day = json["recorded"]["started"].as_str().unwrap()[..10].to_owned();
    for flags in [&["report"][..], &["report", "--details"]] {
        let page = text(&run(&[flags, &["--width", "200", name]].concat()).stdout);
        let line =
            page.lines().find(|line| line.starts_with("recorded  ")).unwrap_or_else(|| panic!("{page}"));
        for part in [name, &day, host.trim(), "sh -c 'exit 3'"] {
            assert!(line.contains(part), "{part}: {page}");
        }
    }
}

#[test]
fn show_finds_an_object_and_a_function_and_says_what_was_meant_where_it_does_not() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/format2-counted");
    let page = run(&["show", "field", recording]);
    let all = text(&page.stdout);
    assert!(page.status.success() && all.starts_with("Object field\n"), "{all}{}", text(&page.stderr));
    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&run(&[words, &["--json", recording]].concat()).stdout).unwrap()
    };
    let report = json(&["report"]);
    let object = report["objects"].as_array().unwrap().iter().find(|o| o["name"] == "field").unwrap();
    assert_eq!(&json(&["show", "field"])["object"], object);
    let function = report["functions"][0]["function"].as_str().unwrap();
    assert_eq!(json(&["show", "--function", function])["function"], report["functions"][0]);
    // By the line that allocates it.
    let at = object["allocated_at"].as_str().unwrap();
    assert_eq!(&json(&["show", at])["object"], object);
    for (typed, said) in [("feild", "Near to it: field"), ("nothing-like-it", "is called `nothing-like-it`")]
    {
        let output = run(&["show", typed, recording]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(said), "{told}");
    }
    let several = run(&["show", "l", recording]);
    assert!(
        several.status.code() == Some(2) && text(&several.stderr).contains("is several: "),
        "{several:?}"
    );
    assert_eq!(run(&["show", "--rank", "0", "field", recording]).status.code(), Some(2));
}

#[test]
fn nothing_to_do_ends_with_0_everywhere() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let recorded = run(&["record", "-q", "-o", recording.to_str().unwrap(), "true"]);
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let fix = run(&["fix", recording.to_str().unwrap()]);
    assert_eq!(fix.status.code(), Some(0), "{}", text(&fix.stderr));
    assert!(text(&fix.stderr).contains("nothing to place"), "{}", text(&fix.stderr));
    let json = run(&["fix", "--json", recording.to_str().unwrap()]);
    let said: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(
        said["files"].as_array().unwrap().is_empty() && said["nothing_to_place"][0].is_string(),
        "{said}"
    );
    assert!(!scratch.path("r.placement").exists());
    if nodes_here() > 1 {
        return skip("check and cure have something to do on several nodes");
    }
    for command in ["check", "cure"] {
        let output =
            nearfar().args([command, "touch", "ran"]).current_dir(scratch.directory()).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {said}");
        assert!(said.contains("one memory node") && said.contains("--on"), "{command}: {said}");
    }
    assert!(!scratch.path("ran").exists());
}

#[test]
fn columns_are_obeyed_in_pipes() {
    let wide = |columns: &str, flags: &[&str]| {
        let output =
            nearfar().args(["topo", "--as", "2x22"]).args(flags).env("COLUMNS", columns).output().unwrap();
        text(&output.stdout)
    };
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest(&wide("70", &[])) <= 70, "{}", wide("70", &[]));
    assert_ne!(wide("70", &[]), wide("140", &[]));
    // What is asked for by a flag is meant, what is not a number is not.
    assert_eq!(wide("70", &["--width", "140"]), wide("140", &[]));
    assert_eq!(wide("many", &[]), wide("100", &[]));
}

#[test]
fn recordings_are_listed_with_what_they_say_of_themselves() {
    let scratch = Scratch::new();
    let list = |flags: &[&str]| {
        let output = nearfar().arg("list").args(flags).current_dir(scratch.directory()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    assert!(text(&list(&[]).stderr).contains("no recording in ."));
    for name in ["first.nearfar", "second"] {
        let path = scratch.path(name);
        let output = run(&["record", "-q", "-o", path.to_str().unwrap(), "sleep", "0.01"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    fs::create_dir(scratch.path("broken")).unwrap();
    fs::write(scratch.path("broken/meta.json"), "{").unwrap();
    fs::write(scratch.path("other.txt"), "no recording").unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&list(&["--json"]).stdout).unwrap();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    // The latest first; what has no date comes last.
    assert_eq!(names, ["second", "first.nearfar", "broken"]);
    let row = &rows[0];
    assert_eq!(row["command"], serde_json::json!(["sleep", "0.01"]));
    assert!(row["seconds"].as_f64().unwrap() > 0.0 && row["bytes"].as_u64().unwrap() > 1000, "{row}");
    assert!(row["state"].is_null() && row["verdict"].is_null() && row["machine"].is_string(), "{row}");
    assert!(
        rows[2]["state"].as_str().unwrap().contains("meta.json") && rows[2]["started"].is_null(),
        "{rows}"
    );
    let page = text(&list(&["--width", "80"]).stdout);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let first: Vec<&str> = page.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(first[0], "second", "{page}");
    let named = run(&["list", scratch.directory().to_str().unwrap()]);
    assert!(text(&named.stdout).contains("/second"), "{}", text(&named.stdout));
    assert_eq!(run(&["list", "/no/such"]).status.code(), Some(2));
}

/// Runs a command on a terminal of so many lines, and gives what the terminal was sent; `messages`: standard error, too.
fn on_a_terminal(rows: u16, messages: bool, command: &mut Command) -> (Option<i32>, String) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: rows, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptors are written, the size is read; no name and no setting is passed.
    let made =
        unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(made, 0);
    // SAFETY: both are open, and nothing else's.
    let (mut ours, theirs) = unsafe { (fs::File::from_raw_fd(ours), fs::File::from_raw_fd(theirs)) };
    command.stdin(theirs.try_clone().unwrap()).stderr(Stdio::null()).env("TERM", "xterm");
    if messages {
        command.stderr(theirs.try_clone().unwrap());
    }
    // Nothing of the terminal's end stays here.
    command.stdout(theirs);
    let mut child = command.spawn().unwrap();
    // Its copies of the terminal's end go with it: reading ends when the program has ended.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut sent = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = ours.read(&mut piece) {
        sent.extend(&piece[..n]);
    }
    (child.wait().unwrap().code(), text(&sent))
}

/// What goes up again to the line above: a line that is written anew.
const LIVE: &str = "\x1b[A\r";

#[test]
fn a_line_says_how_far_a_recording_is_while_nothing_else_writes_to_the_terminal() {
    let scratch = Scratch::new();
    let record = |name: &str, messages: bool, flags: &[&str], program: &str| {
        let mut command = nearfar();
        command.args(["record", "-o"]).arg(scratch.path(name)).args(flags).args(["--", "sh", "-c", program]);
        let (status, sent) = on_a_terminal(40, messages, &mut command);
        assert_eq!(status, Some(0), "{sent:?}");
        sent
    };
    let silent = record("silent", true, &[], "sleep 2.5");
    let line = silent.split("\r\n\x1b[K").nth(1).unwrap_or_else(|| panic!("{silent:?}"));
    for part in ["nearfar: ", " s, ", " samples of ", "none lost, ", "KiB", LIVE] {
        assert!(line.contains(part), "{part}: {silent:?}");
    }
    // It goes before the summary comes.
    let (_, end) = silent.rsplit_once(LIVE).unwrap();
    assert!(end.starts_with("\x1b[J") && end.contains("nearfar: recording "), "{silent:?}");
    // From the first thing on that the program writes, there is no line any more.
    let late = record("late", true, &[], "sleep 1.5; echo hello; sleep 2.2");
    let (before, after) = late.split_once("hello\r\n").unwrap_or_else(|| panic!("{late:?}"));
    assert!(before.contains(LIVE) && !after.contains(LIVE), "{late:?}");
    assert!(after.starts_with("\x1b[J"), "what was left of the line is taken away: {late:?}");
    let chatty = record("chatty", true, &[], "echo hello; sleep 2.2");
    assert!(!chatty.contains(LIVE) && chatty.contains("hello"), "{chatty:?}");
    // A program that draws on the whole screen is left alone.
    let drawn = record("drawn", true, &[], "sleep 1.5; stty -icanon; echo hello; sleep 1.2");
    let (before, after) = drawn.split_once("hello\r\n").unwrap_or_else(|| panic!("{drawn:?}"));
    assert!(before.contains(LIVE) && !after.contains('\x1b'), "{drawn:?}");
    assert!(!record("quiet", true, &["--quiet"], "sleep 1.5").contains('\x1b'));
    assert!(!record("elsewhere", false, &[], "sleep 1.5").contains('\x1b'));
}

#[test]
fn long_pages_go_through_a_pager_on_a_terminal_only() {
    let page = |rows: u16, variables: &[(&str, &str)]| {
        let mut command = nearfar();
        command.args(["topo", "--as", "8x16", "--color", "never"]).env_remove("COLUMNS");
        command.env_remove("PAGER").env_remove("NEARFAR_PAGER").envs(variables.iter().copied());
        on_a_terminal(rows, false, &mut command)
    };
    let (status, direct) = page(10, &[("NEARFAR_PAGER", "cat")]);
    assert_eq!(status, Some(0));
    let lines = direct.lines().count();
    assert!(lines > 12, "{direct}");
    let marked = [("NEARFAR_PAGER", "echo PAGED; cat"), ("PAGER", "echo WRONG")];
    let (status, paged) = page(10, &marked);
    assert_eq!((status, paged.as_str()), (Some(0), format!("PAGED\r\n{direct}").as_str()));
    // What fits needs none, and neither does a pipe; one that leaves early does not change the status.
    assert_eq!(page(lines as u16 + 2, &marked).1, direct);
    let piped = nearfar().args(["topo", "--as", "8x16"]).envs(marked).output().unwrap();
    assert!(!text(&piped.stdout).contains("PAGED"));
    assert_eq!(page(10, &[("PAGER", "true")]), (Some(0), String::new()));
    // One that does not exist is not a reason to show nothing: the shell's complaint goes to standard error.
    assert_eq!(page(10, &[("PAGER", "no-such-pager")]).1, direct);
}

/// What bash offers behind these words, the last of which is being typed.
fn offered(words: &[&str], directory: &std::path::Path) -> Vec<String> {
    let script = "eval \"$(\"$0\" completions bash)\"; COMP_WORDS=(nearfar \"$@\"); COMP_CWORD=$#; \
                  _nearfar nearfar \"${COMP_WORDS[$#]}\" \"${COMP_WORDS[$#-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script, env!("CARGO_BIN_EXE_nearfar")]).args(words).current_dir(directory);
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_the_machines_and_their_files() {
    let scratch = common::Scratch::new();
    std::fs::write(scratch.path("xeon-mine.toml"), "").unwrap();
    let directory = scratch.directory();
    for option in ["--on", "--as"] {
        let all = offered(&["record", option, "xeon-"], directory);
        assert!(all.contains(&"xeon-e5-2699v4-2s".to_owned()), "{option}: {all:?}");
        assert!(all.contains(&"xeon-mine.toml".to_owned()), "{option}: {all:?}");
        assert!(!all.contains(&"epyc-7763-2s".to_owned()), "{option}: {all:?}");
    }
    assert!(offered(&["report", "--as", "he"], directory).contains(&"here".to_owned()));
    for (shell, words) in [("zsh", "_alternative \"machines:machine:(altra"), ("fish", "-r -F -a \"altra")] {
        let script = text(&run(&["completions", shell]).stdout);
        assert!(script.contains(words), "{shell}: no {words}");
    }
}
