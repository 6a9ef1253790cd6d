//! A rank finds its place in the run's directory. All ranks of a launch come at once, from several hosts, over a
//! shared file system, and do not talk to each other: the process that makes a directory or a file first has made it for all.

use super::launch::UNNAMED;
use super::{HOST, LAUNCH};
use crate::store::CreateError;
use crate::store::dir::Dir;
use nearfar_host::discover;
use nearfar_recording::Rank;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Largest launch.json, bytes; ours have some hundred.
pub(super) const MOST_LAUNCH: u64 = 64 << 10;
/// Version of launch.json; it rises when a field is renamed, removed or changes its meaning.
const SCHEMA: u32 = 1;

/// What launch.json says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// `SCHEMA` of the writer.
    pub schema: u32,
    /// [`Rank::launch`] of all ranks.
    pub launch: String,
    /// [`Rank::launcher`].
    pub launcher: String,
    /// Ranks that there should be; `null` if the launcher does not say.
    pub size: Option<u32>,
    /// Version of nearfar that wrote it.
    pub nearfar: String,
}

/// Makes the directory of a rank's recording below `output`, or below a directory in the current one that has the
/// launch's name.
///
/// # Errors
/// If there is something else of that name, another launch's run, or this rank's recording.
pub fn join(output: Option<&Path>, rank: &Rank) -> Result<PathBuf, CreateError> {
    let run = match output {
        Some(path) => path.to_owned(),
        None => PathBuf::from(default_name(rank)),
    };
    let io = |error| CreateError::Io { path: run.clone(), error };
    if let Some(parent) = run.parent() {
        fs::create_dir_all(parent).map_err(io)?;
    }
    match Dir::make(&run) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(io)?,
    }
    let dir = match Dir::open(&run) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(CreateError::Exists(run)),
        opened => opened.map_err(io)?,
    };
    agree(&dir, rank, &run)?;
    let run = run.canonicalize().map_err(io)?;
    let host = run.join(format!("host={}", as_file_name(&rank.host)));
    // One directory a host: a file system's server does not see all ranks make theirs in one.
    let first = match Dir::make(&host) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(io)?,
    };
    if first {
        describe_host(&host);
    }
    let own = host.join(format!("rank={}", rank.rank));
    match Dir::make(&own) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(CreateError::Exists(own)),
        made => made.map(|()| own.clone()).map_err(|error| CreateError::Io { path: own, error }),
    }
}

/// The same for all ranks of a launch. Where the launcher gives it no name, they have at least the same parent.
fn default_name(rank: &Rank) -> String {
    let name = match rank.launch.as_str() {
        UNNAMED => format!(
            "{}-{}",
            as_file_name(&rank.host),
            rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get())
        ),
        launch => as_file_name(launch),
    };
    format!("./ranks-{name}.nearfar")
}

/// Writes launch.json or finds that it is of the same launch.
fn agree(dir: &Dir, rank: &Rank, run: &Path) -> Result<(), CreateError> {
    let io = |error| CreateError::Io { path: run.to_owned(), error };
    let own = Launch {
        schema: SCHEMA,
        launch: rank.launch.clone(),
        launcher: rank.launcher.clone(),
        size: rank.size,
        nearfar: env!("CARGO_PKG_VERSION").into(),
    };
    if !dir.has(LAUNCH) {
        // A directory that a person has made before is fine as long as nothing is in it.
        let ours = |name: &String| name.starts_with("host=") || name.starts_with(LAUNCH);
        if !dir.names().map_err(io)?.iter().all(ours) {
            return Err(CreateError::Exists(run.to_owned()));
        }
        let bytes = serde_json::to_vec_pretty(&own).map_err(|e| io(e.into()))?;
        if dir.publish(LAUNCH, &bytes).map_err(io)? {
            return Ok(());
        }
    }
    let found = read_launch(dir).map_err(io)?;
    let same = (&found.launch, found.size) == (&own.launch, own.size);
    if same { Ok(()) } else { Err(CreateError::OtherLaunch { path: run.to_owned(), by: found.launch }) }
}

/// Reads launch.json.
pub(super) fn read_launch(dir: &Dir) -> io::Result<Launch> {
    serde_json::from_slice(&dir.read(LAUNCH, MOST_LAUNCH)?).map_err(io::Error::from)
}

/// What is the host's and not a rank's, once. A report does without it.
fn describe_host(host: &Path) {
    let Ok(topology) = discover::topology(Path::new("/")) else { return };
    if let (Ok(dir), Ok(bytes)) = (Dir::open(host), serde_json::to_vec_pretty(&topology)) {
        let _ = dir.publish(HOST, &bytes);
    }
}

/// As a name in a directory and in a query's path: letters, digits, dot, dash and underscore.
fn as_file_name(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with('.') { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::cpulist::CpuList;

    fn rank(launch: &str, rank: u32, size: u32) -> Rank {
        Rank {
            launch: launch.into(),
            launcher: "Slurm".into(),
            rank,
            size: Some(size),
            local_rank: Some(rank),
            local_size: Some(size),
            host: "node/1".into(),
            cpus: CpuList::default(),
        }
    }

    #[test]
    fn ranks_that_start_at_once_share_a_run_and_have_a_directory_each() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("a/run");
        let all: Vec<PathBuf> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..64)
                .map(|n| {
                    let run = &run;
                    scope.spawn(move || join(Some(run), &rank("slurm-1.0", n, 64)).unwrap())
                })
                .collect();
            ranks.into_iter().map(|r| r.join().unwrap()).collect()
        });
        for (n, path) in all.iter().enumerate() {
            assert!(path.ends_with(format!("host=node_1/rank={n}")) && path.is_dir(), "{path:?}");
        }
        let names = Dir::open(&run).unwrap().names().unwrap();
        assert_eq!(names, ["host=node_1", LAUNCH], "nothing is left over");
        assert!(run.join("host=node_1").join(HOST).is_file());
    }

    #[test]
    fn no_other_launch_and_no_second_recording_of_a_rank_gets_into_a_run() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        join(Some(&run), &rank("slurm-1.0", 0, 2)).unwrap();
        let refused = |r: &Rank| join(Some(&run), r).unwrap_err().to_string();
        assert!(refused(&rank("slurm-1.0", 0, 2)).contains("exists already"));
        let other = refused(&rank("slurm-1.1", 1, 2));
        assert!(other.contains("another launch") && other.contains("slurm-1.0"), "{other}");
        refused(&rank("slurm-1.0", 1, 4));
        assert!(!run.join("host=node_1/rank=1").exists());
    }

    #[test]
    fn an_empty_directory_becomes_a_run_and_one_with_files_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("empty")).unwrap();
        join(Some(&place.path().join("empty")), &rank("l", 0, 1)).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        for there in [place.path().to_owned(), place.path().join("file")] {
            let error = join(Some(&there), &rank("l", 0, 1)).unwrap_err();
            assert!(matches!(error, CreateError::Exists(_)), "{error}");
        }
        assert!(!place.path().join(LAUNCH).exists());
    }
}
