//! Opening a recording for analysis.

use super::{META, RANK, Tables, for_each_table};
use nearfar_model::analyze::{Input, SampleSource};
use nearfar_model::recording::parquet::{StoreError, read};
use nearfar_model::recording::*;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenFailure {
    /// Nothing of that name.
    #[error("there is no recording {0}. `nearfar record -o {0} -- command` makes one.")]
    Missing(PathBuf),
    /// No recording in the current directory.
    #[error(
        "there is no recording (*.nearfar) in {0}. Make one with `nearfar record -- command`, or name one."
    )]
    NoneHere(PathBuf),
    /// Something else than a recording.
    #[error("{path} is no nearfar recording: {why}")]
    Foreign {
        /// What was named.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Written by a later version.
    #[error(
        "{path} was written by nearfar {by} in format {found}; this nearfar reads up to format {known}. Use nearfar {by} or later."
    )]
    Newer {
        /// Which recording.
        path: PathBuf,
        /// The writer's version.
        by: String,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// A part that should be there cannot be read.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A recording in progress.
    #[error("{path} is still being recorded by process {pid}; wait for it to end.")]
    Busy {
        /// Which recording.
        path: PathBuf,
        /// The recorder.
        pid: u32,
    },
    /// The system refused.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

/// A recording opened for analysis; its samples stay on disk.
pub struct Stored {
    /// Everything but the samples.
    pub input: Input,
    /// The samples.
    pub samples: SampleFiles,
    /// What is missing, in words.
    pub remarks: Vec<String>,
}

/// Segment files of samples.
pub struct SampleFiles {
    paths: Vec<PathBuf>,
    survey: Option<SampleSurvey>,
}

impl SampleSource for SampleFiles {
    fn segments(&self) -> usize {
        self.paths.len()
    }
    fn segment(&self, i: usize) -> Result<AccessSamples, String> {
        let path = &self.paths[i];
        let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        read(file).map_err(|e| format!("{}: {e}", path.display()))
    }
    fn survey(&self) -> Result<SampleSurvey, String> {
        self.survey.clone().ok_or_else(|| "meta.json has no survey of the samples".into())
    }
}

/// The recording that was begun last in `directory`.
///
/// # Errors
/// If there is none.
pub fn newest_recording(directory: &Path) -> Result<PathBuf, OpenFailure> {
    let entries =
        fs::read_dir(directory).map_err(|error| OpenFailure::Io { path: directory.to_owned(), error })?;
    entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "nearfar") && p.join(META).exists())
        .max_by_key(|p| read_meta(p).map_or((String::new(), 0), |m| (m.started, m.start_ns)))
        .ok_or_else(|| OpenFailure::NoneHere(directory.to_owned()))
}

/// Samples are read in segments of tens of megabytes. By default glibc maps and unmaps such columns
/// for each; kept, they cost 74 instead of 164 thousand page faults per report of ten million samples.
#[cfg(target_env = "gnu")]
fn keep_freed_memory() {
    // The largest threshold that glibc takes on 64 bits (mallopt(3): HEAP_MAX_SIZE / 2).
    const LARGEST: libc::c_int = 32 << 20;
    const KEPT: libc::c_int = 1 << 30;
    // SAFETY: mallopt only sets parameters of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TOP_PAD, LARGEST / 2);
    }
}
#[cfg(not(target_env = "gnu"))]
fn keep_freed_memory() {}

/// Opens a recording. One that was never closed is finished first: symbols are
/// looked up and its journal becomes Parquet.
///
/// # Errors
/// See [`OpenFailure`].
pub fn open(path: &Path) -> Result<Stored, OpenFailure> {
    keep_freed_memory();
    let mut meta = read_meta(path)?;
    let mut remarks = Vec::new();
    if path.join(super::JOURNAL).exists() {
        if meta.state == "open" && meta.recorder_pid != 0 && alive(meta.recorder_pid, meta.recorder_start) {
            return Err(OpenFailure::Busy { path: path.to_owned(), pid: meta.recorder_pid });
        }
        let finished = super::finish(path, &mut meta)
            .map_err(|e| OpenFailure::Damaged { path: path.to_owned(), why: format!("{e:#}") })?;
        if let Some(tail) = finished.cut_off {
            remarks.push(format!("{} bytes at the end were cut off: {}", tail.bytes, tail.why));
        }
    }
    let rank = path.join(RANK);
    let t = load_all(&rank)?;
    let input = Input {
        meta,
        processes: t.processes,
        process_ends: t.process_ends,
        threads: t.threads,
        faults: t.faults,
        locations: t.locations,
        modules: t.modules,
        symbols: t.symbols,
        chains: t.chains,
        objects: t.objects,
        object_ends: t.object_ends,
        site_names: t.site_names,
        range_events: t.range_events,
        homes: t.homes,
        mappings: t.mappings,
        phases: t.phases,
        counters: t.counters,
        cpu_epochs: t.cpu_epochs,
        epoch_traffic: t.epoch_traffic,
        page_traffic: t.page_traffic,
        losses: t.losses,
    };
    let paths = segments(&rank, AccessSamples::TABLE, AccessSamples::ADDED)?;
    let samples = SampleFiles { paths, survey: input.meta.survey.clone() };
    Ok(Stored { input, samples, remarks })
}

/// Reads and checks meta.json.
pub(crate) fn read_meta(path: &Path) -> Result<Meta, OpenFailure> {
    if !path.exists() {
        return Err(OpenFailure::Missing(path.to_owned()));
    }
    let foreign = |why: String| OpenFailure::Foreign { path: path.to_owned(), why };
    if !path.is_dir() {
        return Err(foreign("a recording is a directory, this is a file".into()));
    }
    let text = fs::read_to_string(path.join(META)).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => foreign("it has no meta.json".into()),
        _ => OpenFailure::Io { path: path.join(META), error: e },
    })?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| foreign(format!("its meta.json is no JSON ({e})")))?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    let Some(format) = format else {
        return Err(foreign("its meta.json names no format".into()));
    };
    if format > u64::from(FORMAT_VERSION) {
        let by = value.get("nearfar").and_then(|v| v.as_str()).unwrap_or("(unknown)").to_owned();
        return Err(OpenFailure::Newer {
            path: path.to_owned(),
            by,
            found: format as u32,
            known: FORMAT_VERSION,
        });
    }
    serde_json::from_value(value).map_err(|e| foreign(format!("its meta.json is incomplete ({e})")))
}

/// Whether a process of this number runs that began at the same time.
fn alive(pid: u32, start: u64) -> bool {
    crate::collect::proc::start_time(pid) == Some(start)
}

/// The files of a table; none only if it was `added` after the recording may have been made.
fn segments(rank: &Path, table: &str, added: bool) -> Result<Vec<PathBuf>, OpenFailure> {
    let damaged = |why: String| OpenFailure::Damaged { path: rank.to_owned(), why };
    let entries = fs::read_dir(rank).map_err(|e| damaged(format!("its tables are missing ({e})")))?;
    let prefix = format!("{table}-");
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix(&prefix)
                .is_some_and(|n| n.len() == "0000.parquet".len() && n.ends_with(".parquet"))
        })
        .collect();
    if paths.is_empty() && !added {
        return Err(damaged(format!("its table `{table}` is missing")));
    }
    paths.sort();
    Ok(paths)
}

/// Reads every table but the samples, which stay on disk.
fn load_all(rank: &Path) -> Result<Tables, OpenFailure> {
    let mut tables = Tables::default();
    macro_rules! load_each {
        ($($field:ident: $type:ident,)*) => {$(
            if stringify!($field) != AccessSamples::TABLE {
                tables.$field = load(rank)?;
            }
        )*};
    }
    for_each_table!(load_each);
    Ok(tables)
}

fn load<T: Columns>(rank: &Path) -> Result<T, OpenFailure> {
    let mut all = T::default();
    for path in segments(rank, T::TABLE, T::ADDED)? {
        let file = File::open(&path).map_err(|error| OpenFailure::Io { path: path.clone(), error })?;
        let mut part: T = read(file)
            .map_err(|e: StoreError| OpenFailure::Damaged { path: path.clone(), why: e.to_string() })?;
        all.append(&mut part);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_newer_than_the_recording_is_empty_and_any_other_is_missed() {
        let rank = tempfile::tempdir().unwrap();
        assert!(load::<CpuEpochs>(rank.path()).unwrap().is_empty());
        let error = load::<Threads>(rank.path()).unwrap_err().to_string();
        assert!(error.contains("its table `threads` is missing"), "{error}");
        // No place for tables at all is damage, whichever table is asked for.
        assert!(load::<CpuEpochs>(&rank.path().join("nowhere")).is_err());
    }
}
