//! The runs that the cases rest on, and how much smaller than the published ones they are.

/// One run of a workload on a described machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What cases call it.
    pub name: &'static str,
    /// The described machine.
    pub machine: &'static str,
    /// Cpus of each node that are kept; `None`: all, one per core.
    pub cpus_per_node: Option<u32>,
    /// The firmware spreads memory over the nodes, line by line in the document and page by page here.
    pub interleaved: bool,
    /// Whether the caches have their prefetcher.
    pub prefetch: bool,
    /// Variables of its environment.
    pub environment: Vec<(&'static str, String)>,
    /// Words of the command; `@NAME` in them is the workload of that name.
    pub command: Vec<String>,
    /// Memory that each node needs, bytes.
    pub memory_per_node: u64,
    /// How it was made smaller, in words.
    pub scale: String,
    /// Counts of the published run over this one's.
    pub repeat: f64,
}

/// The stencil's grid and how often it is swept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    n: [u64; 3],
    iterations: u64,
}

impl Sweep {
    /// Points that are computed: the halo of 8 on each side is not. That is what the document counts:
    /// 432 · 2000 · 1040 · 10 in 3.25 s are its 2765 MPoints/s.
    pub fn points(self) -> f64 {
        self.n.iter().map(|&n| (n - 16) as f64).product::<f64>() * self.iterations as f64
    }
}

/// Blocks 448 × 24 × 96 as published, whole ones for each thread; fewer of them.
pub(super) fn sweep(full: bool) -> Sweep {
    match full {
        true => Sweep { n: [448, 2016, 1056], iterations: 10 },
        false => Sweep { n: [448, 192, 384], iterations: 1 },
    }
}

/// Each of the two processes has half of that, twice; published, all of it.
pub(super) fn sweep_of_one_process(full: bool) -> Sweep {
    let all = sweep(full);
    if full { all } else { Sweep { n: [all.n[0], all.n[1], all.n[2] / 2], iterations: 2 * all.iterations } }
}

/// Elements and sweeps of the streamed triad: the document's 8,192,000 and 1000.
pub(super) fn triad(full: bool) -> (f64, f64) {
    (8_192_000.0, if full { 1000.0 } else { 4.0 })
}

/// Elements and repetitions of STREAM: the document's 50,000,000 and 50.
pub(super) fn stream(full: bool) -> (f64, f64) {
    if full { (50e6, 50.0) } else { (4_000_000.0, 8.0) }
}

/// MiB and copies of the copy: the document's 256 and 40.
pub(super) fn copy(full: bool) -> (f64, f64) {
    if full { (256.0, 40.0) } else { (16.0, 2.0) }
}

/// Steps of each thread's chase.
pub(super) const STEPS: f64 = 100_000.0;

/// All runs; `full` at the published sizes.
pub fn runs(full: bool) -> Vec<Run> {
    let mut all = Vec::new();
    stencil(full, &mut all);
    counters(full, &mut all);
    openmp(full, &mut all);
    xeon_5500(full, &mut all);
    opteron(full, &mut all);
    all
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Threads on the first cpus of the machine, one each, in order.
fn team(threads: u32) -> Vec<(&'static str, String)> {
    pinned(threads, &format!("{{0}}:{threads}"))
}

fn pinned(threads: u32, places: &str) -> Vec<(&'static str, String)> {
    vec![
        ("OMP_NUM_THREADS", threads.to_string()),
        ("OMP_PROC_BIND", "close".into()),
        ("OMP_PLACES", places.into()),
    ]
}

/// On the machine as it is, with a gigabyte per node.
fn run(name: &'static str, machine: &'static str, threads: u32, command: &str, scale: &str) -> Run {
    Run {
        name,
        machine,
        cpus_per_node: None,
        interleaved: false,
        prefetch: true,
        environment: team(threads),
        command: words(command),
        memory_per_node: 1 << 30,
        scale: scale.into(),
        repeat: 1.0,
    }
}

fn stencil(full: bool, all: &mut Vec<Run>) {
    const MACHINE: &str = "xeon-e5-2699v4-2s";
    let each: u32 = if full { 22 } else { 4 };
    let scale = match full {
        true => "none",
        false => {
            "4 of 22 cores per node with 4/22 of what they share; grid 448x192x384 in the published blocks, 1 sweep"
        }
    };
    let words_of = |s: Sweep, how: &str| {
        let [x, y, z] = s.n;
        format!("@iso3dfd {x} {y} {z} {} 448 24 96 {how}", s.iterations)
    };
    let base = |name, threads, how: &str| Run {
        cpus_per_node: Some(each),
        memory_per_node: if full { 12 << 30 } else { 1 << 30 },
        ..run(name, MACHINE, threads, &words_of(sweep(full), how), scale)
    };
    all.push(base("iso3dfd-serial", 2 * each, "--init serial"));
    all.push(base("iso3dfd-one-socket", each, "--init serial"));
    // One process per socket at the same time, each with its memory there, as numactl -c N -m N gives it.
    let process = words_of(sweep_of_one_process(full), "--init serial");
    let both =
        format!("OMP_PLACES='{{0}}:{each}' {process} & OMP_PLACES='{{{each}}}:{each}' {process}; wait $!");
    all.push(Run {
        environment: vec![("OMP_NUM_THREADS", each.to_string()), ("OMP_PROC_BIND", "close".into())],
        command: vec!["sh".into(), "-c".into(), both],
        scale: scale.replace(
            "448x192x384 in the published blocks, 1 sweep",
            "448x192x192 in the published blocks, 2 sweeps",
        ),
        ..base("iso3dfd-two-processes", each, "")
    });
    all.push(base("iso3dfd-first-touch", 2 * each, "--init first-touch"));
    all.push(base("iso3dfd-dynamic", 2 * each, "--init first-touch --schedule dynamic"));
}

fn counters(full: bool, all: &mut Vec<Run>) {
    const MACHINE: &str = "xeon-e5-2650v3-2s";
    let each: u32 = if full { 10 } else { 4 };
    // 7240 x 7240 floats per thread, 100 times; the loops are the document's.
    let (mb, iterations) = if full { (200, 100) } else { (8, 6) };
    let scale = match full {
        true => "200 MiB of each array per thread, as published",
        false => {
            "4 of 10 cores per node with 4/10 of what they share; 8 MiB of each array per thread, 6 sweeps"
        }
    };
    for (name, placement, only) in [
        ("phase1-remote", "remote", "initialise"),
        ("phase1-local", "local", "initialise"),
        ("phase2-remote", "remote", "combine"),
    ] {
        let command = format!(
            "@two-phase --workers half --placement {placement} --only {only} --mb {mb} --iterations {iterations}"
        );
        all.push(Run {
            cpus_per_node: Some(each),
            memory_per_node: if full { 8 << 30 } else { 1 << 30 },
            ..run(name, MACHINE, 2 * each, &command, scale)
        });
    }
    // Rows of 65 lines, an odd number, keep a column's lines in all sets, as 3125 do; and no two are in one page.
    let (rows, columns) = if full { (50_000, 50_000) } else { (8192, 1040) };
    let scale = match full {
        true => "none",
        false => {
            "4 of 10 cores per node, so 4/10 of the L3; 8192 x 1040 floats instead of 50000 x 50000; 1 pass"
        }
    };
    for (name, order, prefetch) in [
        ("rows", "rows", true),
        ("rows-without-prefetcher", "rows", false),
        ("columns", "columns", true),
        ("first-column", "first-column", true),
    ] {
        let command =
            format!("@matrix --rows {rows} --cols {columns} --order {order} --passes 1 --init serial");
        all.push(Run {
            prefetch,
            cpus_per_node: Some(each),
            memory_per_node: if full { 12 << 30 } else { 1 << 30 },
            ..run(name, MACHINE, 1, &command, scale)
        });
    }
}

fn openmp(full: bool, all: &mut Vec<Run>) {
    let (elements, repetitions) = stream(full);
    let scale = match full {
        true => "none",
        false => "arrays of 4,000,000 instead of 50,000,000 doubles, 8 instead of 50 repetitions",
    };
    for (name, kernel) in
        [("stream-copy", "copy"), ("stream-scale", "scale"), ("stream-add", "add"), ("stream-triad", "triad")]
    {
        let command =
            format!("@stream-kernels --kernel {kernel} --elements {elements} --iterations {repetitions}");
        // Cpus 0, 2, ... 14 are one of each of the first eight modules, which are this machine's cpus.
        all.push(run(name, "opteron-6276-2s", 8, &command, scale));
    }
    // A million doubles in eight parts fit into the caches, where nothing is remote.
    let scale = "1 of 6 cores per node; twice the published million elements and halo of a thousand";
    for (at, name) in EXAMPLES.into_iter().enumerate() {
        let example = at / 2 + 1;
        let repaired = if at % 2 == 1 { "--repaired" } else { "" };
        let halo = if example == 4 { "--low 2000 --high 2000" } else { "" };
        let command =
            format!("@openmp --example {example} {repaired} --elements 2000000 {halo} --iterations 3");
        all.push(Run { cpus_per_node: Some(1), ..run(name, "opteron-6174-4s", 8, &command, scale) });
    }
}

/// The four examples, each with its mistake and repaired.
pub(super) const EXAMPLES: [&str; 8] = [
    "openmp-1",
    "openmp-1-repaired",
    "openmp-2",
    "openmp-2-repaired",
    "openmp-3",
    "openmp-3-repaired",
    "openmp-4",
    "openmp-4-repaired",
];

/// Four threads on a socket, two on each, four on each; with 12 MiB and with 3 MiB per thread.
pub(super) const TEAMS: [&str; 6] = ["large-4", "large-2+2", "large-8", "small-4", "small-2+2", "small-8"];

fn xeon_5500(full: bool, all: &mut Vec<Run>) {
    const MACHINE: &str = "xeon-x5570-2s";
    let (elements, calls) = triad(full);
    let scale = if full { "none" } else { "the published length and cores; 4 of 1000 calls" };
    for (name, init, interleaved) in [
        ("triad-one-node", "serial", false),
        ("triad-interleaved", "serial", true),
        ("triad-first-touch", "parallel", false),
    ] {
        let command = format!("@triad --nt --elements {elements} --iterations {calls} --init {init}");
        all.push(Run { interleaved, repeat: 1000.0 / calls, ..run(name, MACHINE, 8, &command, scale) });
    }
    for (name, init) in [("chase-serial", "serial"), ("chase-parallel", "parallel")] {
        let command = format!("@chase --bytes {} --steps {STEPS} --init {init}", 16 << 20);
        let scale = "the program is not published: a chase through 16 MiB per thread stands for it";
        all.push(run(name, MACHINE, 8, &command, scale));
    }
    for (at, name) in TEAMS.into_iter().enumerate() {
        let (threads, places) = [(4, "{0}:4"), (4, "{0},{1},{4},{5}"), (8, "{0}:8")][at % 3];
        // 12 MiB per thread leave any cache; 3 MiB fit where two threads have a third level of 8, not where four do.
        let each = if at < 3 { 524_288 } else { 131_072 };
        let sweeps = if at < 3 { 2 } else { 8 };
        let command =
            format!("@triad --elements {} --iterations {sweeps} --init parallel", each * u64::from(threads));
        let scale = "the program is not published: triads of 12 and of 3 MiB per thread stand for it";
        all.push(Run {
            environment: pinned(threads, places),
            ..run(name, MACHINE, threads, &command, scale)
        });
    }
}

fn opteron(full: bool, all: &mut Vec<Run>) {
    let (mb, copies) = copy(full);
    let scale = if full { "none" } else { "2 copies of 16 MiB instead of 40 of 256 MiB" };
    for (cpu, name) in ["copy-0", "copy-1", "copy-2", "copy-3"].into_iter().enumerate() {
        let command = format!("@copy --mb {mb} --iterations {copies} --cpus 4 --memory-cpu {cpu}");
        all.push(Run {
            repeat: 256.0 * 40.0 / (mb * copies),
            environment: Vec::new(),
            ..run(name, "opteron-285-2s", 1, &command, scale)
        });
    }
}
