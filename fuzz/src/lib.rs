//! Everything of nearfar that reads files from elsewhere, fed with bytes: recordings, machine and placement
//! files, a machine's /sys, a program's code, names and debug information.
//!
//! Each function takes any bytes and must end: without a panic, without gigabytes, without a command to a terminal.
//! `fuzz/run` lets a coverage-guided fuzzer search for bytes that break this; the test `corpus` feeds what was found
//! worth keeping, on every check.

use nearfar_analyze::{Input, Judge, analyze_with};
use nearfar_decode::{Decoder, Described, FunctionCode, Registers, describe};
use nearfar_machine::Machine;
use nearfar_machine::binding::{Bind, assign};
use nearfar_machine::placement_file::PlacementFile;
use nearfar_record::store::{Tables, meta_of};
use nearfar_recording::{AccessSamples, Columns, Meta, journal as frames};
use nearfar_report::placement::to_placement;
use nearfar_report::{callers, to_details, to_json, to_text, topology as shown};
use std::fs;
use std::path::{Component, Path};

/// No escape may reach a terminal: of control characters, a text has line ends only.
fn harmless(text: &str) {
    let command = text.chars().find(|&c| c.is_control() && c != '\n');
    assert_eq!(command, None, "in {text:?}");
}

/// Analyses and prints, as `nearfar report` and `nearfar fix` do.
fn report(input: &Input, samples: &AccessSamples) {
    let recorded = input.meta.machine.clone();
    let assumed = Machine::from_shape("2x2").expect("a shape");
    for (machine, assume) in [(recorded, None), (assumed, Some(Bind::Scatter))] {
        let judge = Judge { machine, assume, whole: false };
        if let Ok(report) = analyze_with(input, samples, &judge, 1) {
            harmless(&to_text(&report, "recording", "recording", 100, false));
            harmless(&to_details(&report, "recording", 100, false));
            harmless(&callers(&report, 100, false));
            harmless(&to_json(&report));
            if let (Some(placement), _) = to_placement(&report) {
                let file = placement.file.to_toml();
                harmless(&file);
                assert!(PlacementFile::from_toml(&file).is_ok(), "{file}");
            }
        }
    }
}

/// The meta.json that goes with tables from nowhere.
fn some_meta(counted: bool) -> Meta {
    let bytes: &[u8] = match counted {
        false => include_bytes!("../corpus/meta/sampled"),
        true => include_bytes!("../corpus/meta/counted"),
    };
    meta_of(bytes).expect("the kept meta.json is one")
}

/// Sets the checksums of what may be frames, so that mutations get behind them.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 13) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let end = at + 13 + usize::from(head[12]) + length;
        let Some(checked) = bytes.get(at + 12..end) else { break };
        let checksum = crc32fast::hash(checked);
        bytes[at + 8..at + 12].copy_from_slice(&checksum.to_le_bytes());
        at = end;
    }
    bytes
}

/// A journal: read, its rows put into tables, analysed and printed.
pub fn journal(bytes: &[u8]) {
    let bytes = with_checksums(bytes);
    let mut tables = Tables::default();
    let read = |tables: &mut Tables, bytes: &[u8]| {
        frames::read(bytes, bytes.len() as u64, |frame| {
            // A frame that is not its table's is left out.
            let _ = tables.add(frame);
            Ok::<(), std::io::Error>(())
        })
    };
    let _ = read(&mut tables, &bytes);
    let mut written = Vec::new();
    tables.clone().encode(&mut written);
    let mut again = Tables::default();
    assert_eq!(read(&mut again, &written).expect("memory is read"), None, "what was written is read whole");
    assert_eq!(again.samples.len(), tables.samples.len());
    assert_eq!(again.objects.len(), tables.objects.len());
    tables.keep_sound();
    let counted = !tables.cpu_epochs.is_empty();
    let (input, samples) = tables.into_input(some_meta(counted));
    report(&input, &samples);
}

/// A Parquet file of the table whose number is the first byte.
pub fn table(bytes: &[u8]) {
    // The fuzzer ends at the first panic that it hears of: what is caught and becomes an error is none.
    nearfar_host::caught::quietly();
    let Some((&which, file)) = bytes.split_first() else { return };
    let table = Tables::NAMES[usize::from(which) % Tables::NAMES.len()];
    let _ = Tables::default().add_file(table, bytes::Bytes::copy_from_slice(file));
}

/// A meta.json, and a report of a recording that is otherwise empty.
pub fn meta(bytes: &[u8]) {
    if let Ok(meta) = meta_of(bytes) {
        let (input, samples) = Tables::default().into_input(meta);
        report(&input, &samples);
    }
}

/// A machine file: what is read is written and read again as the same, and usable.
pub fn machine(bytes: &[u8]) {
    let Some(machine) = std::str::from_utf8(bytes).ok().and_then(|text| Machine::from_toml(text).ok()) else {
        return;
    };
    let written = machine.to_toml();
    let again = Machine::from_toml(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(again.to_toml(), written);
    let _ = machine.missing_to_simulate();
    let _ = machine.missing_to_time();
    if machine.cpu_count() > 0 {
        assert_eq!(assign(3, &machine, Bind::Compact).len(), 3);
        assert_eq!(assign(3, &machine, Bind::Scatter).len(), 3);
    }
}

/// A placement file: what is read is written and read again as the same.
pub fn placement(bytes: &[u8]) {
    let Some(file) = std::str::from_utf8(bytes).ok().and_then(|text| PlacementFile::from_toml(text).ok())
    else {
        return;
    };
    let written = file.to_toml();
    let again = PlacementFile::from_toml(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(again, file, "{written}");
}

/// Most files of a tree; each costs a system call or three.
const MOST_FILES: usize = 400;

/// A captured machine: lines `= PATH` below sys/ and proc/, each with the file's content behind it.
pub fn topology(bytes: &[u8]) {
    let Ok(root) = tempfile::Builder::new().prefix("fuzzed-").tempdir_in("/dev/shm") else { return };
    let mut rest = bytes;
    for _ in 0..MOST_FILES {
        let end = rest.windows(3).position(|w| w == b"\n= ").unwrap_or(rest.len());
        let file = &rest[..end];
        let line = file.iter().position(|&b| b == b'\n').unwrap_or(file.len());
        let path = String::from_utf8_lossy(&file[..line]);
        let path = Path::new(path.trim_start_matches("= "));
        let below = path.components().all(|c| matches!(c, Component::Normal(_)));
        let ours = path.starts_with("sys") || path.starts_with("proc");
        if below && ours && !path.as_os_str().as_encoded_bytes().contains(&0) {
            let path = root.path().join(path);
            // What cannot be a file is none: the tree of a captured machine may be anything.
            let made = path.parent().map(fs::create_dir_all);
            let _ = made.map(|_| fs::write(&path, file.get(line + 1..).unwrap_or_default()));
        }
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => break,
        }
    }
    if let Ok(topology) = nearfar_host::discover::topology(root.path()) {
        harmless(&shown::to_text(&topology, 100, false));
        harmless(&topology.to_json());
        shown::to_svg(&topology);
        shown::to_numactl(&topology);
    }
    let _ = nearfar_host::discover::discover(root.path());
}

/// Code around a sample: where it lies, whether it is known to begin an instruction, registers, then the code.
pub fn decoder(bytes: &[u8]) {
    let Some((head, code)) = bytes.split_at_checked(10) else { return };
    let start = u64::from_le_bytes([head[0], head[1], head[2], head[3], head[4], head[5], head[6], 0]);
    let ip = start.wrapping_add(u64::from(head[7]));
    let mut registers = Registers { ip, ..Registers::default() };
    for (i, gpr) in registers.gpr.iter_mut().enumerate() {
        *gpr = u64::from(head[8]).wrapping_shl(u32::from(head[9]).wrapping_add(i as u32 * 5));
    }
    let function = || Some(FunctionCode { start, bytes: code, synced: head[9] & 1 == 0 });
    let mut decoder = Decoder::new();
    let found = decoder.resolve(0, &registers, |_| function());
    // The same again from what is kept, and the same without it.
    assert_eq!(decoder.resolve(0, &registers, |_| None), found);
    decoder.forget(0);
    assert_eq!(decoder.resolve(0, &registers, |_| function()), found);
    let within = start..=start.wrapping_add(code.len() as u64);
    assert!(found.operand_ip == ip || within.contains(&found.operand_ip), "{found:?}");
    decoder.access_at(ip, function());
    let _: Option<Described> = describe(code);
}

/// A symbol's name, as compilers and attackers write it.
pub fn names(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    let shown = nearfar_host::symbols::readable(&name);
    // Demangled names may be longer than what they stand for, not without end.
    assert!(shown.len() <= 1 << 20, "{} bytes of {}", shown.len(), name.len());
    harmless(&nearfar_figures::escape::line(&shown));
}

/// An ELF file: symbols, lines, variables, unwind tables.
pub fn dwarf(bytes: &[u8]) {
    nearfar_host::caught::quietly();
    let Ok(file) = tempfile::Builder::new().prefix("fuzzed-").tempfile_in("/dev/shm") else { return };
    if fs::write(file.path(), bytes).is_err() {
        return;
    }
    let Ok(module) = nearfar_host::symbols::Module::open(file.path()) else { return };
    let _ = (module.build_id(), module.is_static_executable(), module.debug_file());
    for offset in (0..bytes.len() as u64).step_by((bytes.len() / 64).max(16)) {
        let Some(vaddr) = module.vaddr_of_file_offset(offset) else { continue };
        module.frames(vaddr);
        module.received_at_call(vaddr);
        if let Some(range) = module.function_range(vaddr) {
            module.code(range);
        }
    }
    module.bias_of_mapping(0x5555_0000_0000, 0);
    module.statics(8);
    module.code_of_line("small.c", 7);
}

/// A perf.data: its header, and every record as what it says.
pub fn perf_data(bytes: &[u8]) {
    use nearfar_perf::{DataSource, Vendor, features, file::PerfData, records, sample, served};
    let Ok(mut data) = PerfData::open(std::io::Cursor::new(bytes), bytes.len() as u64) else { return };
    let mut body = Vec::new();
    // A compressed record stands for more than its bytes; a fuzzer has no use for gigabytes.
    for _ in 0..100_000 {
        let Some(head) = data.next(&mut body) else { break };
        let Some(event) = data.event_of(head, &body) else { continue };
        let attr = &data.events[event].attr;
        if let Some((_, records::Record::Mmap(m))) = records::read(head.kind, head.misc, &body, attr)
            && m.impossible().is_none()
        {
            let last = m.bytes.saturating_sub(1);
            assert!(m.start.checked_add(last).is_some() && m.offset.checked_add(last).is_some());
        }
        if let Some(sample) = sample::read(&body, attr) {
            let source = sample.data_src.unwrap_or(0);
            assert_eq!(DataSource::from_bits(source).bits(), source & ((1 << 51) - 1));
            let _ = [Vendor::Intel, Vendor::Amd, Vendor::Other].map(|vendor| served(source, vendor));
        }
    }
    for part in data.features.values() {
        let _ = features::nodes(part);
        let _ = features::texts(part);
        let _ = features::sockets(part, 64);
        let _ = features::Blocks::read(part).map(|blocks| blocks.node_of(1 << 31));
    }
    assert!(data.damage.iter().all(|line| !line.contains('\n')));
}

/// The text of other tools: each line of `perf script`, the tables of MLC, and counters.
pub fn foreign_text(bytes: &[u8]) {
    use nearfar_observed::measured::{mlc, readings};
    use nearfar_perf::script::{Line, line};
    let text = String::from_utf8_lossy(bytes);
    for one in text.lines() {
        if let Line::Record { record: nearfar_perf::records::Record::Mmap(m), .. } = line(one) {
            assert!(m.impossible().is_some() || m.start.checked_add(m.bytes).is_some());
        }
    }
    let machine = Machine::from_shape("2x2").expect("a shape");
    if let Ok(with) = mlc::read(&text).into_machine(machine, "fuzzed") {
        assert_eq!(Machine::from_toml(&with.to_toml()).expect("what is written is read"), with);
    }
    if let Some(found) = readings::read(&text) {
        for reading in &found.rows {
            let row = reading.row(found.tool);
            assert!(row.value.is_finite() || row.value.is_nan() && !row.why.is_empty());
        }
        assert!(found.damage.iter().all(|(line, why)| *line > 0 && !why.is_empty()));
    }
}
