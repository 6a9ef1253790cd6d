//! Objects whose pages come in turns of several, by weights of their own.

use crate::common::Scratch;
use crate::lab::{c, guest_works, inside, one_machine};

/// Prints the runs of pages by node of each object, its whole pages only; then how many mappings the first has, and the
/// thread's own policy.
const WEIGHTS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MIB (1ul << 20)
static char grid[64 * 4096] __attribute__((aligned(4096)));
static char *map(size_t n) {
    return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void show(const char *name, char *p, size_t n) {
    static void *pages[20000];
    static int nodes[20000];
    unsigned long low = ((unsigned long)p + 4095) & -4096ul, high = (unsigned long)(p + n) & -4096ul;
    long count = (high - low) / 4096, runs[2][1024] = {{0}}, most[2] = {0}, all[2] = {0};
    for (long i = 0; i < count; i++) ((volatile char *)low)[i * 4096] = 1, pages[i] = (char *)low + i * 4096;
    syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0);
    /* Lengths of runs that are neither the first nor the last: the most frequent of each node, and all pages. */
    for (long i = 0, run = 1, first = 1; i < count; i++, run++) {
        all[nodes[i] & 1]++;
        if (i + 1 == count || nodes[i + 1] == nodes[i]) continue;
        if (!first && run < 1024 && ++runs[nodes[i] & 1][run] > runs[nodes[i] & 1][most[nodes[i] & 1]]) most[nodes[i] & 1] = run;
        first = 0, run = 0;
    }
    printf("%s runs %ld %ld, pages %ld %ld\n", name, most[0], most[1], all[0], all[1]);
}
int main(void) {
    char *page = map(4 * MIB);
    char *wide = map(64 * MIB);
    char *old = malloc(64 * 4096);
    memset(old, 1, 64 * 4096);
    free(old);
    char *again = malloc(64 * 4096 - 64);
    int policy = -1;
    syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul);
    show("page", page, 4 * MIB);
    show("wide", wide, 64 * MIB);
    show("again", again, 64 * 4096 - 64);
    show("grid", grid, sizeof grid);
    char line[512];
    int mappings = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    for (unsigned long from, to; fgets(line, sizeof line, f);)
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) mappings += from < (unsigned long)page + 4 * MIB && to > (unsigned long)page;
    printf("mappings %d, policy %d\n", mappings, policy);
    return 0;
}"#;

#[test]
fn pages_of_an_object_come_in_turns_by_its_weights() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = c(&scratch, "weights", WEIGHTS);
    let line = |start: &str| WEIGHTS.lines().position(|l| l.trim().starts_with(start)).unwrap() + 1;
    let at = |start: &str, rest: &str| {
        format!(
            "[[object]]\nallocated_at = \"weights.c:{}\"\npolicy = \"interleave\"\nnodes = \"0-1\"\n{rest}\n",
            line(start)
        )
    };
    let mut file = "format = 1\n".to_owned();
    file += &at("char *page", "weights = [3, 1]\nhuge_pages = false");
    file += &at("char *wide", "weights = [1, 1]\nhuge_pages = true");
    file += &at("char *again", "weights = [1, 2]\nhuge_pages = false");
    file += "[[object]]\nstatic = \"grid\"\npolicy = \"interleave\"\nnodes = \"0-1\"\nweights = [5, 3]\nhuge_pages = false\n";
    let fix = scratch.path("fix.toml");
    std::fs::write(&fix, file).unwrap();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let script = format!(
        "{} run --placement {} -- {program} >{} 2>{}\n",
        env!("CARGO_BIN_EXE_nearfar"),
        path("fix.toml"),
        path("out"),
        path("said")
    );
    inside(&scratch, 1, &script);
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let (out, said) = (read("out"), read("said"));
    println!("{out}{said}");
    let lines: Vec<&str> = out.lines().collect();
    // 1,024 pages in turns of 3 and 1; 63 whole ones in turns of 1 and 2, those of a block that was used before; 64 in turns of 5 and 3.
    assert_eq!(lines[0], "page runs 3 1, pages 768 256");
    assert!(lines[1].starts_with("wide runs 512 512, pages "), "{}", lines[1]);
    assert!(lines[2].starts_with("again runs 1 2, pages 2"), "{}", lines[2]);
    assert_eq!(lines[3], "grid runs 5 3, pages 40 24");
    assert_eq!(lines[4], "mappings 1, policy 0", "one mapping, and the thread's policy is its own again");
    assert!(
        said.contains("1 allocation of 4.0 MiB in whole pages, memory interleaved over nodes 0-1, 3 and 1 pages in turns"),
        "{said}"
    );
    assert!(!said.contains("refused"), "{said}");
}
