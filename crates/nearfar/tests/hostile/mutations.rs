//! Recordings that were damaged, by bits and by meaning: each is opened, analysed and printed, and whatever comes
//! of it, it is not a panic, no hang and no command to a terminal.
//!
//! `NEARFAR_MUTATIONS=10000` for more of them, `NEARFAR_MUTATIONS=5000-6000` for others, `NEARFAR_MUTATION=123` for
//! one again.

use crate::common::Scratch;
use crate::made::Made;
use crate::names::commands;
use nearfar_analyze::{Judge, Report, analyze_with};
use nearfar_compare::compare;
use nearfar_machine::Machine;
use nearfar_machine::binding::Bind;
use nearfar_record::store::open;
use nearfar_recording::*;
use nearfar_report::placement::to_placement;
use nearfar_report::{to_details, to_json};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// CPU time after which a case counts as one that never ends; they take milliseconds.
const HANG_S: f64 = 20.0;
/// Memory of this process; a case that needs more aborts it instead of the machine.
const MEMORY: u64 = 12 << 30;

/// Marsaglia's xorshift: the same cases on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.append(&mut files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Damages a file as disks and transfers do.
fn damage(directory: &Path, random: &mut Random) {
    let all = files(directory);
    let file = random.of(&all).clone();
    let mut bytes = fs::read(&file).unwrap();
    match random.below(8) {
        0..4 if !bytes.is_empty() => {
            for _ in 0..=random.below(8) {
                // The end of a Parquet file is its footer, which believes itself.
                let near_end = random.below(2) * bytes.len().saturating_sub(300);
                let at = near_end + random.below(bytes.len() - near_end);
                bytes[at] ^= 1 << random.below(8);
            }
        }
        4 => bytes.truncate(random.below(bytes.len() + 1)),
        5 => {
            let from = random.below(bytes.len() + 1);
            let to = (from + random.below(200)).min(bytes.len());
            bytes[from..to].fill(*random.of(&[0, 0xff]));
        }
        6 => bytes = fs::read(random.of(&all)).unwrap(),
        _ => {
            let from = random.below(bytes.len() + 1);
            let part = bytes[from..(from + random.below(100)).min(bytes.len())].to_vec();
            let at = random.below(bytes.len() + 1);
            bytes.splice(at..at, part);
        }
    }
    fs::write(&file, bytes).unwrap();
}

fn extreme(random: &mut Random) -> u64 {
    let near = random.below(4) as u64;
    match random.below(9) {
        0 => 0,
        1 => u64::MAX - near,
        2 => u64::from(u32::MAX) - near,
        3 => 1 << 63,
        4 => (1 << 47) - near,
        5 => near,
        6 => 1 << random.below(64),
        7 => random.next(),
        _ => 4096 * near,
    }
}

fn change<T: Clone>(values: &mut [T], random: &mut Random, mut to: impl FnMut(&mut Random, &T) -> T) {
    if values.is_empty() {
        return;
    }
    match random.below(5) {
        // One, some, all, one from elsewhere, two exchanged.
        0 => {
            let at = random.below(values.len());
            values[at] = to(random, &values[at].clone());
        }
        1 => {
            for value in values.iter_mut() {
                if random.below(3) == 0 {
                    *value = to(random, &value.clone());
                }
            }
        }
        2 => {
            let value = to(random, &values[0].clone());
            values.fill(value);
        }
        3 => {
            let (at, from) = (random.below(values.len()), random.below(values.len()));
            values[at] = values[from].clone();
        }
        _ => {
            let (a, b) = (random.below(values.len()), random.below(values.len()));
            values.swap(a, b);
        }
    }
}

fn twist(column: &mut Column, random: &mut Random) {
    match column {
        Column::U8(v) => change(v, random, |r, _| extreme(r) as u8),
        Column::U16(v) => change(v, random, |r, _| extreme(r) as u16),
        Column::U32(v) => change(v, random, |r, _| extreme(r) as u32),
        Column::U64(v) => change(v, random, |r, old| match r.below(3) {
            0 => extreme(r),
            1 => old.wrapping_add(extreme(r)),
            _ => old.wrapping_sub(extreme(r)),
        }),
        Column::I16(v) => change(v, random, |r, _| extreme(r) as i16),
        Column::F64(v) => {
            change(v, random, |r, _| *r.of(&[0.0, -1.0, f64::NAN, f64::INFINITY, 1e308, 1e-308, -0.0]))
        }
        Column::Text(v) => change(v, random, |r, old| match r.below(5) {
            0 => Text::default(),
            1 => crate::names::evil(old).into(),
            2 => format!("/{old}/{old}").into(),
            3 => "x".repeat(r.below(10_000)).into(),
            _ => "\u{202e}\u{fffd}ß数/a:1".into(),
        }),
    }
}

/// Changes rows of a table, whose columns stay of one length.
fn twist_table<T: Columns>(directory: &Path, random: &mut Random) {
    let path = directory.join(format!("run/rank=0/{}-0000.parquet", T::TABLE));
    let Ok(bytes) = fs::read(&path) else { return };
    let Ok(mut table) = nearfar_parquet::read::<T>(bytes.into()) else { return };
    for _ in 0..=random.below(3) {
        match random.below(6) {
            0 if !table.is_empty() => {
                // The same row again and again, or a part of the table twice.
                let row = random.below(table.len());
                for _ in 0..random.below(50) {
                    table.push(table.row(row));
                }
            }
            1 => {
                let mut again = table.clone();
                table.append(&mut again);
            }
            2 => {
                let keep = random.below(table.len() + 1);
                let rows: Vec<T::Row> = table.rows().take(keep).collect();
                table = T::default();
                rows.into_iter().for_each(|row| table.push(row));
            }
            _ => {
                let mut columns = table.take();
                let at = random.below(columns.len());
                twist(&mut columns[at], random);
                let other = random.below(columns.len());
                if random.below(8) == 0 && columns[at].kind() == columns[other].kind() {
                    columns.swap(at, other);
                }
                table = T::from_columns(columns).unwrap();
            }
        }
    }
    let mut bytes = Vec::new();
    nearfar_parquet::write(&mut table, &mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
}

type Twist = fn(&Path, &mut Random);
const TWISTS: [Twist; 31] = [
    twist_table::<Processes>,
    twist_table::<Loops>,
    twist_table::<LoopStreams>,
    twist_table::<LoopOperands>,
    twist_table::<Progresses>,
    twist_table::<Excerpts>,
    twist_table::<ExcerptBlocks>,
    twist_table::<ProcessEnds>,
    twist_table::<Threads>,
    twist_table::<AccessSamples>,
    twist_table::<PageFaults>,
    twist_table::<Locations>,
    twist_table::<Modules>,
    twist_table::<Symbols>,
    twist_table::<ChainFrames>,
    twist_table::<MemoryObjects>,
    twist_table::<ObjectEnds>,
    twist_table::<SiteNames>,
    twist_table::<RangeEvents>,
    twist_table::<PageNodes>,
    twist_table::<Mappings>,
    twist_table::<Phases>,
    twist_table::<PhaseCounts>,
    twist_table::<PhaseMarks>,
    twist_table::<Metrics>,
    twist_table::<Counters>,
    twist_table::<CpuEpochs>,
    twist_table::<EpochTraffics>,
    twist_table::<PageTraffics>,
    twist_table::<CountedWindows>,
    twist_table::<Losses>,
];

/// Changes a value anywhere in meta.json.
fn twist_meta(directory: &Path, random: &mut Random) {
    fn leaves(value: &mut Value, count: &mut usize, at: usize, to: &Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(|v| leaves(v, count, at, to)),
            Value::Object(all) => all.values_mut().for_each(|v| leaves(v, count, at, to)),
            leaf => {
                if *count == at {
                    *leaf = to.clone();
                }
                *count += 1;
            }
        }
    }
    let path = directory.join("meta.json");
    let Ok(mut meta) = serde_json::from_slice::<Value>(&fs::read(&path).unwrap()) else { return };
    let mut count = 0;
    leaves(&mut meta, &mut count, usize::MAX, &Value::Null);
    for _ in 0..=random.below(3) {
        let to = match random.below(7) {
            0 => Value::from(extreme(random)),
            1 => Value::from(*random.of(&[1e308, -1.0, 1e-308, 0.5, 1e15, 1e-9])),
            2 => Value::from(crate::names::evil("meta")),
            3 => Value::Null,
            4 => Value::from("0-65535"),
            5 => Value::from(Vec::<u32>::new()),
            _ => Value::from(random.below(300)),
        };
        leaves(&mut meta, &mut 0, random.below(count), &to);
    }
    fs::write(path, meta.to_string()).unwrap();
}

fn mutate(directory: &Path, random: &mut Random) {
    for _ in 0..=random.below(3) {
        match random.below(10) {
            0..3 => damage(directory, random),
            3 => twist_meta(directory, random),
            _ => {
                let twist = *random.of(&TWISTS);
                twist(directory, random);
            }
        }
    }
}

/// Everything that reads a recording. Gives what was printed.
fn use_it(directory: &Path) -> Vec<String> {
    let stored = match open(directory) {
        Ok(stored) => stored,
        Err(error) => return vec![nearfar_figures::escape::lines(&error.to_string()).into_owned()],
    };
    let mut printed = Vec::new();
    let meta = &stored.input.meta;
    let assumed = Machine::from_shape("2x4").unwrap();
    for (machine, assume) in
        [(meta.machine.clone(), None), (assumed.clone(), Some(Bind::Compact)), (assumed, Some(Bind::Scatter))]
    {
        let judge = Judge { machine, assume, whole: assume == Some(Bind::Scatter) };
        let report: Report = match analyze_with(&stored.input, &stored.samples, &judge, 2) {
            Ok(report) => report,
            Err(error) => {
                printed.push(nearfar_figures::escape::lines(&error.to_string()).into_owned());
                continue;
            }
        };
        printed.push(to_details(&report, "damaged", 100, false));
        let json = to_json(&report);
        assert!(serde_json::from_str::<Value>(&json).is_ok(), "no JSON");
        printed.push(json);
        let (placement, _) = to_placement(&report);
        if let Some(placement) = placement {
            let toml = placement.file.to_toml();
            nearfar_machine::placement_file::PlacementFile::from_toml(&toml)
                .expect("what fix writes is read back");
            printed.push(toml);
        }
        let comparison = compare(&report, &report);
        printed.push(nearfar_report::compare::to_text(&comparison, 100, false));
    }
    printed
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// One case on a thread of its own, so that one that never ends can be told.
fn case(number: u64, base: &[PathBuf], place: &Path) -> Result<(), String> {
    let directory = place.join(format!("case-{number}"));
    let mut random = Random::new(number);
    copy(random.of::<PathBuf>(base).as_path(), &directory);
    mutate(&directory, &mut random);
    let (done, wait) = mpsc::channel();
    let begin = cpu_seconds();
    let of_case = directory.clone();
    let worker = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| use_it(&of_case)));
        let _ = done.send(result.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
        }));
    });
    let printed = loop {
        match wait.recv_timeout(Duration::from_millis(200)) {
            Ok(result) => break result.map_err(|panic| format!("panic: {panic}"))?,
            Err(_) if cpu_seconds() - begin > HANG_S => {
                return Err(format!("still running after {HANG_S} s of CPU time"));
            }
            Err(_) => {}
        }
    };
    worker.expect("a thread").join().expect("caught");
    let took = cpu_seconds() - begin;
    if took > 2.0 {
        println!("case {number} took {took:.1} s of CPU time");
    }
    for text in printed {
        let found = commands(&text);
        if !found.is_empty() {
            return Err(format!("prints {found:?}"));
        }
    }
    fs::remove_dir_all(&directory).unwrap();
    Ok(())
}

#[test]
fn damaged_and_twisted_recordings_never_panic_never_hang_and_never_command() {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the struct.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    let scratch = Scratch::new();
    let counted = Made { counted: true, ..Made::default() };
    let base = [
        Made::default().without_checksums(&scratch.path("sampled")),
        counted.without_checksums(&scratch.path("counted")),
        Made::default().killed(&scratch.path("killed")),
    ];
    // Twice as often: most of what is twisted are finished tables.
    let base = [base[0].clone(), base[1].clone(), base[0].clone(), base[1].clone(), base[2].clone()];
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let many = std::env::var("NEARFAR_MUTATIONS").unwrap_or("300".into());
    let (from, to) = many.split_once('-').unwrap_or(("0", &many));
    let cases = match number("NEARFAR_MUTATION") {
        Some(one) => one..one + 1,
        None => from.parse().expect("a number")..to.parse().expect("a number"),
    };
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    let _ = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept).unwrap();
    let log = fs::File::create(kept.join("running")).unwrap();
    let mut failed = Vec::new();
    for number in cases {
        // What aborts the process is found by this.
        log.write_all_at(format!("{number:020}").as_bytes(), 0).unwrap();
        if let Err(why) = case(number, &base, &kept) {
            failed.push(format!("NEARFAR_MUTATION={number}: {why}"));
        }
        if failed.len() >= 20 {
            break;
        }
    }
    assert!(failed.is_empty(), "kept in {}:\n{}", kept.display(), failed.join("\n"));
}
