//! `nearfar export` of samples: the installed perf reads our perf.data and shows our sums.

mod common;

use common::{has, text};
use nearfar_perf::data_source::bits_of;
use nearfar_perf::features::Node;
use nearfar_perf::write::{Header, PerfWriter, Sample};
use nearfar_record::import::{Options, import};
use nearfar_recording::{Access, Served};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A recording of a machine of two nodes: 40 loads from local memory, 30 from remote, 30 from caches, 1000 loads each.
fn recording(scratch: &Path) -> PathBuf {
    let file = scratch.join("made.data");
    let nodes = [(0, "0-3"), (1, "4-7")].map(|(id, cpus)| Node {
        id,
        memory_bytes: 1 << 30,
        cpus: cpus.parse().unwrap(),
    });
    let header = Header {
        processor: "Intel(R) Xeon(R)".into(),
        nodes: nodes.into(),
        events: vec!["cpu/mem-loads/P".into()],
        ..Header::default()
    };
    let mut to = PerfWriter::begin(std::fs::File::create(&file).unwrap(), header).unwrap();
    to.comm(100, 100, "app", 1).unwrap();
    let all = [(Served::LocalMemory, 40), (Served::RemoteMemory, 30), (Served::Cache, 30)];
    let all = all.into_iter().flat_map(|(served, n)| std::iter::repeat_n(served, n));
    for (i, served) in all.enumerate() {
        let sample = Sample {
            ip: 0x401000,
            pid: 100,
            tid: 100,
            time_ns: 1_000_000 + i as u64 * 1000,
            address: 0x7f00_0000_0000 + i as u64 * 64,
            cpu: 1,
            period: 1000,
            weight: 200,
            data_src: bits_of(served, Access::Load),
            ..Sample::default()
        };
        to.sample(&sample).unwrap();
    }
    to.finish().unwrap();
    let output = scratch.join("made.nearfar");
    import(&file, &Options { output: Some(output.clone()), machine: None }).unwrap();
    output
}

fn export(recording: &Path, format: &str, weight: &str, to: &Path) -> Output {
    let nearfar = env!("CARGO_BIN_EXE_nearfar");
    let mut command = Command::new(nearfar);
    command.args(["export", "--to", format, "--weight", weight, "-o"]).arg(to).arg(recording);
    command.output().unwrap()
}

fn exported(recording: &Path, format: &str, weight: &str) -> Vec<u8> {
    let to = recording.with_extension(format!("{format}-{weight}"));
    let output = export(recording, format, weight, &to);
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::fs::read(to).unwrap()
}

#[test]
fn perf_reads_our_file_and_shows_our_sums() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = recording(scratch.path());
    let file = scratch.path().join("all.data");
    assert!(export(&recording, "perf.data", "all", &file).status.success());
    if !has("perf") {
        return;
    }
    let perf = |arguments: &[&str]| {
        let output = Command::new("perf").args(arguments).arg("-i").arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let script = perf(&["script", "-G", "-F", "tid,time,period,data_src"]);
    assert_eq!(script.lines().count(), 100);
    assert_eq!(script.lines().filter(|line| line.contains("Remote RAM")).count(), 30);
    assert_eq!(script.lines().filter(|line| line.contains("Local RAM")).count(), 40);
    let report = perf(&["mem", "report", "--stdio", "--sort=mem"]);
    assert!(report.contains("Samples: 100  of event"), "{report}");
    assert!(report.contains("Total weight : 100000"), "{report}");
    let remote = report.lines().find(|line| line.contains("Remote RAM")).expect("a line of remote memory");
    assert!(remote.trim_start().starts_with("30.00%"), "{remote}");
}

#[test]
fn every_format_has_the_same_sums() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = recording(scratch.path());
    for (weight, sum, samples) in
        [("all", 100_000, 100), ("remote", 30_000, 30), ("latency", 20_000_000, 100)]
    {
        let folded = text(&exported(&recording, "flamegraph", weight));
        let of_line = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
        assert_eq!(folded.lines().map(of_line).sum::<u64>(), sum, "{weight}: {folded}");
        let script = text(&exported(&recording, "perf-script", weight));
        let headers: Vec<&str> = script.lines().filter(|line| line.contains("cpu/mem-loads/")).collect();
        assert_eq!(headers.len(), samples, "{weight}");
        let of_header = |line: &&str| -> u64 {
            line.split(": ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
        };
        assert_eq!(headers.iter().map(of_header).sum::<u64>(), sum, "{weight}");
        assert!(!exported(&recording, "pprof", weight).is_empty());
        let firefox: serde_json::Value =
            serde_json::from_slice(&exported(&recording, "firefox", weight)).unwrap();
        let weights = firefox["threads"][0]["samples"]["weight"].as_array().unwrap();
        assert_eq!(weights.iter().map(|w| w.as_u64().unwrap()).sum::<u64>(), sum, "{weight}");
        // What each track adds ends at 0: the last point takes back the one before.
        for counter in firefox["counters"].as_array().unwrap() {
            let counts = counter["samples"]["count"].as_array().unwrap();
            let (low, high) = counts
                .iter()
                .map(|c| c.as_f64().unwrap())
                .fold((0.0, 0.0f64), |(at, most), c| (at + c, most.max(at + c)));
            assert!(low == 0.0 && high > 0.0, "{counter}");
        }
    }
    let csv = text(&exported(&recording, "csv", "all"));
    assert_eq!(csv.lines().count(), 101);
    assert_eq!(
        csv.lines().filter(|line| line.contains(",0,1,1,hardware,load,remote memory,200,")).count(),
        30
    );
    let parquet = exported(&recording, "parquet", "all");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    // What is not there is said, and no empty file is left.
    let near = scratch.path().join("made.nearfar.none");
    let again = export(&recording, "csv", "all", &recording.with_extension("csv-all"));
    assert!(!again.status.success() && text(&again.stderr).contains("exists"), "{}", text(&again.stderr));
    assert!(!near.exists());
}

/// Python's own readers take both files of a recording without a verdict: nothing failed, and nothing was tested.
#[test]
fn findings_reach_code_hosts_and_ci_servers() {
    if !has("python3") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let recording = recording(scratch.path());
    let read = |format: &str, program: &str| {
        let file = scratch.path().join(format);
        assert!(export(&recording, format, "all", &file).status.success());
        let output = Command::new("python3").args(["-c", program]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let junit = "import sys, xml.dom.minidom as x; s = x.parse(sys.argv[1]).getElementsByTagName('testsuite')[0]; \
                 print(s.getAttribute('tests'), s.getAttribute('failures'), s.getAttribute('skipped'))";
    assert_eq!(read("junit", junit).trim(), "1 0 1");
    let sarif = "import sys, json; r = json.load(open(sys.argv[1])); \
                 print(r['version'], r['runs'][0]['properties']['verdict'], len(r['runs'][0]['results']))";
    assert_eq!(read("sarif", sarif).trim(), "2.1.0 unknown 0");
}

/// DuckDB reads what we write: by its Python module, where it is installed.
#[test]
fn a_second_reader_sees_the_rows_and_the_nulls() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = recording(scratch.path());
    let file = scratch.path().join("rows.parquet");
    assert!(export(&recording, "parquet", "all", &file).status.success());
    let program = "import sys, duckdb; print(duckdb.sql(f\"select count(*), sum(weight) filter (where remote), \
                   count(*) filter (where remote is null), count(page_node), max(address) from '{sys.argv[1]}'\").fetchall()[0])";
    let python = |program: &str| Command::new("python3").args(["-c", program]).arg(&file).output();
    if !python("import duckdb").is_ok_and(|output| output.status.success()) {
        return common::skip("no DuckDB");
    }
    let output = python(program).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let last = 0x7f00_0000_0000u64 + 99 * 64;
    assert_eq!(text(&output.stdout).trim(), format!("(100, 30000, 30, 70, {last})"));
}

/// The steps of the action for GitHub, as their shell runs them: names, commands and environments.
fn steps() -> Option<Vec<(String, String)>> {
    let action = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share/ci/action/action.yml");
    let read = "import json, sys, yaml\n\
                steps = yaml.safe_load(open(sys.argv[1]))['runs']['steps']\n\
                print(json.dumps([[s['name'], s['run']] for s in steps if s['shell'] == 'bash']))";
    // Another python3 may be first in PATH than the one with the system's packages.
    ["python3", "/usr/bin/python3"].into_iter().find_map(|python| {
        let output = Command::new(python).args(["-c", read]).arg(&action).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    })
}

#[test]
fn the_action_for_github_records_reports_and_gates() {
    let Some(steps) = steps() else {
        common::skip("no YAML for python3 here");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let made = recording(scratch.path());
    let at = |name: &str| scratch.path().join(name);
    // Emulated runs are other tests' affair: this recorder hands out the one that was made.
    let stand_in = format!(
        "#!/bin/bash\nif [ \"$1\" = record ]; then\n  echo \"$@\" >{}\n  while [ \"$1\" != -o ]; do shift; done\n  \
         exec cp -r {} \"$2\"\nfi\nexec {} \"$@\"\n",
        at("typed").display(),
        made.display(),
        env!("CARGO_BIN_EXE_nearfar")
    );
    std::fs::create_dir(at("bin")).unwrap();
    std::fs::write(at("bin/nearfar"), stand_in).unwrap();
    std::fs::set_permissions(at("bin/nearfar"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let outputs = || std::fs::read_to_string(at("outputs")).unwrap_or_default();
    let of = |name: &str| {
        let all = outputs();
        all.lines().find_map(|l| l.strip_prefix(&format!("{name}=")).map(str::to_owned)).unwrap_or_default()
    };
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
    let mut ended = Vec::new();
    for (name, run) in &steps {
        for fail_on in ["affected", "unknown", ""] {
            let mut bash = Command::new("bash");
            bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", run]).env("PATH", &path);
            bash.env("RUNNER_TEMP", scratch.path()).env("GITHUB_OUTPUT", at("outputs"));
            bash.env("GITHUB_STEP_SUMMARY", at("summary")).env("RECORDING", of("recording"));
            bash.envs([("COMMAND", "./a b; c"), ("MACHINE", "2x4"), ("CPUS", "2"), ("BUDGET", "5m")]);
            let output = bash.env("FAIL_ON", fail_on).output().unwrap();
            ended.push((name.as_str(), output.status.code()));
            if name != "Gate" {
                assert!(output.status.success(), "{name}: {}", text(&output.stderr));
                break;
            }
        }
    }
    assert_eq!(ended[ended.len() - 3..], [("Gate", Some(3)), ("Gate", Some(1)), ("Gate", Some(0))]);
    let typed = std::fs::read_to_string(at("typed")).unwrap();
    assert!(
        typed.contains("--on 2x4 --cpus-per-node 2 --budget 5m") && typed.contains("bash -c ./a b; c"),
        "{typed}"
    );
    let summary = std::fs::read_to_string(at("summary")).unwrap();
    assert!(summary.starts_with("```text\nUNKNOWN"), "{summary}");
    let sarif: serde_json::Value = serde_json::from_slice(&std::fs::read(of("sarif")).unwrap()).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
}
