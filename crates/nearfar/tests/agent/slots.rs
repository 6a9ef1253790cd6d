//! The protocol of a slot in the agent's table of objects (agent/objects.c), through all interleavings of small examples;
//! and that each of its rules is needed: without it an execution goes wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::run::Scratch;

fn agent() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent")
}

/// The examples' lines, for a table of so many slots.
fn explore(scratch: &Scratch, objects: &Path, slots: usize) -> Output {
    Command::new(harness(scratch, objects, slots)).output().unwrap()
}

/// The examples' program.
fn harness(scratch: &Scratch, objects: &Path, slots: usize) -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/slots.c");
    let program = scratch.0.join(format!("slots-{slots}"));
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-O1", "-w"]).arg(format!("-DNF_SLOTS={slots}"));
    compiler.arg(format!("-DOBJECTS=\"{}\"", objects.display())).arg("-I").arg(agent());
    let built = compiler.arg(harness).arg("-o").arg(&program).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// What a thread that waits in vain for a slot says.
fn in_vain(scratch: &Scratch, objects: &Path) -> String {
    let output = Command::new(harness(scratch, objects, 3)).arg("in vain").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_record_whose_slot_is_waited_for_in_vain_is_counted_as_lost() {
    let scratch = Scratch::new("slots-in-vain");
    assert_eq!(in_vain(&scratch, &agent().join("objects.c")), "counted\n");
    // The same code without its count: the test has to see that.
    let source = std::fs::read_to_string(agent().join("objects.c")).unwrap();
    let count = "                lost_record();\n";
    assert_eq!(source.matches(count).count(), 1);
    let broken = scratch.0.join("broken.c");
    std::fs::write(&broken, source.replace(count, "")).unwrap();
    assert_eq!(in_vain(&scratch, &broken), "the record of an end is lost, and not counted\n");
}

#[test]
fn no_interleaving_of_threads_loses_an_object_or_tells_it_twice() {
    let scratch = Scratch::new("slots");
    let mut examples = 0;
    for slots in [2, 3] {
        let output = explore(&scratch, &agent().join("objects.c"), slots);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}\n{text}");
        examples += text.lines().count();
        for line in text.lines() {
            let executions = line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            assert!(executions.parse::<u64>().unwrap() > 5, "{line}");
        }
    }
    assert_eq!(examples, 12);
}

#[test]
fn without_any_one_of_its_rules_an_interleaving_goes_wrong() {
    let scratch = Scratch::new("slot-rules");
    let source = std::fs::read_to_string(agent().join("objects.c")).unwrap();
    let removed = "    atomic_store_explicit(&s->address, REMOVED, memory_order_relaxed);\n";
    let nothing = "    give(s, NOTHING);\n";
    let rules = [
        (
            "a new block takes its slot",
            "        if (atomic_load_explicit(&s->address, memory_order_relaxed) > REMOVED) {
            give_back(s, word);
            continue;
        }
"
            .to_owned(),
            String::new(),
        ),
        (
            "the holder of a slot looks at its address again",
            "if (LIKELY(atomic_load_explicit(&s->address, memory_order_relaxed) == address)) return s;"
                .to_owned(),
            "return s;".to_owned(),
        ),
        ("the address goes first", format!("{removed}{nothing}"), format!("{nothing}{removed}")),
        (
            "records are written while the slot is held",
            "            tell_end(address, s->bytes, 0, s->when);\n            forget(s);\n".to_owned(),
            "            size_t bytes = s->bytes;
            uint64_t died = s->when;
            forget(s);
            tell_end(address, bytes, 0, died);
"
            .to_owned(),
        ),
        (
            "what a fork's parent held has no holder",
            "return word == word_of(BUSY);".to_owned(),
            "return state_of(word) == BUSY;".to_owned(),
        ),
        (
            "sums are of the process's own",
            "return word >> 8 == nf_process.epoch;".to_owned(),
            "return word != 1;".to_owned(),
        ),
    ];
    for (rule, with, without) in rules {
        assert_eq!(source.matches(&with).count(), 1, "{rule}");
        let broken = scratch.0.join("broken.c");
        std::fs::write(&broken, source.replace(&with, &without)).unwrap();
        let found = [2, 3].into_iter().any(|slots| {
            let output = explore(&scratch, &broken, slots);
            output.status.code() == Some(1) && String::from_utf8_lossy(&output.stdout).contains("WRONG")
        });
        assert!(found, "{rule}: nothing goes wrong without it");
    }
}
