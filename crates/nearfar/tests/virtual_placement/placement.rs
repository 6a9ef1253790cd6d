//! `nearfar run` inside virtual machines: what it sets, beside what numactl, the kernel and the threads
//! themselves say there.

use crate::common::{Scratch, skip, workload};
use crate::lab::{c, guest_works, inside, one_machine};
use std::process::Command;

/// Threads in the order of their creation, without OpenMP: prints where each may run.
const PTHREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_barrier_t all;
static int only[64];
static void look(long i) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    only[i] = -CPU_COUNT(&set);
    if (CPU_COUNT(&set) == 1) only[i] = sched_getcpu();
}
static void *run(void *i) { look((long)i); pthread_barrier_wait(&all); return NULL; }
int main(int count, char **words) {
    long n = count > 1 ? atol(words[1]) : 4;
    pthread_t threads[64];
    pthread_barrier_init(&all, NULL, n);
    for (long i = 1; i < n; i++) pthread_create(threads + i, NULL, run, (void *)i);
    run(NULL);
    for (long i = 1; i < n; i++) pthread_join(threads[i], NULL);
    for (long i = 0; i < n; i++) printf(" %d", only[i]);
    puts("");
}"#;

/// The same with OpenMP, and as many threads as asked for.
const OPENMP: &str = r#"
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
int main(void) {
    int only[64];
#pragma omp parallel
    {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        only[omp_get_thread_num()] = CPU_COUNT(&set) == 1 ? sched_getcpu() : -CPU_COUNT(&set);
    }
    for (int i = 0; i < omp_get_max_threads(); i++) printf(" %d", only[i]);
    puts("");
}"#;

/// Touches 16 MiB and prints the kernel's line of them.
const TOUCH: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    /* Between pages without access, so that no neighbour becomes part of the mapping. */
    char *around = mmap(NULL, (16 << 20) + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p = around + 4096;
    char start[32], line[512];
    mprotect(p, 16 << 20, PROT_READ | PROT_WRITE);
    madvise(p, 16 << 20, MADV_NOHUGEPAGE);
    memset(p, 1, 16 << 20);
    snprintf(start, sizeof start, "%lx ", (long)p);
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (strncmp(line, start, strlen(start)) == 0) fputs(line, stdout);
    }
}"#;

pub(crate) struct Guest {
    pub(crate) scratch: Scratch,
    shape: &'static str,
    programs: [String; 3],
}

impl Guest {
    pub(crate) fn new(shape: &'static str) -> Guest {
        let scratch = Scratch::new();
        let programs = [("threads", PTHREADS), ("omp", OPENMP), ("touch", TOUCH)]
            .map(|(name, source)| c(&scratch, name, source));
        Guest { scratch, shape, programs }
    }

    /// What each of the command lines behind `nearfar run` printed, and said on its other output.
    pub(crate) fn run(&self, lines: &[&str]) -> Vec<(String, String)> {
        let [threads, omp, touch] = &self.programs;
        let mut script = String::new();
        for line in lines {
            let line = line.replace("THREADS", threads).replace("OMP", omp).replace("TOUCH", touch);
            let nearfar = env!("CARGO_BIN_EXE_nearfar");
            script += &format!("echo @; echo @ >&2; {nearfar} run {line}\n");
        }
        let file = |name: &str| self.scratch.path(name);
        let (out, messages) = (file("out"), file("messages"));
        let (own, other) = (out.display(), messages.display());
        inside(&self.scratch, self.shape, &format!("{{\n{script}}} >{own} 2>{other}\ntrue\n"));
        let [out, messages] = [out, messages].map(|path| std::fs::read_to_string(path).unwrap());
        let parts = |text: &str| text.split("@\n").skip(1).map(str::to_owned).collect::<Vec<_>>();
        let (out, messages) = (parts(&out), parts(&messages));
        assert_eq!((out.len(), messages.len()), (lines.len(), lines.len()), "{out:?}\n{messages:?}");
        out.into_iter().zip(messages).collect()
    }
}

/// A line of cpus is all of it; of the kernel's words, between which others stand, each is there.
#[track_caller]
fn check(line: &str, expected: &str, out: &str, said: &str) {
    let found = match expected.ends_with('\n') {
        true => out == expected,
        false if line.ends_with("TOUCH") => {
            expected.split(' ').all(|w| out.split_whitespace().any(|o| o == w))
        }
        false => out.contains(expected),
    };
    assert!(found, "run {line}: `{expected}` is not in\n{out}{said}");
    if expected.starts_with("interleave:") {
        // Page tables take their turns, too.
        let pages =
            out.split_whitespace().filter_map(|w| w.strip_prefix('N')?.split_once('=')?.1.parse().ok());
        let pages: Vec<f64> = pages.collect();
        let fair = 4096.0 / pages.len() as f64;
        assert!(pages.len() > 1 && pages.iter().all(|n| (n - fair).abs() < 0.02 * fair), "run {line}: {out}");
    }
}

#[test]
fn what_run_sets_is_what_numactl_the_kernel_and_the_threads_see() {
    if Command::new("numactl").arg("-H").output().is_err() {
        return skip("numactl is not installed");
    }
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let guest = Guest::new("2x2");
    let cases: &[(&str, &str)] = &[
        ("-N 1 -- numactl --show", "physcpubind: 2 3"),
        ("-c 1 -- numactl --show", "cpubind: 1"),
        ("-C 1-2 numactl --show", "physcpubind: 1 2"),
        ("-C +3 -- numactl --show", "physcpubind: 3"),
        ("-C '!0' -- numactl --show", "physcpubind: 1 2 3"),
        ("-m 1 -- numactl --show", "policy: bind"),
        ("-m 1 -- numactl --show", "membind: 1"),
        ("-i all -- numactl --show", "interleavemask: 0 1"),
        ("-p 1 -- numactl --show", "preferred node: 1"),
        ("-m 1 -N 0 -- TOUCH", "bind:1 anon=4096 N1=4096"),
        ("-i 0-1 -- TOUCH", "interleave:0-1 anon=4096"),
        ("-l -N 1 -- TOUCH", "local anon=4096 N1=4096"),
        ("-p 1 -N 0 -- TOUCH", "prefer:1 anon=4096 N1=4096"),
        ("-P 1 -N 0 -- TOUCH", "(many):1 anon=4096 N1=4096"),
        ("--bind compact -- THREADS 4", " 0 1 2 3\n"),
        ("--bind scatter -- THREADS 4", " 0 2 1 3\n"),
        ("--bind 3,1 -- THREADS 2", " 3 1\n"),
        ("--bind S1:0-1@S0:0 -- THREADS 3", " 2 3 0\n"),
        // A fourth thread stays within the cpus of the three.
        ("--bind S1:0-1@S0:0 -- THREADS 4", " 2 3 0 -3\n"),
        // The first that is created is a helper: it may run on any of the two.
        ("--bind 3,1 --skip 1 -- THREADS 3", " 3 -2 1\n"),
        ("--threads 2 --bind scatter -- OMP", " 0 2\n"),
        ("--bind close -- OMP", " 0 1 2 3\n"),
        ("--threads 3 --bind 3,0,1 -- OMP", " 3 0 1\n"),
        ("-N 1 --bind close -- OMP", " 2 3\n"),
        // Through a shell, which has no runtime that pins.
        ("--threads 2 --bind scatter -- sh -c 'OMP; true'", " 0 2\n"),
        ("--bind 3,1 -- sh -c 'THREADS 2; true'", " 3 1\n"),
    ];
    let lines: Vec<&str> = cases.iter().map(|c| c.0).collect();
    for ((line, expected), (out, said)) in cases.iter().zip(guest.run(&lines)) {
        check(line, expected, &out, &said);
        assert!(!said.contains("elsewhere than asked") && !said.contains("overruled"), "run {line}: {said}");
        println!("run {line}: {}", expected.trim());
    }
    // What the kernel does not have is said, with what does.
    let wrong = guest.run(&[
        "-w 0-1 -- true",
        "-m 5 -- true",
        "-N 0 -m 1 -- true",
        "-C 9 -- true",
        "-m 0 -i 1 -- true",
    ]);
    let said = |i: usize| wrong[i].1.as_str();
    assert!(
        said(0).contains("needs Linux 6.9") || said(0).contains("by the kernel's weights"),
        "{}",
        said(0)
    );
    assert!(said(1).contains("node 5 does not exist; the machine's nodes: 0-1"), "{}", said(1));
    assert!(said(2).contains("every access is remote"), "{}", said(2));
    assert!(said(3).contains("cpu 9 does not exist") || said(3).contains("may not be used"), "{}", said(3));
    assert!(said(4).contains("cannot be used with"), "{}", said(4));
}

#[test]
fn threads_are_laid_out_over_four_nodes() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let guest = Guest::new("4x1");
    let cases: &[(&str, &str)] = &[
        ("--threads 2 --bind compact -- OMP", " 0 1\n"),
        ("--threads 2 --bind spread -- OMP", " 0 2\n"),
        ("--bind N3:0@N1:0 -- THREADS 2", " 3 1\n"),
        ("-i '!0' -- TOUCH", "interleave:1-3 anon=4096"),
    ];
    let lines: Vec<&str> = cases.iter().map(|c| c.0).collect();
    for ((line, expected), (out, said)) in cases.iter().zip(guest.run(&lines)) {
        check(line, expected, &out, &said);
    }
}

#[test]
fn a_stencils_threads_are_where_hwloc_sees_them() {
    let Some(program) = workload("iso3dfd") else { return };
    if Command::new("hwloc-ps").arg("--version").output().is_err() {
        return skip("hwloc-ps is not installed");
    }
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let layouts = ["scatter", "S1:0-1@S0:0", "3,0,2"];
    let (program, own) = (program.to_str().unwrap(), env!("CARGO_BIN_EXE_nearfar"));
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let (out, said) = (path("out"), path("said"));
    // A thread's line begins with a blank; the program's own stands before them.
    let script = format!(
        "for bind in {}; do\n\
         {own} run --threads 3 --bind $bind -- {program} 64 64 64 100000 64 16 16 >/dev/null 2>>{said} &\n\
         for i in $(seq 100); do\n\
         hwloc-ps -t -c --name iso3dfd >{out}.now\n\
         [ $(grep -c '^ ' {out}.now) = 3 ] && break; sleep 0.2; done\n\
         sleep 0.5; hwloc-ps -t -c --name iso3dfd | grep '^ ' >>{out}; echo @ >>{out}\n\
         kill $!; wait $!\n\
         done\ntrue\n",
        layouts.join(" ")
    );
    inside(&scratch, "2x2", &script);
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (out, said) = (read(&out), read(&said));
    let asked: Vec<&str> =
        said.lines().filter_map(|l| l.split_once("threads on cpus ")).map(|l| l.1).collect();
    let seen: Vec<String> = out.split("@\n").map(masks).filter(|m| !m.is_empty()).collect();
    println!("asked {asked:?}, hwloc-ps {seen:?}");
    assert_eq!(asked.len(), layouts.len(), "{said}");
    assert_eq!(seen, asked, "{out}");
    assert_eq!(asked, ["0,2,1", "2,3,0", "3,0,2"]);
}

/// The cpus of hwloc-ps's lines: number, mask of one cpu, name.
fn masks(lines: &str) -> String {
    let mask = |line: &str| -> Option<u32> {
        let word = line.split_whitespace().find_map(|w| w.strip_prefix("0x"))?;
        Some(u64::from_str_radix(word, 16).ok()?.trailing_zeros())
    };
    lines.lines().filter_map(mask).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}
