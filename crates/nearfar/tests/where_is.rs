//! `nearfar where` on the machine at hand, whatever it is.

mod common;

use common::{Scratch, disposed, has, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).arg("where").args(arguments).output().unwrap()
}

fn nodes() -> usize {
    std::fs::read_dir("/sys/devices/system/node").map_or(1, |entries| {
        let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
        names.filter(|n| n.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok())).count().max(1)
    })
}

/// Two threads that stay where they may run first, and 64 MiB of touched memory.
const PROGRAM: &str = r#"
#include <sys/mman.h>
static void *sleeper(void *x) { (void)x; pause(); return NULL; }
int main(void) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int first = 0;
    while (!CPU_ISSET(first, &set)) first++;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    sched_setaffinity(0, sizeof set, &set);
    size_t bytes = 64 << 20;
    volatile char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)p, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096) p[i] = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, sleeper, NULL);
    printf("%d %lu\n", first, (unsigned long)p);
    fflush(stdout);
    pause();
}
"#;

/// Static variables of known pages: of the program, and of a library.
const LIBRARY: &str = r#"
static char of_library[1 << 20] __attribute__((aligned(4096)));
void *fill(void) {
    for (long i = 0; i < sizeof of_library; i += 4096) ((volatile char *)of_library)[i] = 1;
    return of_library;
}
"#;
const STATICS: &str = r#"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define PAGES(n) ((n) * 4096ul)
static char spread[PAGES(1024)] __attribute__((aligned(4096)));
double half[PAGES(512) / 8] __attribute__((aligned(4096)));
static char initialised[PAGES(64)] __attribute__((aligned(4096))) = { 1 };
char untouched[PAGES(512)];
char little[PAGES(8)];
void *fill(void);
static void touch(volatile void *p, unsigned long bytes) {
    for (unsigned long i = 0; i < bytes; i += 4096) ((volatile char *)p)[i] = 1;
}
int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    unsigned long allowed[16] = { 0 }, one[16] = { 0 };
    syscall(SYS_get_mempolicy, NULL, allowed, 1024ul, NULL, 4ul);
    int word = 0;
    while (!allowed[word]) word++;
    one[word] = allowed[word] & -allowed[word];
    /* Interleaved on one node, which a machine of one node can do, too. */
    if (syscall(SYS_mbind, spread, sizeof spread, 3, one, 1024ul, 0u)) { perror("mbind"); return 1; }
    touch(spread, sizeof spread);
    touch(half, sizeof half / 2);
    touch(initialised, sizeof initialised);
    touch(little, sizeof little);
    void *library = fill();
    printf("%d %lu %lu %lu\n", word * 64 + __builtin_ctzl(one[word]), (unsigned long)spread, (unsigned long)half,
           (unsigned long)library);
    fflush(stdout);
    pause();
    return (int)(long)untouched;
}
"#;

struct Running {
    child: Child,
    cpu: u64,
    _scratch: Scratch,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start() -> Running {
    let scratch = Scratch::new();
    let include = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <sched.h>\n#include <stdio.h>\n#include <unistd.h>\n";
    let program = scratch.compile("gcc", "sleeper.c", &format!("{include}{PROGRAM}"), &["-pthread"]);
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let cpu = line.split(' ').next().unwrap().parse().unwrap();
    Running { child, cpu, _scratch: scratch }
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Bytes of all nodes of a look.
fn all(look: &Value) -> u64 {
    look["memory"]["nodes"].as_object().unwrap().values().map(|a| a["bytes"].as_u64().unwrap()).sum()
}

/// Bytes by the kernel's numa_maps, read here with none of the program's code.
fn by_numa_maps(pid: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).ok()?;
    let of = |line: &str| {
        let mut pages = 0;
        let mut kib = 0;
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some(("kernelpagesize_kB", n)) => kib = n.parse::<u64>().unwrap(),
                Some((key, n)) if key.starts_with('N') => pages += n.parse::<u64>().unwrap(),
                _ => {}
            }
        }
        pages * kib * 1024
    };
    Some(maps.lines().map(of).sum())
}

#[test]
fn threads_and_pages_of_a_process_are_those_of_the_kernel() {
    let running = start();
    let pid = running.child.id();
    let Some(mut truth) = by_numa_maps(pid) else {
        return common::skip("the kernel has no numa_maps");
    };
    // The thread may still touch its stack for the first time.
    let look = loop {
        let look = json(&[&pid.to_string(), "--json"]);
        let before = std::mem::replace(&mut truth, by_numa_maps(pid).unwrap());
        if before == truth {
            break look;
        }
    };
    assert_eq!(look["pid"], pid);
    assert_eq!(look["memory"]["how"], "exact");
    assert_eq!(all(&look), truth);
    assert!(truth >= 64 << 20);
    let threads = look["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    for thread in threads {
        assert_eq!(thread["cpu"], running.cpu, "{thread}");
        assert_eq!(thread["allowed"], running.cpu.to_string(), "{thread}");
        assert_eq!(thread["policy"], "default", "{thread}");
    }
    println!("a look took {} ms", look["took_ms"]);
    // Text says the same.
    let output = run(&[&pid.to_string()]);
    let said = text(&output.stdout);
    assert!(said.contains("Pages: exact") && said.contains("default") && said.contains("stack"), "{said}");
    assert_eq!(text(&output.stderr).contains("one memory node"), nodes() == 1);
}

#[test]
fn static_variables_have_their_pages_and_policies() {
    let scratch = Scratch::new();
    let library = scratch.compile("gcc", "libfill.c", LIBRARY, &["-shared", "-fPIC"]);
    let include = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <unistd.h>\n";
    let source = format!("{include}{STATICS}");
    let program = scratch.compile("gcc", "statics.c", &source, &[library.to_str().unwrap()]);
    let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let running = Running { child, cpu: 0, _scratch: scratch };
    let pid = running.child.id();
    let words: Vec<u64> = line.split_whitespace().map(|w| w.parse().unwrap()).collect();
    let [node, spread, half, of_library] = words[..] else { panic!("{line}") };
    if by_numa_maps(pid).is_none() {
        return common::skip("the kernel has no numa_maps");
    }
    for way in ["--exact", "--sample"] {
        let look = json(&[&pid.to_string(), "--json", way]);
        let memory = &look["memory"];
        if memory["without"].to_string().contains("move_pages") {
            return common::skip("move_pages is forbidden here");
        }
        let objects = memory["objects"].as_array().unwrap();
        let names: Vec<&str> = objects.iter().map(|o| o["name"].as_str().unwrap()).collect();
        // The one with most pages first; neither what was not touched nor what is small.
        assert_eq!(names, ["spread", "half", "of_library", "initialised"], "{way}");
        let line = |of: &str, text: &str| of.lines().position(|l| l.contains(text)).unwrap() as u64 + 1;
        for (at, start, pages, present, from) in [
            (0, spread, 1024, 1024, ("statics.c", line(&source, "spread[PAGES"))),
            (1, half, 512, 256, ("statics.c", line(&source, "half[PAGES"))),
            (2, of_library, 256, 256, ("libfill.c", line(LIBRARY, "of_library[1"))),
            (3, 0, 64, 64, ("statics.c", line(&source, "initialised[PAGES"))),
        ] {
            let object = &objects[at];
            assert!(start == 0 || object["start"] == start, "{way}: {object}");
            assert_eq!(object["bytes"], pages * 4096, "{way}: {object}");
            let all: u64 =
                object["nodes"].as_object().unwrap().values().map(|a| a["pages"].as_u64().unwrap()).sum();
            assert_eq!((all, &object["sample"]["all"]), (present, &Value::Bool(true)), "{way}: {object}");
            assert!(object["file"].as_str().unwrap().ends_with(from.0), "{way}: {object}");
            assert_eq!(object["line"], from.1, "{way}: {object}");
        }
        assert_eq!(objects[0]["nodes"][node.to_string()]["pages"], 1024, "{way}: {}", objects[0]);
        let policies = objects.iter().map(|o| o["requested"][0].as_str().unwrap_or("unknown").to_owned());
        let policies: Vec<String> = policies.collect();
        let spread_out = format!("interleave:{node}");
        match way {
            "--exact" => assert_eq!(policies, [spread_out.as_str(), "default", "default", "default"]),
            _ => assert_eq!(policies, ["unknown"; 4]),
        }
    }
    let said = text(&run(&[&pid.to_string()]).stdout);
    assert!(said.contains("spread") && said.contains("statics.c:") && !said.contains("untouched"), "{said}");
    assert!(said.contains("heap objects"), "{said}");
    // Built anew, the file is not the one that runs.
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    std::fs::remove_file(&file).unwrap();
    let look = json(&[&pid.to_string(), "--json"]);
    assert!(look["memory"]["without"].to_string().contains("removed or replaced"), "{look}");
    assert_eq!(look["memory"]["objects"][0]["name"], "of_library");
}

#[test]
fn random_pages_give_an_interval_around_the_truth() {
    let running = start();
    let pid = running.child.id();
    let Some(truth) = by_numa_maps(pid) else {
        return common::skip("the kernel has no numa_maps");
    };
    let output = run(&[&pid.to_string(), "--json", "--sample"]);
    if text(&output.stderr).contains("move_pages") {
        return common::skip("move_pages is forbidden here");
    }
    let look: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(look["memory"]["how"], "sampled");
    let estimate = all(&look);
    println!("estimated {estimate}, counted {truth}");
    // One node or first touch by one thread: the share of present pages is all but 1.
    assert!((estimate as f64 / truth as f64 - 1.0).abs() < 0.02, "{estimate} instead of {truth}");
    let mappings = look["memory"]["mappings"].as_array().unwrap();
    let large = mappings.iter().find(|m| m["sample"]["all"] == false).expect("64 MiB are not asked in full");
    assert!(large["requested"].is_null() && large["sample"]["drawn"].as_u64().unwrap() >= 64, "{large}");
}

#[test]
fn hwloc_ps_sees_the_same_binding() {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if cpus.trim() == "0" || !has("hwloc-ps") {
        return common::skip("one cpu, or no hwloc-ps");
    }
    let running = start();
    let pid = running.child.id().to_string();
    let output = Command::new("hwloc-ps").args(["-p", "-t", "--pid", &pid]).output().unwrap();
    let said = text(&output.stdout);
    // A thread's line: ` TID<tab>PU:P#<tab>name`, or the core's where it has one hardware thread.
    let look = json(&[&pid, "--json"]);
    for thread in look["threads"].as_array().unwrap() {
        let tid = thread["tid"].to_string();
        let line = said.lines().find(|l| l.split_whitespace().next() == Some(&tid));
        let line = line.unwrap_or_else(|| panic!("hwloc-ps does not list {tid}: {said}"));
        assert_eq!(thread["bound"], true, "{thread}");
        assert!(line.contains(&format!("PU:{}", running.cpu)) || line.contains("Core:"), "{line}");
    }
}

#[test]
fn bad_input_ends_with_a_reason_and_what_to_type() {
    let case = |arguments: &[&str], words: &[&str]| {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{arguments:?}: `{word}` is not in {said}");
        }
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    };
    case(&["4194304"], &["process 4194304 does not exist", "nearfar where --all"]);
    case(&["-1"], &[]);
    case(&[], &["<PID | --all | [--] COMMAND...>"]);
    case(&["1", "--all"], &["cannot be used with"]);
    // What is not a number is a program.
    let output = run(&["x"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("x: not found in PATH") && output.stdout.is_empty());
    // A child that has ended and is not waited for.
    let mut zombie = Command::new("true").spawn().unwrap();
    let pid = zombie.id();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    case(&[&pid.to_string()], &[&format!("process {pid} has ended"), "nearfar where -- COMMAND"]);
    zombie.wait().unwrap();
    let missing = run(&["--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127));
}

#[test]
fn another_users_process_is_refused_in_words() {
    // SAFETY: has no arguments and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    // As root, another user has to ask; as another user, init is root's.
    let output = if root {
        let directory = tempfile::Builder::new().prefix("nearfar-where").tempdir().unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let copy = directory.path().join("nearfar");
        std::fs::copy(env!("CARGO_BIN_EXE_nearfar"), &copy).unwrap();
        let asked = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(["where", "1"])
            .output();
        match asked {
            Ok(output) if !text(&output.stderr).contains("setpriv:") => output,
            _ => return common::skip("no setpriv"),
        }
    } else {
        run(&["1"])
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("process 1") && (said.contains("sudo nearfar where 1") || said.contains("hidepid")),
        "{said}"
    );
}

#[test]
fn a_commands_output_and_end_are_its_own() {
    let output = run(&["--", "sh", "-c", "echo out; sleep 0.4; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    let said = text(&output.stderr);
    assert!(said.contains("when it had most memory") && said.contains("numa_hit"), "{said}");
    let killed = run(&["--json", "--", "sh", "-c", "sleep 0.3; kill -TERM $$"]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(killed.status.signal(), Some(15));
    let said = text(&killed.stderr);
    let end: Value = serde_json::from_str(&said[..said.rfind('}').unwrap() + 1]).unwrap();
    assert_eq!(end["ending"], "signal 15 (SIGTERM)");
    assert!(end["activity"]["placement"].is_object() && end["look"]["threads"].is_array(), "{end}");
    let short = run(&["--", "true"]);
    assert_eq!(short.status.code(), Some(0));
    assert!(text(&short.stderr).contains("ended before it could be looked at"), "{}", text(&short.stderr));
}

#[test]
fn looks_are_repeated_until_the_count_the_end_or_ctrl_c() {
    let mut running = start();
    let pid = running.child.id().to_string();
    let output = run(&[&pid, "-i", "0.1", "-n", "3", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let looks: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 3);
    assert!(looks[0]["activity"].is_null() && looks[1]["activity"]["placement"].is_object());
    assert!(looks[2]["at_seconds"].as_f64().unwrap() >= 0.2);
    let mut watching = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    watching.args(["where", &pid, "-i", "0.1"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    disposed(&mut watching, &[libc::SIGINT], libc::SIG_DFL);
    let child = watching.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    // SAFETY: a plain system call; the process is the test's own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("After 0.1 s"), "{}", text(&output.stdout));
    // Fewer looks than asked for are an error.
    let mut watching = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    watching.args(["where", &pid, "-i", "0.1", "-n", "1000"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = watching.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("of 1000 looks: process"), "{}", text(&output.stderr));
}

#[test]
fn all_processes_are_listed_the_largest_first() {
    let running = start();
    let everyone = json(&["--all", "--json"]);
    let processes = everyone["processes"].as_array().unwrap();
    let bytes = |p: &Value| -> u64 {
        p["nodes"].as_object().unwrap().values().map(|a| a["bytes"].as_u64().unwrap()).sum()
    };
    assert!(processes.windows(2).all(|pair| bytes(&pair[0]) >= bytes(&pair[1])));
    let own = processes.iter().find(|p| p["pid"] == running.child.id()).expect("the test's own child");
    assert_eq!(own["threads"], 2);
    assert!(bytes(own) >= 64 << 20);
}
