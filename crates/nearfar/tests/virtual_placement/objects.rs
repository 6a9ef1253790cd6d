//! Objects and parts of them, placed inside virtual machines as a file says.

use crate::common::{Scratch, text, workload};
use crate::lab::{Lab, c, guest_works, inside, one_machine};
use crate::placement::Guest;
use serde_json::Value;

/// Objects from calls of several kinds; prints the kernel's line of each, by its name.
const OBJECTS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
static char grid[4 << 20];
static char *make(size_t n) {
    return static_cast<char *>(malloc(n));
}
static void show(const char *name, void *p, size_t n) {
    memset(p, 1, n);
    char line[512];
    unsigned long from = 0, best = 0;
    static char found[512];
    FILE *f = fopen("/proc/self/numa_maps", "r");
    while (fgets(line, sizeof line, f)) {
        from = strtoul(line, NULL, 16);
        // The last mapping that begins at or below the middle of the object.
        if (from <= (unsigned long)p + n / 2 && from > best) best = from, strcpy(found, line);
    }
    fclose(f);
    printf("%s %s", name, strchr(found, ' ') + 1);
}
int main() {
    char *plain = static_cast<char *>(malloc(4 << 20));
    char *first = make(4 << 20);
    char *other = make(4 << 20);
    std::vector<char> list(4 << 20);
    char *grown = static_cast<char *>(malloc(100));
    grown = static_cast<char *>(realloc(grown, 4 << 20));
    char *small = static_cast<char *>(malloc(1 << 20));
    show("plain", plain, 4 << 20);
    show("first", first, 4 << 20);
    show("other", other, 4 << 20);
    show("list", list.data(), 4 << 20);
    show("grown", grown, 4 << 20);
    show("small", small, 1 << 20);
    show("grid", grid, 4 << 20);
}"#;

#[test]
fn single_objects_go_where_a_file_says() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let guest = Guest::new("2x1");
    let scratch = &guest.scratch;
    let program = scratch.compile("g++", "objects.cpp", OBJECTS, &["-g", "-O0"]);
    let line = |start: &str| OBJECTS.lines().position(|l| l.trim().starts_with(start)).unwrap() + 1;
    let mut file = "format = 1\n".to_owned();
    for (name, start, policy, nodes) in [
        ("plain", "char *plain", "bind", "1"),
        ("first", "char *first", "interleave", "0-1"),
        ("list", "std::vector", "preferred", "1"),
        ("grown", "grown =", "bind", "1"),
        ("small", "char *small", "bind", "1"),
    ] {
        file += &format!(
            "[[object]]\nname = \"{name}\"\nallocated_at = \"objects.cpp:{}\"\npolicy = \"{policy}\"\nnodes = \"{nodes}\"\n",
            line(start)
        );
        file += if name == "small" { "min_bytes = 2000000\n" } else { "" };
    }
    file += "[[object]]\nstatic = \"grid\"\npolicy = \"bind\"\nnodes = \"1\"\n";
    let fix = scratch.path("fix.toml");
    std::fs::write(&fix, file).unwrap();
    let (program, fix) = (program.to_str().unwrap(), fix.to_str().unwrap());
    let ran = guest.run(&[
        &format!("-N 0 --placement {fix} -- {program}"),
        &format!("-N 0 -- {program}"),
        &format!("--placement {fix} -- no-such-program"),
    ]);
    let (out, said) = &ran[0];
    let of = |out: &str, name: &str| {
        let found = out.lines().find(|l| l.starts_with(&format!("{name} "))).map(str::to_owned);
        found.unwrap_or_else(|| panic!("no {name}: {out}\n{said}"))
    };
    // 4 MiB are 1024 pages; the first holds the allocator's header and stays as it is.
    for (name, words) in [
        ("plain", "bind:1 anon=1023 N1=1023"),
        ("first", "interleave:0-1"),
        ("other", "default N0="),
        ("list", "prefer:1 anon=1023 N1=1023"),
        ("grown", "bind:1 anon=1023 N1=1023"),
        ("small", "default N0="),
        ("grid", "bind:1 N1="),
    ] {
        let line = of(out, name);
        assert!(words.split(' ').all(|w| line.contains(w)), "{name}: {words} is not in {line}\n{said}");
        println!("{}", line.trim());
    }
    let interleaved = of(out, "first");
    assert!(interleaved.contains("N0=51") && interleaved.contains("N1=51"), "{interleaved}");
    assert!(said.contains("plain: 1 allocation of 4.0 MiB in whole pages, memory bound to node 1"), "{said}");
    assert!(said.contains("small: nothing placed: no allocation of 2000000 bytes or more"), "{said}");
    assert!(said.contains("grid: 1 variable of"), "{said}");
    assert!(!ran[1].0.contains("bind:") && of(&ran[1].0, "plain").contains("default"), "{}", ran[1].0);
    assert!(ran[2].1.contains("no-such-program"), "{}", ran[2].1);
}

/// Objects in parts, in turns, and in huge pages; prints the runs of pages by node of each, its whole pages
/// only. All threads touch.
const PARTS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MIB (1ul << 20)
static char grid[1 << 20] __attribute__((aligned(4096)));
static char *map(size_t n) {
    return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void show(const char *name, char *p, size_t n) {
    static void *pages[4096];
    static int nodes[4096];
    unsigned long low = ((unsigned long)p + 4095) & -4096ul, high = (unsigned long)(p + n) & -4096ul;
    long count = (high - low) / 4096;
#pragma omp parallel for
    for (long i = 0; i < count; i++) {
        ((volatile char *)low)[i * 4096] = 1;
        pages[i] = (char *)low + i * 4096;
    }
    syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0);
    printf("%s", name);
    for (long i = 0, run = 1; i < count; i++, run++)
        if (i + 1 == count || nodes[i + 1] != nodes[i]) printf(" %dx%ld", nodes[i], run), run = 0;
    printf("\n");
}
/* Whether the mapping of p has a word in its line of smaps, and bytes in huge pages. */
static void huge(const char *name, char *p, const char *word) {
    char line[512];
    unsigned long from, to, kib = 0;
    int here = 0, flag = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) here = from <= (unsigned long)p && (unsigned long)p < to;
        if (here && strncmp(line, "AnonHugePages:", 14) == 0) kib = strtoul(line + 14, NULL, 10);
        if (here && strncmp(line, "VmFlags:", 8) == 0) flag = strstr(line, word) != NULL;
    }
    fclose(f);
    printf("%s flag %d, %s\n", name, flag, kib >= 2048 ? "huge" : "small");
}
int main(void) {
    char *list = malloc(4 * MIB);
    char *half = map(2 * MIB);
    char *uneven = map(64 * 4096);
    char *turn[6];
    for (int i = 0; i < 6; i++) turn[i] = malloc(i == 2 ? 1000 : MIB);
    char *large = map(6 * MIB);
    char *little = map(6 * MIB);
    char *again = malloc(MIB);
    show("list", list, 4 * MIB);
    show("half", half, 2 * MIB);
    show("uneven", uneven, 64 * 4096);
    for (int i = 0; i < 6; i++)
        if (i != 2) show("turn", turn[i], MIB);
    show("grid", grid, sizeof grid);
    show("large", large, 6 * MIB);
    huge("large", large + 3 * MIB, " hg");
    show("little", little, 6 * MIB);
    huge("little", little + 3 * MIB, " nh");
    /* Its parts are mappings of their own, which mremap(2) in realloc does not move: it is copied. */
    memset(again, 7, MIB);
    again = realloc(again, 8 * MIB);
    for (size_t i = 0; i < MIB; i++)
        if (again[i] != 7) return 4;
    return 0;
}"#;

/// An object of a placement file.
fn object(name: &str, rest: &str) -> String {
    format!("[[object]]\nname = \"{name}\"\n{rest}\n")
}

#[test]
fn parts_and_turns_lie_to_the_page_where_a_file_says() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = c(&scratch, "parts", PARTS);
    let line = |start: &str| PARTS.lines().position(|l| l.trim().starts_with(start)).unwrap() + 1;
    let at = |name: &str, start: &str, rest: &str| {
        object(name, &format!("allocated_at = \"parts.c:{}\"\n{rest}", line(start)))
    };
    let blocks = |list: &str| format!("policy = \"blocks\"\nblocks = {list}");
    let mib = 1 << 20;
    let quarters = blocks(&format!("[[{mib}, 0], [{}, 1], [{}, 0]]", 3 * mib, 4 * mib));
    let halves = blocks(&format!("[[{}, 1], [{mib}, 0]]", mib / 2));
    let mut file = "format = 1\n".to_owned();
    file += &at("list", "char *list", &quarters);
    file += &at("half", "char *half", &quarters);
    file += &at("uneven", "char *uneven", &blocks("[[10500, 1], [18000, 0], [262144, 1]]"));
    file += &at("turn", "for (int i = 0; i < 6; i++) turn", "policy = \"turns\"\nturns = [0, 1, 1]");
    file += &at("large", "char *large", "policy = \"bind\"\nnodes = \"1\"\nhuge_pages = true");
    file += &at("little", "char *little", "policy = \"bind\"\nnodes = \"1\"\nhuge_pages = false");
    file += &at("again", "char *again", &halves);
    file += &object("grid", &format!("static = \"grid\"\n{halves}"));
    let fix = scratch.path("fix.toml");
    std::fs::write(&fix, file).unwrap();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let own = env!("CARGO_BIN_EXE_nearfar");
    let (fix, placed) = (fix.to_str().unwrap(), format!("--placement {}", fix.display()));
    // Threads that spin while others wait for their cpu take minutes.
    let script = format!(
        "export OMP_WAIT_POLICY=passive\n\
         {own} run --bind compact {placed} -- {program} >{} 2>{}\n\
         {own} run {placed} -- {program} >{} 2>&1; echo $? >>{}\n\
         {own} run -N 1 --dry-run {placed} -- {program} 2>{}\n\
         export OMP_PROC_BIND=close OMP_PLACES=cores\n\
         {own} record -o {} {placed} -- {program} >{} 2>{}\n\
         {own} check -q --json --runs 1 --only 'placement fix.toml' {placed} -- {program} >{} 2>&1\n",
        path("out"),
        path("said"),
        path("refused"),
        path("refused"),
        path("one"),
        path("recording"),
        path("recorded"),
        path("recorder"),
        path("check"),
    );
    inside(&scratch, "2x1", &script);
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let (out, said) = (read("out"), read("said"));
    // Of 4 MiB from malloc 1023 pages are whole, and the first is the allocator's.
    let expected = "list 0x255 1x512 0x256\n\
         half 0x128 1x256 0x128\n\
         uneven 1x3 0x1 1x60\n\
         turn 0x255\nturn 1x255\nturn 1x255\nturn 0x255\nturn 1x255\n\
         grid 1x128 0x128\n\
         large 1x1536\nlarge flag 1, huge\n\
         little 1x1536\nlittle flag 1, small\n";
    assert_eq!(out, expected, "{said}");
    println!("{said}");
    for words in [
        "list: 1 allocation of 4.0 MiB in whole pages, memory in 3 parts on nodes 0-1\n",
        "turn: 5 allocations of 5.0 MiB in whole pages, memory as a whole, in turns, on nodes 0-1\n",
        "grid: 1 variable of 1.0 MiB in whole pages, memory in 2 parts on nodes 0-1\n",
        "large: 1 allocation of 6.0 MiB in whole pages, memory bound to node 1, in huge pages\n",
        "placed in all: 12 objects of 25.2 MiB, in ",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert!(!said.contains("refused"), "{said}");
    // Threads that may go anywhere; threads that can only be on one node.
    let refused = read("refused");
    assert!(
        refused.contains("threads may run anywhere: pin them, with --bind compact")
            && refused.ends_with("\n2\n"),
        "{refused}"
    );
    assert!(read("one").contains("list: memory in 3 parts"), "{}", read("one"));
    // The same while it is recorded.
    let recorder = read("recorder");
    assert_eq!(read("recorded"), expected, "{recorder}");
    assert!(recorder.contains("placed in all: 12 objects of 25.2 MiB, in "), "{recorder}");
    let meta: Value = serde_json::from_str(&read("recording/meta.json")).unwrap();
    assert_eq!(meta["placement"].as_str().unwrap(), std::fs::read_to_string(fix).unwrap());
    assert_eq!(meta["placed"].as_array().unwrap().len(), 9, "{}", meta["placed"]);
    assert_eq!(meta["agent"], true);
    let check: Value =
        serde_json::from_str(&read("check")).unwrap_or_else(|e| panic!("{e}: {}", read("check")));
    let trial = &check["trials"]["trials"][1];
    assert_eq!(trial["name"], "placement fix.toml", "{check}");
    assert!(trial["placed"].to_string().contains("list: 1 allocation of 4.0 MiB"), "{trial}");
    assert_eq!(check["placements"][1]["run"], placed);
}

#[test]
fn an_emulated_machine_has_objects_where_a_file_says() {
    let Some(triad) = workload("triad") else { return };
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::new(2, 1, 128);
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/triad.cpp");
    let source = std::fs::read_to_string(source).unwrap();
    let elements = 1 << 18;
    let mut file = "format = 1\n".to_owned();
    for name in ["a", "b", "c"] {
        let start = format!("double *{name} = ");
        let line = source.lines().position(|l| l.trim().starts_with(&start)).unwrap() + 1;
        let blocks = format!("[[{}, 0], [{}, 1]]", elements * 4, elements * 8);
        let rest = format!("allocated_at = \"triad.cpp:{line}\"\npolicy = \"blocks\"\nblocks = {blocks}");
        file += &object(name, &rest);
    }
    file += &object(
        "never",
        "allocated_at = \"triad.cpp:LINE\"\npolicy = \"bind\"\nnodes = \"0\"\nmin_bytes = 1099511627776",
    );
    let call = source.lines().position(|l| l.trim().starts_with("double *a = ")).unwrap() + 1;
    let fix = lab.scratch.path("triad.placement");
    std::fs::write(&fix, file.replace("LINE", &call.to_string())).unwrap();
    let placed = ["--placement", fix.to_str().unwrap()];
    let elements = elements.to_string();
    let program = [triad.to_str().unwrap(), "--elements", &elements, "--iterations", "2", "--init", "serial"];
    let serial = lab.count("serial", &[], &program);
    let blocks = lab.count("blocks", &placed, &program);
    println!("remote: serial {:.4}, in blocks {:.4}", serial.remote(), blocks.remote());
    assert!((serial.remote() - 0.5).abs() < 0.02, "{}", serial.remote());
    assert!(blocks.remote() < 0.02, "{}", blocks.remote());
    assert!(blocks.report.notes().contains("Recorded under a placement file"), "{}", blocks.report.notes());
    let said = text(&blocks.output.stderr);
    assert!(
        said.contains("a: 1 allocation of 2.0 MiB in whole pages, memory in 2 parts on nodes 0-1"),
        "{said}"
    );
    assert!(said.contains("never: nothing placed: no allocation of 1099511627776 bytes"), "{said}");
    assert!(said.contains("placed in all: 3 objects of 6.0 MiB, in "), "{said}");
    // The program's files are in another file system then, and are the same to placement and to names.
    let kept = [placed[0], placed[1], "--read-only"];
    let kept = lab.count("read-only", &kept, &program);
    assert!(kept.remote() < 0.02, "{}", kept.remote());
    let name = |counted: &crate::lab::Counted| counted.report.0["objects"][0]["site"].clone();
    assert_eq!(name(&kept), name(&blocks));
    // Unbound threads are refused before the machine starts.
    let output = lab.run("unbound", &["--unbound", placed[0], placed[1]], &program);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("without --unbound"), "{}", text(&output.stderr));
    assert!(!lab.scratch.path("unbound").exists());
}
