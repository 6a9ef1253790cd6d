//! A small machine of the tests' own, and what its counters said.
#![allow(dead_code)] // each test binary uses its own part

use crate::common::{Report, Scratch, nearfar, number, skip, text};
use nearfar_guest::{GuestOptions, Job, Setup, Shape};
use nearfar_machine::Machine;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard};

/// Two vCPUs already fill the two cores of a small host.
pub fn one_machine() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether the virtual machine can run here; if not, reports it. CI sets NEARFAR_NEEDS_GUEST, and then it must.
pub fn guest_works() -> bool {
    static WORKS: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let why = WORKS.get_or_init(|| {
        let setup = nearfar_guest::Setup::find(&mut |_| {}).err().map(|e| e.to_string());
        setup.or_else(|| nearfar_record::collect::on::parts::parts().err().map(|e| e.to_string()))
    });
    if let Some(why) = why {
        assert!(std::env::var_os("NEARFAR_NEEDS_GUEST").is_none(), "{why}");
        skip(why);
    }
    why.is_none()
}

/// A machine file: nodes of some cpus, 32 KiB and 8 ways of L1, 64 KiB of L2, `l3_kib` of L3 per node.
/// Small caches leave little in them at the end of a run, which arithmetic does not know of.
pub fn machine(nodes: usize, cpus: usize, l3_kib: usize) -> String {
    let figure = |name: &str, value: f64| {
        format!(
            "{name} = {{ value = {value}, source = \"chosen for the test\", confidence = \"assumed\" }}\n"
        )
    };
    let matrix = |near: f64, far: f64| {
        let row = |i: usize| {
            let cells: Vec<String> =
                (0..nodes).map(|j| format!("{:.1}", if i == j { near } else { far })).collect();
            format!("  [{}],\n", cells.join(", "))
        };
        let rows: String = (0..nodes).map(row).collect();
        format!("source = \"chosen for the test\"\nconfidence = \"assumed\"\nrows = [\n{rows}]\n\n")
    };
    let mut out = format!("format = 1\nname = \"test {nodes}x{cpus}\"\n\n");
    write!(out, "[latency_ns]\n{}[pair_read_gbs]\n{}", matrix(80.0, 130.0), matrix(40.0, 20.0)).unwrap();
    out += "[topology]\nsource = \"chosen for the test\"\nconfidence = \"assumed\"\nthreads_per_core = 1\n";
    out += "dies_per_package = 1\nline_bytes = 64\n\n";
    for node in 0..nodes {
        let (first, last) = (node * cpus, node * cpus + cpus - 1);
        let list = if first == last { format!("{first}") } else { format!("{first}-{last}") };
        write!(out, "[[node]]\nid = {node}\ncpus = \"{list}\"\nkind = \"dram\"\npackage = {node}\n\n")
            .unwrap();
    }
    write!(out, "[core]\n{}", figure("base_ghz", 2.0)).unwrap();
    for (name, value) in
        [("all_core_ghz", 2.0), ("ipc", 2.0), ("outstanding_lines", 10.0), ("read_gbs", 10.0)]
    {
        out += &figure(name, value);
    }
    for (level, kib, ways, cycles, cores) in
        [(1, 32, 8, 4.0, 1), (2, 64, 8, 12.0, 1), (3, l3_kib, 16, 40.0, cpus)]
    {
        write!(out, "\n[[cache]]\nlevel = {level}\ncores_per_instance = {cores}\n").unwrap();
        if level > 1 {
            writeln!(out, "inclusion = \"{}\"", if level == 3 { "inclusive" } else { "neither" }).unwrap();
        }
        out += &figure("size_bytes", (kib * 1024) as f64);
        out += &figure("ways", f64::from(ways));
        out += &figure("latency_cycles", cycles);
    }
    write!(out, "\n[[bandwidth]]\nnodes = \"0-{}\"\n", nodes - 1).unwrap();
    for name in ["peak_gbs", "read_gbs", "update_gbs", "triad_gbs"] {
        out += &figure(name, 40.0);
    }
    for from in 0..nodes {
        for to in from + 1..nodes {
            write!(out, "\n[[link]]\nfrom = {from}\nto = {to}\n").unwrap();
            out += &figure("count", 1.0);
            out += &figure("gbs_per_direction", 20.0);
        }
    }
    out += "\n[time]\n";
    out += &figure("control_bytes", 16.0);
    out
}

/// Flags for the memory of so many nodes. As without flags, where that is not much: each shape is booted once, whichever suite needs it.
pub fn memory(nodes: usize) -> &'static [&'static str] {
    if nodes > 4 { &["--memory-per-node", "512M"] } else { &[] }
}

/// Runs `script` with a shell in a virtual machine of this shape (`2x1`), uncounted.
pub fn inside(scratch: &Scratch, shape: &str, script: &str) {
    let file = scratch.path("script.sh");
    std::fs::write(&file, script).unwrap();
    let machine = Machine::from_shape(shape).unwrap();
    let shape = Shape::from_machine(&machine, &GuestOptions::default()).unwrap();
    let snapshot = Setup::find(&mut |_| {}).unwrap().ensure_snapshot(&shape, &mut |_| {}).unwrap();
    let environment = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("OMP_"));
    // Off the recorder's cpu, on which jobs begin.
    let command =
        ["taskset", "-c", &shape.machine_cpus(), "sh"].map(Into::into).into_iter().chain([file.into()]);
    let job = Job { environment: environment.collect(), ..Job::new(command.collect()) };
    let outcome = snapshot.run(job).unwrap();
    assert_eq!(outcome.ending.text(), "exit 0", "{outcome:?}");
}

/// One run on a machine.
pub struct Lab {
    pub scratch: Scratch,
    pub threads: usize,
    pub nodes: usize,
}

impl Lab {
    /// With the machine's file.
    pub fn new(nodes: usize, cpus: usize, l3_kib: usize) -> Lab {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("machine.toml"), machine(nodes, cpus, l3_kib)).unwrap();
        Lab { scratch, threads: nodes * cpus, nodes }
    }

    /// With a machine whose figures are as good as read in its data sheet: a virtual machine is what its file says.
    pub fn sure(nodes: usize, cpus: usize, l3_kib: usize) -> Lab {
        let lab = Lab::new(nodes, cpus, l3_kib);
        let text = machine(nodes, cpus, l3_kib).replace("\"assumed\"", "\"H\"");
        std::fs::write(lab.scratch.path("machine.toml"), text).unwrap();
        lab
    }

    /// Runs a program there and gives what it wrote.
    pub fn run(&self, name: &str, flags: &[&str], program: &[&str]) -> Output {
        self.command(name, flags).args(program).output().unwrap()
    }

    /// The command, without the program.
    pub fn command(&self, name: &str, flags: &[&str]) -> Command {
        let mut command = nearfar();
        command.env("OMP_NUM_THREADS", self.threads.to_string());
        command.args(["record", "-o"]).arg(self.scratch.path(name));
        command.arg("--on").arg(self.scratch.path("machine.toml")).args(memory(self.nodes));
        command.args(flags).arg("--");
        command
    }

    /// Copies what was recorded to a place that outlives the test, to see why it failed. Gives the place.
    pub fn keep(&self, name: &str) -> String {
        let kept = format!("{}/{name}-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        let copied = Command::new("cp").arg("-r").arg(self.scratch.directory()).arg(&kept).status();
        if copied.is_ok_and(|status| status.success()) {
            format!("kept in {kept}")
        } else {
            "not kept".to_owned()
        }
    }

    /// Runs a program that must succeed, and gives its counters.
    pub fn count(&self, name: &str, flags: &[&str], program: &[&str]) -> Counted {
        let output = self.run(name, flags, program);
        let (out, messages) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{:?}\n{out}{messages}", output.status);
        Counted { report: self.scratch.report(name, &[]), output }
    }
}

/// What a run's counters said.
pub struct Counted {
    pub report: Report,
    pub output: Output,
}

impl Counted {
    fn rows(&self) -> &[Value] {
        let counters = &self.report.0["counters"];
        counters["dram"].as_array().unwrap_or_else(|| panic!("no counters: {}", self.report.0))
    }

    /// DRAM lines read and written, by `keep(from, node of the page)`.
    pub fn lines(&self, keep: impl Fn(u64, u64) -> bool) -> (f64, f64) {
        let kept = self
            .rows()
            .iter()
            .filter(|r| keep(r["from"].as_u64().unwrap(), r["page_node"].as_u64().unwrap()));
        kept.fold((0.0, 0.0), |(read, written), r| {
            (read + number(&r["read_bytes"]) / 64.0, written + number(&r["write_bytes"]) / 64.0)
        })
    }

    /// All lines read and written.
    pub fn all(&self) -> (f64, f64) {
        self.lines(|_, _| true)
    }

    /// Share of the lines that came from another node than the cpu's.
    pub fn remote(&self) -> f64 {
        let sum = |(read, written): (f64, f64)| read + written;
        sum(self.lines(|from, page_node| from != page_node)) / sum(self.all())
    }

    /// Share of the lines whose page's node is this node.
    pub fn at(&self, node: u64) -> f64 {
        let sum = |(read, written): (f64, f64)| read + written;
        sum(self.lines(|_, page_node| page_node == node)) / sum(self.all())
    }

    /// What the program printed.
    pub fn stdout(&self) -> String {
        text(&self.output.stdout)
    }
}

/// Asserts that `found` is within `share` of `expected`.
#[track_caller]
pub fn within(found: f64, expected: f64, share: f64, what: &str) {
    let off = found / expected - 1.0;
    println!("{what}: {found:.0}, by arithmetic {expected:.0}, {:+.2} %", 100.0 * off);
    assert!(off.abs() <= share, "{what}: {found:.0} instead of {expected:.0}: {:+.2} %", 100.0 * off);
}

/// A C program of the tests, with OpenMP and nearfar.h.
pub fn c(scratch: &Scratch, name: &str, source: &str) -> String {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let include = format!("-I{}", include.display());
    let program = scratch.compile("gcc", &format!("{name}.c"), source, &["-fopenmp", &include]);
    program.to_str().unwrap().to_owned()
}
