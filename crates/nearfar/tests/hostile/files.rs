//! What is where files of a recording should be, and whose it is.

use crate::common::{Scratch, nearfar, skip, text};
use crate::made::Made;
use nearfar_recording::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Everything below a directory: what it is and what is in it.
fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let kind = fs::symlink_metadata(&path).unwrap();
        let what = if kind.is_symlink() {
            format!("link to {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_dir() {
            found.append(&mut tree(&path));
            "directory".to_owned()
        } else {
            format!("{:?} {:?}", fs::read(&path).unwrap(), kind.modified().unwrap())
        };
        found.insert(path, what);
    }
    found
}

fn report(recording: &Path) -> Output {
    nearfar().args(["report", "--details"]).arg(recording).stdin(Stdio::null()).output().unwrap()
}

fn all(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

fn root() -> bool {
    // SAFETY: asks the kernel for a number.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn links_in_a_recording_lead_nowhere() {
    for (name, link) in [
        ("meta.json.new", "file"),
        ("journal.nfj", "file"),
        ("run", "directory"),
        ("run/rank=0", "directory"),
        ("guest", "directory"),
        ("meta.json", "file"),
    ] {
        for finished in [false, true] {
            let scratch = Scratch::new();
            let outside = scratch.path("outside");
            fs::create_dir_all(outside.join("directory/rank=0")).unwrap();
            fs::write(outside.join("file"), "precious").unwrap();
            fs::write(outside.join("directory/rank=0/threads-0000.parquet"), "precious").unwrap();
            fs::write(outside.join("directory/simulated.journal"), "precious").unwrap();
            let recording = scratch.path("r");
            match finished {
                true => Made::default().finished(&recording),
                false => Made::default().unfinished(&recording),
            };
            let place = recording.join(name);
            let _ = fs::remove_file(&place);
            let _ = fs::remove_dir_all(&place);
            symlink(outside.join(link), &place).unwrap();
            let before = tree(&outside);
            for command in ["report", "fix"] {
                let output = nearfar().arg(command).arg(&recording).output().unwrap();
                assert!(output.status.code().is_some(), "{command} {name}: {:?}", output.status);
                assert!(!all(&output).contains("panicked"), "{}", all(&output));
            }
            assert_eq!(tree(&outside), before, "{name}, finished {finished}");
        }
    }
}

#[test]
fn what_is_no_regular_file_is_named_and_not_waited_for() {
    let scratch = Scratch::new();
    for (at, name) in ["meta.json", "run/rank=0/threads-0000.parquet", "journal.nfj"].into_iter().enumerate()
    {
        for kind in ["fifo", "directory", "zero", "dangling"] {
            let recording = scratch.path(&format!("r{at}{kind}"));
            match name {
                "journal.nfj" => Made::default().unfinished(&recording),
                _ => Made::default().finished(&recording),
            };
            let place = recording.join(name);
            fs::remove_file(&place).unwrap();
            match kind {
                "fifo" => assert!(Command::new("mkfifo").arg(&place).status().unwrap().success()),
                "directory" => fs::create_dir(&place).unwrap(),
                "zero" => symlink("/dev/zero", &place).unwrap(),
                _ => symlink("nowhere", &place).unwrap(),
            }
            let output = report(&recording);
            assert_eq!(output.status.code(), Some(2), "{name} {kind}: {}", all(&output));
            let word = ["FIFO", "directory", "symbolic link", "symbolic link"]
                [["fifo", "directory", "zero", "dangling"].iter().position(|k| *k == kind).unwrap()];
            let said = text(&output.stderr);
            let file = name.rsplit('/').next().unwrap();
            assert!(said.contains(word) && said.contains(file), "{name} {kind}: {said}");
        }
    }
}

#[test]
fn a_table_that_cannot_be_read_is_missed_by_name_and_the_rest_is_reported() {
    let scratch = Scratch::new();
    for (table, contents) in
        [("faults", None), ("page_nodes", Some(&b"no parquet"[..])), ("symbols", Some(&[0u8; 4096][..]))]
    {
        let recording = Made::default().finished(&scratch.path(table));
        let file = recording.join(format!("run/rank=0/{table}-0000.parquet"));
        match contents {
            None => fs::remove_file(&file).unwrap(),
            Some(bytes) => fs::write(&file, bytes).unwrap(),
        }
        let output = report(&recording);
        assert!(output.status.success(), "{}", all(&output));
        assert!(text(&output.stdout).contains(table), "{table}: {}", all(&output));
        assert!(text(&output.stdout).contains("unknown"), "{table}");
    }
    for table in ["threads", "samples"] {
        let recording = Made::default().finished(&scratch.path(table));
        fs::write(recording.join(format!("run/rank=0/{table}-0000.parquet")), b"no parquet").unwrap();
        let output = report(&recording);
        assert_eq!(output.status.code(), Some(2), "{}", all(&output));
        assert!(text(&output.stderr).contains(table), "{}", all(&output));
    }
}

#[test]
fn somebody_elses_recording_and_one_behind_a_link_are_reported_and_left_as_they_are() {
    let scratch = Scratch::new();
    let mut made = vec![];
    let recording = Made::default().unfinished(&scratch.path("mine"));
    symlink(&recording, scratch.path("link")).unwrap();
    made.push((scratch.path("link/"), recording.clone(), "symbolic link"));
    made.push((scratch.path("link"), recording, "symbolic link"));
    if root() {
        let recording = Made::default().killed(&scratch.path("theirs"));
        let chown = Command::new("chown").arg("-R").arg("65534").arg(&recording).status().unwrap();
        assert!(chown.success());
        made.push((recording.clone(), recording, "belongs to user 65534"));
    } else {
        skip("only root can make a recording of another user's");
    }
    for (name, recording, why) in made {
        let before = tree(&recording);
        let output = report(&name);
        assert!(output.status.success(), "{}", all(&output));
        let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(why) && said.contains("nothing was written"), "{said}");
        // Its rows are there.
        assert!(said.contains("function"), "{said}");
        assert_eq!(tree(&recording), before);
    }
}

#[test]
fn a_recording_that_cannot_be_completed_in_its_place_is_completed_elsewhere() {
    let scratch = Scratch::new();
    let recording = Made::default().unfinished(&scratch.path("r"));
    fs::remove_dir_all(recording.join("run")).unwrap();
    fs::write(recording.join("run"), "in the way").unwrap();
    let before = tree(&recording);
    let output = report(&recording);
    assert!(output.status.success(), "{}", all(&output));
    assert!(text(&output.stdout).contains("temporary"), "{}", all(&output));
    assert_eq!(tree(&recording), before);
}

#[test]
fn several_reports_of_an_interrupted_recording_at_once_all_say_the_same() {
    let scratch = Scratch::new();
    for round in 0..3 {
        let recording = Made::default().killed(&scratch.path(&format!("r{round}")));
        let start = || {
            nearfar()
                .arg("report")
                .arg("--json")
                .arg(&recording)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let running: Vec<_> = (0..4).map(|_| start()).collect();
        let outputs: Vec<Output> = running.into_iter().map(|r| r.wait_with_output().unwrap()).collect();
        for output in &outputs {
            assert!(output.status.success(), "{}", all(output));
            assert_eq!(text(&output.stdout), text(&outputs[0].stdout));
        }
        assert!(!recording.join("journal.nfj").exists());
    }
}

#[test]
fn nobody_else_may_read_a_recording_whatever_the_umask_and_older_ones_still_open() {
    let scratch = Scratch::new();
    for umask in ["000", "022", "777"] {
        let recording = scratch.path(umask);
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            &format!("umask {umask}; exec \"$@\""),
            "sh",
            env!("CARGO_BIN_EXE_nearfar"),
            "record",
            "-o",
        ]);
        let output = shell.arg(&recording).args(["--", "true"]).output().unwrap();
        assert!(output.status.success(), "{umask}: {}", all(&output));
        assert_eq!(fs::metadata(&recording).unwrap().mode() & 0o7777, 0o700);
        for (path, what) in tree(&recording) {
            let mode = if what == "directory" { 0o700 } else { 0o600 };
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode, "{umask}: {}", path.display());
        }
    }
    let recording = Made::default().unfinished(&scratch.path("old"));
    for path in tree(&recording).keys() {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    assert!(report(&recording).status.success());
}

#[test]
fn too_much_for_its_size_is_refused() {
    let scratch = Scratch::new();
    let recording = Made::default().finished(&scratch.path("meta"));
    let mut meta = fs::read(recording.join("meta.json")).unwrap();
    meta.resize(17 << 20, b' ');
    fs::write(recording.join("meta.json"), meta).unwrap();
    let output = report(&recording);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("meta.json"), "{}", all(&output));
    // Terabytes of holes.
    let recording = Made::default().finished(&scratch.path("holes"));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(recording.join("run/rank=0/page_nodes-0000.parquet"))
        .unwrap();
    file.set_len(1 << 42).unwrap();
    let output = report(&recording);
    assert!(output.status.success(), "{}", all(&output));
    assert!(text(&output.stdout).contains("page_nodes-0000.parquet"), "{}", all(&output));
    let recording = Made::default().unfinished(&scratch.path("journal"));
    let file = fs::OpenOptions::new().write(true).open(recording.join("journal.nfj")).unwrap();
    file.set_len(1 << 42).unwrap();
    let output = report(&recording);
    assert!(output.status.success(), "{}", all(&output));
    assert!(text(&output.stdout).contains("bytes at the end were cut off"), "{}", all(&output));
}

#[test]
fn numbers_that_no_machine_has_are_refused_by_name() {
    let scratch = Scratch::new();
    let recording = Made { counted: true, ..Made::default() }.finished(&scratch.path("r"));
    let file = recording.join("meta.json");
    let good: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for (at, value, word) in [
        ("/page_bytes", "0", "page_bytes"),
        ("/page_bytes", "5", "page_bytes"),
        ("/folio_bytes/0", "0", "folio_bytes"),
        ("/end_ns", "18446744073709551615", "ends"),
        ("/steal_share", "1e308", "share"),
        ("/machine/figures/latency_ns/rows/0/0", "1e308", "latency_ns"),
        ("/machine/figures/latency_ns/rows/0/0", "-1", "latency_ns"),
        ("/machine/figures/core/ipc/value", "1e300", "figure"),
        ("/machine/figures/line_bytes", "0", "cache line"),
        ("/machine/nodes", "[]", "0 nodes"),
        ("/machine/nodes/1/id", "0", "same number"),
        ("/machine/distances", "[[10]]", "distances"),
    ] {
        let mut meta = good.clone();
        *meta.pointer_mut(at).unwrap_or_else(|| panic!("no {at}")) = serde_json::from_str(value).unwrap();
        fs::write(&file, meta.to_string()).unwrap();
        let output = report(&recording);
        assert_eq!(output.status.code(), Some(2), "{at} = {value}: {}", all(&output));
        let said = text(&output.stderr);
        assert!(said.contains("meta.json") && said.contains(word), "{at} = {value}: {said}");
    }
}

#[test]
fn a_few_bytes_do_not_stand_for_gigabytes() {
    let scratch = Scratch::new();
    let recording = Made::default().without_checksums(&scratch.path("r"));
    let at = |table: &str| recording.join(format!("run/rank=0/{table}-0000.parquet"));
    // The same text again and again, which a dictionary holds once; and rows of which none differs.
    let mut losses = Losses::default();
    for _ in 0..3000 {
        losses.push(Loss { time_ns: 0, what: "samples".into(), count: 1, why: "x".repeat(64 << 10) });
    }
    nearfar_parquet::write(&mut losses, fs::File::create(at("losses")).unwrap()).unwrap();
    let mut ends = ObjectEnds::default();
    (ends.object, ends.time_ns) = (vec![0; 10_000_000], vec![1; 10_000_000]);
    nearfar_parquet::write(&mut ends, fs::File::create(at("object_ends")).unwrap()).unwrap();
    for table in ["losses", "object_ends"] {
        assert!(fs::metadata(at(table)).unwrap().len() < 200_000);
    }
    let output = report(&recording);
    assert!(output.status.success(), "{}", all(&output));
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for table in ["losses", "object_ends"] {
        let words = format!("{table}-0000.parquet cannot be read (it would take more than");
        assert!(said.contains(&words), "{table}: {said}");
    }
}

#[test]
fn a_module_that_is_a_fifo_is_not_waited_for() {
    let scratch = Scratch::new();
    let fifo = scratch.path("module.so");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let name =
        |what: &str| if what.ends_with("module.so") { fifo.display().to_string() } else { what.to_owned() };
    let recording = Made { name: &name, counted: false }.unfinished(&scratch.path("r"));
    assert!(report(&recording).status.success());
}

#[test]
fn after_a_kill_nothing_is_said_that_nobody_knows() {
    let scratch = Scratch::new();
    let recording = Made::default().killed(&scratch.path("r"));
    let output = report(&recording);
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    // It has heap objects, which only the agent sees; and samples of a clock.
    assert!(!said.contains("agent did not report"), "{said}");
    assert!(said.contains("4,000 clock samples, at least 3 lost"), "{said}");
    assert!(said.contains("80 page events, an unknown number lost"), "{said}");
    assert!(said.contains("The end of the run is missing: the recorder was killed"), "{said}");
    assert!(said.contains("Lost: what, how many is unknown (reason)."), "{said}");
    // Again, from the tables: the same words.
    assert_eq!(text(&report(&recording).stdout), text(&output.stdout));
    // One whose recorder lived counted what it lost.
    let output = report(&Made::default().finished(&scratch.path("whole")));
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("page events, 0 lost"), "{said}");
}

#[test]
fn losses_are_said_once_for_each_kind() {
    let scratch = Scratch::new();
    let directory = nearfar_record::store::reserve(Some(&scratch.path("r")), "r").unwrap();
    let made = Made::default();
    let mut writer = nearfar_record::store::Writer::create(&directory, made.meta(), u64::MAX).unwrap();
    made.rows(&mut writer.tables);
    for n in 1..=100 {
        writer.lose(1, "agent_records", n, if n % 2 == 0 { "the ring was full" } else { "it was busy" });
    }
    writer.close().unwrap();
    let said = text(&report(&directory).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Lost: 5,050 records of the agent (it was busy; the ring was full)."), "{said}");
    assert_eq!(said.matches("records of the agent").count(), 1);
}

/// Flips a bit here and there in each file: the report is the same, or says which file it is.
#[test]
fn no_flipped_bit_changes_a_report_silently() {
    let scratch = Scratch::new();
    let recording = Made::default().finished(&scratch.path("r"));
    let json =
        || nearfar().arg("report").arg("--json").arg(&recording).stdin(Stdio::null()).output().unwrap();
    let whole = json();
    assert!(whole.status.success());
    let mut files: Vec<PathBuf> = tree(&recording).into_keys().filter(|path| path.is_file()).collect();
    files.sort();
    assert!(files.len() > 20, "{files:?}");
    let (mut seed, mut said) = (11u64, 0);
    for file in &files {
        let good = fs::read(file).unwrap();
        for _ in 0..4 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, bit) = ((seed >> 33) as usize % good.len(), seed >> 60 & 7);
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            fs::write(file, &bad).unwrap();
            let output = json();
            let name = file.file_name().unwrap().to_str().unwrap();
            let (what, named) = (format!("{name}, bit {bit} of byte {at}"), all(&output).contains(name));
            assert!(named || output.stdout == whole.stdout, "{what}: {}", all(&output));
            // Without threads, processes or samples there is nothing to report.
            let needed = ["threads-", "processes-", "samples-", "meta"].iter().any(|t| name.starts_with(t));
            assert!(output.status.success() || needed, "{what}: {}", all(&output));
            said += u32::from(named);
        }
        fs::write(file, &good).unwrap();
    }
    assert!(said > 80, "{said}");
    assert_eq!(json().stdout, whole.stdout);
}

#[test]
fn a_recording_without_checksums_opens_as_before() {
    let scratch = Scratch::new();
    let recording = Made::default().finished(&scratch.path("r"));
    let file = recording.join("meta.json");
    let before = report(&recording);
    let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(meta["checksums"].as_object().unwrap().len() >= 20);
    for field in ["checksums", "checksum", "wished_machine"] {
        meta.as_object_mut().unwrap().remove(field).unwrap();
    }
    fs::write(&file, serde_json::to_string_pretty(&meta).unwrap()).unwrap();
    let after = report(&recording);
    assert!(after.status.success(), "{}", all(&after));
    assert_eq!(text(&after.stdout), text(&before.stdout));
}
