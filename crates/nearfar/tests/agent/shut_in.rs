//! Programs that forbid themselves something (system calls, the time stamp counter), try to, or take SIGPROF for
//! themselves: they run on, and what the agent did before a refused call goes on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use nearfar_record::collect::agent::{AgentBody, LostWhy, Settings};

use crate::run::{Run, Scratch, run_with, settings};

fn sampled(program: &PathBuf, how: &[&str]) -> Run {
    run_with(&Settings { signal_hz: 500, ..settings() }, Command::new(program).args(how))
}

const COUNTER: &str = "
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
static pthread_barrier_t both;
FRESH void use(void) { char *p = malloc(300000); p[7] = 1; free(p); p = realloc(malloc(200000), 400000); free(p); }
/* CPU time without a clock that the C library reads. */
FRESH void spin(long ms) {
    struct timespec t; long start = -1, now;
    do {
        for (int i = 0; i < 100000; i++) sink++;
        syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
        now = t.tv_sec * 1000 + t.tv_nsec / 1000000;
        if (start < 0) start = now;
    } while (now - start < ms);
}
static void *works(void *x) { use(); spin(20); use(); return x; }
static void *forbids(void *x) { use(); if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) exit(77); pthread_barrier_wait(&both); works(x); return x; }
static int joined(void *(*f)(void *)) { pthread_t t; return pthread_create(&t, NULL, f, NULL) || pthread_join(t, NULL); }
static void say(const char *text) { (void)!write(1, text, strlen(text)); }
int main(int n, char **a) {
    /* Below what the C library maps, and not at the heap's end: to free it takes no system call. */
    char *early = malloc(120000), *behind = malloc(1000);
    const char *how = a[1];
    if (!strcmp(how, \"strict\")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 77;
        free(early);
        say(\"alive\\n\");
        syscall(SYS_exit, 0);
    }
    if (!strcmp(how, \"other\")) {
        /* Only the other thread: this one goes on reading it. */
        pthread_t t;
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&t, NULL, forbids, NULL);
        pthread_barrier_wait(&both);
        works(NULL);
        pthread_join(t, NULL);
        say(\"alive\\n\");
        return 0;
    }
    if (!strcmp(how, \"syscall\") ? syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) : prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 77;
    free(early);
    works(NULL);
    if (!strcmp(how, \"thread\") && joined(works)) return 1;
    if (!strcmp(how, \"fork\")) {
        int status;
        if (!fork()) { works(NULL); joined(works); _exit(0); }
        if (wait(&status) < 0 || status) return 2;
    }
    if (!strcmp(how, \"failing exec\")) { execlp(\"./no such program\", \"\", (char *)NULL); works(NULL); }
    if (!strcmp(how, \"filter\")) {
        struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog filter = {1, all};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 77;
        works(NULL);
    }
    if (!strcmp(how, \"again\")) { if (prctl(PR_SET_TSC, PR_TSC_ENABLE)) return 3; works(NULL); }
    say(\"alive\\n\");
    return behind == NULL;
}";

#[test]
fn a_program_that_forbids_the_time_stamp_counter_lives_and_is_recorded() {
    let scratch = Scratch::new("counter");
    let program = scratch.c("counter.c", COUNTER);
    let ways = ["prctl", "syscall", "thread", "fork", "failing exec", "filter", "again", "other", "strict"];
    for how in ways {
        let alone = Command::new(&program).arg(how).output().unwrap();
        if alone.status.code() == Some(77) {
            eprintln!("skipped: the time stamp counter cannot be forbidden here");
            return;
        }
        assert!(alone.status.success() && alone.stdout == b"alive\n", "{how}: {alone:?}");
        for run in [run_with(&settings(), Command::new(&program).arg(how)), sampled(&program, &[how])] {
            assert!(run.output.status.success(), "{how}: {:?}", run.output);
            assert_eq!(run.text(), "alive\n", "{how}");
            let ends = |bytes: u64| {
                run.records
                    .iter()
                    .filter(|r| matches!(r.body, AgentBody::Free { bytes: b, .. } if b == bytes))
                    .count()
            };
            // Each call of `works` frees two of each. Under a filter such a thread may not even ask what time it is:
            // its records are lost, and counted.
            let shut_in = matches!(how, "strict" | "filter");
            let used = match how {
                "strict" => 0,
                "thread" | "failing exec" | "again" => 4,
                "fork" => 6,
                "other" => 5,
                _ => 2,
            };
            assert_eq!(ends(300_000), used, "{how}");
            assert_eq!(ends(400_000), used, "{how}");
            assert_eq!(ends(120_000), usize::from(how != "strict" && how != "other"), "{how}");
            assert_eq!(run.loss.quiet > 0, shut_in, "{how}: {:?}", run.loss);
            let said = run.has(|b| matches!(b, AgentBody::Lost { why: LostWhy::Sandbox, .. }));
            assert_eq!(said, shut_in, "{how}");
        }
    }
}

#[test]
fn sigprof_that_the_program_took_is_never_taken_back() {
    let scratch = Scratch::new("taken");
    let program = scratch.c("taken.c", "
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/seccomp.h>
static volatile int ticks;
static void mine(int s) { (void)s; ticks++; }
FRESH int spun(int ms) {
    struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    long until = t.tv_sec * 1000 + t.tv_nsec / 1000000 + ms;
    int before = ticks;
    do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < until);
    return ticks - before;
}
static void *takes(void *way) {
    struct sigaction ours = {.sa_handler = mine};
    struct { void (*f)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } raw = {0};
    if (!strcmp(way, \"signal\")) signal(SIGPROF, mine);
    else if (!strcmp(way, \"raw\")) {
        /* As the kernel has it, past all of the C library: with the restorer that the library gives it. */
        sigaction(SIGUSR1, &ours, NULL);
        syscall(SYS_rt_sigaction, SIGUSR1, NULL, &raw, 8);
        __asm__ volatile(\"xor %%r10d, %%r10d\\n mov $8, %%r10d\\n syscall\" : : \"a\"(SYS_rt_sigaction), \"D\"(SIGPROF), \"S\"(&raw), \"d\"(NULL) : \"rcx\", \"r11\", \"r10\", \"memory\");
    } else sigaction(SIGPROF, &ours, NULL);
    return NULL;
}
int main(int n, char **a) {
    spun(300);
    takes(a[1]);
    struct itimerval t = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_PROF, &t, NULL);
    if (!spun(100)) return 1;
    execlp(\"./no such program\", \"\", (char *)NULL);
    if (!spun(100)) return 2;
    execv(\"./no such program\", a);
    if (prctl(PR_SET_SECCOMP, 99) == 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == 0) return 3;
    short one[8] = {1}; char instruction[8] = {255, 255}; char *at = instruction; memcpy(&one[4], &at, 8);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, one) == 0) return 4;
    if (!spun(100)) return 5;
    puts(\"mine\");
    return 0;
}");
    for way in ["sigaction", "signal", "raw"] {
        let run = sampled(&program, &[way]);
        assert!(run.output.status.success(), "{way}: {:?}", run.output);
        assert_eq!(run.text(), "mine\n");
        assert!(run.has(|b| matches!(b, AgentBody::Sample { .. })), "{way}: sampled before");
    }
}

/// Seccomp calls that the kernel refuses: `asks` can be known beforehand, `tries` cannot.
const REFUSED: &str = "
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/seccomp.h>
static volatile int stop;
static long used_ms(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
FRESH void spin(long ms) { for (long from = used_ms(); used_ms() - from < ms;) for (int i = 0; i < 10000; i++) sink++; }
static void *other_spins(void *x) { while (!stop) spin(1); spin(300); return x; }
static int cpus(void) { unsigned long set[128] = {0}; int count = 0; syscall(SYS_sched_getaffinity, 0, sizeof set, set); for (int i = 0; i < 128; i++) count += __builtin_popcountl(set[i]); return count; }
/* The cpu that this thread may run on; -1 if it may run on several. */
static int only(void) { unsigned long set[128] = {0}; int cpu = -1; syscall(SYS_sched_getaffinity, 0, sizeof set, set); for (int i = 0; i < 128 * 64; i++) if (set[i / 64] >> i % 64 & 1) { if (cpu >= 0) return -1; cpu = i; } return cpu; }
static void *where(void *x) { *(int *)x = only(); return x; }
static int probe(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno != EFAULT || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) != -1 || errno != EFAULT; }
static int invalid(void) {
    unsigned short one[8] = {1}; char instruction[8] = {255, 255}; char *at = instruction; memcpy(&one[4], &at, 8);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, one) != -1 || errno != EINVAL;
}
int main(int n, char **a) {
    char *big = malloc(8 << 20);
    memset(big, 1, 8 << 20);
    int mine = cpus(), others;
    pthread_t t, other;
    pthread_create(&t, NULL, other_spins, NULL);
    if (!strcmp(a[1], \"asks\")) for (int i = 0; i < 50; i++) if (probe()) return 1;
    if (!strcmp(a[1], \"tries\") && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || invalid() || invalid())) return 2;
    free(malloc(654321));
    stop = 1;
    spin(300);
    if (cpus() != mine) return 3;
    pthread_create(&other, NULL, where, &others);
    pthread_join(other, NULL);
    if (others != atoi(a[2])) return 4;
    pthread_join(t, NULL);
    return 0;
}";

/// The cpus that this process may run on.
fn may_run_on() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ends = |part: &str| -> Vec<u32> { part.trim().split('-').map(|n| n.parse().unwrap()).collect() };
    list.split(',').map(ends).flat_map(|ends| ends[0]..=*ends.last().unwrap()).collect()
}

#[test]
fn after_a_refused_seccomp_call_all_goes_on() {
    let scratch = Scratch::new("refused");
    let program = scratch.c("refused.c", REFUSED);
    let mut page_nodes = BTreeMap::new();
    // The thread that is created afterwards has another cpu than the one that creates it, whose it would inherit.
    let cpus = may_run_on();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    if first == last {
        eprintln!("skipped: that threads are pinned after a refused call does not show on one cpu");
    }
    for how in ["nothing", "asks", "tries"] {
        let mut command = Command::new(&program);
        command.args([how, &last.to_string()]).env("NEARFAR_PINS", format!("{first},{first},{last}"));
        let run = run_with(&Settings { signal_hz: 500, ..settings() }, &mut command);
        run.ok();
        assert!(!run.has(|b| matches!(b, AgentBody::Lost { .. })), "{how}: a loss that never was");
        let (freed, _) = run.of_size(654_321)[0];
        let mut after = BTreeMap::new();
        for record in &run.records {
            if matches!(record.body, AgentBody::Sample { .. }) && record.time_ns > freed.time_ns {
                *after.entry(record.tid).or_insert(0) += 1;
            }
        }
        after.retain(|_, samples| *samples > 1);
        // The main thread and the one that spins; both had their timers before.
        assert_eq!(after.len(), 2, "{how}: {after:?}");
        page_nodes.insert(
            how,
            run.records.iter().filter(|r| matches!(r.body, AgentBody::PageNodes { .. })).count(),
        );
    }
    assert!(page_nodes["nothing"] > 0);
    assert_eq!(page_nodes["asks"], page_nodes["nothing"], "a question walks over all objects");
}
