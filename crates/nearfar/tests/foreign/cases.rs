//! Programs of the kinds that people bring, what each has wrong, and how nearfar is to name it. The table is the same for
//! recordings of this host (`foreign_here`) and for counts of the virtual machine (`foreign`): what both are checked
//! against cannot differ between them.

#![allow(dead_code)] // each test binary uses its own part

use crate::common::{Report, Scratch, caches_may_hold, hardly_waits, has, skip, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program and its answer.
pub struct Case {
    /// Its source in `programs`; lines of it are marked `placed` and `used`.
    pub source: &'static str,
    /// Arguments that make it run for about a second here: far more memory than caches hold.
    pub here: &'static str,
    /// Arguments with which it does nothing but its initialisation, and those with which it does the same work as `here` within
    /// second-level caches; empty where that is not tried.
    pub begun: &'static str,
    pub cached: &'static str,
    /// Arguments with which counting takes seconds: a few times the test machine's caches.
    pub counted: &'static str,
    /// A part of the first finding's objects, as JSON; or another, after a bar.
    pub object: &'static str,
    /// Kinds that the first finding may be of.
    pub kinds: &'static [&'static str],
    /// What the advice does not say.
    pub never: &'static str,
    /// The mark of the line that the cause is at.
    pub cause: &'static str,
    /// Whether samples of a clock give no verdict where the threads hardly ran at the same time, as on a busy host.
    pub at_once: bool,
    /// Whether recordings here tell it, in which threads had a cpu each; else they may leave it open.
    pub told_here: bool,
}

const SERIAL: Case = Case {
    source: "",
    here: "",
    begun: "",
    cached: "",
    counted: "",
    object: "",
    kinds: &["serial_first_touch"],
    never: "turns",
    cause: "placed",
    at_once: false,
    told_here: false,
};

/// Threads that write to one line.
const LINE: Case =
    Case { kinds: &["false_sharing"], never: "counter per thread", cause: "used", at_once: true, ..SERIAL };

/// All of them.
pub const CASES: [Case; 9] = [
    // The order is shuffled in place, so that it was written more than once before it was only read.
    Case {
        source: "chase.c",
        here: "12000000 3000000",
        counted: "300000 200000",
        object: r#"["next"]"#,
        kinds: &["serial_first_touch", "shared_read_mostly", "shared_read_write"],
        never: "divided as the loop",
        ..SERIAL
    },
    Case {
        source: "neighbours.c",
        here: "10000000 1",
        // A few tenths of a second: a host that starts the second thread late must not have them run one after the other.
        counted: "12000000",
        // 64 bytes: on this host few small allocations are recorded one by one (docs/the-program.md), in the virtual machine the
        // first of each caller.
        object: r#"["[heap]"]|["counts"]"#,
        ..LINE
    },
    Case {
        source: "fields.cpp",
        here: "400000 80",
        begun: "400000 0",
        cached: "1000 32000",
        counted: "10000 6",
        object: r#"["one"]"#,
        ..SERIAL
    },
    Case {
        source: "zeroed.c",
        here: "16000000 200",
        begun: "16000000 0",
        cached: "20000 160000",
        counted: "300000 4",
        object: r#"["grid"]"#,
        ..SERIAL
    },
    // Natively the ranks are waited for; in counts the edges, which are fetched ahead in time, are most lines.
    // 64 MB of ranks here: where a cache of 32 MiB holds 16 MB of them, little is waited for, and one recording of eight had no verdict.
    Case {
        source: "pagerank.cpp",
        here: "8000000 3",
        begun: "8000000 0",
        cached: "4000 6000",
        counted: "40000 3",
        object: r#""edges"|"rank""#,
        kinds: &["serial_first_touch", "shared_read_mostly", "shared_read_write"],
        ..SERIAL
    },
    Case {
        source: "vectors.cpp",
        here: "8000000 200",
        begun: "8000000 0",
        cached: "20000 80000",
        counted: "200000 4",
        object: r#"["parts[]"]"#,
        kinds: &["allocated_by_another_thread"],
        never: "nterleave",
        ..SERIAL
    },
    Case {
        source: "oneline.c",
        here: "10000000 1",
        // A few tenths of a second: a host that starts the second thread late must not have them run one after the other.
        counted: "12000000",
        object: r#"["state"]"#,
        told_here: true,
        ..LINE
    },
    Case {
        source: "arrays.f90",
        here: "8000000 300",
        begun: "8000000 0",
        cached: "20000 120000",
        counted: "200000 6",
        object: r#"["b"]"#,
        ..SERIAL
    },
    Case {
        source: "halves.py",
        here: "8000000 40",
        begun: "8000000 0",
        cached: "40000 8000",
        counted: "200000 12",
        object: "halves.py:",
        ..SERIAL
    },
];

/// CPU time of two threads over the time, from which on both ran at the same time for most of it.
const AT_ONCE: f64 = 1.6;

impl Case {
    /// The command of the program, with its arguments; `None`, with the reason printed, if it cannot be built here.
    pub fn command(&self, scratch: &Scratch, arguments: &str) -> Option<Vec<String>> {
        let file = programs().join(self.source);
        let source = std::fs::read_to_string(&file).unwrap();
        let program = match file.extension().and_then(|e| e.to_str()) {
            Some("py") => vec![numpy()?.to_owned(), file.display().to_string()],
            kind => {
                let compiler = match kind {
                    Some("f90") => "gfortran",
                    Some("cpp") => "g++",
                    _ => "gcc",
                };
                if !has(compiler) {
                    return None;
                }
                let flags = ["-O2", "-fopenmp", "-pthread"];
                vec![scratch.compile(compiler, self.source, &source, &flags).display().to_string()]
            }
        };
        Some(program.into_iter().chain(arguments.split_whitespace().map(str::to_owned)).collect())
    }

    /// `file:line` of each mark in the source.
    fn lines(&self, mark: &str) -> Vec<String> {
        let source = std::fs::read_to_string(programs().join(self.source)).unwrap();
        let marks = ["/* MARK */", "// MARK", "# MARK", "! MARK"].map(|m| m.replace("MARK", mark));
        let marked = source.lines().enumerate().filter(|(_, line)| marks.iter().any(|m| line.contains(m)));
        marked.map(|(i, _)| format!("{}:{}", self.source, i + 1)).collect()
    }

    /// How often it is recorded here.
    pub fn times(&self) -> usize {
        if self.told_here { 6 } else { 1 }
    }

    /// Whether these reports tell it. On a busy host one recording in three leaves false sharing open: that all of six do is
    /// one case in 1,400. They need not where the threads hardly ran at the same time.
    pub fn told(&self, reports: &[Report]) -> bool {
        if reports.len() < self.times() {
            return true;
        }
        let at_once = |r: &&Report| {
            let [took, cpu] = [&r.0["seconds"], &r.0["cpu"]["seconds"]].map(|s| s.as_f64().unwrap_or(0.0));
            cpu >= AT_ONCE * took
        };
        let both: Vec<&Report> = reports.iter().filter(at_once).collect();
        !self.told_here || both.len() < reports.len() || both.iter().any(|r| r.verdict() == "affected")
    }

    /// Whether this host answers its accesses nearly as fast as a cache does, where that is why the verdict is open.
    fn hardly_waits(&self, report: &Report, scratch: &Scratch) -> bool {
        let run = |arguments: &str| {
            let words = self.command(scratch, arguments).expect("the program that was recorded");
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).env("PYTHONPATH", python_path());
            command
        };
        let [here, begun, cached] = [self.here, self.begun, self.cached];
        !cached.is_empty() && hardly_waits(report, [&|| run(here), &|| run(begun), &|| run(cached)], 1.0)
    }

    /// What is wrong with a report of it. `scratch`: where to build it for another run; of a recording of this host only.
    pub fn wrong(&self, report: &Report, scratch: Option<&Scratch>) -> Vec<String> {
        let here = scratch.is_some();
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("{}: {what}", self.source));
            }
        };
        let verdict = report.verdict();
        let why = report.0["verdict_why"].as_str().unwrap_or("");
        let findings = report.0["findings"].as_array().unwrap();
        // Two threads that wait for each other show it only while both have a cpu. Where the cpus share a first-level cache they
        // wait little: an iteration of neighbours.c takes 1.2 ns, and without waiting 1.0 at most.
        if here && self.at_once && verdict == "unknown" {
            must(findings.is_empty(), format!("accused: {findings:?}"));
            return wrong;
        }
        if here && caches_may_hold(report) {
            return wrong;
        }
        // How often emulated cpus take the line is a matter of the host's load: affected, or no verdict (docs/what-if.md).
        let open =
            !here && verdict == "unknown" && self.kinds == LINE.kinds && why.contains("of the cores' time");
        // Fifteen iterations an entry have no speed: that they wait is not proven then, and the finding is the same.
        let untimed =
            here && verdict == "unknown" && why.contains("do not show whether it computes or waits");
        let hardly =
            verdict != "affected" && scratch.is_some_and(|scratch| self.hardly_waits(report, scratch));
        must(verdict == "affected" || open || untimed || hardly, format!("{verdict}: {why}"));
        let Some(first) = findings.first() else {
            must(hardly, "no finding".to_owned());
            return wrong;
        };
        let objects = first["objects"].to_string();
        must(self.object.split('|').any(|o| objects.contains(o)), format!("the finding is about {objects}"));
        let kind = first["kind"].as_str().unwrap();
        must(self.kinds.contains(&kind), format!("it is called {kind}"));
        let at = first["cause"]["at"].as_str().unwrap_or("unknown");
        // Of Python the allocation's line is known; what runs then is NumPy's.
        let (known, expected) = match self.source.ends_with(".py") {
            true => (objects.as_str(), vec![self.source.to_owned()]),
            false => (at, self.lines(self.cause)),
        };
        must(
            expected.iter().any(|e| known.ends_with(e) || known.contains(&format!("{e}:"))),
            format!("its cause is at {at}, {objects}, not at {expected:?}"),
        );
        let advice = first["advice"].as_str().unwrap();
        must(!advice.contains(self.never), format!("advised is: {advice}"));
        let bound = report.0["what_if"]["all_local"]["ratio"].as_f64();
        // Where memory is changes nothing about lines that cores take from each other.
        let placed = |f: &&serde_json::Value| !LINE.kinds.contains(&f["kind"].as_str().unwrap());
        for f in findings.iter().filter(placed) {
            let ratio = f["predicted"]["ratio"].as_f64();
            let beyond = ratio.zip(bound).is_some_and(|(ratio, bound)| ratio < bound - 0.005);
            must(
                !beyond,
                format!("{} is predicted to take {ratio:?}, less than all local: {bound:?}", f["objects"]),
            );
        }
        let memory = !self.kinds.contains(&"false_sharing");
        must(here || !memory || bound.is_some(), "nothing is predicted".to_owned());
        wrong
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/programs")
}

/// Folder of nearfar's Python module.
pub fn python_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python").canonicalize().unwrap()
}

/// A Python with NumPy; another one on the path does not see the packages of the system's.
fn numpy() -> Option<&'static str> {
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|o| o.status.success())
    });
    if found.is_none() {
        skip("no python3 with numpy: its arrays are not tried");
    }
    found
}

/// A row of what both printed.
pub fn row(case: &Case, report: &Report) -> String {
    let first = &report.0["findings"][0];
    let gain = |key: &str| {
        first["predicted"][key].as_f64().map_or("–".to_owned(), |r| format!("{:.0} %", 100.0 * (1.0 - r)))
    };
    format!(
        "{:<14} {:<9} {:<20} {} at {}; gain {}, at most {}",
        case.source,
        report.verdict(),
        first["kind"].as_str().unwrap_or("–"),
        first["objects"],
        first["cause"]["at"].as_str().unwrap_or("–").rsplit('/').next().unwrap_or(""),
        gain("ratio"),
        report.0["what_if"]["all_local"]["ratio"]
            .as_f64()
            .map_or("–".to_owned(), |r| format!("{:.0} %", 100.0 * (1.0 - r))),
    )
}

/// The two nodes of one core on which all of them are judged and counted, as narrow as a core of a busy machine has it:
/// memory in order is waited for, too.
pub fn machine(scratch: &Scratch) -> PathBuf {
    let file = scratch.path("machine.toml");
    let figures = [("ipc", 4.0), ("all_core_ghz", 3.0), ("read_gbs", 4.0)];
    let mut core = false;
    let lines: Vec<String> = crate::lab::machine(2, 1, 1024)
        .replace("\"assumed\"", "\"H\"")
        .lines()
        .map(|line| {
            core = if line.starts_with('[') { line == "[core]" } else { core };
            match figures.iter().find(|(name, _)| core && line.starts_with(&format!("{name} ="))) {
                Some((name, value)) => {
                    format!(
                        "{name} = {{ value = {value}, source = \"chosen for the test\", confidence = \"H\" }}"
                    )
                }
                None => line.replace("value = 40,", "value = 8,"),
            }
        })
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    file
}

/// Fails with what is wrong, if anything is.
pub fn must_be_right(output: &[u8], wrong: &[String]) {
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), text(output));
}

/// The tests of a binary: each case by a function of its source's name.
macro_rules! a_test_of_each {
    ($run:ident) => {
        a_test_of_each! {
            $run,
            a_random_chase: "chase.c",
            neighbours_counters: "neighbours.c",
            thirty_fields_of_one_class: "fields.cpp",
            a_zeroed_array: "zeroed.c",
            pagerank_of_a_random_graph: "pagerank.cpp",
            a_vector_for_each_thread: "vectors.cpp",
            counters_in_one_line: "oneline.c",
            two_fortran_arrays_of_one_line: "arrays.f90",
            halves_of_an_array_of_numpy: "halves.py",
        }
    };
    ($run:ident, $($name:ident: $source:literal,)*) => {
        $(
            #[test]
            fn $name() {
                $run($source);
            }
        )*
    };
}
