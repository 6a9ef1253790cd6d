//! `nearfar run` on the machine at hand, whatever it is.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).arg("run").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A cpu that this process may use.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    list.split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn the_programs_output_and_end_are_its_own() {
    let output = run(&["-C", &first_cpu(), "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).contains("err\n"), "{}", text(&output.stderr));
    let killed = run(&["-q", "-C", &first_cpu(), "--", "sh", "-c", "kill -TERM $$"]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(killed.status.signal(), Some(15));
    assert_eq!(text(&killed.stderr), "");
}

#[test]
fn cpus_are_set_and_seen() {
    let cpu = first_cpu();
    let output = run(&["-C", &cpu, "--", "sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 0.3"]);
    assert_eq!(text(&output.stdout).split_whitespace().last(), Some(cpu.as_str()));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("nearfar: cpus {cpu}\n")), "{said}");
    assert!(said.contains(&format!("1 thread, all on cpus {cpu}")), "{said}");
}

#[test]
fn a_program_that_widens_its_cpus_is_noticed() {
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = all.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    if all == first_cpu() || Command::new("taskset").arg("--version").output().is_err() {
        println!("skipped: one cpu, or no taskset");
        return;
    }
    let output = run(&["-C", &first_cpu(), "--", "taskset", "-c", &all, "sleep", "0.4"]);
    assert!(text(&output.stderr).contains("may run outside of cpus"), "{}", text(&output.stderr));
}

#[test]
fn bad_input_ends_before_the_program_begins() {
    let case = |arguments: &[&str], words: &str| {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    };
    case(&["-C", "60000", "--", "echo", "ran"], "there is no cpu");
    case(&["-C", "99999999", "--", "echo", "ran"], "too large");
    case(&["-m", "7", "--", "echo", "ran"], "there is no node 7");
    case(&["-m", "x", "--", "echo", "ran"], "neither a number nor a range");
    case(&["--bind", "tight", "--", "echo", "ran"], "compact, scatter, close, spread");
    case(&["-p", "0-1", "--", "echo", "ran"], "");
    case(&["--", "echo", "ran"], "nothing is asked for");
    case(&["-m", "0", "-i", "0", "--", "echo", "ran"], "cannot be used with");
    case(&["--threads", "0", "--", "echo", "ran"], "0 is not in 1..=65536");
    let missing = run(&["-C", &first_cpu(), "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no such file"), "{}", text(&missing.stderr));
}

#[test]
fn a_dry_run_only_says_what_it_would_do() {
    let output = run(&["--dry-run", "--threads", "2", "--bind", "compact", "-m", "0", "--", "echo", "ran"]);
    assert!(output.status.success() && output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("memory bound to node 0, 2 threads, threads on cpus "), "{said}");
}
