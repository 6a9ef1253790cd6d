//! The report of a run of a thousand ranks, from its summaries: seconds and peak memory. Asserts nothing.
//!
//!     cargo bench -p nearfar --bench ranks

use nearfar_analyze::{Interval, Pattern, Verdict};
use nearfar_compare::ranks::{RankObject, RankPhase, Summary, summary};
use nearfar_recording::Rank;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const RANKS: u32 = 1000;
const RANKS_OF_A_HOST: u32 = 32;
const NODES: usize = 8;

fn main() {
    // `cargo bench` hands over its flags.
    let place = tempfile::tempdir().expect("a directory for temporary files");
    let run = place.path().join("run");
    let bytes = write(&run);
    println!("{RANKS} summaries, {:.1} KiB each", bytes as f64 / f64::from(RANKS) / 1024.0);
    let mut before = 0.0;
    for arguments in [&[][..], &["--json"]] {
        let begin = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("report").arg(&run).args(arguments).stdout(Stdio::null());
        assert!(command.status().expect("nearfar starts").success(), "the report failed");
        let (seconds, peak) = children();
        println!(
            "report {:<7} {:.2} s wall, {:.2} s CPU, {peak:.0} MiB",
            arguments.join(" "),
            begin.elapsed().as_secs_f64(),
            seconds - before,
        );
        before = seconds;
    }
}

/// CPU time of all children that have ended, seconds, and the largest memory of one of them, MiB.
fn children() -> (f64, f64) {
    // SAFETY: a rusage is numbers, all of which may be 0, and is there to be written.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut used), 0, "that is always known");
        used
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    (seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss as f64 / 1024.0)
}

/// Writes a run of summaries; gives their bytes.
fn write(run: &Path) -> usize {
    let mut all = 0;
    for rank in 0..RANKS {
        let summary = one(rank);
        let own = run.join(format!("host={}/rank={rank}", summary.rank.host));
        std::fs::create_dir_all(&own).expect("a rank's directory");
        let bytes = summary.to_bytes();
        all += bytes.len();
        std::fs::write(own.join("summary.json"), bytes).expect("a summary");
    }
    let launch = serde_json::json!({
        "schema": 1, "launch": "slurm-1.0", "launcher": "Slurm", "size": RANKS, "nearfar": "bench"
    });
    std::fs::write(run.join("launch.json"), launch.to_string()).expect("launch.json");
    all
}

/// A rank of eight nodes with as many objects as a summary lists; every hundredth has its memory far.
fn one(rank: u32) -> Summary {
    let local = rank % RANKS_OF_A_HOST;
    let far = if rank % 100 == 37 { 0.4 } else { 0.001 };
    let objects = (0..32).map(|i| RankObject {
        key: format!("{i:016x}"),
        name: format!("std::vector<double>::{i} in a_function_with_a_long_name(domain const&, int, int)"),
        allocated_at: Some(format!("src/solver/kernels/field_{i}.cpp:{}", 100 + i)),
        bytes: 64 << 20,
        time_share: 0.9 / 32.0,
        far_share: Some(far),
        far_time_share: Some(far * 0.9 / 32.0),
        pattern: Pattern::Blocked,
    });
    Summary {
        schema: summary::SCHEMA,
        nearfar: "bench".into(),
        rank: Rank {
            launch: "slurm-1.0".into(),
            launcher: "Slurm".into(),
            rank,
            size: Some(RANKS),
            local_rank: Some(local),
            local_size: Some(RANKS_OF_A_HOST),
            host: format!("node{:04}", rank / RANKS_OF_A_HOST),
            cpus: (local * 4..local * 4 + 4).collect(),
        },
        command: vec!["./solver".into(), "input.toml".into()],
        build: Some("0123456789abcdef".into()),
        exit: Some("exit 0".into()),
        ended_early: None,
        seconds: 100.0 + f64::from(rank % 7) * 0.1,
        cpu_seconds: Some(390.0),
        recorded_on: "8 nodes of 16 cpus".into(),
        machine_key: "0".into(),
        judged_on: "8 nodes of 16 cpus".into(),
        node_ids: (0..NODES as u32).collect(),
        assumed: false,
        binding: "recorded".into(),
        given_nodes: vec![local / 4],
        threads: 4,
        working_threads: Some(2),
        thread_nodes: vec![local / 4],
        samples: 390_000,
        lost: Some(0),
        verdict: if far > 0.1 { Verdict::Affected } else { Verdict::Clean },
        verdict_why: "x".repeat(300),
        far_share: Some(far * 0.9),
        far_share_ci: Some(Interval { low: far * 0.85, high: far * 0.95 }),
        waiting_share: Some(0.01),
        node_matrix: Some(vec![vec![1.0 / 64.0; NODES]; NODES]),
        objects: objects.collect(),
        objects_left_out: 100,
        findings: Vec::new(),
        phases: (0..64)
            .map(|i| RankPhase {
                name: format!("step => phase {i}"),
                calls: 100,
                seconds: 1.0,
                own_seconds: 0.5,
                far_share: Some(0.1),
                part_of_far: Some(0.01),
            })
            .collect(),
        phases_left_out: 0,
        host_counted: None,
        notes: vec!["y".repeat(300); 8],
    }
}
