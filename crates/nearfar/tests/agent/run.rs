//! Compiles small programs and runs them under the agent.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nearfar_record::collect::agent::{
    AgentBody, AgentFile, AgentLoss, AgentRecord, Allocation, Settings, ShortLived,
};

/// A directory for one test's programs.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("nearfar-agent-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn compile(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.0.join(name);
        let program = file.with_extension("exe");
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new(compiler);
        command.arg("-O1").arg("-g").arg(&file).arg("-o").arg(&program).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    pub fn c(&self, name: &str, source: &str) -> PathBuf {
        self.compile("gcc", name, &format!("{PRELUDE}\n{source}"), &["-pthread", "-fno-builtin"])
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub const PRELUDE: &str = "#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define FRESH __attribute__((noinline))
static volatile int sink;
";

pub fn has(tool: &str) -> bool {
    let mut command = Command::new(tool);
    let found = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: no {tool}");
    }
    found
}

pub struct Run {
    pub output: Output,
    pub records: Vec<AgentRecord>,
    pub loss: AgentLoss,
    pub short: ShortLived,
}

impl Run {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn ok(&self) {
        assert!(self.output.status.success(), "{:?}\n{}", self.output, self.text());
        assert_eq!(String::from_utf8_lossy(&self.output.stderr), "");
    }

    pub fn allocations(&self) -> impl Iterator<Item = (&AgentRecord, &Allocation)> {
        self.records.iter().filter_map(|record| match &record.body {
            AgentBody::Alloc(allocation) => Some((record, allocation)),
            _ => None,
        })
    }

    pub fn of_size(&self, bytes: u64) -> Vec<(&AgentRecord, &Allocation)> {
        self.allocations().filter(|(_, a)| a.bytes == bytes).collect()
    }

    pub fn has(&self, body: impl Fn(&AgentBody) -> bool) -> bool {
        self.records.iter().any(|record| body(&record.body))
    }
}

pub fn settings() -> Settings {
    Settings { min_object_bytes: 100_000, small_sample_bytes: 0, alloc_rate: 0, ..Settings::default() }
}

fn now_ns() -> u64 {
    nearfar_host::proc::monotonic_ns()
}

pub fn run_with(settings: &Settings, command: &mut Command) -> Run {
    let mut file = AgentFile::create(settings).unwrap();
    command.envs(file.environment()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut records = Vec::new();
    let start = Instant::now();
    // Outputs here are smaller than a pipe holds.
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "the program hangs");
        file.drain(now_ns(), |record| records.push(record));
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    file.drain(u64::MAX, |record| records.push(record));
    Run { output, records, loss: file.lost(), short: file.short_lived() }
}

pub fn run(program: &Path) -> Run {
    run_with(&settings(), &mut Command::new(program))
}

/// The hexadecimal number after `label=0x` in the program's output.
pub fn printed(text: &str, label: &str) -> u64 {
    let after = text.split(&format!("{label}=0x")).nth(1).unwrap_or_else(|| panic!("{label} in {text}"));
    let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
    u64::from_str_radix(&after[..end], 16).unwrap()
}

/// The number after `label` in the program's output.
pub fn decimal(text: &str, label: &str) -> u64 {
    let after = text.split(label).nth(1).unwrap_or_else(|| panic!("{label} in {text}"));
    after
        .lines()
        .next()
        .and_then(|word| word.trim().parse().ok())
        .unwrap_or_else(|| panic!("{label} in {text}"))
}
