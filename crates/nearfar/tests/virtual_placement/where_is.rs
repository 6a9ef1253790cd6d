//! `nearfar where` inside a virtual machine of two nodes, beside its kernel and numastat there: a gibibyte
//! with mixed policies.

use crate::common::{Scratch, skip};
use crate::lab::{c, guest_works, inside, one_machine};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// 256 MiB each bound to a node, interleaved, and by first touch of a thread of node 0; 8 MiB of shared
/// memory on node 1; and 8 MiB that were touched on node 0 before they were bound to node 1.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MIB (1ul << 20)
static volatile char *area(size_t bytes, int how) {
    /* Pages without access around it keep it from becoming one with a neighbour. */
    char *p = mmap(NULL, bytes + 8192, PROT_NONE, how | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + 4096, bytes, PROT_READ | PROT_WRITE)) exit(3);
    madvise(p + 4096, bytes, MADV_NOHUGEPAGE);
    return p + 4096;
}
static void bind(volatile char *p, size_t bytes, int mode, unsigned long nodes) {
    if (syscall(SYS_mbind, p, bytes, mode, &nodes, 65ul, 0u)) { perror("mbind"); exit(4); }
}
static void touch(volatile char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4096) p[i] = 1;
}
int main(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
    size_t part = 256 * MIB, little = 8 * MIB;
    volatile char *p[4];
    for (int i = 0; i < 4; i++) p[i] = area(part, MAP_PRIVATE);
    bind(p[0], part, 2, 1);
    bind(p[1], part, 2, 2);
    bind(p[2], part, 3, 3);
    for (int i = 0; i < 4; i++) touch(p[i], part);
    volatile char *shared = area(little, MAP_SHARED), *late = area(little, MAP_PRIVATE);
    bind(shared, little, 2, 2);
    touch(shared, little);
    touch(late, little);
    bind(late, little, 2, 2);
    printf("ready\n");
    fflush(stdout);
    pause();
}"#;

/// Static variables: interleaved, bound, placed by first touch of a thread of node 0, and half on each node.
const STATICS: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define PAGES(n) ((n) * 4096ul)
static char spread[PAGES(2048)] __attribute__((aligned(4096)));
static char bound[PAGES(1024)] __attribute__((aligned(4096)));
static char halves[PAGES(768)] __attribute__((aligned(4096)));
static char plain[PAGES(512)] __attribute__((aligned(4096)));
static void bind(void *p, size_t bytes, int mode, unsigned long nodes) {
    if (syscall(SYS_mbind, p, bytes, mode, &nodes, 65ul, 0u)) { perror("mbind"); exit(4); }
}
static void touch(volatile char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4096) p[i] = 1;
}
int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    sched_setaffinity(0, sizeof set, &set);
    bind(spread, sizeof spread, 3, 3);
    bind(bound, sizeof bound, 2, 2);
    bind(halves, sizeof halves / 2, 2, 2);
    touch(spread, sizeof spread);
    touch(bound, sizeof bound);
    touch(halves, sizeof halves);
    touch(plain, sizeof plain);
    printf("ready\n");
    fflush(stdout);
    pause();
}"#;

/// Runs in the guest: the program, then each way to ask where it is.
const SCRIPT: &str = r#"
exec > SCRATCH/out
PROGRAM > SCRATCH/ready &
pid=$!
while ! grep -q ready SCRATCH/ready; do sleep 0.2; done
echo @; NEARFAR where $pid --json
echo @; awk '{ pages = 0; size = 0; for (i = 3; i <= NF; i++) { split($i, w, "=");
    if (w[1] == "kernelpagesize_kB") size = w[2]; else if (w[1] ~ /^N[0-9]+$/) n[w[1]] = w[2] }
    for (k in n) { sum[k] += n[k] * size; delete n[k] } }
    END { for (k in sum) print substr(k, 2), sum[k] }' /proc/$pid/numa_maps
echo @; numastat -p $pid
echo @; NEARFAR where $pid --sample --json
echo @; NEARFAR where $pid
echo @; cat /proc/$pid/numa_maps
echo @; for i in 1 2 3 4 5 6; do NEARFAR where $pid --json | grep took_ms; done
kill $pid
VARIABLES > SCRATCH/also &
pid=$!
while ! grep -q ready SCRATCH/also; do sleep 0.2; done
echo @; NEARFAR where $pid --json
echo @; NEARFAR where $pid --sample --json
kill $pid
"#;

/// Bytes by node of the first thing that has `nodes`.
fn nodes(of: &Value) -> BTreeMap<u32, u64> {
    let pairs = of["nodes"].as_object().unwrap().iter();
    pairs.map(|(node, amount)| (node.parse().unwrap(), amount["bytes"].as_u64().unwrap())).collect()
}

#[test]
fn where_agrees_with_numa_maps_to_the_page_and_with_numastat() {
    if Command::new("numastat").arg("-V").output().is_err() {
        return skip("numastat is not installed");
    }
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let script = SCRIPT
        .replace("PROGRAM", &c(&scratch, "mixed", PROGRAM))
        .replace("VARIABLES", &c(&scratch, "statics", STATICS))
        .replace("SCRATCH", scratch.directory().to_str().unwrap())
        .replace("NEARFAR", env!("CARGO_BIN_EXE_nearfar"));
    inside(&scratch, "2x1", &script);
    let out = std::fs::read_to_string(scratch.path("out")).unwrap();
    let parts: Vec<&str> = out.split("@\n").skip(1).collect();
    assert_eq!(parts.len(), 9, "{out}");
    let [json, sums, numastat, sampled, words, maps, times, variables, sampled_variables] = parts[..] else {
        unreachable!()
    };

    let look: Value = serde_json::from_str(json).unwrap();
    let ours = nodes(&look["memory"]);
    let kernels: BTreeMap<u32, u64> = sums
        .lines()
        .map(|line| {
            let (node, kib) = line.split_once(' ').unwrap();
            (node.parse().unwrap(), kib.parse::<u64>().unwrap() * 1024)
        })
        .collect();
    println!("where: {ours:?}, numa_maps: {kernels:?}, in {} ms of the guest", look["took_ms"]);
    println!("later looks of new processes: {}", times.split_whitespace().collect::<String>());
    assert_eq!(ours, kernels, "{maps}");
    assert!(ours.values().sum::<u64>() >= 1 << 30);

    // numastat rounds mebibytes to two digits.
    let total = numastat.lines().find(|l| l.starts_with("Total")).unwrap();
    let mib: Vec<f64> = total.split_whitespace().skip(1).map(|w| w.parse().unwrap()).collect();
    for (node, bytes) in &ours {
        let own = *bytes as f64 / f64::from(1 << 20);
        assert!((own - mib[*node as usize]).abs() < 0.0051, "node {node}: {own} MiB\n{numastat}");
    }

    // Each mapping is where its policy asks for it, except for the one that was bound too late.
    let mappings = look["memory"]["mappings"].as_array().unwrap();
    let of = |policy: &str, bytes: u64| {
        let found =
            mappings.iter().find(|m| m["requested"] == policy && nodes(m).values().sum::<u64>() == bytes);
        nodes(found.unwrap_or_else(|| panic!("no {policy} of {bytes} bytes: {maps}")))
    };
    let mib = |n: u64| n << 20;
    assert_eq!(of("bind:0", mib(256)), BTreeMap::from([(0, mib(256))]));
    assert_eq!(of("bind:1", mib(256)), BTreeMap::from([(1, mib(256))]));
    assert_eq!(of("interleave:0-1", mib(256)), BTreeMap::from([(0, mib(128)), (1, mib(128))]));
    assert_eq!(of("default", mib(256)), BTreeMap::from([(0, mib(256))]));
    let shared =
        mappings.iter().find(|m| m["kind"] == "shared" && m["requested"] == "bind:1").expect("shared");
    assert_eq!(nodes(shared), BTreeMap::from([(1, mib(8))]));
    let findings: Vec<&str> =
        look["findings"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("asked for bind:1, 8.0 MiB of 264 MiB (3.0 %)"), "{findings:?}");
    assert!(words.contains("node 0, 1 thread: ") && words.contains("on another socket"), "{words}");

    // Random pages: three times the half width leaves a false alarm in 10⁸ numbers.
    let sampled: Value = serde_json::from_str(sampled).unwrap();
    let truth = |start: &Value| mappings.iter().find(|m| m["start"] == *start).map(nodes);
    let mut compared = 0;
    for mapping in sampled["memory"]["mappings"].as_array().unwrap() {
        let Some(truth) = truth(&mapping["start"]) else { continue };
        for (node, amount) in mapping["nodes"].as_object().unwrap() {
            let exact = truth.get(&node.parse().unwrap()).copied().unwrap_or(0) as f64;
            let found = amount["bytes"].as_f64().unwrap();
            let width = match amount["interval"].as_array() {
                Some(ends) => 1.5 * (ends[1].as_f64().unwrap() - ends[0].as_f64().unwrap()),
                None => 0.0,
            };
            assert!((found - exact).abs() <= width, "node {node}: {found} instead of {exact}: {mapping}");
            compared += 1;
        }
    }
    assert!(compared >= 7, "{sampled}");

    statics(&serde_json::from_str(variables).unwrap(), true);
    statics(&serde_json::from_str(sampled_variables).unwrap(), false);
}

/// The pages of each variable, to the page; policies only where numa_maps was walked.
fn statics(look: &Value, walked: bool) {
    let objects = look["memory"]["objects"].as_array().unwrap();
    let pages = |n: u64| n * 4096;
    for (name, bytes, page_nodes, policies) in [
        ("spread", pages(2048), vec![(0, pages(1024)), (1, pages(1024))], vec!["interleave:0-1"]),
        ("bound", pages(1024), vec![(1, pages(1024))], vec!["bind:1"]),
        ("halves", pages(768), vec![(0, pages(384)), (1, pages(384))], vec!["bind:1", "default"]),
        ("plain", pages(512), vec![(0, pages(512))], vec!["default"]),
    ] {
        let object = objects.iter().find(|o| o["name"] == name);
        let object = object.unwrap_or_else(|| panic!("no {name}: {}", look["memory"]));
        assert_eq!(object["bytes"], bytes, "{object}");
        assert_eq!(nodes(object), page_nodes.into_iter().collect(), "{object}");
        let requested = if walked { Value::from(policies) } else { Value::Null };
        assert_eq!(object["requested"], requested, "{object}");
    }
    assert_eq!(objects.len(), 4, "{}", look["memory"]);
}
