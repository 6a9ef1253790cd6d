//! From journal to Parquet: symbolise what is still bare, write every table, drop the journal.

use super::merge::{Counted, merge};
use super::{COUNTED, GUEST, JOURNAL, RANK, Tables, for_each_table, write::write_meta};
use crate::symbols::resolve::Resolver;
use anyhow::{Context, Result};
use nearfar_model::recording::parquet::{SEGMENT_ROWS, write};
use nearfar_model::recording::{Columns, Loss, Meta, SampleSurvey, journal};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

/// What finishing a recording found.
#[derive(Debug, Default)]
pub struct Finished {
    /// Bytes at the journal's end that were no whole frame.
    pub cut_off: Option<journal::Tail>,
}

/// Turns the journal of a recording into Parquet segments. Does nothing if that
/// was done before. If it is interrupted, the journal is still there and the
/// next call begins anew.
///
/// # Errors
/// If a file cannot be read or written; the journal then stays.
pub fn finish(directory: &Path, meta: &mut Meta) -> Result<Finished> {
    let path = directory.join(JOURNAL);
    if !path.exists() {
        return Ok(Finished::default());
    }
    merge_counts(directory).context("cannot read what the virtual machine counted")?;
    let rank = directory.join(RANK);
    // Segments of an earlier, interrupted attempt.
    if rank.exists() {
        fs::remove_dir_all(&rank).with_context(|| format!("cannot clear {}", rank.display()))?;
    }
    fs::create_dir_all(&rank).with_context(|| format!("cannot create {}", rank.display()))?;

    let mut segments = Segments { rank: &rank, survey: SampleSurvey::default(), samples: 0, faults: 0 };
    let mut tables = Tables::default();
    let journal = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let tail = journal::read::<_, anyhow::Error>(BufReader::with_capacity(1 << 20, journal), |frame| {
        tables.add(frame).context("the journal is of a version that this nearfar cannot read")?;
        // Only these two grow with the length of the run.
        if tables.samples.len() >= SEGMENT_ROWS {
            segments.samples(&mut tables)?;
        }
        if tables.faults.len() >= SEGMENT_ROWS {
            segments.faults(&mut tables)?;
        }
        Ok(())
    })?;
    if let Some(tail) = &tail {
        tables.losses.push(Loss {
            time_ns: 0,
            what: "journal_bytes".into(),
            count: tail.bytes,
            why: format!("the recording ended in the middle of a write ({})", tail.why),
        });
    }
    if meta.state == "open" {
        let last = last_time(&tables);
        meta.end_ns = last.max(meta.start_ns);
        tables.losses.push(Loss {
            time_ns: last,
            what: "end".into(),
            count: 0,
            why: "the recorder was killed or its disk was full: what came after the last write, \
                  at most a second before, is missing"
                .into(),
        });
    }
    Resolver::new().resolve(&mut tables, meta);
    segments.rest(&mut tables)?;
    File::open(&rank).and_then(|d| d.sync_all()).context("cannot sync the recording")?;
    meta.survey = Some(segments.survey);
    meta.state = "closed".into();
    write_meta(directory, meta).context("cannot write meta.json")?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    // Not needed any more, and no harm if it stays.
    let _ = fs::remove_dir_all(directory.join(GUEST));
    Ok(Finished { cut_off: tail })
}

/// Adds what a virtual machine's plugin counted, once: its file gets another name afterwards.
fn merge_counts(directory: &Path) -> Result<()> {
    let counted = directory.join(GUEST).join(COUNTED);
    if !counted.exists() {
        return Ok(());
    }
    merge(directory, Counted::read(&counted)?)?;
    fs::rename(&counted, counted.with_extension("merged"))?;
    Ok(())
}

/// Time of the last row that has one, ns.
fn last_time(tables: &Tables) -> u64 {
    let last = |times: &[u64]| times.iter().copied().max().unwrap_or(0);
    [
        last(&tables.samples.time_ns),
        last(&tables.faults.time_ns),
        last(&tables.objects.born_ns),
        last(&tables.homes.time_ns),
        last(&tables.threads.start_ns),
    ]
    .into_iter()
    .max()
    .unwrap_or(0)
}

struct Segments<'a> {
    rank: &'a Path,
    survey: SampleSurvey,
    samples: usize,
    faults: usize,
}

impl Segments<'_> {
    fn samples(&mut self, tables: &mut Tables) -> Result<()> {
        self.survey.add(&tables.samples.time_ns, &tables.samples.thread);
        segment(self.rank, &mut self.samples, &mut tables.samples)
    }

    fn faults(&mut self, tables: &mut Tables) -> Result<()> {
        segment(self.rank, &mut self.faults, &mut tables.faults)
    }

    /// Writes what is left of every table; an empty table still gets a file, so
    /// that queries over a recording find all of them.
    fn rest(&mut self, tables: &mut Tables) -> Result<()> {
        self.survey.add(&tables.samples.time_ns, &tables.samples.thread);
        macro_rules! write_all {
            ($($field:ident: $type:ident,)*) => {$(
                let mut number = match stringify!($field) {
                    "samples" => self.samples,
                    "faults" => self.faults,
                    _ => 0,
                };
                if number == 0 || !tables.$field.is_empty() {
                    segment(self.rank, &mut number, &mut tables.$field)?;
                }
            )*};
        }
        for_each_table!(write_all);
        Ok(())
    }
}

fn segment<T: Columns>(rank: &Path, number: &mut usize, table: &mut T) -> Result<()> {
    let path = rank.join(format!("{}-{:04}.parquet", T::TABLE, number));
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    write(table, &file).with_context(|| format!("cannot write {}", path.display()))?;
    file.sync_data().with_context(|| format!("cannot sync {}", path.display()))?;
    *number += 1;
    Ok(())
}
