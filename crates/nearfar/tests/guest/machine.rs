//! What the tests share: one machine, programs in it.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nearfar_guest::*;
use nearfar_machine::Machine;

/// Two nodes of two cpus; `None`, with the reason printed, where it cannot be had.
pub fn snapshot() -> Option<&'static Snapshot> {
    static SNAPSHOT: OnceLock<Option<Snapshot>> = OnceLock::new();
    SNAPSHOT.get_or_init(|| booted(&shape("2x2"))).as_ref()
}

/// A machine of this shape.
pub fn booted(shape: &Shape) -> Option<Snapshot> {
    let mut progress = |step: Progress| eprintln!("{step}");
    let setup = match Setup::find(&mut progress) {
        Ok(setup) => setup,
        Err(why @ (GuestError::NoQemu { .. } | GuestError::NoKernel { .. })) => {
            println!("skipped: {why}");
            return None;
        }
        Err(other) => panic!("{other}"),
    };
    let snapshot = setup.ensure_snapshot(shape, &mut progress);
    Some(snapshot.unwrap_or_else(|error| panic!("{error}")))
}

/// Of so many nodes and cpus.
pub fn shape(text: &str) -> Shape {
    shape_of(&Machine::from_shape(text).unwrap())
}

pub fn shape_of(machine: &Machine) -> Shape {
    Shape::from_machine(machine, &GuestOptions::default()).unwrap()
}

/// How a program ended and what it wrote.
pub struct Said {
    pub outcome: Outcome,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Said {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

/// A program without input.
pub fn job(arguments: &[&str]) -> Job {
    let mut job = Job::new(arguments.iter().map(OsString::from).collect());
    job.stdin = Stream::Null;
    job
}

/// Runs it with both outputs caught.
pub fn run(snapshot: &Snapshot, mut job: Job) -> Result<Said, GuestError> {
    let (mut out, stdout) = std::io::pipe().unwrap();
    let (mut err, stderr) = std::io::pipe().unwrap();
    job.stdout = Stream::File(OwnedFd::from(stdout));
    job.stderr = Stream::File(OwnedFd::from(stderr));
    std::thread::scope(|scope| {
        let out = scope.spawn(move || {
            let mut bytes = Vec::new();
            out.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let err = scope.spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).unwrap();
            text
        });
        let outcome = snapshot.run(job);
        let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
        outcome.map(|outcome| Said { outcome, stdout, stderr })
    })
}

/// Runs a shell script with both outputs caught.
pub fn sh(snapshot: &Snapshot, script: &str) -> Said {
    run(snapshot, job(&["sh", "-c", script])).unwrap_or_else(|error| panic!("{error}"))
}

/// Compiles a C file beside this one; `None`, with the reason printed, if no compiler exists.
pub fn compiled(name: &str, directory: &Path, arguments: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest").join(name);
    let target = directory.join(name.trim_end_matches(".c"));
    let output = Command::new("cc").args(arguments).arg("-o").arg(&target).arg(&source).output();
    let Ok(output) = output else {
        println!("skipped: no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(target)
}
