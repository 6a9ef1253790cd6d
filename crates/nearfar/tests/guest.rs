//! The virtual machine: programs of this host in a guest with other nodes.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use nearfar::collect::target::Ending;
use nearfar::guest::*;
use nearfar_model::machine::Machine;

/// Two nodes of two cpus; `None`, with the reason printed, where it cannot be had.
fn snapshot() -> Option<&'static Snapshot> {
    static SNAPSHOT: OnceLock<Option<Snapshot>> = OnceLock::new();
    SNAPSHOT
        .get_or_init(|| {
            let mut progress = |step: Progress| eprintln!("{step}");
            let setup = match Setup::find(&mut progress) {
                Ok(setup) => setup,
                Err(why @ (GuestError::NoQemu { .. } | GuestError::NoKernel { .. })) => {
                    println!("skipped: {why}");
                    return None;
                }
                Err(other) => panic!("{other}"),
            };
            let snapshot = setup.ensure_snapshot(&shape("2x2"), &mut progress);
            Some(snapshot.unwrap_or_else(|error| panic!("{error}")))
        })
        .as_ref()
}

fn shape(text: &str) -> Shape {
    let options = GuestOptions { memory_per_node: Some(512 << 20) };
    Shape::from_machine(&Machine::from_shape(text).unwrap(), &options).unwrap()
}

struct Said {
    outcome: Outcome,
    stdout: Vec<u8>,
    stderr: String,
}

impl Said {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

fn job(arguments: &[&str]) -> Job {
    let mut job = Job::new(arguments.iter().map(OsString::from).collect());
    job.stdin = Stream::Null;
    job
}

/// Runs with the outputs caught.
fn run(snapshot: &Snapshot, mut job: Job) -> Result<Said, GuestError> {
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

fn sh(snapshot: &Snapshot, script: &str) -> Said {
    run(snapshot, job(&["sh", "-c", script])).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn echo() {
    let Some(snapshot) = snapshot() else { return };
    eprintln!("{:?}", snapshot.about());
    let said = run(snapshot, job(&["echo", "hello", "a  b"])).unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{:?}", said.outcome);
    assert_eq!(said.text(), "hello a  b\n");
    assert_eq!(said.outcome.ending, Ending::Exit(0));
}
