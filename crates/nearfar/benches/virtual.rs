//! How fast the virtual machine is, on one program in one run: native, the emulator alone, an
//! empty callback per access, everything on, and `valgrind --tool=cachegrind` (one thread at a
//! time, no nodes). Wall time, rounds interleaved. `cargo bench -p nearfar --bench virtual`;
//! NEARFAR_BENCH_ROUNDS sets the rounds (3). Asserts nothing.

use nearfar::collect::on::{OnOptions, plugin_arguments, plugin_files};
use nearfar::guest::{GuestOptions, HugePages, Job, Plugin, Setup, Shape, Snapshot, Stream};
use nearfar::store::merge::Counted;
use nearfar_model::analyze::stats::median;
use nearfar_model::machine::Machine;
use nearfar_model::machine::scale::{ScaleOptions, scale};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROWS: [&str; 5] = ["native", "emulator alone", "empty callback", "everything on", "cachegrind"];

struct Bench {
    machine: Machine,
    shape: Shape,
    snapshot: Snapshot,
    scratch: PathBuf,
}

impl Bench {
    /// Seconds of wall time from the program's start to its end, and its accesses where counted.
    fn guest(&self, program: &[String], mode: Option<&str>) -> (f64, Option<u64>) {
        let plugin = mode.map(|mode| {
            let _ = std::fs::remove_dir_all(&self.scratch);
            std::fs::create_dir_all(&self.scratch).expect("a directory for the plugin");
            std::fs::write(self.scratch.join("machine.toml"), self.machine.to_toml()).expect("written");
            let (path, preload) = plugin_files().expect("the plugin is built");
            let mut arguments =
                plugin_arguments(&self.scratch, &self.shape, self.snapshot.about(), &options(&self.machine));
            // No recorder and no agent ring the doorbell here.
            arguments.retain(|(name, _)| name != "unbound");
            arguments.push(("unbound".into(), "count".into()));
            arguments.push(("mode".into(), mode.into()));
            Plugin { path, arguments, preload }
        });
        let counted = plugin.is_some();
        let mut job = Job::new(program.iter().map(Into::into).collect());
        for (name, value) in
            [("OMP_NUM_THREADS", "8"), ("OMP_WAIT_POLICY", "passive"), ("OMP_PROC_BIND", "close")]
        {
            job.environment.retain(|(n, _)| n != name);
            job.environment.push((name.into(), value.into()));
        }
        (job.stdin, job.stdout, job.plugin) = (Stream::Null, Stream::Null, plugin);
        let begin = Instant::now();
        let run = self.snapshot.run(job).expect("the guest runs");
        let seconds = (begin.elapsed() - run.startup).as_secs_f64();
        let accesses = counted
            .then(|| Counted::read(&self.scratch.join("simulated.journal")).ok())
            .flatten()
            .map(|c| c.epochs.accesses.iter().sum());
        (seconds, accesses)
    }
}

fn options(machine: &Machine) -> OnOptions {
    OnOptions {
        machine: machine.clone(),
        interleaved: false,
        unbound: false,
        huge_pages: HugePages::Madvise,
        numa_balancing: false,
        prefetch: true,
        memory_per_node: 1 << 30,
        lines_per_sample: 64,
        budget: None,
        quiet: true,
    }
}

fn here(program: &[String]) -> Option<f64> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("OMP_NUM_THREADS", "8").env("OMP_WAIT_POLICY", "passive");
    let begin = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| begin.elapsed().as_secs_f64())
}

fn main() {
    let rounds: usize =
        std::env::var("NEARFAR_BENCH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(3).max(1);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text =
        std::fs::read_to_string(root.join("machines/xeon-e5-2699v4-2s.toml")).expect("the machine file");
    let whole = Machine::from_toml(&text).expect("a machine");
    let four = ScaleOptions { cpus_per_node: Some(4), ..ScaleOptions::default() };
    let machine = scale(&whole, &four).expect("it has four cores per node");
    let shape = Shape::from_machine(&machine, &GuestOptions::default()).expect("a guest");
    let snapshot = match Setup::find(&mut |_| {}).and_then(|setup| setup.ensure_snapshot(&shape, &mut |_| {}))
    {
        Ok(snapshot) => snapshot,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let bench = Bench { machine, shape, snapshot, scratch: scratch.path().join("out") };
    let workload = |line: &str| -> Vec<String> {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().expect("a name");
        std::iter::once(root.join("target/workloads").join(name).display().to_string()).chain(words).collect()
    };
    println!("{}, 8 threads; {rounds} rounds, medians of wall time", bench.machine.name);
    for line in [
        "triad --elements 2097152 --iterations 10 --init parallel",
        "iso3dfd 128 256 192 2 128 32 96 --init first-touch",
    ] {
        let program = workload(line);
        if !Path::new(&program[0]).exists() {
            println!("{line}: skipped, {} is not there (see workloads/README.md)", program[0]);
            continue;
        }
        let mut times: [Vec<f64>; 5] = Default::default();
        let mut accesses = 0u64;
        for _ in 0..rounds {
            times[0].extend(here(&program));
            times[1].push(bench.guest(&program, None).0);
            times[2].push(bench.guest(&program, Some("empty")).0);
            let (seconds, counted) = bench.guest(&program, Some("full"));
            times[3].push(seconds);
            accesses = counted.unwrap_or(accesses);
            let valgrind: Vec<String> =
                ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(program.iter().cloned())
                    .collect();
            times[4].extend(here(&valgrind));
        }
        println!("\n{line}: {:.0} M accesses", accesses as f64 * 1e-6);
        println!("{:16} {:>9} {:>14} {:>12}", "", "s", "M accesses/s", "of empty");
        let empty = median(&times[2]);
        for (name, seconds) in ROWS.iter().zip(&times) {
            if seconds.is_empty() {
                println!("{name:16} does not run here");
                continue;
            }
            let s = median(seconds);
            println!("{name:16} {s:9.2} {:14.1} {:12.2}", accesses as f64 * 1e-6 / s, empty / s);
        }
    }
}
