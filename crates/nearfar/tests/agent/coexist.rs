//! The program comes first: it survives, keeps what is its own and says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use nearfar_record::collect::agent::{AgentBody, AgentFile, AllocationKind, LostWhy, Settings};

use crate::run::{PRELUDE, Scratch, decimal, has, printed, run, run_with, settings};

#[test]
fn a_killed_program_leaves_whole_records() {
    let scratch = Scratch::new("kill");
    let program = scratch.c("kill.c", "
static void *work(void *x) { for (long i = 0;; i++) free(malloc(100000 + i % 1000)); return x; }
int main(void) { pthread_t t; pthread_create(&t, NULL, work, NULL); usleep(30000); kill(getpid(), SIGKILL); work(NULL); }");
    for _ in 0..5 {
        let run = run(&program);
        assert!(!run.output.status.success());
        assert!(run.allocations().count() > 100);
        assert_eq!(run.loss.damaged, 0);
    }
}

#[test]
fn a_slow_recorder_costs_records_not_the_program() {
    let scratch = Scratch::new("overflow");
    let program = scratch.c("overflow.c", "
int main(void) { for (int i = 0; i < 200000; i++) { char *p = malloc(100000); p[5] = 1; free(p); } puts(\"done\"); return 0; }");
    let mut file = AgentFile::create(&Settings { looked_up_pages: 0, ..settings() }).unwrap();
    // It ends although its ring is read only afterwards.
    let output = Command::new(&program).envs(file.environment()).output().unwrap();
    assert!(output.status.success() && output.stdout == b"done\n");
    let (mut records, mut lost) = (0, 0);
    file.drain(u64::MAX, |record| match record.body {
        AgentBody::Lost { count, why: LostWhy::RingFull } => lost += count,
        _ => records += 1,
    });
    assert!(records > 10_000 && lost > 100_000, "{records} {lost}");
    assert_eq!(file.lost().ring_full, lost);
    assert!(records + lost >= 400_000);
    assert_eq!(file.processes(), 0);
}

#[test]
fn descriptors_belong_to_the_program() {
    let scratch = Scratch::new("fds");
    let program = scratch.c(
        "fds.c",
        "
int main(void) {
    int first = dup(1), second = dup(1);
    if (second != first + 1 || first > 9) return 1;
    for (int i = 0; i < 1000; i++) if (i != first) close(i);
    free(malloc(250000));
    dprintf(first, \"alive\\n\");
    return 0;
}",
    );
    let run = run(&program);
    run.ok();
    assert_eq!(run.text(), "alive\n");
    assert_eq!(run.of_size(250_000).len(), 1);
}

#[test]
fn sigprof_stays_the_programs_own() {
    let scratch = Scratch::new("sigprof");
    let program = scratch.c("sigprof.c", "
static volatile int ticks, strange;
static void mine(int s, siginfo_t *i, void *c) { (void)s; (void)c; ticks++; if (i->si_code == SI_TIMER) strange++; }
static void spin(int ms) { struct timespec t; do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms); }
int main(void) {
    spin(100);
    struct sigaction a = {.sa_sigaction = mine, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGPROF, NULL, &old); if (old.sa_handler != SIG_DFL) return 1;
    sigaction(SIGPROF, &a, &old); if (old.sa_handler != SIG_DFL) return 2;
    sigaction(SIGPROF, NULL, &old); if (old.sa_sigaction != mine) return 3;
    struct itimerval t = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_PROF, &t, NULL);
    spin(300);
    return ticks > 10 && !strange ? 0 : 4;
}");
    let run = run_with(&Settings { signal_hz: 500, ..settings() }, &mut Command::new(&program));
    run.ok();
    assert!(run.has(|b| matches!(b, AgentBody::Sample { .. })));
    assert!(run.has(|b| matches!(b, AgentBody::Lost { why: LostWhy::SigprofTaken, .. })));
}

#[test]
fn the_signal_source_samples_every_thread_and_weighs_its_time() {
    let scratch = Scratch::new("samples");
    let source = format!("{PRELUDE}
FRESH void *burn(void *x) {{ struct timespec t; do {{ for (int i = 0; i < 100000; i++) sink++; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); }} while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < 300); return x; }}
int main(void) {{
    pthread_t t; pthread_create(&t, NULL, burn, NULL);
    burn(NULL); pthread_join(t, NULL);
    printf(\"burn=%p main=%p\\n\", burn, main); fflush(stdout);
    if (!fork()) {{ burn(NULL); _exit(0); }}
    int status; wait(&status); return status;
}}");
    let program = scratch.compile("gcc", "samples.c", &source, &["-pthread", "-fno-omit-frame-pointer"]);
    let run = run_with(&Settings { signal_hz: 1000, ..settings() }, &mut Command::new(&program));
    run.ok();
    let burn = printed(&run.text(), "burn");
    let mut weights = BTreeMap::new();
    let (mut inside, mut all) = (0, 0);
    for record in &run.records {
        if let AgentBody::Sample { ip, weight_ns, registers, chain, .. } = &record.body {
            *weights.entry((record.pid, record.tid)).or_insert(0) += weight_ns;
            all += 1;
            if (burn..burn + 200).contains(ip) {
                inside += 1;
                assert!(!chain.is_empty() && registers[7] != 0);
            }
        }
    }
    assert_eq!(weights.len(), 3, "two threads and the fork's child: {weights:?}");
    assert!(inside * 10 > all * 8, "{inside} of {all}");
    for weight in weights.values() {
        assert!((200_000_000..400_000_000).contains(weight), "{weights:?}");
    }
}

#[test]
fn many_threads_allocating_at_once_lose_no_end() {
    let scratch = Scratch::new("stress");
    // It counts what is recorded: blocks of 100,000 bytes and more.
    let program = scratch.c(
        "stress.c",
        "
static long made, freed;
static size_t sizes[8][16];
static void counts(size_t *size, size_t now) {
    if (*size >= 100000) __atomic_add_fetch(&freed, 1, __ATOMIC_RELAXED);
    if (now >= 100000) __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    *size = now;
}
static void *work(void *x) {
    unsigned seed = (unsigned)(long)x; void *held[16] = {0}; size_t *size = sizes[(long)x];
    for (int i = 0; i < 4000; i++) {
        unsigned k = rand_r(&seed) % 16, n = 50000 + rand_r(&seed) % 200000;
        switch (rand_r(&seed) % 3) {
        case 0: free(held[k]); held[k] = malloc(n); break;
        case 1: held[k] = realloc(held[k], n); break;
        default: free(held[k]); held[k] = NULL; n = 0;
        }
        counts(&size[k], n);
        if (held[k]) ((char *)held[k])[0] = 1;
    }
    for (int k = 0; k < 16; k++) { free(held[k]); counts(&size[k], 0); }
    return NULL;
}
int main(void) {
    pthread_t t[8];
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    printf(\"made=%ld\\nfreed=%ld\\n\", made, freed);
    return 0;
}",
    );
    let run = run_with(&Settings { signal_hz: 1000, ..settings() }, &mut Command::new(&program));
    run.ok();
    assert_eq!(run.loss.damaged, 0);
    let lost = run.loss.ring_full + run.loss.busy;
    let told = |of: fn(&AgentBody) -> bool| run.records.iter().filter(|r| of(&r.body)).count() as u64;
    let begun = told(|b| matches!(b, AgentBody::Alloc(a) if a.kind == AllocationKind::Heap));
    let ended = told(|b| matches!(b, AgentBody::Free { .. }));
    let (made, freed) = (decimal(&run.text(), "made="), decimal(&run.text(), "freed="));
    assert!(begun <= made && ended <= freed, "{begun} of {made} begin, {ended} of {freed} end");
    // On a loaded machine the ring may be full at times. Each record that is missing is counted; samples may be
    // among the lost, so the count may be larger.
    assert!(made - begun + freed - ended <= lost, "{begun} of {made}, {ended} of {freed}, {lost} lost");
    // A missing record leaves at most one begin without an end, or the reverse.
    let mut live = BTreeMap::new();
    let mut unpaired = Vec::new();
    for record in &run.records {
        let odd = match &record.body {
            AgentBody::Alloc(a) if a.kind == AllocationKind::Heap => {
                live.insert(a.address, a.bytes).is_some()
            }
            AgentBody::Free { address, bytes, .. } => live.remove(address) != Some(*bytes),
            _ => false,
        };
        if odd {
            unpaired.push(format!("{:?}", record.body));
        }
    }
    assert!((unpaired.len() + live.len()) as u64 <= lost, "{lost} lost; {unpaired:?}; {live:?}");
}

#[test]
fn registers_that_hold_no_frame_are_not_followed() {
    let scratch = Scratch::new("wild");
    // Programs built without frame pointers compute with rbp: each value for 60 ms, about 15 ticks.
    let source = format!("{PRELUDE}
static void spin(unsigned long rbp) {{
    struct timespec a, b; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    do {{
        unsigned long turns = 1000000;
        __asm__ volatile(\"push %%rbp\\n mov %1, %%rbp\\n 1: dec %0\\n jnz 1b\\n pop %%rbp\" : \"+r\"(turns) : \"r\"(rbp) : \"cc\", \"memory\");
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    }} while ((b.tv_sec - a.tv_sec) * 1000000000l + b.tv_nsec - a.tv_nsec < 60000000);
}}
static void all(void) {{
    unsigned long here = (unsigned long)__builtin_frame_address(0);
    unsigned long wild[] = {{0, 8, -8ul, -16ul, -24ul, 1ul << 63, here | 4095, (here | 4095) - 7, (here | 4095) - 15, here + 4, (unsigned long)&spin}};
    for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) spin(wild[i]);
}}
static void *other(void *x) {{ all(); return x; }}
int main(void) {{ all(); pthread_t t; pthread_create(&t, NULL, other, NULL); pthread_join(t, NULL); return 0; }}");
    let program = scratch.compile("gcc", "wild.c", &source, &["-O1", "-pthread", "-mno-red-zone"]);
    let run = run_with(&Settings { signal_hz: 1000, ..settings() }, &mut Command::new(&program));
    run.ok();
    let samples = run.records.iter().filter(|r| matches!(r.body, AgentBody::Sample { .. })).count();
    assert!(samples > 50, "{samples}");
}

#[test]
fn everyday_programs_run_the_same_with_the_agent() {
    let scratch = Scratch::new("everyday");
    let settings = Settings {
        min_object_bytes: 4096,
        small_sample_bytes: 4096,
        signal_hz: 1000,
        maps: true,
        ..Settings::default()
    };
    let pipeline = "seq 1 2000 | sort -n | sed 's/1/x/' | tail -3; for i in 1 2 3; do (echo $i; exec cat /dev/null); done; echo $(date +%Y >/dev/null; echo ok)";
    let python = "import json, subprocess, threading
print(json.dumps({'a': [1] * 3}))
t = threading.Thread(target=lambda: print(sum(range(10**6))))
t.start(); t.join()
print(subprocess.run(['echo', 'child'], capture_output=True).stdout)
x = bytearray(50_000_000); print(len(x))";
    let compile = "echo 'int main(void){return 0;}' | gcc -x c - -o prog && ./prog && echo built";
    let mut commands =
        vec![vec!["ls", "-l", "/usr"], vec!["bash", "-c", pipeline], vec!["sh", "-c", compile]];
    if has("python3") {
        commands.push(vec!["python3", "-c", python]);
    }
    for arguments in commands {
        let command = || {
            let mut command = Command::new(arguments[0]);
            command.args(&arguments[1..]).current_dir(&scratch.0);
            command
        };
        let plain = command().stdin(Stdio::null()).output().unwrap();
        let run = run_with(&settings, &mut command());
        run.ok();
        assert_eq!(plain.status, run.output.status, "{arguments:?}");
        assert_eq!(plain.stdout, run.output.stdout, "{arguments:?}");
        assert!(run.has(|b| matches!(b, AgentBody::Maps { .. })));
        assert_eq!(run.loss.damaged, 0);
    }
}

#[test]
fn static_programs_and_missing_files_change_nothing() {
    let scratch = Scratch::new("static");
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { free(malloc(400000)); puts(\"same\"); return 0; }";
    let run = run(&scratch.compile("gcc", "static.c", source, &["-static"]));
    run.ok();
    assert_eq!(run.records.len(), 0);
    let program = scratch.compile("gcc", "dynamic.c", source, &[]);
    let file = AgentFile::create(&settings()).unwrap();
    let short = scratch.0.join("short");
    std::fs::write(&short, b"not the recorder's").unwrap();
    for path in [Path::new("/nonexistent/file"), Path::new("relative"), Path::new(""), &short] {
        let mut command = Command::new(&program);
        let output = command.envs(file.environment()).env("NEARFAR_AGENT", path).output().unwrap();
        assert!(output.status.success() && output.stdout == b"same\n" && output.stderr.is_empty());
    }
}

#[test]
fn more_processes_than_segments_pass_through_one_after_the_other() {
    let script = "for i in $(seq 200); do (true); /bin/true; done";
    let run = run_with(&settings(), Command::new("bash").args(["-c", script]));
    run.ok();
    let generations: BTreeSet<u64> = run.records.iter().map(|r| r.generation).collect();
    assert!(generations.len() as u64 + run.loss.unclaimed >= 400, "{}", generations.len());
    assert!(run.loss.unclaimed < 40, "{:?}", run.loss);
}

#[test]
fn sanitized_programs_do_not_mistake_the_agent_for_an_error() {
    let scratch = Scratch::new("sanitized");
    let source = "
static void *work(void *x) { volatile char room[100]; room[7] = 1; for (int i = 0; i < 100; i++) free(malloc(100000 + i + room[7])); return x; }
int main(void) { pthread_t t; pthread_create(&t, NULL, work, NULL); work(NULL); pthread_join(t, NULL); puts(\"clean\"); return 0; }";
    for sanitizer in ["address", "thread", "undefined"] {
        let flag = format!("-fsanitize={sanitizer}");
        let source = format!("{PRELUDE}{source}");
        let program =
            scratch.compile("gcc", &format!("{sanitizer}.c"), &source, &["-pthread", "-fno-builtin", &flag]);
        let run = run(&program);
        run.ok();
        assert_eq!(run.text(), "clean\n", "{sanitizer}");
        assert!(run.allocations().count() > 0, "{sanitizer}");
    }
}
