//! `nearfar record --excerpts`: what is counted of copies of a program, against what the program does by arithmetic; and that the program
//! itself notices nothing.

mod common;

use common::{Scratch, alone, perf_works, skip, text};
use nearfar_analyze::Input;
use nearfar_recording::{Columns, EXCERPT_CACHES, ExcerptBlocks, Excerpts};
use std::process::Command;

/// Whether excerpts can be taken here.
fn possible() -> bool {
    let nodes = nearfar_host::discover::discover(std::path::Path::new("/"))
        .map_or(0, |host| host.machine.nodes.len());
    if !cfg!(target_arch = "x86_64") || nodes != 1 {
        skip("excerpts are of x86-64 code, on hosts of one node");
        return false;
    }
    perf_works()
}

/// Records a program that runs until its alarm.
fn recorded(scratch: &Scratch, program: &std::path::Path, most: &str) -> Input {
    let _alone = alone();
    let output = scratch.recorder("r", &["--excerpts", most]).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    nearfar_record::store::open(&scratch.path("r")).unwrap().input
}

/// Those that ended before their length.
fn ended(excerpts: &Excerpts) -> Vec<&str> {
    (0..excerpts.len()).map(|i| &*excerpts.ended[i]).filter(|why| !why.is_empty()).collect()
}

/// Ends the program after its first seconds, with what `END` says.
const ALARM: &str = r#"
#include <stdint.h>
static void over(int s) { (void)s; _exit(7); }
static void until_alarm(void) { signal(SIGALRM, over); alarm(2); }
"#;

/// Adds up words of 16 MiB, again and again: one after the other, or at random places.
const SUMS: &str = r#"
#define WORDS (2ul << 20)
int main(void) {
    uint64_t *a = map_pages(4096), sum = 0, x = 1;
    until_alarm();
    for (uint64_t i = 0; i < WORDS; i++) a[i] = i;
    for (;;) {
#ifdef RANDOM
        for (long i = 0; i < 1 << 16; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; sum += a[x & (WORDS - 1)]; }
#else
        for (uint64_t i = 0; i < WORDS; i++) sum += a[i];
#endif
        *(volatile uint64_t *)&x = x + (sum == 1);
    }
}
"#;

/// Lines of all blocks, in order and at random, beyond each cache; and instructions and accesses.
fn sums(blocks: &ExcerptBlocks) -> ([u64; EXCERPT_CACHES.len()], [u64; EXCERPT_CACHES.len()], u64, u64) {
    let (mut order, mut random) = ([0; EXCERPT_CACHES.len()], [0; EXCERPT_CACHES.len()]);
    for i in 0..blocks.len() {
        order.iter_mut().zip(blocks.in_order(i)).for_each(|(sum, n)| *sum += n);
        random.iter_mut().zip(blocks.at_random(i)).for_each(|(sum, n)| *sum += n);
    }
    (order, random, blocks.instructions.iter().sum(), blocks.accesses.iter().sum())
}

#[test]
fn a_stream_of_16_mib_takes_each_eighth_access_from_beyond_8_mib_in_order_and_none_from_beyond_32() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("sums", &format!("{ALARM}{SUMS}"));
    let input = recorded(&scratch, &program, "2");
    assert!(!input.excerpts.is_empty() && ended(&input.excerpts).is_empty(), "{:?}", ended(&input.excerpts));
    // The recording ends with the program, not with the copies, which take longer.
    let ended_ns = *input.process_ends.time_ns.last().unwrap();
    assert!(input.meta.end_ns - ended_ns < (ended_ns - input.meta.start_ns) / 2);
    let (order, random, instructions, accesses) = sums(&input.excerpt_blocks);
    let counted: u64 = input.excerpts.counted.iter().sum();
    assert_eq!(instructions, counted);
    // Eight words of a line; the third of a page's 64 lines is the first that a constant step leads to.
    let lines = accesses as f64 / 8.0;
    assert!((order[4] as f64 / lines - 62.0 / 64.0).abs() < 0.01, "{} of {lines}", order[4]);
    assert!((random[4] as f64 / lines - 2.0 / 64.0).abs() < 0.01, "{} of {lines}", random[4]);
    assert!(order[6] + random[6] < accesses / 10_000, "{order:?} {random:?}");
}

#[test]
fn random_words_of_16_mib_are_beyond_a_cache_as_often_as_it_has_no_room_for_them() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.c("sums", &format!("#define RANDOM\n{ALARM}{SUMS}"));
    let input = recorded(&scratch, &program, "2");
    let (order, random, _, accesses) = sums(&input.excerpt_blocks);
    assert!(order.iter().all(|&n| n < accesses / 100), "{order:?}");
    for (size, &lines) in EXCERPT_CACHES.iter().zip(&random).take(5) {
        let without_room = 1.0 - *size as f64 / (16 << 20) as f64;
        let share = lines as f64 / accesses as f64;
        assert!((share - without_room).abs() < 0.02, "{size} bytes: {share} in place of {without_room}");
    }
    assert!(random[6] < accesses / 1000, "{random:?}");
}

/// What is computed again and again has to come out the same: else it ends by SIGABRT.
const COMPUTED: &str = r#"
#include <immintrin.h>
static const double table[] = { 1.5, 2.5, 3.5, 4.5 };
static uint64_t twice(uint64_t x) { return x * 2; }
static uint64_t thrice(uint64_t x) { return x * 3; }
static uint64_t (*volatile const functions[])(uint64_t) = { twice, thrice };
static int descending(const void *a, const void *b) { int64_t x = *(int64_t *)a, y = *(int64_t *)b; return x < y ? 1 : -(x > y); }
static __thread uint64_t own = 5;
static uint64_t text_of(uint64_t x) {
    char to[64], from[64];
    memset(from, 'a' + x % 26, sizeof from);
    uint64_t count = 64;
    void *d = to, *s = from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(count) : : "memory");
    count = 64; d = to; s = from;
    __asm__ volatile("repe cmpsb" : "+D"(d), "+S"(s), "+c"(count) : : "memory", "cc");
    uint64_t sum = count, n = 5;
    __asm__ volatile("1: add %1, %0\n loop 1b" : "+r"(sum), "+c"(n) : : "cc");
    __asm__ volatile("xor %%ecx, %%ecx\n jrcxz 2f\n add $1000, %0\n 2:" : "+r"(sum) : : "rcx", "cc");
    /* Flags live over a jump to a computed address. */
    __asm__ volatile("lea 3f(%%rip), %%rax\n stc\n jmp *%%rax\n 3: adc $0, %0" : "+r"(sum) : : "rax", "cc");
    switch (x % 7) { case 0: sum += 3; break; case 1: sum ^= 9; break; case 2: sum -= 4; break; case 3: sum *= 5; break; case 4: sum += to[3]; break; case 5: sum |= 64; break; default: sum += 1; }
    return sum * 131 + to[x % 64];
}
static uint64_t all(uint64_t seed) {
    uint64_t sum = seed, a[128];
    double d = 0;
    for (int i = 0; i < 128; i++) { sum = sum * 6364136223846793005ul + 1; a[i] = sum >> 20; d += table[i & 3] * (double)(a[i] & 255); }
    qsort(a, 128, sizeof *a, descending);
    for (int i = 0; i < 128; i++) sum += functions[a[i] & 1](a[i]) + text_of(a[i]) + own;
    __m128i v = _mm_set1_epi64x(sum);
    for (int i = 0; i < 128; i += 2) v = _mm_xor_si128(_mm_slli_epi64(v, 1), _mm_loadu_si128((void *)&a[i]));
    void *p = malloc(100 + sum % 5000);
    memset(p, sum, 100);
    sum += ((unsigned char *)p)[77];
    free(p);
    unsigned __int128 q = (unsigned __int128)sum * (sum | 1);
    return (uint64_t)(q >> 64) ^ (uint64_t)q ^ (uint64_t)_mm_cvtsi128_si64(v) ^ (uint64_t)d;
}
int main(void) {
    until_alarm();
    uint64_t want[16];
    for (int i = 0; i < 16; i++) want[i] = all(i);
    for (;;) for (int i = 0; i < 16; i++) if (all(i) != want[i]) abort();
}
"#;

#[test]
fn translated_code_computes_what_the_program_computes() {
    if !possible() {
        return;
    }
    for flags in [&["-O0"][..], &["-O2", "-static"]] {
        let scratch = Scratch::new();
        let program =
            scratch.compile("gcc", "computed.c", &format!("{}{ALARM}{COMPUTED}", common::PRELUDE), flags);
        let excerpts = recorded(&scratch, &program, "1").excerpts;
        assert!(!excerpts.is_empty() && ended(&excerpts).is_empty(), "{flags:?}: {:?}", ended(&excerpts));
    }
}

/// Counts in memory that a child sees, writes to a pipe, reads a file in parts, and says what came of it.
const SEEN: &str = r#"
int main(int n, char **words) {
    volatile uint64_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int file = open(words[1], O_RDONLY);
    uint64_t steps = 0, sum = 0;
    char part[100];
    for (long i = 0; i < 8000; i++) {
        for (long k = 0; k < 1000000; k++) steps += k & 3;
        ++*shared;
        if (read(file, part, sizeof part) == 100) sum += part[0];
    }
    int status, none = waitpid(-1, &status, 0);
    printf("%lu %lu %lu %ld %d %d\n", *shared, steps, sum, lseek(file, 0, SEEK_CUR), none, errno == ECHILD);
}
"#;

#[test]
fn the_program_and_its_pipes_files_and_children_are_as_without_excerpts() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let scratch = Scratch::new();
    let program = scratch.c("seen", &format!("{ALARM}{SEEN}"));
    let file = scratch.path("text");
    std::fs::write(&file, "a".repeat(200_000)).unwrap();
    let plain = Command::new(&program).arg(&file).output().unwrap();
    // Through a shell: the reader of the pipe ends only when its last writer has closed it.
    let run = format!("{} {} | cat", program.display(), file.display());
    let output = scratch.recorder("r", &["--excerpts", "2"]).args(["sh", "-c", &run]).output().unwrap();
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        (text(&plain.stdout), Some(0)),
        "{}",
        text(&output.stderr)
    );
    let input = nearfar_record::store::open(&scratch.path("r")).unwrap().input;
    assert!(!input.excerpts.is_empty(), "{:?}", input.losses);
    // The shell, cat, and the program: copies are not among them.
    assert_eq!(input.processes.pid.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn a_program_that_filters_its_system_calls_runs_and_the_report_says_why_there_are_none() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let source = format!(
        "#include <sys/prctl.h>\n#include <linux/seccomp.h>\n#include <linux/filter.h>\n{ALARM}{}",
        r#"
int main(void) {
    struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
    struct sock_fprog filter = { 1, &allow };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 1;
    until_alarm();
    for (volatile long i = 0;; i++) ;
}
"#
    );
    let program = scratch.c("filters", &source);
    recorded(&scratch, &program, "2");
    let report = scratch.report("r", &[]);
    let notes = report.0["notes"].to_string();
    assert!(notes.contains("the program filters its own system calls (seccomp)"), "{notes}");
}
