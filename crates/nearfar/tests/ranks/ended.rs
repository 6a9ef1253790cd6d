//! The end of a launcher that may not find its own.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Without a living child for so long, a launcher hangs: Open MPI's does now and then after ranks that were killed
/// (docs/ranks.md).
const HANGS: Duration = Duration::from_secs(60);

/// Runs a launcher to its end, or to where nothing but itself is left of it: then it is killed, which is printed. What it says
/// goes to files in `place`.
pub fn run(command: &mut Command, place: &Path) -> ExitStatus {
    let said = |name: &str| std::fs::File::create(place.join(name)).unwrap();
    let mut child = command.stdout(said("stdout")).stderr(said("stderr")).spawn().unwrap();
    let mut alone_since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if has_living_children(child.id()) {
            alone_since = Instant::now();
        } else if alone_since.elapsed() > HANGS {
            println!("the launcher did not end a minute after its last rank: killed");
            child.kill().unwrap();
            return child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether a process has a child that runs: one that has ended and was not waited for is a zombie (state Z).
fn has_living_children(parent: u32) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
        // The name, in parentheses, may have blanks: state and parent come after it.
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        let (state, of) = (fields.next(), fields.next());
        state.is_some_and(|state| state != "Z") && of.and_then(|of| of.parse().ok()) == Some(parent)
    })
}
