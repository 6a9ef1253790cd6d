//! What other tools recorded, as a recording: `perf_data` reads perf.data and `perf_script` what perf prints of one,
//! `readings` what other tools counted; `events` makes the recorder's events of the first two, `feed` puts events in order and through the
//! recorder's own interpreter, so that an imported sample is treated as one of ours.
//!
//! What is damaged is named, one line each, and left out. What a file does not have is said: a file without memory
//! samples is not a file with 0 % remote.

mod events;
mod feed;
mod machine;
mod perf_data;
mod perf_script;
mod readings;
#[cfg(test)]
mod tests;

use crate::store::{Writer, finish_with, reserve};
use anyhow::{Context, Result, bail};
use feed::Feed;
use nearfar_host::input;
use nearfar_machine::Machine;
use nearfar_observed::measured::mlc;
use nearfar_recording::{FORMAT_VERSION, Meta, Source, SourceReport};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Largest recording that an import makes, bytes: that of `record`.
const MOST_BYTES: u64 = 8 << 30;

/// What to import and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The recording; `None`: a free name here.
    pub output: Option<PathBuf>,
    /// The machine that it was recorded on, where the file does not say or says it wrongly.
    pub machine: Option<Machine>,
}

/// What came of it.
pub struct Outcome {
    /// The recording.
    pub directory: PathBuf,
    /// What was damaged, one line each.
    pub damage: Vec<String>,
    /// Lines for the user.
    pub summary: Vec<String>,
}

/// Measurements of another tool, as a machine.
pub struct Measurements {
    /// The machine of [`Options::machine`] with what was measured.
    pub machine: Machine,
    /// Lines that could not be read.
    pub damage: Vec<String>,
}

/// Largest text of Intel's Memory Latency Checker that is read, bytes; those of real machines have some thousand. // chosen
const MOST_MLC_BYTES: u64 = 1 << 20;

/// What Intel's Memory Latency Checker printed, as a machine; `None` if the file is something else.
///
/// # Errors
/// If it cannot be read, or it is not clear which machine that is.
pub fn measurements(file: &Path, machine: Option<&Machine>) -> Result<Option<Measurements>> {
    let (opened, _) = input::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut begin = Vec::new();
    opened.take(4096).read_to_end(&mut begin).with_context(|| format!("cannot read {}", file.display()))?;
    if !mlc::is_mlc(&String::from_utf8_lossy(&begin)) {
        return Ok(None);
    }
    let bytes =
        input::read(file, MOST_MLC_BYTES).with_context(|| format!("cannot read {}", file.display()))?;
    let found = mlc::read(&String::from_utf8_lossy(&bytes));
    let Some(machine) = machine else {
        bail!(
            "{} has measurements of a machine (Intel MLC {}), but not its cpus: name the machine with --as, such as \
             --as 2x22, a machine file, or one that comes with nearfar",
            file.display(),
            found.version
        );
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let machine = found
        .into_machine(machine.clone(), &name)
        .map_err(|why| anyhow::anyhow!("{} cannot be imported: {why}", file.display()))?;
    Ok(Some(Measurements { machine, damage: found.damage }))
}

/// Imports a file.
///
/// # Errors
/// If it cannot be read, is of no known format, or the recording cannot be written.
pub fn import(file: &Path, options: &Options) -> Result<Outcome> {
    let (mut opened, length) =
        input::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut begin = [0; 8];
    let got = opened.read(&mut begin).with_context(|| format!("cannot read {}", file.display()))?;
    opened.seek(SeekFrom::Start(0))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if got == 8 && (&begin == b"PERFILE2" || &begin == b"2ELIFREP") {
        let opened = BufReader::with_capacity(1 << 20, opened);
        let data = perf_data::Data::open(opened, length, options.machine.as_ref())
            .with_context(|| format!("{} cannot be imported", file.display()))?;
        let meta = empty_meta(data.machine().clone(), data.command(), format!("perf.data ({name})"));
        return write(options, &name, meta, |feed| data.feed(feed));
    }
    let is_text = perf_script::may_be(&begin[..got]);
    if is_text && let Some(found) = readings::read(file)? {
        let machine = options.machine.clone();
        let machine_known = machine.is_some();
        let machine = machine.unwrap_or_else(|| machine::of_cpus("imported", 1));
        let meta = empty_meta(machine, Vec::new(), format!("{} ({name})", found.tool));
        return write(options, &name, meta, |feed| {
            if !machine_known {
                feed.lose_machine();
            }
            Ok(readings::feed(&found, feed))
        });
    }
    if is_text
        && let Some(text) = perf_script::Text::open(opened, options.machine.as_ref())
            .with_context(|| format!("{} cannot be imported", file.display()))?
    {
        let meta = empty_meta(text.machine().clone(), text.command(), format!("perf script ({name})"));
        return write(options, &name, meta, |feed| text.feed(feed));
    }
    if got == 0 {
        bail!("{} cannot be imported: it is empty", file.display());
    }
    bail!(
        "{} is of no format that can be imported. It begins with {:?}. What is read is perf.data, which begins with \
         PERFILE2, what `perf script` prints of one, and counters as text (perf stat -j and -x,; numastat; pcm -csv; NUMAPROF): \
         no line of this file is one of theirs.",
        file.display(),
        String::from_utf8_lossy(&begin[..got])
    )
}

/// Makes the recording and has it filled.
fn write(
    options: &Options,
    name: &str,
    meta: Meta,
    fill: impl FnOnce(&mut Feed) -> Result<Vec<SourceReport>>,
) -> Result<Outcome> {
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("imported");
    let stem: String =
        stem.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect();
    let directory = reserve(options.output.as_deref(), &stem)?;
    let filled = (|| {
        let mut feed = Feed::new(Writer::create(&directory, meta, MOST_BYTES)?);
        let sources = fill(&mut feed)?;
        feed.finish(sources)
    })();
    let (writer, told) = match filled {
        Ok(filled) => filled,
        Err(error) => {
            let _ = std::fs::remove_dir_all(&directory);
            return Err(error);
        }
    };
    let mut meta = writer.meta.clone();
    let full = writer.is_full();
    let path = writer.close().context("cannot write the recording")?;
    finish_with(&path, &mut meta, told.modules).context("cannot finish the recording")?;
    let mut summary = told.summary;
    if full {
        summary.push("the recording has reached its largest size: what came then is not in it".into());
    }
    for source in meta.sources.iter().filter(|r| !r.active && r.source == Source::Hardware) {
        summary.push(source.why.clone());
    }
    let shown = std::env::current_dir().ok().and_then(|d| path.strip_prefix(d).ok().map(Path::to_owned));
    let shown = shown.unwrap_or_else(|| path.clone());
    summary.push(format!(
        "recording {}; next: nearfar report {}",
        shown.display(),
        nearfar_host::out::quoted(shown.as_os_str())
    ));
    Ok(Outcome { directory: path, damage: told.damage, summary })
}

/// The meta.json of what others recorded: what a file does not say is unknown.
fn empty_meta(machine: Machine, command: Vec<String>, from: String) -> Meta {
    Meta {
        format: FORMAT_VERSION,
        nearfar: env!("CARGO_PKG_VERSION").into(),
        state: "stopped".into(),
        recorder_pid: 0,
        recorder_start: 0,
        command,
        cwd: String::new(),
        imported: Some(from),
        rank: None,
        started: jiff::Timestamp::now().to_string(),
        host: None,
        start_ns: 0,
        end_ns: 0,
        exit: String::new(),
        machine,
        wish: None,
        wished_machine: None,
        min_object_bytes: 0,
        page_bytes: 4096,
        folio_bytes: Vec::new(),
        numa_balancing: -1,
        // perf's own events of loads have a threshold of 30 cycles.
        hardware_filtered: true,
        agent: false,
        agent_why: "an imported file has no allocations".into(),
        placement: None,
        placed: Vec::new(),
        sources: Vec::new(),
        survey: None,
        recorder_cpu_s: 0.0,
        target_cpu_s: 0.0,
        target_system_s: -1.0,
        largest_process_bytes: 0,
        core_ghz: None,
        core_slowdown: None,
        in_place_ns: None,
        hugetlb_bytes: None,
        target_faults: 0,
        steal_share: -1.0,
        checksums: Default::default(),
    }
}
