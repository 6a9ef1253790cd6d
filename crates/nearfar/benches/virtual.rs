//! How fast the virtual machine is, on one program in one run: native, the emulator alone, an
//! empty callback per access, everything on, the same on one of the host's cores, and `valgrind
//! --tool=cachegrind` (one thread at a time, no nodes). Wall time, rounds interleaved.
//! `cargo build --release && cargo bench -p nearfar --bench virtual`: the plugin is beside the
//! binary. `-- triad everything` for one program and row; NEARFAR_BENCH_ROUNDS sets the rounds (3).
//! The time on the host's cpus, which others disturb less, is that of the whole virtual machine, its
//! start included. Asserts nothing.

use nearfar_analyze::stats::median;
use nearfar_guest::{GuestOptions, HugePages, Job, Plugin, Setup, Shape, Snapshot, Stream};
use nearfar_machine::Machine;
use nearfar_machine::scale::{ScaleOptions, scale};
use nearfar_record::collect::on::parts::{Parts, parts};
use nearfar_record::collect::on::{OnOptions, plugin_arguments};
use nearfar_record::store::merge::Counted;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROWS: [&str; 6] =
    ["native", "emulator alone", "empty callback", "everything on", "on one core", "cachegrind"];

const PROGRAMS: [&str; 2] = [
    "triad --elements 2097152 --iterations 10 --init parallel",
    "iso3dfd 128 256 192 2 128 32 96 --init first-touch",
];

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
            let Parts { plugin: path, preload, .. } = parts().expect("the plugin is built");
            let mut arguments =
                plugin_arguments(&self.scratch, &self.shape, self.snapshot.about(), &options(&self.machine));
            arguments.push(("mode".into(), mode.into()));
            Plugin { path, arguments, preload }
        });
        let counted = plugin.is_some();
        // It would stay on the housekeeping cpu, which no plugin counts.
        let places = format!("0-{}", self.shape.cpus.len() - 1);
        let onto = ["taskset", "--cpu-list", &places].map(str::to_owned);
        let mut job = Job::new(onto.iter().chain(program).map(Into::into).collect());
        for (name, value) in [
            ("OMP_NUM_THREADS", "8"),
            ("OMP_WAIT_POLICY", "passive"),
            ("OMP_PROC_BIND", "close"),
            ("OMP_PLACES", "cores"),
        ] {
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
        frames: 0,
        turns: false,
        windows: None,
        memory_per_node: 1 << 30,
        lines_per_sample: 64,
        accesses_per_sample: None,
        read_only: false,
        budget: None,
        quiet: true,
        cpus: None,
        policy: None,
        aside: None,
    }
}

fn here(program: &[String]) -> Option<f64> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("OMP_NUM_THREADS", "8").env("OMP_WAIT_POLICY", "passive");
    let begin = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then(|| begin.elapsed().as_secs_f64())
}

/// Whether a name is asked for on the command line, or none of its kind.
fn wanted(name: &str, kind: &[&str]) -> bool {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let asked = |name: &str| words.iter().any(|word| name.starts_with(word.as_str()));
    asked(name) || !kind.iter().any(|other| asked(other))
}

/// Time that processes started here and ended took on cpus.
fn children_seconds() -> f64 {
    // SAFETY: a rusage is numbers, all of which may be 0, and is there to be written.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage), 0, "that is always known");
        usage
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|t| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6).sum()
}

/// A number, if the rows that it comes from were run.
fn known(value: f64, digits: usize) -> String {
    if value.is_finite() && value > 0.0 { format!("{value:.digits$}") } else { "unknown".into() }
}

/// What `work` starts runs on the core where this is now.
fn on_one_core<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a set of cpus is plain bits, empty if all are 0; both calls get one and its size.
    unsafe {
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = (std::mem::zeroed(), std::mem::zeroed());
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&all), &mut all), 0, "the cpus are known");
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0, "a cpu of those");
        let done = work();
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&all), &all), 0, "all of them again");
        done
    }
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
    for line in PROGRAMS {
        if !wanted(line, &PROGRAMS) {
            continue;
        }
        let program = workload(line);
        if !Path::new(&program[0]).exists() {
            println!("{line}: skipped, {} is not there (see workloads/README.md)", program[0]);
            continue;
        }
        let valgrind: Vec<String> =
            ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
                .map(str::to_owned)
                .into_iter()
                .chain(program.iter().cloned())
                .collect();
        let mut times: [Vec<(f64, f64)>; 6] = Default::default();
        let mut accesses = 0u64;
        for _ in 0..rounds {
            for (row, times) in times.iter_mut().enumerate().filter(|(row, _)| wanted(ROWS[*row], &ROWS)) {
                let before = children_seconds();
                let seconds = match row {
                    0 => here(&program),
                    1 => Some(bench.guest(&program, None).0),
                    2 => Some(bench.guest(&program, Some("empty")).0),
                    3 => {
                        let (seconds, counted) = bench.guest(&program, Some("simulate"));
                        accesses = counted.unwrap_or(accesses);
                        Some(seconds)
                    }
                    4 => Some(on_one_core(|| bench.guest(&program, Some("simulate")).0)),
                    _ => here(&valgrind),
                };
                times.extend(seconds.map(|s| (s, children_seconds() - before)));
            }
        }
        println!("\n{line}: {} M accesses", known(accesses as f64 * 1e-6, 0));
        println!(
            "{:16} {:>9} {:>17} {:>8} {:>14} {:>10}",
            "", "s", "least to most", "cpu s", "M accesses/s", "of empty"
        );
        let middle = |row: usize| median(&times[row].iter().map(|t| t.0).collect::<Vec<f64>>());
        for (row, times) in times.iter().enumerate().filter(|(row, _)| wanted(ROWS[*row], &ROWS)) {
            let name = ROWS[row];
            let cpu = median(&times.iter().map(|t| t.1).collect::<Vec<f64>>());
            let Some((seconds, cpu)) = middle(row).zip(cpu) else {
                println!("{name:16} does not run here");
                continue;
            };
            let (least, most) =
                times.iter().fold((f64::INFINITY, 0.0), |(l, m): (f64, f64), t| (l.min(t.0), m.max(t.0)));
            println!(
                "{name:16} {:9.2} {:>17} {:8.2} {:>14} {:>10}",
                seconds,
                format!("{least:.2} to {most:.2}"),
                cpu,
                known(accesses as f64 * 1e-6 / seconds, 1),
                middle(2).map_or("unknown".to_owned(), |empty| known(empty / seconds, 2))
            );
        }
        if let Some((several, one)) = middle(4).zip(middle(3)) {
            println!("{:.2} times as fast as on one core", several / one);
        }
    }
}
