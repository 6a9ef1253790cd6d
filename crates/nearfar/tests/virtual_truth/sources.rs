//! The sources that work on real machines, run inside the guest, against its exact counts.

use crate::common::workload;
use crate::lab::{Lab, c, guest_works, one_machine};
use nearfar_analyze::SampleReader;
use nearfar_record::store::{Stored, open};
use nearfar_recording::Columns;
use std::collections::HashMap;

/// Cpus of each node of the labs here.
const CPUS: u16 = 2;

fn node_of(cpu: u16) -> i16 {
    (cpu / CPUS) as i16
}

/// Lines of each page by node of the page.
fn exact_page_nodes(stored: &Stored) -> HashMap<u64, HashMap<i16, u64>> {
    let t = &stored.input.page_traffic;
    let mut page_nodes: HashMap<u64, HashMap<i16, u64>> = HashMap::new();
    for i in 0..t.len() {
        *page_nodes.entry(t.address[i]).or_default().entry(t.page_node[i]).or_default() +=
            t.read_lines[i] + t.write_lines[i];
    }
    page_nodes
}

/// The node of the cpu that faulted first in each page.
fn first_touches(stored: &Stored) -> HashMap<u64, i16> {
    let f = &stored.input.faults;
    let mut touches = HashMap::new();
    for i in 0..f.len() {
        // A load maps the zero page; the store that follows places.
        if f.access[i] != 1 {
            touches.entry(f.address[i] & !4095).or_insert(node_of(f.cpu[i]));
        }
    }
    touches
}

/// What move_pages said last of each page.
fn looks(stored: &Stored) -> HashMap<u64, i16> {
    let h = &stored.input.page_nodes;
    let mut order: Vec<usize> = (0..h.len()).collect();
    order.sort_by_key(|&i| h.time_ns[i]);
    let mut looks = HashMap::new();
    for i in order.into_iter().filter(|&i| h.node[i] >= 0) {
        looks.extend((0..u64::from(h.pages[i])).map(|n| (h.address[i] + n * h.stride[i], h.node[i])));
    }
    looks
}

/// Of the pages that both know, those where they agree, and how many both know.
fn agreement(said: &HashMap<u64, i16>, exact: &HashMap<u64, HashMap<i16, u64>>) -> (f64, usize) {
    let both: Vec<bool> = exact
        .iter()
        .filter_map(|(page, page_nodes)| Some(page_nodes.contains_key(said.get(page)?)))
        .collect();
    (both.iter().filter(|&&agrees| agrees).count() as f64 / both.len().max(1) as f64, both.len())
}

#[test]
fn first_touches_and_page_nodes_agree_with_the_memory_that_was_used() {
    let Some(triad) = workload("triad").filter(|_| guest_works()) else { return };
    let _one = one_machine();
    let lab = Lab::new(2, 2, 256);
    for init in ["serial", "parallel"] {
        let program = [triad.to_str().unwrap(), "--elements", "1048576", "--iterations", "2", "--init", init];
        lab.count(init, &[], &program);
        let stored = open(&lab.scratch.path(init)).unwrap();
        let exact = exact_page_nodes(&stored);
        let pages = 3 * 1_048_576 * 8 / 4096;
        let (touched, known) = agreement(&first_touches(&stored), &exact);
        println!("{init}: first touch agrees on {:.2} % of {known} pages", 100.0 * touched);
        assert!(known >= pages && touched >= 0.999, "{init}: {touched} of {known}");
        let (looked, known) = agreement(&looks(&stored), &exact);
        println!("{init}: move_pages agrees on {:.2} % of {known} pages", 100.0 * looked);
        // Before an array is freed the agent looks at every 11th of its 2048 pages: 11 is the least distance that gives
        // at most 1024 and has none of the factors 2, 3, 5 and 7. The recorder's own looks are at all pages, but a
        // short program may end before the first of them.
        let certain = 3 * (2048 / 11);
        assert!(known >= certain && looked >= 0.999, "{init}: {looked} of {known}");
        thread_shares(&stored, init);
    }
}

/// Lines per cpu and node of the page: sampled against counted.
fn thread_shares(stored: &Stored, what: &str) {
    let t = &stored.input.epoch_traffic;
    let mut exact: HashMap<(u16, i16), f64> = HashMap::new();
    for i in (0..t.len()).filter(|&i| t.region[i] == 1) {
        *exact.entry((t.cpu[i], t.page_node[i])).or_default() +=
            (t.read_lines[i] + t.write_lines[i] + t.stream_lines[i]) as f64;
    }
    let p = &stored.input.phases;
    let region = (0..p.len()).find(|&i| p.name[i].is_empty()).map(|i| p.begin_ns[i]..p.end_ns[i]).unwrap();
    let mut sampled: HashMap<(u16, i16), f64> = HashMap::new();
    for i in 0..stored.samples.segments() {
        for s in stored.samples.segment(i).unwrap().rows().filter(|s| region.contains(&s.time_ns)) {
            *sampled.entry((s.cpu, s.page_node)).or_default() += f64::from(s.lines);
        }
    }
    let (all, seen): (f64, f64) = (exact.values().sum(), sampled.values().sum());
    assert!((seen / all - 1.0).abs() < 0.03, "{what}: samples stand for {seen} lines of {all}");
    for (key, lines) in &exact {
        let share = sampled.get(key).copied().unwrap_or(0.0) / seen;
        assert!(
            (share - lines / all).abs() < 0.01,
            "{what}: cpu and page_node {key:?}: {share} of {}",
            lines / all
        );
    }
}

/// A thread of node 1 uses pages of node 0, for half as long again as the kernel takes to bring half of them over, or for so many
/// seconds.
const LONG: &str = r#"
#define _GNU_SOURCE
#include <nearfar.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int moved(volatile char *p, long bytes) {
    int there = 0;
    for (long i = 0; i < bytes; i += 65536) {
        void *page = (void *)(p + i);
        int node = -1;
        syscall(SYS_move_pages, 0, 1L, &page, 0, &node, 0);
        there += node == 1;
    }
    return there * 131072L >= bytes;
}
static double since(struct timespec begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - begin.tv_sec + 1e-9 * (now.tv_nsec - begin.tv_nsec);
}
static void on(int cpu) { cpu_set_t s; CPU_ZERO(&s); CPU_SET(cpu, &s); sched_setaffinity(0, sizeof s, &s); }
int main(int count, char **words) {
    enum { BYTES = 4 << 20 };
    volatile char *p = aligned_alloc(4096, BYTES);
    on(0);
    memset((char *)p, 1, BYTES);
    on(2);
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    double end = atoi(words[1]);
    nearfar_begin();
    for (int over = 0; since(begin) < end;) {
        for (long i = 0; i < BYTES; i += 64) p[i]++;
        if (!over && moved(p, BYTES)) {
            over = 1;
            end = 1.5 * since(begin) < end ? 1.5 * since(begin) : end;
        }
    }
    nearfar_end();
    free((char *)p);
    return 0;
}"#;

#[test]
fn pages_that_autonuma_moves_are_counted_where_they_are() {
    if !guest_works() {
        return;
    }
    let _one = one_machine();
    let lab = Lab::new(2, 2, 256);
    let long = c(&lab.scratch, "long", LONG);
    let off = lab.count("off", &[], &[&long, "3"]);
    assert!(off.at(0) > 0.99, "nothing moves by itself: {}", off.at(0));
    // It ends soon after half of them are over. Beside other work on the host, 12 s were once too few for that.
    let on = lab.count("on", &["--numa-balancing"], &[&long, "60"]);
    println!("with AutoNUMA {:.1} % of the lines are at node 1", 100.0 * on.at(1));
    assert!(on.at(1) > 0.05, "AutoNUMA moved next to nothing in 60 s: {}", on.at(1));
    let stored = open(&lab.scratch.path("on")).unwrap();
    let (looked, known) = agreement(&looks(&stored), &exact_page_nodes(&stored));
    println!("move_pages agrees on {:.2} % of {known} pages", 100.0 * looked);
    // A page may move between its last use and the last look.
    assert!(known > 500 && looked > 0.98, "{looked} of {known}");
}
