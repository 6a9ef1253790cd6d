//! `nearfar run` on the machine at hand, whatever it is.

mod common;

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
    case(&["-C", "60000", "--", "echo", "ran"], "cpu 60000 does not exist");
    case(&["-C", "99999999", "--", "echo", "ran"], "too large");
    case(&["-m", "7", "--", "echo", "ran"], "node 7 does not exist");
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

#[test]
fn an_allocation_in_inlined_code_is_that_of_the_line_that_called_it() {
    if !common::has("g++") {
        return;
    }
    let scratch = common::Scratch::new();
    let source = "#include <cstdio>\n#include <vector>\nint main(int count, char **) {\n\
                  std::vector<double> list(500000 + count);\n\
                  std::vector<double> other(600000 + count);\n\
                  std::printf(\"%g\\n\", list[7] + other[7]);\n}\n";
    let program = scratch.compile("g++", "inlined.cpp", source, &["-O2"]);
    let fix = scratch.path("fix.toml");
    let object = "[[object]]\nallocated_at = \"inlined.cpp:4\"\npolicy = \"preferred\"\nnodes = \"0\"\n";
    std::fs::write(&fix, format!("format = 1\n{object}")).unwrap();
    let output = run(&["--placement", fix.to_str().unwrap(), "--", program.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(said.contains("inlined.cpp:4: 1 allocation of 3.8 MiB in whole pages"), "{said}");
}

/// A program that loads a library which sizes its pool of threads, as OpenBLAS does, by the cpus that it may use.
const POOL: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
static int own(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? -1 : CPU_COUNT(&set);
}
#ifdef LIBRARY
static int found;
__attribute__((constructor)) static void count(void) { found = own(); }
int cpus(void) { return found; }
int cpus_of_thread(void) {
    cpu_set_t set;
    return pthread_getaffinity_np(pthread_self(), sizeof set, &set) ? -1 : CPU_COUNT(&set);
}
#else
int main(int n, char **v) {
    for (int i = 1; i < n; i++) {
        void *library = dlopen(v[i], RTLD_NOW);
        if (!library) { puts(dlerror()); return 2; }
        int (*count)(void) = (int (*)(void))dlsym(library, "cpus");
        int (*thread)(void) = (int (*)(void))dlsym(library, "cpus_of_thread");
        printf("%d %d, program %d\n", count(), thread(), own());
    }
}
#endif
"#;

#[test]
fn a_library_that_counts_cpus_sees_the_teams_and_the_program_its_own() {
    let two = Command::new("nproc")
        .output()
        .is_ok_and(|o| text(&o.stdout).trim().parse::<u32>().is_ok_and(|n| n >= 2));
    if !common::has("cc") || !two {
        println!("skipped: no C compiler, or one cpu");
        return;
    }
    let scratch = common::Scratch::new();
    let program = scratch.compile("cc", "pool.c", POOL, &["-ldl"]);
    let libraries: Vec<String> = ["libopenblas-made.so.0", "libother.so"]
        .iter()
        .map(|name| {
            let path = scratch.path(name);
            let source = scratch.path("pool.c");
            let built = Command::new("cc")
                .args(["-DLIBRARY", "-fPIC", "-shared", "-o"])
                .arg(&path)
                .arg(source)
                .status();
            assert!(built.unwrap().success());
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["run", "-q", "--threads", "2", "--bind", "compact", "--"])
        .arg(&program)
        .args(&libraries)
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "2 2, program 1\n1 1, program 1\n", "{}", text(&output.stderr));
}

/// Objects in parts and in turns on the one node that every machine has.
const PARTS: &str = r#"
static char grid[1 << 20];
int main(void) {
    char *list = malloc(4 << 20);
    char *turn[3];
    for (int i = 0; i < 3; i++) turn[i] = malloc(1 << 20);
    write_pages(list, 1024);
    write_pages(grid, 256);
    for (int i = 0; i < 3; i++) write_pages(turn[i], 256);
    char line[512];
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    while (fgets(line, sizeof line, maps)) if (strstr(line, " prefer:0 ")) fputs(line, stdout);
}"#;

#[test]
fn parts_are_placed_accounted_for_and_refused_where_threads_may_run_anywhere() {
    if !common::has("gcc") {
        return;
    }
    let scratch = common::Scratch::new();
    let program = scratch.c("parts", PARTS);
    let source = std::fs::read_to_string(scratch.path("parts.c")).unwrap();
    let line = |start: &str| source.lines().position(|l| l.trim().starts_with(start)).unwrap() + 1;
    let with = |node: u32| {
        let file = format!(
            "format = 1\n\
             [[object]]\nname = \"list\"\nallocated_at = \"parts.c:{}\"\npolicy = \"blocks\"\n\
             blocks = [[1000000, {node}], [4194304, 0]]\nhuge_pages = false\n\
             [[object]]\nname = \"turn\"\nallocated_at = \"parts.c:{}\"\npolicy = \"turns\"\nturns = [{node}]\n\
             [[object]]\nstatic = \"grid\"\npolicy = \"blocks\"\nblocks = [[5, {node}], [1048576, 0]]\n\
             [[object]]\nname = \"never\"\nallocated_at = \"parts.c:{}\"\npolicy = \"local\"\nmin_bytes = 1000000000\n",
            line("char *list"),
            line("for (int i = 0; i < 3; i++) turn"),
            line("char *list"),
        );
        let path = scratch.path(&format!("node{node}.toml"));
        std::fs::write(&path, file).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (fix, program) = (with(0), program.to_str().unwrap());
    let nearfar = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(arguments).env("OMP_PROC_BIND", "true").current_dir(scratch.directory());
        command.output().unwrap()
    };
    let expect = |output: &Output| {
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        for words in [
            "list: 1 allocation of 4.0 MiB in whole pages, memory in 2 parts on node 0, without huge pages\n",
            "turn: 3 allocations of 3.0 MiB in whole pages, memory as a whole, in turns, on node 0\n",
            "grid: 1 variable of 1020 KiB in whole pages, memory in 2 parts on node 0\n",
            "never: nothing placed: no allocation of 1000000000 bytes or more",
            "placed in all: 5 objects of 8.0 MiB, in ",
        ] {
            assert!(said.contains(words), "{words} is not in {said}");
        }
        // 1023 pages of the list, 255 of each turn, and of the variable all but its ragged ends.
        let pages = |line: &str| -> Option<u64> {
            line.split_whitespace().find_map(|w| w.strip_prefix("N0="))?.parse().ok()
        };
        let pages: u64 = text(&output.stdout).lines().filter_map(pages).sum();
        assert!((1023 + 3 * 255 + 255..=1023 + 3 * 255 + 256).contains(&pages), "{pages}: {said}");
    };
    expect(&nearfar(&["run", "--placement", &fix, "--", program]));
    expect(&nearfar(&["record", "-o", "recording", "--placement", &fix, "--", program]));
    let meta = std::fs::read_to_string(scratch.path("recording/meta.json")).unwrap();
    let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(meta["placement"], std::fs::read_to_string(&fix).unwrap());
    assert_eq!(meta["placed"].as_array().unwrap().len(), 5, "{}", meta["placed"]);

    let refused = |arguments: &[&str], words: &str| {
        let output = nearfar(&[arguments, &["--", program]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    let beyond = with(77);
    refused(&["run", "--placement", &beyond], "list: node 77 does not exist");
    refused(&["record", "--placement", &fix, "--no-agent"], "cannot be used with");
    let loose = |command: &str| {
        let mut command = [command, "--on", "2x2", "--unbound", "--placement", &fix, "--", program]
            .iter()
            .fold(Command::new(env!("CARGO_BIN_EXE_nearfar")), |mut c, w| {
                c.arg(w);
                c
            });
        for name in nearfar_record::collect::on::BINDING {
            command.env_remove(name);
        }
        let output = command.current_dir(scratch.directory()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("list: blocks and turns put memory beside the thread that uses it"), "{said}");
        assert!(said.contains("pin them, without --unbound, or with OMP_PROC_BIND=close"), "{said}");
    };
    loose("record");
    loose("check");
}
