//! The preload agent under real programs: what it records, and that programs do not notice it.
//! Needs a C compiler; tests that need more (g++, gfortran, python3) skip openly without it.

#[path = "agent/coexist.rs"]
mod coexist;
#[path = "agent/run.rs"]
mod run;
#[path = "agent/shut_in.rs"]
mod shut_in;
#[path = "agent/slots.rs"]
mod slots;
#[path = "agent/storms.rs"]
mod storms;

use std::collections::BTreeSet;

use nearfar_record::collect::agent::{
    AgentBody, AgentLoss, AgentRecord, Allocation, AllocationKind, LostWhy, Settings,
};
use run::{Scratch, has, printed, run, run_with, settings};
use std::process::Command;

#[test]
fn allocations_come_with_size_end_and_the_calling_function() {
    let scratch = Scratch::new("heap");
    let program = scratch.c("heap.c", "
FRESH void *by_malloc(void) { void *p = malloc(200001); sink++; return p; }
FRESH void *by_calloc(void) { void *p = calloc(3, 100001); sink++; return p; }
FRESH void *by_realloc(void *p) { p = realloc(p, 900001); sink++; return p; }
FRESH void *by_memalign(void) { void *p; posix_memalign(&p, 4096, 300001); sink++; return p; }
int main(void) {
    char *a = by_malloc(), *b = by_calloc(), *d = by_memalign();
    for (int i = 0; i < 300003; i++) if (b[i]) return 1;
    strcpy(a, \"kept\");
    void *old = a;
    a = by_realloc(a);
    printf(\"malloc=%p calloc=%p realloc=%p memalign=%p old=%p new=%p\\n\", by_malloc, by_calloc, by_realloc, by_memalign, old, a);
    if (strcmp(a, \"kept\")) return 2;
    free(b); free(d); free(a); free(malloc(10));
    free(aligned_alloc(64, 128000)); free(memalign(64, 128064)); free(valloc(128128)); free(reallocarray(NULL, 2, 64100));
    errno = 77; free(malloc(150000)); free(malloc(5));
    if (errno != 77) return 3;
    if (malloc((size_t)-1) || errno != ENOMEM) return 4;
    return 0;
}");
    let run = run(&program);
    run.ok();
    let text = run.text();
    for (bytes, function) in
        [(200_001, "malloc"), (300_003, "calloc"), (900_001, "realloc"), (300_001, "memalign")]
    {
        let found = run.of_size(bytes);
        assert_eq!(found.len(), 1, "{function}");
        let (_, allocation) = found[0];
        let start = printed(&text, function);
        assert!((start..start + 200).contains(&allocation.ip), "{function}: {start:x} {:x}", allocation.ip);
        assert_eq!(allocation.kind, AllocationKind::Heap);
        assert!(allocation.stack.len() > 64);
    }
    let old = printed(&text, "old");
    assert_eq!(run.of_size(900_001)[0].1.previous, old);
    assert!(
        run.has(|b| *b == AgentBody::Free { address: old, bytes: 200_001, died_ns: 0, reallocated: true })
    );
    let new = printed(&text, "new");
    assert!(
        run.has(|b| *b == AgentBody::Free { address: new, bytes: 900_001, died_ns: 0, reallocated: false })
    );
    for bytes in [128_000, 128_064, 128_128, 128_200] {
        assert_eq!(run.of_size(bytes).len(), 1, "{bytes}");
    }
    assert_eq!(run.of_size(10).len(), 0);
    assert!(
        matches!(&run.records[0].body, AgentBody::Hello { executable, .. } if executable.ends_with("heap.exe"))
    );
    assert!(run.has(|b| matches!(b, AgentBody::Exit)));
    assert_eq!(run.loss, AgentLoss::default());
    assert!(run.records.windows(2).all(|w| w[0].time_ns <= w[1].time_ns));
}

#[test]
fn a_site_sends_its_stack_once_and_two_callers_are_two_sites() {
    let scratch = Scratch::new("sites");
    let program = scratch.c("sites.c", "
FRESH void *wrapper(void) { char room[200]; memset(room, sink, 200); void *p = malloc(200000 + (room[3] & 1)); sink++; return p; }
int main(void) {
    for (int i = 0; i < 50; i++) free(wrapper());
    free(wrapper());
    return 0;
}");
    let run = run(&program);
    run.ok();
    let sites: BTreeSet<u64> = run.allocations().map(|(_, a)| a.site).collect();
    assert!((2..=4).contains(&sites.len()), "{}", sites.len());
    assert!(run.allocations().filter(|(_, a)| !a.stack.is_empty()).count() <= 4);
    assert_eq!(run.allocations().count(), 51);
}

#[test]
fn operator_new_and_vectors_lead_to_user_code() {
    if !has("g++") {
        return;
    }
    let scratch = Scratch::new("cxx");
    let program = scratch.compile("g++", "cxx.cpp", "
#include <cstdio>
#include <new>
#include <vector>
__attribute__((noinline)) double *by_new() { double *p = new double[30000]; p[0] = 1; return p; }
__attribute__((noinline)) double by_vector(unsigned n) { std::vector<double> v(n); v[1] = 2; return v[n - 1] + v[1]; }
int main() {
    delete[] by_new();
    double x = by_vector(40000);
    try { volatile std::size_t huge = ~std::size_t(0) >> 2; char *p = new char[huge]; std::printf(\"%p\\n\", (void *)p); return 1; }
    catch (const std::bad_alloc &) { std::printf(\"new=%p vector=%p caught %g\\n\", (void *)by_new, (void *)by_vector, x); }
}", &[]);
    let run = run(&program);
    run.ok();
    assert!(run.text().contains("caught 2"));
    for (bytes, function) in [(240_000, "new"), (320_000, "vector")] {
        let found = run.of_size(bytes);
        assert_eq!(found.len(), 1, "{function}");
        let start = printed(&run.text(), function);
        let mut words =
            found[0].1.stack.chunks_exact(8).take(16).map(|w| u64::from_ne_bytes(w.try_into().unwrap()));
        let caller = words.any(|w| (start..start + 400).contains(&w));
        assert!(caller, "{function}: the caller of operator new is near the top of the stack");
    }
}

#[test]
fn fortran_allocate_is_an_allocation() {
    if !has("gfortran") {
        return;
    }
    let scratch = Scratch::new("fortran");
    let program = scratch.compile(
        "gfortran",
        "f.f90",
        "
program f
  real(8), allocatable :: a(:,:)
  allocate(a(300,200))
  a = 1
  print *, sum(a)
  deallocate(a)
end program
",
        &[],
    );
    let run = run(&program);
    run.ok();
    assert_eq!(run.of_size(480_000).len(), 1);
    assert!(run.has(|b| matches!(b, AgentBody::Free { bytes: 480_000, .. })));
}

#[test]
fn forks_execs_and_threads_each_have_their_records() {
    let scratch = Scratch::new("family");
    let program = scratch.c("family.c", "
static void *worker(void *x) { free(malloc(300000 + (long)x)); if ((long)x == 1) pthread_exit(NULL); return NULL; }
int main(int argc, char **argv) {
    if (argc > 1) { free(malloc(700000)); return 0; }
    void *before = malloc(200000);
    pthread_t t[3];
    for (long i = 0; i < 3; i++) pthread_create(&t[i], NULL, worker, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    pid_t child = fork();
    if (!child) { free(before); free(malloc(500000)); execl(argv[0], argv[0], \"x\", NULL); _exit(9); }
    int status; waitpid(child, &status, 0);
    printf(\"parent=0x%x child=0x%x\\n\", getpid(), child);
    child = vfork();
    if (!child) { char *a[] = {argv[0], \"x\", NULL}; execv(argv[0], a); _exit(9); }
    waitpid(child, &status, 0);
    free(before);
    return status;
}");
    let run = run(&program);
    run.ok();
    let (parent, child) = (printed(&run.text(), "parent") as u32, printed(&run.text(), "child") as u32);
    assert_eq!(run.of_size(500_000)[0].0.pid, child);
    let images = run.of_size(700_000);
    assert_eq!(images.len(), 2);
    assert_eq!(images[0].0.pid, child);
    assert!(images[0].0.generation > run.of_size(500_000)[0].0.generation);
    let fork = run.records.iter().find(|r| matches!(r.body, AgentBody::Fork { .. })).unwrap();
    let parent_generation = run.records[0].generation;
    assert_eq!(fork.body, AgentBody::Fork { parent, parent_generation });
    assert_eq!(fork.pid, child);
    let frees = |pid| {
        let of = |r: &&AgentRecord| r.pid == pid && matches!(r.body, AgentBody::Free { bytes: 200_000, .. });
        run.records.iter().filter(of).count()
    };
    assert_eq!((frees(parent), frees(child)), (1, 1));
    for i in 0..3 {
        let (record, _) = run.of_size(300_000 + i)[0];
        let of_thread: Vec<_> =
            run.records.iter().filter(|r| r.tid == record.tid && r.pid == parent).collect();
        let first = &of_thread[0].body;
        assert!(matches!(first, AgentBody::ThreadStart { stack_low, stack_high } if stack_low < stack_high));
        assert!(matches!(of_thread.last().unwrap().body, AgentBody::ThreadEnd));
    }
    // The child of the vfork ran on its parent's memory and must not have ended its records.
    let ends = |r: &&AgentRecord| r.pid == parent && matches!(r.body, AgentBody::Exit | AgentBody::Exec);
    assert_eq!(run.records.iter().filter(ends).count(), 1);
    let last = run.records.iter().rfind(|r| r.pid == parent).unwrap();
    assert!(matches!(last.body, AgentBody::Exit), "{last:?}");
}

#[test]
fn mappings_ranges_names_and_phases_are_told() {
    let scratch = Scratch::new("ranges");
    let program = scratch.c(
        "ranges.c",
        "
#define WEAK __attribute__((weak))
void nearfar_agent_begin(void) WEAK; void nearfar_agent_end(void) WEAK;
void nearfar_agent_phase_begin(const char *) WEAK; void nearfar_agent_phase_end(const char *) WEAK;
void nearfar_agent_name(const void *, size_t, const char *) WEAK;
int main(void) {
    if (!nearfar_agent_begin) return 1;
    nearfar_agent_begin(); nearfar_agent_phase_begin(\"solve\");
    char *p = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, 8 << 20, MADV_NOHUGEPAGE);
    nearfar_agent_name(p, 8 << 20, \"field\");
    memset(p, 1, 4 << 20);
    mprotect(p, 1 << 20, PROT_READ);
    madvise(p, 2 << 20, MADV_DONTNEED);
    printf(\"map=%p\\n\", p);
    munmap(p, 8 << 20);
    nearfar_agent_phase_end(\"solve\"); nearfar_agent_end();
    return 0;
}",
    );
    let run = run(&program);
    run.ok();
    let address = printed(&run.text(), "map");
    let range = |kind, bytes| AgentBody::Range { kind, address, bytes, to: 0 };
    let bodies: Vec<&AgentBody> = run.records.iter().map(|r| &r.body).collect();
    for wanted in [
        AgentBody::RoiBegin,
        AgentBody::Name { address, bytes: 8 << 20, name: "field".into() },
        range(4, 1 << 20),
        range(1, 2 << 20),
        AgentBody::Free { address, bytes: 8 << 20, died_ns: 0, reallocated: false },
        range(2, 8 << 20),
        AgentBody::RoiEnd,
    ] {
        assert!(bodies.contains(&&wanted), "{wanted:?} in {bodies:?}");
    }
    let begun =
        |b: &&&AgentBody| matches!(b, AgentBody::PhaseBegin(call) if call.name == "solve" && call.site != 0);
    assert_eq!(bodies.iter().filter(begun).count(), 1, "{bodies:?}");
    assert_eq!(bodies.iter().filter(|b| matches!(b, AgentBody::PhaseEnd(call) if call.how == 0)).count(), 1);
    let (_, mapping) = run.of_size(8 << 20)[0];
    assert_eq!(mapping.kind, AllocationKind::Mapping);
    if run.has(|b| matches!(b, AgentBody::Lost { why: LostWhy::PageNodesRefused, .. })) {
        eprintln!("skipped: move_pages is not allowed here");
        return;
    }
    // 2 MiB discarded, 2 MiB present, 4 MiB never touched; of 2048 pages every eleventh is asked: the least distance
    // of three and more that shares no divisor with the numbers of nodes that pages are interleaved over.
    let page_nodes = |present: bool| -> u32 {
        let runs = bodies.iter().filter_map(|body| match body {
            AgentBody::PageNodes { runs, .. } => Some(runs),
            _ => None,
        });
        runs.flatten().filter(|(node, _)| (*node >= 0) == present).map(|(_, pages)| pages).sum()
    };
    assert_eq!(page_nodes(true) + page_nodes(false), 187);
    assert!((45..=48).contains(&page_nodes(true)), "{}", page_nodes(true));
}

/// Shared memory that grows stays shared; what the kernel refuses to unmap is still there.
#[test]
fn a_remapped_mapping_stays_what_it_was_and_a_refused_end_is_none() {
    let scratch = Scratch::new("remap");
    let program = scratch.c(
        "remap.c",
        "
int main(void) {
    char *shared = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *kept = mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = mremap(shared, 2 << 20, 4 << 20, MREMAP_MAYMOVE);
    if (munmap(kept + 1, 3 << 20) == 0) return 1;
    if (mmap(kept, 3 << 20, PROT_READ, MAP_PRIVATE | MAP_FIXED, 999, 0) != MAP_FAILED) return 2;
    printf(\"kept=%p\\n\", kept);
    return shared == MAP_FAILED;
}",
    );
    let run = run(&program);
    run.ok();
    assert!(
        run.of_size(2 << 20)[0].1.shared && run.of_size(4 << 20)[0].1.shared,
        "{:?}",
        run.of_size(4 << 20)
    );
    let kept = printed(&run.text(), "kept");
    let ended = |b: &AgentBody| matches!(b, AgentBody::Free { address, .. } if *address == kept);
    let ends = run.records.iter().filter(|r| ended(&r.body)).count();
    let restored = run.of_size(3 << 20).iter().filter(|(_, a)| a.restored).count();
    assert_eq!(ends, restored, "an end that was recorded is taken back");
    let dropped =
        |b: &AgentBody| matches!(b, AgentBody::Range { kind: 2, address, .. } if *address == kept + 1);
    assert!(!run.has(dropped), "an unaligned range goes nowhere");
}

#[test]
fn a_shared_mapping_that_is_mapped_once_more_stays_where_it_was() {
    let scratch = Scratch::new("twice");
    let program = scratch.c(
        "twice.c",
        "
int main(void) {
    char *first = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *second = mremap(first, 0, 2 << 20, MREMAP_MAYMOVE);
    if (second == MAP_FAILED || second == first) return 1;
    first[5] = 7;
    if (second[5] != 7) return 2;
    printf(\"first=%p second=%p\\n\", first, second);
    munmap(first, 2 << 20);
    return second[5] != 7;
}",
    );
    let run = run(&program);
    run.ok();
    let (first, second) = (printed(&run.text(), "first"), printed(&run.text(), "second"));
    let begun: Vec<(u64, bool, u64)> =
        run.of_size(2 << 20).iter().map(|(_, a)| (a.address, a.shared, a.previous)).collect();
    assert_eq!(begun, [(first, true, 0), (second, true, 0)]);
    assert!(!run.has(|b| matches!(b, AgentBody::Range { kind: 3, .. })), "nothing has moved");
    let ended = |address| run.has(|b| matches!(b, AgentBody::Free { address: a, .. } if *a == address));
    assert!(ended(first) && !ended(second));
}

/// Programs in PID namespaces of their own, two at once, as root of a user namespace.
#[test]
fn in_a_pid_namespace_numbers_are_the_recorders() {
    let enter = ["-Urpf", "-pf"].into_iter().filter(|how| {
        Command::new("unshare").args([how, "true"]).output().is_ok_and(|output| output.status.success())
    });
    let enter: Vec<&str> = enter.collect();
    if enter.is_empty() {
        eprintln!("skipped: no PID namespace can be made here");
        return;
    }
    let scratch = Scratch::new("namespace");
    let program = scratch.c(
        "inside.c",
        "
/* By the host's /proc, which unshare leaves where it is. */
static void *work(void *bytes) {
    char here[64];
    here[readlink(\"/proc/thread-self\", here, 63)] = 0;
    free(malloc((long)bytes));
    usleep(50000);
    dprintf(1, \"%ld %s\\n\", (long)bytes, here);
    return NULL;
}
int main(void) {
    pthread_t t;
    work((void *)300000);
    pthread_create(&t, NULL, work, (void *)400000); pthread_join(t, NULL);
    if (!fork()) { work((void *)500000); _exit(0); }
    int status;
    return wait(&status) < 2 || status;
}",
    );
    for how in enter {
        let two = format!("unshare {how} $0 & unshare {how} $0 & wait");
        let mut command = Command::new("sh");
        command.args(["-c", &two]).arg(&program);
        let run = run_with(&settings(), &mut command);
        run.ok();
        // SIZE PID/task/TID
        let mut printed: Vec<(u64, u32, u32)> = run
            .text()
            .lines()
            .map(|line| {
                let mut words = line.split([' ', '/']);
                let mut number = || words.next().unwrap().parse::<u64>().unwrap();
                let (bytes, pid) = (number(), number() as u32);
                (bytes, pid, words.nth(1).unwrap().parse().unwrap())
            })
            .collect();
        let mut told: Vec<(u64, u32, u32)> = run
            .allocations()
            .filter(|(_, a)| [300_000, 400_000, 500_000].contains(&a.bytes))
            .map(|(record, a)| (a.bytes, record.pid, record.tid))
            .collect();
        printed.sort_unstable();
        told.sort_unstable();
        assert_eq!(printed.len(), 6, "{}", run.text());
        assert_eq!(told, printed, "{how}");
        assert_eq!(run.loss.unopened, 0);
    }
}

#[test]
fn objects_alive_at_the_end_have_their_homes_told() {
    let scratch = Scratch::new("exit");
    for (name, end) in [("return.c", "return 0;"), ("exit.c", "_exit(0);"), ("quick.c", "quick_exit(0);")] {
        let source = format!(
            "int main(void) {{ char *p = malloc(3 << 20); memset(p, 1, 3 << 20); sink = p[9]; {end} }}"
        );
        let run = run(&scratch.c(name, &source));
        run.ok();
        let refused = run.has(|b| matches!(b, AgentBody::Lost { why: LostWhy::PageNodesRefused, .. }));
        assert!(
            refused || run.has(|b| matches!(b, AgentBody::PageNodes { runs, .. } if runs[0].0 >= 0)),
            "{name}"
        );
        assert!(run.has(|b| matches!(b, AgentBody::Exit)), "{name}");
    }
}

#[test]
fn small_allocations_are_sampled_in_proportion() {
    let scratch = Scratch::new("small");
    let program = scratch.c("small.c", "
FRESH void *often(void) { void *p = malloc(96); sink++; return p; }
FRESH void *seldom(void) { void *p = malloc(32); sink++; return p; }
int main(void) { printf(\"often=%p seldom=%p\\n\", often, seldom); for (int i = 0; i < 1000000; i++) { free(often()); free(seldom()); } return 0; }");
    let run = run_with(&Settings { small_sample_bytes: 65536, ..settings() }, &mut Command::new(&program));
    run.ok();
    let sum = |function: &str| -> u64 {
        let start = printed(&run.text(), function);
        let here = |a: &Allocation| a.kind == AllocationKind::Small && (start..start + 30).contains(&a.ip);
        run.allocations().filter(|(_, a)| here(a)).map(|(_, a)| a.represents).sum()
    };
    let (often, seldom) = (sum("often") as f64, sum("seldom") as f64);
    let total = 128e6;
    assert!((often + seldom - total).abs() < total * 0.01, "{often} {seldom}");
    // About 1950 samples: three standard deviations are 3 percentage points.
    assert!((often / total - 0.75).abs() < 0.04, "{often} {seldom}");
}
