//! Records with values that no kernel writes.

use super::{Options, import};
use crate::store;
use nearfar_perf::data_source::bits_of;
use nearfar_perf::records::Mapped;
use nearfar_perf::write::{Header, PerfWriter, Sample};
use nearfar_recording::{Access, Served};
use std::path::Path;

const CODE: u64 = 0x40_0000;

/// A perf.data of a process with these mappings, and a sample with its caller in each.
fn made(path: &Path, mappings: &[Mapped]) {
    let header = Header {
        host: "made".into(),
        version: "0".into(),
        arch: "x86_64".into(),
        processor: "Intel(R) Xeon(R)".into(),
        command: vec!["./app".into()],
        nodes: Vec::new(),
        events: vec!["cpu/mem-loads/P".into()],
    };
    let mut file = PerfWriter::begin(std::fs::File::create(path).unwrap(), header).unwrap();
    file.comm(100, 100, "app", 1).unwrap();
    for (time_ns, mapped) in (2..).zip(mappings) {
        file.mmap(mapped, time_ns).unwrap();
    }
    for (time_ns, mapped) in (1000..).zip(mappings) {
        let inside = mapped.start.saturating_add(0x1000);
        let sample = Sample {
            event: 0,
            ip: inside,
            pid: 100,
            tid: 100,
            time_ns,
            address: inside,
            cpu: 0,
            period: 1000,
            callers: &[inside + 8],
            weight: 200,
            data_src: bits_of(Served::LocalMemory, Access::Load),
        };
        file.sample(&sample).unwrap();
    }
    file.finish().unwrap();
}

fn code(start: u64, bytes: u64, offset: u64, name: &str) -> Mapped {
    Mapped { pid: 100, tid: 100, start, bytes, offset, name: name.into(), protection: 5, ..Mapped::default() }
}

fn damage(file: &Path) -> Vec<String> {
    let output = file.with_extension("nearfar");
    let outcome = import(file, &Options { output: Some(output.clone()), machine: None }).unwrap();
    store::open(&output).unwrap();
    outcome.damage
}

#[test]
fn a_mapping_that_ends_beyond_2_to_the_64_is_named_and_left_out() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("made.data");
    let last = u64::MAX - 0xfff;
    // A page of the file at the end of what can be said, twice: of more bytes than there are then, and of as many.
    let mappings = [
        code(CODE, 0x10000, last, "/nonexistent/app"),
        code(0x50_0000, 0x1000, u64::MAX - 0x1000, "/nonexistent/lib"),
        code(0x7fff_ffff_0000, u64::MAX - 0x1000, 0, "/nonexistent/long"),
    ];
    made(&file, &mappings);
    let named = damage(&file);
    let expected = [
        "a mapping of 0x10000 bytes of a file from 0xfffffffffffff000 on ends beyond 2^64",
        "a mapping of 0xffffffffffffefff bytes at 0x7fffffff0000 ends beyond 2^64",
    ];
    assert_eq!(named.len(), expected.len(), "{named:?}");
    for (named, expected) in named.iter().zip(expected) {
        assert!(named.starts_with("byte ") && named.ends_with(expected), "{named}");
    }
}

#[test]
fn a_stack_at_the_begin_of_memory_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("made.data");
    made(&file, &[code(0x1000, 0x2000, 0, "[stack]"), code(CODE, 0x10000, 0, "/nonexistent/app")]);
    assert_eq!(damage(&file), Vec::<String>::new());
}

#[test]
fn the_same_of_text_is_named_by_its_line() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("script.txt");
    let text = "app   100/100   1.000001: PERF_RECORD_MMAP2 100/100: [0x400000(0x10000) @ 0xfffffffffffff000 fe:00 7 0]: r-xp /nonexistent/app\n\
                app   100/100   [000]     1.000002:       1000 task-clock:u: \n\
                \t          401000 [unknown] (/nonexistent/app)\n\
                \t fffffffffffff100 [unknown] (/nonexistent/app)\n\n";
    std::fs::write(&file, text).unwrap();
    let named = damage(&file);
    let expected = "line 1: a mapping of 0x10000 bytes of a file from 0xfffffffffffff000 on ends beyond 2^64";
    assert_eq!(named, [expected]);
}
