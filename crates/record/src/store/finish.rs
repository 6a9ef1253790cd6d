//! From journal to Parquet: symbolise what is still bare, write every table, drop the journal.

use super::dir::Dir;
use super::merge::{Counted, merge};
use super::segments::{Checked, Segments};
use super::{COUNTED, GUEST, JOURNAL, Tables, for_each_table, tables_of, write::write_meta};
use crate::store::resolve::{Resolver, WrittenObjects};
use anyhow::{Context, Result};
use nearfar_host::symbols::Module;
use nearfar_machine::Machine;
use nearfar_parquet::{SEGMENT_ROWS, write};
use nearfar_recording::{
    Columns, FORMAT_VERSION, KILLED, Loss, Meta, PageFaults, SampleSource, SampleSurvey, journal,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;

/// What finishing a recording found.
#[derive(Debug, Default)]
pub struct Finished {
    /// Bytes at the journal's end that were no whole frame.
    pub cut_off: Option<journal::Tail>,
    /// Samples of lines that the virtual machine moved from or to memory. `None`: another process finished the recording.
    pub dram_samples: Option<u64>,
}

/// Turns the journal of a recording into Parquet segments. Does nothing if that
/// was done before. If it is interrupted, the journal is still there and the
/// next call begins anew. A caller that comes meanwhile waits for the result.
///
/// # Errors
/// If a file cannot be read or written; the journal then stays. Also if the recording is not ours to write to.
pub fn finish(directory: &Path, meta: &mut Meta) -> Result<Finished> {
    finish_with(directory, meta, HashMap::new())
}

/// The same of a recording of which the recorder has these files open, by module number.
///
/// # Errors
/// As of [`finish`].
pub fn finish_with(directory: &Path, meta: &mut Meta, opened: HashMap<u32, Arc<Module>>) -> Result<Finished> {
    let dir = Dir::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    dir.lock().with_context(|| format!("cannot lock {}", directory.display()))?;
    if !dir.has(JOURNAL) {
        // Another process has finished it meanwhile: what that one knows is written.
        *meta = super::meta::read_meta_in(&dir).map_err(anyhow::Error::from)?;
        return Ok(Finished::default());
    }
    finish_in(&dir, meta, Resolver::new(opened))
}

/// As [`finish`], in a directory that is open and locked, and has a journal.
pub(super) fn finish_in(dir: &Dir, meta: &mut Meta, symbols: Resolver) -> Result<Finished> {
    if let Some(why) = dir.foreign() {
        anyhow::bail!("{} is not finished in its place: {why}", dir.path().display());
    }
    // Segments of an earlier, interrupted attempt.
    let tables = tables_of(meta);
    let (above, last) = tables.rsplit_once('/').unwrap_or((".", tables));
    let above = dir.below_or_make(above).with_context(|| format!("cannot make its directory `{above}`"))?;
    if above.has(last) {
        above.remove_tree(last).with_context(|| format!("cannot clear {tables}"))?;
    }
    let place = above.below_or_make(last).with_context(|| format!("cannot make its directory `{tables}`"))?;
    let mut segments = Segments::Here(place);
    let finished = finish_into(dir, &mut segments, meta, symbols, KILLED)?;
    if let Segments::Here(place) = &segments {
        place.sync().context("cannot sync the recording")?;
    }
    write_meta(dir, meta).context("cannot write meta.json")?;
    dir.remove(JOURNAL).with_context(|| format!("cannot remove {JOURNAL}"))?;
    // Not needed any more, and no harm if it stays.
    let _ = dir.remove_tree(GUEST);
    Ok(finished)
}

/// Turns the journal in `dir` into `segments` and completes `meta`; writes nothing to `dir`. `end`: why a recording that
/// is open has no end.
pub(super) fn finish_into(
    dir: &Dir,
    segments: &mut Segments,
    meta: &mut Meta,
    mut symbols: Resolver,
    end: &str,
) -> Result<Finished> {
    let mut segments = Writing::new(segments);
    let mut tables = Tables::default();
    let counted = counted(dir, &meta.machine).context("cannot read what the virtual machine counted")?;
    let mut add = |frame: journal::Frame| {
        tables.add(frame).context("the journal is of a version that this nearfar cannot read")?;
        segments.full(&mut tables)
    };
    let tail = frames(dir, JOURNAL, &mut add)?;
    journal::read(&counted[..], counted.len() as u64, &mut add)?;
    if let Some(tail) = &tail {
        tables.losses.push(Loss {
            time_ns: 0,
            what: "journal_bytes".into(),
            count: tail.bytes,
            why: format!("the recording ended in the middle of a write ({})", tail.why),
        });
    }
    if meta.state == "open" {
        let last = last_time(&tables).max(segments.last_ns);
        meta.end_ns = last.max(meta.start_ns);
        tables.losses.push(Loss {
            time_ns: last,
            what: "end".into(),
            count: 0,
            why: format!("{end}: what came after the last write, at most a second before, is missing"),
        });
    }
    segments.add_survey(&tables);
    super::killed::complete(
        meta,
        &tables,
        &segments.survey,
        segments.written.contains_key(PageFaults::TABLE),
    );
    symbols.resolve(&mut tables, meta, &segments.objects);
    segments.rest(&mut tables)?;
    let dram_samples = Some(segments.dram_samples);
    meta.survey = Some(segments.survey);
    meta.checksums = segments.checksums;
    meta.state = "closed".into();
    // An older version may have begun it: what this one writes has the names of this format.
    meta.format = FORMAT_VERSION;
    Ok(Finished { cut_off: tail, dram_samples })
}

/// The frames of a journal in a recording.
fn frames(
    dir: &Dir,
    name: &str,
    each: impl FnMut(journal::Frame) -> Result<()>,
) -> Result<Option<journal::Tail>> {
    let (file, length) = dir.file(name).with_context(|| format!("cannot open {name}"))?;
    journal::read(BufReader::with_capacity(1 << 20, file), length, each)
}

/// What a virtual machine's plugin counted, as frames of a journal that belong to the recording's own.
fn counted(dir: &Dir, machine: &Machine) -> Result<Vec<u8>> {
    let guest = match dir.below(GUEST) {
        Ok(guest) => guest,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if !guest.has(COUNTED) {
        return Ok(Vec::new());
    }
    let (file, length) = guest.file(COUNTED)?;
    let counted = Counted::from_file(file, length)?;
    let mut known = Tables::default();
    frames(dir, JOURNAL, |frame| Ok(known.add(frame)?))?;
    let mut bytes = Vec::new();
    merge(&known, counted, machine).encode(&mut bytes);
    Ok(bytes)
}

/// Time of the last row that has one, ns.
fn last_time(tables: &Tables) -> u64 {
    let last = |times: &[u64]| times.iter().copied().max().unwrap_or(0);
    [
        last(&tables.samples.time_ns),
        last(&tables.faults.time_ns),
        last(&tables.objects.born_ns),
        last(&tables.page_nodes.time_ns),
        last(&tables.threads.start_ns),
    ]
    .into_iter()
    .max()
    .unwrap_or(0)
}

struct Writing<'a> {
    segments: &'a mut Segments,
    survey: SampleSurvey,
    /// See [`Finished::dram_samples`].
    dram_samples: u64,
    /// Segments written of each table.
    written: HashMap<&'static str, usize>,
    /// CRC-32 of each.
    checksums: BTreeMap<String, u32>,
    /// Time of the last row in them, ns.
    last_ns: u64,
    /// What the resolver has to know of the objects in them.
    objects: WrittenObjects,
}

impl<'a> Writing<'a> {
    fn new(segments: &'a mut Segments) -> Writing<'a> {
        Writing {
            segments,
            survey: SampleSurvey::default(),
            dram_samples: 0,
            written: HashMap::new(),
            checksums: BTreeMap::new(),
            last_ns: 0,
            objects: WrittenObjects::default(),
        }
    }

    fn add_survey(&mut self, tables: &Tables) {
        let samples = &tables.samples;
        self.survey.add(&samples.time_ns, &samples.thread);
        let counted =
            samples.source.iter().filter(|&&source| source == SampleSource::Simulated as u8).count();
        self.dram_samples += counted as u64;
        self.objects.add_samples(&tables.samples);
    }

    /// Writes the tables that grow with the length of a run, as soon as they fill a segment.
    fn full(&mut self, tables: &mut Tables) -> Result<()> {
        if tables.samples.len() >= SEGMENT_ROWS {
            self.add_survey(tables);
        }
        if tables.objects.len() >= SEGMENT_ROWS {
            self.objects.add(&tables.objects);
        }
        macro_rules! write_full {
            ($($field:ident),*) => {$(
                if tables.$field.len() >= SEGMENT_ROWS {
                    self.last_ns = self.last_ns.max(last_time(tables));
                    self.segment(&mut tables.$field)?;
                }
            )*};
        }
        write_full!(samples, faults, objects, object_ends, range_events, page_nodes);
        Ok(())
    }

    /// Writes what is left of every table; an empty table still gets a file, so
    /// that queries over a recording find all of them.
    fn rest(&mut self, tables: &mut Tables) -> Result<()> {
        macro_rules! write_all {
            ($($field:ident: $type:ident,)*) => {$(
                if !self.written.contains_key(stringify!($field)) || !tables.$field.is_empty() {
                    self.segment(&mut tables.$field)?;
                }
            )*};
        }
        for_each_table!(write_all);
        Ok(())
    }

    fn segment<T: Columns>(&mut self, table: &mut T) -> Result<()> {
        let number = self.written.entry(T::TABLE).or_default();
        let name = format!("{}-{number:04}.parquet", T::TABLE);
        let file: File = self.segments.create(&name).with_context(|| format!("cannot create {name}"))?;
        let mut checked = Checked::new(&file);
        write(table, &mut checked).with_context(|| format!("cannot write {name}"))?;
        let checksum = checked.checksum();
        file.sync_data().with_context(|| format!("cannot sync {name}"))?;
        *number += 1;
        self.checksums.insert(name, checksum);
        Ok(())
    }
}
