//! What the end-to-end tests share: programs to record, the recorder, the report as JSON.
#![allow(dead_code)] // each test binary uses its own part

mod waits;

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};

#[allow(unused_imports)] // each test binary uses its own part
pub use waits::hardly_waits;

/// Programs whose time is measured run one at a time: two cores are all that a small machine has.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    // A failed test must not fail the others.
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Says why a test does not run; the caller returns.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Whether perf events work here; if not, reports it.
pub fn perf_works() -> bool {
    match nearfar_record::collect::setup::probe_perf() {
        Ok(()) => true,
        Err(why) => {
            skip(&why);
            false
        }
    }
}

/// Whether a program can be started; if not, reports it.
pub fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(&format!("no {tool}"));
    }
    found
}

/// One of the workloads, built if need be; `None`, with the reason printed, if that is impossible.
pub fn workload(name: &str) -> Option<PathBuf> {
    if let Some(directory) = std::env::var_os("NEARFAR_WORKLOADS") {
        return Some(PathBuf::from(directory).join(name));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let program = root.join("target/workloads").join(name);
    static BUILD: Mutex<()> = Mutex::new(());
    let _one = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !program.exists() {
        if !has("cmake") {
            return None;
        }
        let build = root.join("target/workloads-build");
        let cmake = |arguments: &[&std::ffi::OsStr]| {
            let output = Command::new("cmake").args(arguments).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        };
        let (source, build) = (root.join("workloads"), build.as_os_str());
        cmake(&["-S".as_ref(), source.as_ref(), "-B".as_ref(), build, "-DCMAKE_BUILD_TYPE=Release".as_ref()]);
        cmake(&["--build".as_ref(), build]);
    }
    assert!(program.exists(), "{} was not built", program.display());
    Some(program)
}

/// Bytes of the host's largest cache; 0 if it does not tell.
fn largest_cache() -> u64 {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten().flatten();
    let kib = |entry: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(entry.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse().ok()
    };
    caches.filter_map(kib).max().unwrap_or(0) << 10
}

/// Whether the verdict is open, and rightly so, because a cache of this host is larger than those that the test is made for;
/// prints it.
pub fn caches_may_hold(report: &Report) -> bool {
    let why = report.0["verdict_why"].as_str().unwrap_or("");
    let holds = why.contains("may have held")
        || why.contains("cache") && why.contains("holds")
        // Loops that hardly wait, as it answers them.
        || why.contains("take no longer than their instructions may take");
    let may = report.verdict() == "unknown" && holds && largest_cache() > 64 << 20;
    if may {
        skip("the verdict: a cache of this host may hold what the program uses at a time");
    }
    may
}

/// Bytes of an array that is certainly fetched from memory, and of which neither half fits a cache: `least`, or 2.1 times the host's largest
/// cache, which virtual machines may have 480 MiB of. A multiple of 1 MiB.
pub fn beyond_caches(least: u64) -> u64 {
    least.max(21 * largest_cache() / 10).next_multiple_of(1 << 20)
}

/// Has it start with this disposition of some signals (`SIG_DFL`, `SIG_IGN`). A shell that starts the tests in the
/// background or under nohup has them ignore signals, which stay ignored then.
pub fn disposed(command: &mut Command, signals: &'static [i32], to: libc::sighandler_t) {
    // SAFETY: between fork and exec, system calls that touch nothing of the parent's.
    unsafe {
        command.pre_exec(move || {
            for &signal in signals {
                libc::signal(signal, to);
            }
            Ok(())
        });
    }
}

/// Whether a process ignores a signal.
pub fn ignores(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

/// The bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory for one test: sources, programs, recordings.
pub struct Scratch(tempfile::TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Scratch {
    /// A new one.
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Compiles `source`, a file of this name, with debug information.
    pub fn compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path(name);
        let program = file.with_extension("");
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-fno-omit-frame-pointer"]).arg(&file).arg("-o").arg(&program).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        program
    }

    /// Compiles a C program.
    pub fn c(&self, name: &str, source: &str) -> PathBuf {
        self.compile(
            "gcc",
            &format!("{name}.c"),
            &format!("{PRELUDE}{source}"),
            &["-pthread", "-fno-builtin"],
        )
    }

    /// `nearfar record` into `name` with these flags; the program is still to be added.
    pub fn recorder(&self, name: &str, flags: &[&str]) -> Command {
        let mut command = nearfar();
        command.arg("record").arg("-o").arg(self.path(name)).args(flags).arg("--");
        command
    }

    /// Records a program that must succeed, and reports.
    pub fn record(&self, name: &str, flags: &[&str], program: &[&str]) -> Run {
        let output = self.recorder(name, flags).args(program).output().unwrap();
        assert!(
            output.status.success(),
            "{:?}\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Run { report: self.report(name, &[]), output }
    }

    /// The report of a recording as JSON.
    pub fn report(&self, name: &str, flags: &[&str]) -> Report {
        let output = nearfar().arg("report").arg(self.path(name)).arg("--json").args(flags).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        Report(serde_json::from_slice(&output.stdout).unwrap())
    }
}

/// Headers of the C programs, and a way to touch pages that no compiler takes out.
pub const PRELUDE: &str = "#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define FRESH __attribute__((noinline))
#define PAGE 4096L
/* A macro: the touching line is in the function that uses it. */
#define write_pages(p, n) ({ for (long i_ = 0; i_ < (n); i_++) *(volatile char *)((char *)(p) + i_ * PAGE) = 1; })
static void *map_pages(long n) { return mmap(0, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
";

/// The program under test, with OpenMP threads that wait asleep and stay where they are.
pub fn nearfar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.env("OMP_NUM_THREADS", "2").env("OMP_WAIT_POLICY", "passive").env_remove("LD_PRELOAD");
    command
}

/// A recorded program: what it wrote, and the report.
pub struct Run {
    /// The recorder's outputs and status.
    pub output: Output,
    /// The report.
    pub report: Report,
}

impl Run {
    /// What the program printed.
    pub fn stdout(&self) -> String {
        text(&self.output.stdout)
    }
}

/// A report as JSON.
#[derive(Debug)]
pub struct Report(pub Value);

impl Report {
    /// The verdict.
    pub fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap()
    }

    /// Samples of a source; 0 if the report does not have it.
    pub fn samples(&self, source: &str) -> u64 {
        let sources = self.0["sources"].as_array().unwrap();
        sources.iter().find(|r| r["source"] == source).map_or(0, |r| r["samples"].as_u64().unwrap())
    }

    /// Object rows.
    pub fn objects(&self) -> &[Value] {
        self.0["objects"].as_array().unwrap()
    }

    /// The object of a name that must exist once.
    pub fn object(&self, name: &str) -> Object<'_> {
        let found: Vec<_> = self.objects().iter().filter(|o| o["name"] == name).collect();
        let names: Vec<_> = self.objects().iter().map(|o| o["name"].to_string()).collect();
        assert_eq!(found.len(), 1, "objects named {name} among {names:?}; notes {}", self.0["notes"]);
        Object(found[0])
    }

    /// All samples with their share of functions whose name has one of these in it.
    pub fn function_share(&self, names: &[&str]) -> f64 {
        let functions = self.0["functions"].as_array().unwrap();
        functions
            .iter()
            .filter(|f| names.iter().any(|n| f["function"].as_str().unwrap().contains(n)))
            .map(|f| number(&f["stall_share"]))
            .sum()
    }

    /// The notes as one text.
    pub fn notes(&self) -> String {
        let notes = self.0["notes"].as_array().unwrap();
        notes.iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }
}

/// A JSON number.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// An object's row.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a>(pub &'a Value);

impl<'a> Object<'a> {
    /// A count of its `pages`.
    pub fn pages(&self, origin: &str) -> u64 {
        self.0["pages"][origin].as_u64().unwrap()
    }

    /// First touches: pages, function, line text, how.
    pub fn touches(&self) -> Vec<(u64, &'a str, &'a str, &'a str)> {
        let rows = self.0["first_touch"].as_array().unwrap();
        rows.iter()
            .map(|t| {
                let text = |field: &str| t[field].as_str().unwrap_or("");
                (t["pages"].as_u64().unwrap(), text("function"), text("at"), text("how"))
            })
            .collect()
    }

    /// Pages first touched in a function and way.
    pub fn touched(&self, function: &str, how: &str) -> u64 {
        self.touches().iter().filter(|t| t.1 == function && t.3 == how).map(|t| t.0).sum()
    }

    /// Kernel thread ids of the touchers with their pages, most pages first.
    pub fn touchers(&self) -> Vec<(u64, u64)> {
        let mut all = std::collections::BTreeMap::new();
        for t in self.0["first_touch"].as_array().unwrap() {
            *all.entry(t["thread"].as_u64().unwrap()).or_insert(0) += t["pages"].as_u64().unwrap();
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|t| std::cmp::Reverse(t.1));
        all
    }

    /// Share of all samples that hit it in functions whose name has one of these in it.
    pub fn used_in(&self, functions: &[&str]) -> f64 {
        self.uses(functions).iter().map(|u| u.0).sum()
    }

    /// Uses in such functions: share of all samples, remote share of it.
    pub fn uses(&self, functions: &[&str]) -> Vec<(f64, Option<f64>)> {
        let rows = self.0["accessed_at"].as_array().unwrap();
        rows.iter()
            .filter(|u| u["function"].as_str().is_some_and(|f| functions.iter().any(|n| f.contains(n))))
            .map(|u| (number(&u["stall_share"]), u["remote_share"].as_f64()))
            .collect()
    }
}
