//! Figures 2 to 6 of the document of counters (docs/documents/counters.md), as `nearfar top --csv` shows them of a counted
//! run: what the document reads off them, not its numbers, which are of another machine.

use crate::common::{nearfar, text, workload};
use crate::lab::{Lab, guest_works, one_machine};
use std::collections::BTreeMap;

/// Cpus of each of the two nodes.
const CPUS: usize = 2;

/// A run of a program in the region of interest, as one interval.
fn record(lab: &Lab, name: &str, threads: &str, program: &str, words: &str) -> bool {
    let Some(program) = workload(program) else { return false };
    let mut command = lab.command(name, &[]);
    command.env("OMP_NUM_THREADS", threads).env("OMP_PROC_BIND", "close").env("OMP_PLACES", "cores");
    let output = command.arg(program).args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    true
}

fn csv(lab: &Lab, name: &str, columns: &str) -> String {
    let mut command = nearfar();
    // One interval, longer than the run.
    command.args(["top", "1000", "--region", "--csv", "-", "--columns", columns, "--on"]);
    let output = command.arg(lab.scratch.path(name)).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// By cpu: IPC, instructions, cycles, local and remote DRAM accesses; `None` where nothing was counted.
fn pcm_numa(lab: &Lab, name: &str) -> Vec<[Option<f64>; 5]> {
    let text = csv(lab, name, "pcm-numa");
    println!("{name}\n{text}");
    let cores: Vec<Vec<Option<f64>>> = text
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split(',').skip(1).map(|field| field.parse().ok()).collect())
        .collect();
    assert_eq!(cores.len(), 2 * CPUS, "{text}");
    cores.into_iter().map(|core| core.try_into().unwrap()).collect()
}

/// Of one core, by column of the table `cores`.
fn cores(lab: &Lab, name: &str) -> BTreeMap<(u64, String), f64> {
    let text = csv(lab, name, "long");
    let lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    lines
        .filter(|l| l[2] == "cores")
        .filter_map(|l| Some(((l[3].parse().unwrap(), l[5].to_owned()), l[6].parse().ok()?)))
        .collect()
}

#[test]
fn figures_2_to_4_show_whose_memory_the_cores_use() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::sure(2, CPUS, 512);
    // A link that two cores fill, as ten cores filled that of the document's machine.
    let file = lab.scratch.path("machine.toml");
    let machine = std::fs::read_to_string(&file).unwrap();
    let slower = machine.replace("gbs_per_direction = { value = 20,", "gbs_per_direction = { value = 2,");
    assert_ne!(machine, slower);
    std::fs::write(&file, slower.replace("20.0", "2.0")).unwrap();
    let run = |name: &str, words: &str| {
        record(&lab, name, "4", "two-phase", &format!("--workers half --mb 2 --iterations 3 {words}"))
    };
    if !run("figure2", "--only initialise") {
        return;
    }
    run("figure3", "--only combine");
    run("figure4", "--only initialise --placement local");

    // Figure 2: remote accesses on the cores of node 0, which work alone.
    let (second, fourth) = (pcm_numa(&lab, "figure2"), pcm_numa(&lab, "figure4"));
    let all = |cores: &[[Option<f64>; 5]], column: usize| -> f64 {
        cores.iter().map(|core| core[column].unwrap_or(0.0)).sum()
    };
    let ([node0, node1], [own0, own1]) =
        ([&second[..CPUS], &second[CPUS..]], [&fourth[..CPUS], &fourth[CPUS..]]);
    assert!(node0.iter().all(|core| core[4].unwrap() > 20.0 * core[3].unwrap()), "{second:?}");
    assert!(all(node1, 1) < 0.01 * all(node0, 1), "{second:?}");
    // Figure 4: with all memory on node 0 its cores' accesses are local, and their IPC is up; the others are unused.
    assert!(own0.iter().all(|core| core[3].unwrap() > 20.0 * core[4].unwrap()), "{fourth:?}");
    assert!(all(own1, 1) < 0.01 * all(own0, 1), "{fourth:?}");
    for (far, near) in node0.iter().zip(own0) {
        assert!(near[0].unwrap() > 1.1 * far[0].unwrap(), "{second:?} {fourth:?}");
    }

    // Figure 3: socket 1 is read, and the results are written on socket 0.
    let text = csv(&lab, "figure3", "pcm-memory");
    println!("{text}");
    let last: Vec<Option<f64>> = text.lines().last().unwrap().split(',').map(|f| f.parse().ok()).collect();
    let [read0, write0, read1, write1] = [2, 3, 6, 7].map(|at: usize| last[at].unwrap());
    assert!(write0 > 10.0 * write1, "{text}");
    // Socket 0 is read as much: what is written there is read before.
    assert!(read1 > 10.0 * write1 && read0 > 0.5 * read1, "{text}");
}

#[test]
fn figures_5_and_6_show_whether_the_second_level_helps() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::sure(2, CPUS, 512);
    // A line of each row: 128 KiB, between the 64 KiB of the second level and the 512 KiB of the third.
    let words = |order: &str| format!("--rows 2048 --cols 1040 --passes 1 --order {order}");
    if !record(&lab, "figure5", "1", "matrix", &words("rows")) {
        return;
    }
    record(&lab, "figure6", "1", "matrix", &words("first-column"));
    let (rows, columns) = (cores(&lab, "figure5"), cores(&lab, "figure6"));
    let of = |cores: &BTreeMap<(u64, String), f64>, key: &str| cores[&(0, key.to_owned())];
    println!("l2_hit {} {}", of(&rows, "l2_hit"), of(&columns, "l2_hit"));
    // Figure 5: nearly all that misses the first level is in the second, and one core alone works.
    assert!(of(&rows, "l2_hit") > 0.9, "{rows:?}");
    // Figure 6: nothing of it, and a lower IPC.
    assert!(of(&columns, "l2_hit") < 0.01, "{columns:?}");
    assert!(of(&rows, "ipc") > 1.2 * of(&columns, "ipc"), "{rows:?} {columns:?}");
    for cores in [&rows, &columns] {
        let instructions = |cpu: u64| cores.get(&(cpu, "instructions".to_owned())).copied().unwrap_or(0.0);
        assert!((1..2 * CPUS as u64).all(|cpu| instructions(cpu) < 0.01 * instructions(0)), "{cores:?}");
    }
}
