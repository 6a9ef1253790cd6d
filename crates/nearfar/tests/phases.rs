//! Phases of real programs: in C, C++, Fortran and Python, of OpenMP and of other tools' markers; and their exports.

mod common;

use common::{PRELUDE, Run, Scratch, has, nearfar, number, skip, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn phases(run: &Run) -> &Value {
    &run.report.0["phases"]
}

/// Calls, paths of names, and the source, of all phases in order.
fn paths(phases: &Value) -> Vec<(u64, String, String)> {
    let nodes = phases["nodes"].as_array().unwrap();
    let mut paths: Vec<String> = Vec::new();
    for node in nodes {
        let name = node["name"].as_str().unwrap();
        paths.push(match node["parent"].as_u64() {
            None => String::new(),
            Some(0) => name.to_owned(),
            Some(parent) => format!("{} => {name}", paths[parent as usize]),
        });
    }
    let source = |n: &Value| n["source"].as_str().unwrap().to_owned();
    let all = nodes.iter().zip(paths).skip(1);
    let mut all: Vec<_> =
        all.map(|(n, path)| (n["all"]["calls"].as_u64().unwrap(), path, source(n))).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1));
    all
}

fn calls_of(phases: &Value) -> Vec<(u64, String)> {
    paths(phases).into_iter().map(|p| (p.0, p.1)).collect()
}

fn want(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|&(calls, path)| (calls, path.to_owned())).collect()
}

/// How, begun at, ended at, of a phase's calls that do not pair.
fn unbalanced(phases: &Value, name: &str) -> Vec<(String, String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let of = phases["unbalanced"].as_array().unwrap().iter().filter(|u| u["name"] == name);
    of.map(|u| (text(&u["how"]), text(&u["begun_at"]), text(&u["ended_at"]))).collect()
}

fn own(source: &str) -> String {
    format!("{PRELUDE}#include <setjmp.h>\n#include \"{}/include/nearfar.h\"\n{source}", root().display())
}

/// The line of `what` in a program.
fn line(source: &str, what: &str) -> usize {
    source.lines().position(|l| l.contains(what)).unwrap() + 1
}

#[test]
fn phases_nest_by_thread_and_end_with_the_one_around_them() {
    let scratch = Scratch::new();
    let source = own("
static jmp_buf where;
static void inner(void) {
    nearfar_phase_begin(\"inner\"); /* left */
    longjmp(where, 1);
}
static void *work(void *unused) {
    nearfar_phase_begin(\"worker\");
    for (int i = 0; i < 100000; i++) { nearfar_phase_begin(\"tiny\"); nearfar_phase_end(\"tiny\"); }
    nearfar_phase_end(\"worker\");
    return unused;
}
static void handler(int signal) { (void)signal; nearfar_phase_begin(\"handler\"); nearfar_phase_end(\"handler\"); }
int main(void) {
    signal(SIGUSR1, handler);
    nearfar_phase_begin(\"main\");
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, \"Test on CPU %d\", i % 2);
        nearfar_phase_begin(name);
        memset(name, 'x', sizeof name - 1);
        snprintf(name, sizeof name, \"Test on CPU %d\", i % 2);
        nearfar_phase_end(name);
    }
    raise(SIGUSR1);
    nearfar_phase_begin(\"outer\");
    if (!setjmp(where)) inner();
    nearfar_phase_end(\"outer\"); /* outer ends */
    nearfar_phase_end(\"inner\"); /* too late */
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    if (fork() == 0) { nearfar_phase_begin(\"child\"); nearfar_phase_end(\"child\"); _exit(0); }
    wait(NULL);
    nearfar_phase_end(\"main\");
    nearfar_phase_begin(\"open\"); /* stays open */
    return 0;
}");
    let program = scratch.compile("gcc", "nest.c", &source, &["-pthread"]);
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let p = phases(&run);
    let all = want(&[
        (1, "main"),
        (2, "main => Test on CPU 0"),
        (2, "main => Test on CPU 1"),
        (1, "main => child"),
        (1, "main => handler"),
        (1, "main => outer"),
        (1, "main => outer => inner"),
        (1, "open"),
        (1, "worker"),
        (100_000, "worker => tiny"),
    ]);
    assert_eq!(calls_of(p), all);
    let at = |what: &str| format!("nest.c:{}", line(&source, what));
    let row = |how: &str, begun: String, ended: String| (how.to_owned(), begun, ended);
    let inner = unbalanced(p, "inner");
    assert!(
        inner.contains(&row("left without an end", at("/* left */"), at("/* outer ends */"))),
        "{inner:?}"
    );
    let late = row("ended without a beginning", at("/* left */"), at("/* too late */"));
    assert!(inner.contains(&late) && inner.len() == 2, "{inner:?}");
    assert_eq!(unbalanced(p, "open"), [row("open at exit", at("/* stays open */"), String::new())]);
    assert_eq!(p["unbalanced"].as_array().unwrap().len(), 3, "{}", p["unbalanced"]);
    // Not optimised, the calls' lines are the program's, too.
    let program = scratch.compile("gcc", "nest0.c", &source, &["-pthread", "-O0"]);
    let run = scratch.record("r0", &[], &[program.to_str().unwrap()]);
    let open = unbalanced(phases(&run), "open");
    assert_eq!(open[0].1, at("/* stays open */").replace("nest", "nest0"));
}

#[test]
fn a_scope_ends_its_phase_by_an_exception_too_and_values_are_told_by_phase() {
    let scratch = Scratch::new();
    let source = format!(
        "#include \"{}/include/nearfar.hpp\"\n{}",
        root().display(),
        "
#include <stdexcept>
static void fails(int n) {
    const nearfar::phase phase(\"fails \" + std::to_string(n));
    nearfar::metric(\"size\", n);
    throw std::runtime_error(\"\");
}
int main() {
    const nearfar::phase all(\"all\");
    for (int n = 1; n <= 3; ++n)
        try { fails(n % 2); } catch (const std::exception &) { }
}"
    );
    let program = scratch.compile("g++", "scope.cpp", &source, &["-std=c++17"]);
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let p = phases(&run);
    assert_eq!(calls_of(p), want(&[(1, "all"), (1, "all => fails 0"), (2, "all => fails 1")]));
    assert_eq!(p["unbalanced"].as_array().unwrap().len(), 0, "{}", p["unbalanced"]);
    let values: Vec<(f64, f64, f64)> = p["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (number(&m["count"]), number(&m["sum"]), number(&m["max"])))
        .collect();
    assert!(values.contains(&(2.0, 2.0, 1.0)) && values.contains(&(1.0, 0.0, 0.0)), "{values:?}");
}

/// What both examples have: initialise, and four steps of solve.
fn is_an_example(p: &Value) {
    for wanted in want(&[(1, "initialise"), (1, "solve"), (1, "solve => step 1"), (1, "solve => step 4")]) {
        assert!(calls_of(p).contains(&wanted), "{wanted:?} in {:?}", calls_of(p));
    }
    let residuals = p["metrics"].as_array().unwrap().iter().filter(|m| m["name"] == "residual").count();
    assert_eq!(residuals, 4);
}

#[test]
fn a_fortran_program_names_its_phases_and_runs_without_an_agent() {
    if !has("gfortran") {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("solve");
    let output = Command::new("gfortran")
        .args(["-g", "-O2", "-Wall", "-Werror", "-J"])
        .arg(scratch.directory())
        .arg(root().join("include/nearfar.f90"))
        .arg(root().join("examples/phases/solve.F90"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(text(&alone.stdout).trim(), "verify: ok T");
    is_an_example(phases(&scratch.record("r", &[], &[program.to_str().unwrap()])));
}

#[test]
fn a_python_program_names_its_phases_and_runs_without_an_agent() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    let example = root().join("examples/phases/solve.py");
    let package = root().join("python");
    let alone = Command::new("python3")
        .env("PYTHONPATH", &package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(&example)
        .output();
    assert_eq!(text(&alone.unwrap().stdout).trim(), "verify: ok True");
    let path = format!("PYTHONPATH={}", package.display());
    let words = ["env", &path, "PYTHONDONTWRITEBYTECODE=1", "python3", example.to_str().unwrap()];
    let run = scratch.record("r", &[], &words);
    is_an_example(phases(&run));
    assert!(calls_of(phases(&run)).contains(&(1, "fails".into())));
    assert_eq!(phases(&run)["unbalanced"].as_array().unwrap().len(), 0);
}

#[test]
fn regions_of_llvms_openmp_are_phases_unless_the_program_has_a_tool_of_its_own() {
    let scratch = Scratch::new();
    let source = "
#include <stdio.h>
#ifdef TOOL
typedef struct { int (*a)(void *, int, void *); void (*b)(void *); unsigned long c; } result;
static int ready(void *a, int b, void *c) { (void)a, (void)b, (void)c; puts(\"own tool\"); return 1; }
static void done(void *a) { (void)a; }
result *ompt_start_tool(unsigned v, const char *s) { static result r = {ready, done, 0}; (void)v, (void)s; return &r; }
#endif
static double x[100000];
__attribute__((noinline)) void sweep(void) {
    _Pragma(\"omp parallel for\") for (int i = 0; i < 100000; i++) x[i] += i;
}
int main(void) { for (int k = 0; k < 5; k++) sweep(); printf(\"%g\\n\", x[7]); return 0; }";
    let file = scratch.path("region.c");
    std::fs::write(&file, source).unwrap();
    let build = |name: &str, flags: &[&str]| {
        let program = scratch.path(name);
        let mut clang = Command::new("clang");
        clang.args(["-O1", "-g", "-fopenmp", "-rdynamic"]).args(flags).arg(&file).arg("-o").arg(&program);
        clang.output().is_ok_and(|o| o.status.success()).then_some(program)
    };
    let (Some(program), Some(with_tool)) = (build("region", &[]), build("tool", &["-DTOOL"])) else {
        return skip("clang with libomp is not installed");
    };
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let all = paths(phases(&run));
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((all[0].0, all[0].2.as_str()), (5, "OpenMP"));
    assert!(all[0].1.starts_with("parallel region of sweep (region.c:"), "{all:?}");
    let run = scratch.record("t", &[], &[with_tool.to_str().unwrap()]);
    assert!(run.stdout().contains("own tool"), "{}", run.stdout());
    assert_eq!(run.report.0["phases"], Value::Null);
}

#[test]
fn likwids_and_itts_markers_are_phases() {
    let scratch = Scratch::new();
    // What liblikwid has, and what the static part of ITT notify does: it asks a library for functions by name.
    let library = scratch.path("liblikwid.so");
    let stub = scratch.path("likwid.c");
    let code = "#include <stdio.h>
        int likwid_markerStartRegion(const char *n) { printf(\"likwid starts %s\\n\", n); return 7; }
        int likwid_markerStopRegion(const char *n) { printf(\"likwid stops %s\\n\", n); return 8; }";
    std::fs::write(&stub, code).unwrap();
    let made =
        Command::new("gcc").args(["-shared", "-fPIC"]).arg(&stub).arg("-o").arg(&library).status().unwrap();
    assert!(made.success());
    let source = "
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int likwid_markerStartRegion(const char *);
int likwid_markerStopRegion(const char *);
typedef struct { unsigned long long a, b, c; } id;
int main(void) {
    int a = likwid_markerStartRegion(\"likwid region\");
    const char *name = getenv(\"INTEL_LIBITTNOTIFY64\");
    void *itt = name ? dlopen(name, RTLD_LAZY) : NULL;
    if (itt && dlsym(itt, \"__itt_api_version\") && !dlsym(itt, \"__itt_api_init\")) {
        int *domain = ((int *(*)(const char *))dlsym(itt, \"__itt_domain_create\"))(\"domain\");
        void *task = ((void *(*)(const char *))dlsym(itt, \"__itt_string_handle_create\"))(\"itt task\");
        void (*begin)(void *, id, id, void *) = (void (*)(void *, id, id, void *))dlsym(itt, \"__itt_task_begin\");
        void (*end)(void *) = (void (*)(void *))dlsym(itt, \"__itt_task_end\");
        id none = {0, 0, 0};
        for (int i = 0; *domain && i < 3; i++) { begin(domain, none, none, task); end(domain); }
    }
    int b = likwid_markerStopRegion(\"likwid region\");
    printf(\"%d %d\\n\", a, b);
    return 0;
}";
    let directory = scratch.directory().to_str().unwrap().to_owned();
    let rpath = format!("-Wl,-rpath,{directory}");
    let program =
        scratch.compile("gcc", "markers.c", source, &["-L", &directory, "-llikwid", &rpath, "-ldl"]);
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    assert!(run.stdout().contains("likwid starts likwid region"), "{}", run.stdout());
    assert!(run.stdout().contains("7 8"), "LIKWID's own answers: {}", run.stdout());
    let all = paths(phases(&run));
    let wanted = [
        (1, "likwid region".to_owned(), "LIKWID".to_owned()),
        (3, "likwid region => itt task".to_owned(), "ITT".to_owned()),
    ];
    assert_eq!(all, wanted);
}

fn export(scratch: &Scratch, to: &str, name: &str) -> PathBuf {
    let out = scratch.path(name);
    let output =
        nearfar().args(["export", "--to", to, "-o"]).arg(&out).arg(scratch.path("r")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    // What is there stays.
    let again =
        nearfar().args(["export", "--to", to, "-o"]).arg(&out).arg(scratch.path("r")).output().unwrap();
    assert!(!again.status.success() && text(&again.stderr).contains("is not overwritten"));
    out
}

#[test]
fn exports_are_what_other_readers_read() {
    let scratch = Scratch::new();
    let source = own("
static volatile double sum;
static void spin(int n) { for (int i = 0; i < n * 3000000; i++) sum += i; }
int main(void) {
    nearfar_phase_begin(\"main()\");
    for (int i = 0; i < 2; i++) {
        nearfar_phase_begin(\"outer \\\"quoted\\\"\");
        nearfar_phase_begin(\"inner\"); spin(2); nearfar_phase_end(\"inner\");
        spin(1);
        nearfar_phase_end(\"outer \\\"quoted\\\"\");
    }
    nearfar_phase_end(\"main()\");
    return 0;
}");
    let program = scratch.compile("gcc", "spin.c", &source, &[]);
    let run = scratch.record("r", &[], &[program.to_str().unwrap()]);
    let inner_ns = phases(&run)["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "inner").unwrap()["all"]
        ["inclusive"]["time_ns"]
        .as_u64()
        .unwrap();
    let (tau, caliper) = (export(&scratch, "tau", "profiles"), export(&scratch, "caliper", "caliper.json"));
    export(&scratch, "perfetto", "trace");
    // TAU's, by hand: the path's own row, in microseconds.
    let time = std::fs::read_to_string(tau.join("MULTI__TIME/profile.0.0.0")).unwrap();
    let row = time.lines().find(|l| l.contains("=> inner\"")).unwrap();
    assert!(row.starts_with("\".TAU application  => main()  => outer 'quoted'  => inner\" 2 0 "), "{row}");
    assert!(row.contains(&format!(" {} {} 0 GROUP", inner_ns / 1000, inner_ns / 1000)), "{row} {inner_ns}");
    for folder in ["SAMPLES", "PAGE_FAULTS", "BYTES_ALLOCATED"] {
        assert!(tau.join(format!("MULTI__{folder}/profile.0.0.0")).exists());
    }
    let hatchet = Command::new("python3").args(["-c", "import hatchet"]).output();
    if !hatchet.is_ok_and(|o| o.status.success()) {
        return skip("hatchet is not installed");
    }
    let code = "
import sys, hatchet
for gf in (hatchet.GraphFrame.from_tau(sys.argv[1]), hatchet.GraphFrame.from_caliper(sys.argv[2])):
    frame = gf.dataframe
    row = frame[frame['name'] == 'inner']
    assert len(row) == 1, frame
    print(float(row['time (inc)'].iloc[0]), float(row['time'].iloc[0]))
";
    let read = Command::new("python3").args(["-c", code]).args([&tau, &caliper]).output().unwrap();
    assert!(read.status.success(), "{}", text(&read.stderr));
    let told: Vec<f64> = text(&read.stdout).split_whitespace().map(|n| n.parse().unwrap()).collect();
    let want = [inner_ns as f64 / 1e3, inner_ns as f64 / 1e3, inner_ns as f64 / 1e9, inner_ns as f64 / 1e9];
    for (told, want) in told.iter().zip(want) {
        assert!((told / want - 1.0).abs() < 1e-3, "{told} {want}");
    }
}

#[test]
fn a_program_without_phases_says_how_to_name_them_and_is_not_exported() {
    let scratch = Scratch::new();
    let program = scratch.compile("gcc", "none.c", "int main(void) { return 0; }", &[]);
    scratch.record("r", &[], &[program.to_str().unwrap()]);
    let told = nearfar().args(["report", "--phases"]).arg(scratch.path("r")).output().unwrap();
    assert!(text(&told.stdout).contains("docs/phases.md"), "{}", text(&told.stdout));
    for to in ["tau", "caliper", "perfetto"] {
        let out = scratch.path("out");
        let output =
            nearfar().args(["export", "--to", to, "-o"]).arg(&out).arg(scratch.path("r")).output().unwrap();
        assert!(
            !output.status.success() && text(&output.stderr).contains("no phases"),
            "{}",
            text(&output.stderr)
        );
        assert!(!out.exists());
    }
}

#[test]
fn calls_of_mpi_are_phases_without_names_of_mpi_in_the_program() {
    let scratch = Scratch::new();
    // Stands for any MPI: what is called is linked from it, and answers as it does.
    let library = scratch.path("libmpi.so");
    let stub = scratch.path("mpi.c");
    let code = "int MPI_Init(int *a, char ***b) { (void)a, (void)b; return 0; }
        int MPI_Barrier(int c) { return c; }
        int MPI_Sendrecv(const void *a, int b, int c, int d, int e, void *f, int g, int h, int i, int j, int k, int *l) {
            *l = b + 10 * g; return a == f ? -1 : c + d + e + h + i + j + k; }
        void mpi_allreduce_(void *a, void *b, int *c, int *d, int *e, int *f, int *error) {
            (void)a, (void)b, (void)c, (void)d, (void)e, (void)f; *error = 7; }
        /* No function has more arguments. */ void mpi_sendrecv_(void *a, int *b, int *c, int *d, int *e, void *f, int *g, int *h, int *i, int *j, int *k, int *l, int *error) {
            *l = *b + *g, *error = (a == f) + *c + *d + *e + *h + *i + *j + *k; }";
    std::fs::write(&stub, code).unwrap();
    let made =
        Command::new("gcc").args(["-shared", "-fPIC"]).arg(&stub).arg("-o").arg(&library).status().unwrap();
    assert!(made.success());
    let source = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int MPI_Init(int *, char ***); int MPI_Barrier(int);
int MPI_Sendrecv(const void *, int, int, int, int, void *, int, int, int, int, int, int *);
void mpi_allreduce_(void *, void *, int *, int *, int *, int *, int *);
void mpi_sendrecv_(void *, int *, int *, int *, int *, void *, int *, int *, int *, int *, int *, int *, int *);
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int sum = 0, status = 0, error = 0, one = 1, other = 0;
    for (int i = 0; i < 3; i++) sum += MPI_Barrier(i);
    sum += MPI_Sendrecv(&one, 1, 2, 3, 4, &other, 5, 6, 7, 8, 9, &status);
    mpi_allreduce_(&one, &other, &one, &one, &one, &one, &error);
    int n[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    mpi_sendrecv_(&one, n, n + 1, n + 2, n + 3, &other, n + 4, n + 5, n + 6, n + 7, n + 8, n, n + 1);
    printf(\"%d %d %d %d %d %d\\n\", sum, status, error, n[0], n[1], dlsym(RTLD_DEFAULT, \"MPI_Allreduce\") != NULL);
    return 0;
}";
    let directory = scratch.directory().to_str().unwrap().to_owned();
    let rpath = format!("-Wl,-rpath,{directory}");
    // Entries are read-only after the start, or filled in at the first call.
    for (name, when) in [("now", "-Wl,-z,relro,-z,now"), ("lazy", "-Wl,-z,lazy")] {
        let file = format!("program-{name}.c");
        let program =
            scratch.compile("gcc", &file, source, &["-L", &directory, "-lmpi", &rpath, "-ldl", when]);
        let run = scratch.record(name, &[], &[program.to_str().unwrap()]);
        assert_eq!(run.stdout().lines().next(), Some("42 51 7 6 39 0"), "{name}");
        let all = paths(phases(&run));
        let mpi = |calls, name: &str| (calls, name.to_owned(), "MPI".to_owned());
        let wanted = [
            mpi(1, "MPI_Allreduce()"),
            mpi(3, "MPI_Barrier()"),
            mpi(1, "MPI_Init()"),
            mpi(2, "MPI_Sendrecv()"),
        ];
        assert_eq!(all, wanted, "{name}");
    }
}

#[test]
fn a_finding_names_the_phase_that_places_and_the_phase_that_pays() {
    let scratch = Scratch::new();
    // Lines, more than caches hold, in an order that no prefetcher knows, so that samples are at these reads; the second half is the
    // second thread's.
    let lines = format!("enum {{ LINES = {} }};", common::beyond_caches(64 << 20) / 64);
    let source = own(&(lines
        + "
static long (*field)[8];
static void *solve(void *half) {
    nearfar_phase_begin(\"solve\");
    unsigned long at = 1, sum = 0;
    long first = half ? LINES / 2 : 0;
    for (long i = 0; i < 6000000; i++) {
        at = at * 6364136223846793005UL + 1442695040888963407UL;
        sum += field[first + ((at + sum) >> 33) % (LINES / 2)][0] & 1;
    }
    nearfar_phase_end(\"solve\");
    return (void *)sum;
}
int main(void) {
    nearfar_phase_begin(\"initialise\");
    field = aligned_alloc(4096, sizeof(long[LINES][8]));
    for (long i = 0; i < LINES; i++) field[i][0] = i;
    nearfar_phase_end(\"initialise\");
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, solve, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}"));
    let program = scratch.compile("gcc", "placed.c", &source, &["-pthread", "-O1"]);
    let run = scratch.record("r", &["--as", "2x1"], &[program.to_str().unwrap()]);
    let report = &run.report.0;
    let finding = &report["findings"][0];
    if report["samples"].as_u64() == Some(0) {
        skip("no samples on this host");
        return;
    }
    for (list, name) in [("placed_in", "initialise"), ("paid_in", "solve")] {
        let first = &finding["phases"][list][0];
        assert_eq!(first["name"], name, "{report}");
        assert!(first["share"].as_f64().unwrap() > 0.9, "{finding}");
    }
    let page = nearfar().arg("report").arg(scratch.path("r")).output().unwrap();
    assert!(text(&page.stdout).contains("placed in initialise ("), "{}", text(&page.stdout));
}
