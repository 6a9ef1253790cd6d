//! Opening a recording for analysis.

use super::dir::Dir;
use super::finish::{finish_in, finish_into};
pub use super::meta::{NoMeta, OpenFailure, meta_of};
use super::meta::{read_checked, read_meta_in};
use super::segments::{Memory, Segments};
use super::{ALONE, JOURNAL, OF_A_RANK, Tables, for_each_table, tables_of};
use crate::store::resolve::{Resolver, SharedFiles};
use nearfar_analyze::{Input, SampleReader};
use nearfar_recording::sound::Sound;
use nearfar_recording::*;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;

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
    segments: Segments,
    /// Where they are in the recording, for messages.
    place: &'static str,
    names: Vec<String>,
    checksums: BTreeMap<String, u32>,
    survey: Option<SampleSurvey>,
    /// Files that could not be read, and why; rows that no recorder writes.
    unusable: Mutex<Vec<String>>,
}

impl SampleFiles {
    /// What could not be read so far, in words; to be asked after an analysis.
    pub fn unusable(&self) -> Vec<String> {
        let mut all = self.unusable.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        all.sort();
        all.dedup();
        all
    }

    fn note(&self, why: String) {
        self.unusable.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(why);
    }
}

impl SampleReader for SampleFiles {
    fn segments(&self) -> usize {
        self.names.len()
    }
    fn segment(&self, i: usize) -> Result<AccessSamples, String> {
        let (name, place) = (&self.names[i], self.place);
        match self.segments.read::<AccessSamples>(name, &self.checksums, &mut Memory::default()) {
            Ok(mut samples) => {
                let removed = samples.keep_sound();
                if removed > 0 {
                    self.note(format!("{place}/{name}: {removed} rows are invalid and were ignored."));
                }
                Ok(samples)
            }
            // The others still say something, unless there is no other.
            Err(error) if self.names.len() > 1 => {
                self.note(format!("{place}/{name} cannot be read ({error}): its samples are missing."));
                Ok(AccessSamples::default())
            }
            Err(error) => Err(format!("{place}/{name}: {error}")),
        }
    }
    fn survey(&self) -> Result<SampleSurvey, String> {
        self.survey.clone().ok_or_else(|| "meta.json has no survey of the samples".into())
    }
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

/// The tables without which there is nothing to report.
const ESSENTIAL: [&str; 3] = [Processes::TABLE, Threads::TABLE, AccessSamples::TABLE];

/// Opens a recording. One that was never closed is finished first: symbols are
/// looked up and its journal becomes Parquet. Where it is not ours, that happens in
/// files without a name, and nothing is written to it.
///
/// # Errors
/// See [`OpenFailure`].
pub fn open(path: &Path) -> Result<Stored, OpenFailure> {
    open_sharing(path, &SharedFiles::default())
}

/// The same for one of several recordings of the same files.
///
/// # Errors
/// See [`OpenFailure`].
pub fn open_sharing(path: &Path, files: &SharedFiles) -> Result<Stored, OpenFailure> {
    open_or(path, files, |_, meta, _| {
        Err(OpenFailure::Busy { path: path.to_owned(), pid: meta.recorder_pid })
    })
}

/// The same of a recording that may still be running: of one that is, what its recorder has written until now, in files
/// without a name. Nothing is written to it.
///
/// # Errors
/// See [`OpenFailure`].
pub fn open_running(path: &Path) -> Result<Stored, OpenFailure> {
    open_or(path, &SharedFiles::default(), |dir, meta, remarks| {
        let mut unnamed = Segments::Unnamed(Vec::new());
        finish_into(dir, &mut unnamed, meta, Resolver::default(), RUNNING)
            .map_err(|error| OpenFailure::Unfinished { path: path.to_owned(), why: format!("{error:#}") })?;
        // What was lost so far is known when it ends.
        meta.state = "open".into();
        remarks
            .push("The recording is still running: the report is of what was written until now.".to_owned());
        Ok(unnamed)
    })
}

/// Whether a recording's recorder is still at work.
pub fn is_running(path: &Path) -> bool {
    open_dir(path).is_ok_and(|dir| dir.has(JOURNAL) && read_meta_in(&dir).is_ok_and(|meta| at_work(&meta)))
}

/// Why the end of a recording that is still running is missing.
const RUNNING: &str = "it is still running";

fn at_work(meta: &Meta) -> bool {
    meta.state == "open" && meta.recorder_pid != 0 && alive(meta.recorder_pid, meta.recorder_start)
}

/// Opens a recording; `running` is asked where its recorder is still at work.
fn open_or(
    path: &Path,
    files: &SharedFiles,
    running: impl FnOnce(&Dir, &mut Meta, &mut Vec<String>) -> Result<Segments, OpenFailure>,
) -> Result<Stored, OpenFailure> {
    keep_freed_memory();
    let dir = open_dir(path)?;
    let mut remarks = Vec::new();
    let mut meta = read_checked(&dir, &mut remarks)?;
    let mut unnamed = None;
    if dir.has(JOURNAL) {
        unnamed = match at_work(&meta) {
            true => Some(running(&dir, &mut meta, &mut remarks)?),
            false => complete(&dir, &mut meta, &mut remarks, files)?,
        };
    }
    let place = tables_of(&meta);
    let segments = match unnamed {
        Some(segments) => segments,
        None => {
            let damaged = |e: io::Error| OpenFailure::Damaged {
                path: path.join(place),
                why: format!("its tables are missing ({e})"),
            };
            Segments::Here(dir.below(place).map_err(damaged)?)
        }
    };
    let t = load_all(&path.join(place), &segments, &meta.checksums, &mut remarks)?;
    let (input, _) = t.into_input(meta);
    let names = segment_files::<AccessSamples>(&path.join(place), &segments)?;
    let (survey, checksums) = (input.meta.survey.clone(), input.meta.checksums.clone());
    let samples = SampleFiles { segments, place, names, checksums, survey, unusable: Mutex::default() };
    Ok(Stored { input, samples, remarks })
}

/// What is known of a recorder that did not say that it had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// It ended, or was killed.
    Ended,
    /// It still runs: its process id.
    Running(u32),
    /// It runs, or was killed, on another host.
    Elsewhere,
}

/// Asks that of a rank's recording.
///
/// # Errors
/// If its meta.json cannot be read.
pub fn interrupted(path: &Path) -> Result<Interrupted, OpenFailure> {
    let meta = read_meta(path)?;
    let here = nearfar_host::proc::host_name().unwrap_or_default();
    let elsewhere = meta.rank.as_ref().is_some_and(|rank| rank.host != here);
    Ok(match meta.state == "open" {
        false => Interrupted::Ended,
        true if elsewhere => Interrupted::Elsewhere,
        true if alive(meta.recorder_pid, meta.recorder_start) => Interrupted::Running(meta.recorder_pid),
        true => Interrupted::Ended,
    })
}

fn open_dir(path: &Path) -> Result<Dir, OpenFailure> {
    Dir::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenFailure::Missing(path.to_owned()),
        io::ErrorKind::NotADirectory => OpenFailure::Foreign {
            path: path.to_owned(),
            why: "a recording is a directory, this is none".into(),
        },
        _ => OpenFailure::Io { path: path.to_owned(), error },
    })
}

/// Finishes a recording that has a journal: in its place if it is ours and has room, else in files without a
/// name, which it gives.
fn complete(
    dir: &Dir,
    meta: &mut Meta,
    remarks: &mut Vec<String>,
    files: &SharedFiles,
) -> Result<Option<Segments>, OpenFailure> {
    let mut elsewhere = dir.foreign().map(str::to_owned);
    let mut finished = None;
    if elsewhere.is_none() {
        match dir.lock() {
            // Another process has finished it while we waited.
            Ok(()) if !dir.has(JOURNAL) => {
                *meta = read_meta_in(dir)?;
                return Ok(None);
            }
            Ok(()) => {
                let mut here = meta.clone();
                match finish_in(dir, &mut here, Resolver::sharing(files)) {
                    Ok(found) => {
                        *meta = here;
                        finished = Some(found);
                    }
                    Err(error) => elsewhere = Some(format!("that failed: {error:#}")),
                }
            }
            Err(error) => elsewhere = Some(format!("it cannot be locked: {error}")),
        }
    }
    let mut segments = None;
    if let Some(why) = elsewhere {
        let mut unnamed = Segments::Unnamed(Vec::new());
        let found =
            finish_into(dir, &mut unnamed, meta, Resolver::sharing(files), KILLED).map_err(|error| {
                let (path, why) = (dir.path().to_owned(), format!("{error:#}"));
                // A journal that cannot be read is damaged wherever it is finished.
                match dir.file(JOURNAL) {
                    Err(_) => OpenFailure::Damaged { path, why },
                    Ok(_) => OpenFailure::Unfinished { path, why },
                }
            })?;
        finished = Some(found);
        segments = Some(unnamed);
        remarks.push(format!(
            "The recording was interrupted and is not completed in its place ({why}): this report rests on temporary \
             files, and nothing was written to the recording."
        ));
    }
    if let Some(tail) = finished.and_then(|f| f.cut_off) {
        remarks.push(format!("{} bytes at the end were cut off: {}", tail.bytes, tail.why));
    }
    Ok(segments)
}

/// Reads and checks meta.json.
pub fn read_meta(path: &Path) -> Result<Meta, OpenFailure> {
    read_meta_in(&open_dir(path)?)
}

/// Whether a process of this number runs that began at the same time.
fn alive(pid: u32, start: u64) -> bool {
    nearfar_host::proc::start_time(pid) == Some(start)
}

/// The files of a table; none only if it was `added` after the recording may have been made.
fn segment_files<T: Columns>(rank: &Path, segments: &Segments) -> Result<Vec<String>, OpenFailure> {
    let damaged = |why: String| OpenFailure::Damaged { path: rank.to_owned(), why };
    let names = segments.names().map_err(|e| damaged(format!("its tables are missing ({e})")))?;
    // Four digits or, from the ten thousandth on, more.
    let number = |name: &String| -> Option<u32> {
        let called = |table: &str| name.strip_prefix(table)?.strip_prefix('-');
        let digits = called(T::TABLE).or_else(|| called(T::FORMER?))?.strip_suffix(".parquet")?;
        (digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
    };
    let mut found: Vec<(u32, String)> =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    found.sort_unstable();
    if found.is_empty() && !T::ADDED {
        return Err(damaged(format!("its table `{}` is missing", T::TABLE)));
    }
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Reads every table but the samples, which stay on disk. A table that cannot be read is a remark, if
/// there is something to report without it.
fn load_all(
    rank: &Path,
    segments: &Segments,
    checksums: &BTreeMap<String, u32>,
    remarks: &mut Vec<String>,
) -> Result<Tables, OpenFailure> {
    let mut tables = Tables::default();
    let mut memory = Memory::default();
    macro_rules! load_each {
        ($($field:ident: $type:ident,)*) => {$(
            if stringify!($field) != AccessSamples::TABLE {
                tables.$field = load(rank, segments, checksums, &mut memory, remarks)?;
            }
        )*};
    }
    for_each_table!(load_each);
    for (table, removed) in tables.keep_sound() {
        remarks.push(format!("Table `{table}`: {removed} rows are invalid and were ignored."));
    }
    Ok(tables)
}

fn load<T: Columns>(
    rank: &Path,
    segments: &Segments,
    checksums: &BTreeMap<String, u32>,
    memory: &mut Memory,
    remarks: &mut Vec<String>,
) -> Result<T, OpenFailure> {
    let essential = ESSENTIAL.contains(&T::TABLE);
    let mut all = T::default();
    let names = match segment_files::<T>(rank, segments) {
        Ok(names) => names,
        Err(error) if essential => return Err(error),
        Err(_) => {
            remarks.push(format!("Its table `{}` is missing: what was in it is unknown.", T::TABLE));
            return Ok(all);
        }
    };
    for name in names {
        match segments.read::<T>(&name, checksums, memory) {
            Ok(mut part) => all.append(&mut part),
            Err(error) if essential => {
                return Err(OpenFailure::Damaged { path: rank.join(name), why: error.to_string() });
            }
            Err(error) => remarks
                .push(format!("{} cannot be read ({error}): what was in it is unknown.", shown(rank, &name))),
        }
    }
    Ok(all)
}

/// A file of a table as it is called in the recording.
fn shown(place: &Path, name: &str) -> String {
    let known = [ALONE, OF_A_RANK].into_iter().find(|known| place.ends_with(known));
    known.map_or_else(|| name.to_owned(), |known| format!("{known}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_newer_than_the_recording_is_empty_and_any_other_is_missed() {
        let directory = tempfile::tempdir().unwrap();
        let rank = directory.path();
        let segments = Segments::Here(Dir::open(rank).unwrap());
        let (mut remarks, none) = (Vec::new(), BTreeMap::new());
        assert!(
            load::<CpuEpochs>(rank, &segments, &none, &mut Memory::default(), &mut remarks)
                .unwrap()
                .is_empty()
        );
        assert!(remarks.is_empty());
        let error = load::<Threads>(rank, &segments, &none, &mut Memory::default(), &mut remarks)
            .unwrap_err()
            .to_string();
        assert!(error.contains("its table `threads` is missing"), "{error}");
        // What is not a base of everything is missed aloud.
        assert!(
            load::<PageFaults>(rank, &segments, &none, &mut Memory::default(), &mut remarks)
                .unwrap()
                .is_empty()
        );
        assert_eq!(remarks, ["Its table `faults` is missing: what was in it is unknown."]);
    }

    #[test]
    fn segments_are_found_in_the_order_of_their_numbers_however_many_there_are() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["9999", "10000", "0000", "123456", "12", "000x", "0001.parquet.99-0"] {
            std::fs::write(directory.path().join(format!("samples-{name}.parquet")), "").unwrap();
        }
        let segments = Segments::Here(Dir::open(directory.path()).unwrap());
        let found = segment_files::<AccessSamples>(directory.path(), &segments).unwrap();
        assert_eq!(found, ["0000", "9999", "10000", "123456"].map(|n| format!("samples-{n}.parquet")));
    }
}
