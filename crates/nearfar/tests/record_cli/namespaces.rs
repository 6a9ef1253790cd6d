//! Programs in namespaces of their own.

use crate::common::{Scratch, text};
use std::process::Command;

const WORK: &str = "
static volatile double sink;
__attribute__((noinline)) static void NAME(long n) { for (long i = 0; i < n; i++) sink += (double)i; }
void work(long n) { NAME(n); sink = sink + 1; }
";
const MAIN: &str = "void work(long); int main(void) { work(400000000); return 0; }";

/// A library at one path, of which the program's mount namespace has another one than the recorder.
#[test]
fn functions_are_those_of_the_file_that_the_program_has_at_a_path() {
    let scratch = Scratch::new();
    let mount = r#"mount --bind "$0/inside.so" "$0/libwork.so" && exec "$0/main""#;
    for (name, function) in [("libwork.so", "outside_loop"), ("inside.so", "inside_loop")] {
        let source = WORK.replace("NAME", function);
        std::fs::write(scratch.path("work.c"), source).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(["-O1", "-g", "-shared", "-fPIC", "-Wl,-soname,libwork.so", "-Wl,--build-id"]);
        let built = compiler.arg(scratch.path("work.c")).arg("-o").arg(scratch.path(name)).output().unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
    }
    std::fs::write(scratch.path("main.c"), MAIN).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.arg("-O1").arg(scratch.path("main.c")).arg(scratch.path("libwork.so"));
    compiler.arg(format!("-Wl,-rpath,{}", scratch.directory().display()));
    let built = compiler.arg("-o").arg(scratch.path("main")).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let directory = scratch.directory().to_str().unwrap();
    let possible = Command::new("unshare").args(["-Urm", "sh", "-c", mount, directory]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mount namespace can be made here");
        return;
    }
    scratch.record("outside", &[], &[&format!("{directory}/main")]);
    let outside = scratch.report("outside", &[]);
    assert!(outside.function_share(&["outside_loop"]) > 0.5);
    // Both in one recording: first ours, so that its path is known when the other comes.
    let both = format!(r#""$0/main"; unshare -Urm sh -c '{mount}' "$0""#);
    scratch.record("both", &[], &["sh", "-c", &both, directory]);
    let report = scratch.report("both", &[]);
    for function in ["outside_loop", "inside_loop"] {
        let share = report.function_share(&[function]);
        assert!((0.25..0.75).contains(&share), "{function}: {share}");
    }
}

/// In a PID namespace with the /proc of the one around it, a number means another process there.
#[test]
fn a_proc_of_another_pid_namespace_is_not_believed() {
    let scratch = Scratch::new();
    let nearfar = env!("CARGO_BIN_EXE_nearfar");
    let inside = |words: &[&str]| Command::new("unshare").arg("-Urpf").args(words).output().unwrap();
    if !inside(&["true"]).status.success() {
        eprintln!("skipped: no PID namespace can be made here");
        return;
    }
    let file = scratch.path("r");
    let file = file.to_str().unwrap();
    let run = inside(&[nearfar, "record", "-o", file, "sh", "-c", "echo ran; exit 3"]);
    // The program runs as it would have.
    assert_eq!((text(&run.stdout).as_str(), run.status.code()), ("ran\n", Some(3)), "{run:?}");
    assert!(text(&run.stderr).contains("nothing is recorded, as the /proc"), "{}", text(&run.stderr));
    assert!(!std::path::Path::new(file).exists());
    let look = inside(&["sh", "-c", &format!("sleep 9 & {nearfar} where $!; s=$?; kill $!; exit $s")]);
    assert_eq!(look.status.code(), Some(2), "{look:?}");
    assert!(text(&look.stderr).contains("of another PID namespace"), "{}", text(&look.stderr));
    let doctor = inside(&[nearfar, "doctor", "--json"]);
    assert!(text(&doctor.stdout).contains("of another PID namespace"), "{}", text(&doctor.stdout));
    let mut own = Command::new("unshare");
    let run =
        own.args(["-Urmpf", "--mount-proc", nearfar, "record", "-q", "-o", file, "true"]).output().unwrap();
    assert!(run.status.success() && std::path::Path::new(file).exists(), "{run:?}");
}
