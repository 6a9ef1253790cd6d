//! More allocations than can be told one by one: told late or counted, and no wrong word about any.

use nearfar_record::collect::agent::{AgentBody, AgentFile, LostWhy, Settings};
use std::process::Command;

use crate::run::{Scratch, run_with, settings};

/// As the recorder has it by default.
fn limited() -> Settings {
    Settings { alloc_rate: 16384, alloc_burst: 1024, looked_up_pages: 0, ..settings() }
}

#[test]
fn blocks_that_come_and_go_in_a_storm_are_all_told_or_counted() {
    let scratch = Scratch::new("storm");
    let program = scratch.c(
        "storm.c",
        "
static unsigned long x = 88172645463325252ul;
int main(void) {
    unsigned long sum = 0;
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t bytes = 100000 + x % 900000;
        sum += bytes;
        char *p = malloc(bytes);
        p[0] = 1;
        free(p);
    }
    printf(\"sum=0x%lx\\n\", sum);
    return 0;
}",
    );
    let run = run_with(&limited(), &mut Command::new(&program));
    run.ok();
    let told: u64 = run.allocations().map(|(_, a)| a.bytes).sum();
    let (count, bytes) = (run.allocations().count() as u64, crate::run::printed(&run.text(), "sum"));
    assert!(count < 100_000, "{count} of 200,000 were recorded one by one: that is not a limit");
    // What goes on is one object: it is recorded once and counted each time it comes again.
    let groups = |of: fn(u64, u64) -> u64| -> u64 {
        run.records
            .iter()
            .map(|r| match r.body {
                AgentBody::Group { count, bytes, .. } => of(count, bytes),
                _ => 0,
            })
            .sum()
    };
    assert_eq!(run.loss.ring_full, 0);
    assert_eq!(count + groups(|count, _| count), 200_000);
    assert_eq!(told + groups(|_, bytes| bytes), bytes);
    assert!(run.short.count <= groups(|count, _| count));
    assert_eq!(run.loss.untold, 0);
}

#[test]
fn a_burst_of_blocks_that_stay_is_told_as_a_whole_with_its_times() {
    let scratch = Scratch::new("burst");
    // The second half has been there before, so that it is not a growth: it is noted and told at the end.
    let program = scratch.c(
        "burst.c",
        "
enum { N = 20000 };
static char *blocks[N];
int main(void) {
    for (int i = 0; i < N; i++) blocks[i] = malloc(100000);
    for (int i = 0; i < N; i++) free(blocks[i]);
    for (int i = 0; i < N; i++) blocks[i] = malloc(200000 + i * 16);
    for (int i = 0; i < N; i++) if (!blocks[i]) return 1;
    return 0;
}",
    );
    // So few a second that also a busy machine's allocations are too fast.
    let run = run_with(&Settings { alloc_rate: 500, ..limited() }, &mut Command::new(&program));
    run.ok();
    assert_eq!((run.loss.ring_full, run.loss.untold), (0, 0));
    let second: Vec<_> = run.allocations().filter(|(_, a)| a.bytes >= 200_000).collect();
    assert_eq!(second.len(), 20000, "each that lives is recorded");
    let late = second.iter().filter(|(record, a)| a.born_ns != 0 && a.born_ns < record.time_ns).count();
    assert!(late > 1000, "{late}");
    // Ends that were held back come with their time, before anything else at that address.
    let mut live = std::collections::HashMap::new();
    let mut events: Vec<(u64, bool, u64)> = Vec::new();
    for record in &run.records {
        match &record.body {
            AgentBody::Alloc(a) => {
                events.push((if a.born_ns == 0 { record.time_ns } else { a.born_ns }, true, a.address))
            }
            AgentBody::Free { address, died_ns, .. } => {
                events.push((if *died_ns == 0 { record.time_ns } else { *died_ns }, false, *address));
            }
            _ => {}
        }
    }
    events.sort();
    for (time, begins, address) in events {
        if begins {
            assert!(live.insert(address, time).is_none(), "{address:x} begins twice");
        } else {
            assert!(live.remove(&address).is_some(), "{address:x} ends and had not begun");
        }
    }
    assert_eq!(live.len(), 20000);
}

#[test]
fn a_full_memory_shortens_the_ring_and_not_the_program() {
    let scratch = Scratch::new("short");
    let program = scratch.c(
        "short.c",
        "int main(void) { for (int i = 0; i < 30000; i++) { char *p = malloc(100000 + i * 16); p[5] = 1; free(p); } puts(\"done\"); return 0; }",
    );
    // 64 rings of 64 KiB each: 80 MiB would be 256 of 256 KiB.
    let few = Settings { most_bytes: 5 << 20, ..settings() };
    let run = run_with(&few, &mut Command::new(&program));
    run.ok();
    assert_eq!(run.text(), "done\n");
    assert!(run.allocations().count() > 500);
    assert!(AgentFile::create(&Settings { most_bytes: 1 << 20, ..settings() }).is_err());
}

#[test]
fn where_there_is_no_storm_each_end_comes_at_once_and_with_its_homes() {
    let scratch = Scratch::new("calm");
    let program = scratch.c(
        "calm.c",
        "
int main(void) {
    for (int i = 0; i < 20; i++) {
        char *p = malloc(3000000 + i * 4096);
        memset(p, 1, 3000000);
        free(p);
    }
    fork() ? (void)wait(NULL) : free(malloc(400000));
    return 0;
}",
    );
    let run = run_with(&Settings { looked_up_pages: 64, ..limited() }, &mut Command::new(&program));
    run.ok();
    assert_eq!(run.allocations().count(), 21);
    let ends = run.records.iter().filter(|r| matches!(r.body, AgentBody::Free { died_ns: 0, .. })).count();
    assert_eq!(ends, 21, "each end is recorded when it comes");
    let mut given_up = 0;
    for record in &run.records {
        match record.body {
            AgentBody::Lost { why: LostWhy::PageNodesRefused, .. } => {
                return eprintln!("skipped: move_pages is not allowed here");
            }
            // On a slow machine a look would take more than its share of the program's time.
            AgentBody::Lost { why: LostWhy::PageNodesBudget, count } => given_up += count,
            AgentBody::Lost { .. } => panic!("{record:?}"),
            _ => {}
        }
    }
    let looks = run.records.iter().filter(|r| matches!(r.body, AgentBody::PageNodes { .. })).count() as u64;
    assert!(looks + given_up >= 20, "{looks} looks at 20 large objects that end, and {given_up} given up");
}
