//! meta.json of a recording, read and checked; and why a recording cannot be opened.

use super::dir::Dir;
use super::{EMULATED, GUEST, LAUNCH, META};
use nearfar_host::out::quoted_path;
use nearfar_machine::Machine;
use nearfar_recording::{FORMAT_VERSION, Meta, is_whole};
use std::io;
use std::path::PathBuf;

/// Why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenFailure {
    /// Nothing of that name.
    #[error("recording {0} does not exist. `nearfar record -o {typed} -- command` makes one.", typed = quoted_path(.0))]
    Missing(PathBuf),
    /// No recording in the current directory.
    #[error("{0} has no recording (*.nearfar). Make one with `nearfar record -- command`, or name one.")]
    NoneHere(PathBuf),
    /// Something else than a recording.
    #[error("{path} is not a nearfar recording: {why}")]
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
    /// One that was interrupted and cannot be completed.
    #[error(
        "the recording {path} was interrupted and cannot be completed: {why}. Nothing of it is lost; \
         TMPDIR=/a/place/with/room nearfar report {typed} completes it there.",
        typed = quoted_path(path)
    )]
    Unfinished {
        /// Which recording.
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

/// Largest meta.json, bytes; ours have some thousand.
const MOST_META: u64 = 16 << 20;

/// The same in a directory that is open.
pub(super) fn read_meta_in(dir: &Dir) -> Result<Meta, OpenFailure> {
    read_checked(dir, &mut Vec::new())
}

/// The same; a wrong checksum is a remark.
pub(super) fn read_checked(dir: &Dir, remarks: &mut Vec<String>) -> Result<Meta, OpenFailure> {
    let foreign = |why: String| OpenFailure::Foreign { path: dir.path().to_owned(), why };
    let bytes = dir.read(META, MOST_META).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound if dir.has(LAUNCH) => foreign(
            "it is a run of several ranks; name the recording of one, such as host=H/rank=0 in it".into(),
        ),
        io::ErrorKind::NotFound => foreign("it has no meta.json".into()),
        io::ErrorKind::InvalidData => foreign(format!("its meta.json cannot be read: {e}")),
        _ => OpenFailure::Io { path: dir.path().join(META), error: e },
    })?;
    if is_whole(&bytes) == Some(false) {
        remarks.push(format!(
            "{META} has a wrong checksum: it was changed or damaged after it was written. What this report says of the \
             machine, the command and the times may be wrong."
        ));
    }
    parsed(&bytes).and_then(|meta| checked(with_machine(dir, meta)?)).map_err(|e| match e {
        NoMeta::Foreign(why) => foreign(why),
        NoMeta::Newer { by, found } => {
            OpenFailure::Newer { path: dir.path().to_owned(), by, found, known: FORMAT_VERSION }
        }
    })
}

/// The recorder inside a virtual machine leaves the machine out of its meta.json, which `finish` completes.
fn with_machine(dir: &Dir, mut meta: Meta) -> Result<Meta, NoMeta> {
    #[derive(serde::Deserialize)]
    struct Emulated {
        machine: Machine,
    }
    if !meta.machine.nodes.is_empty() {
        return Ok(meta);
    }
    let Ok(bytes) = dir.below(GUEST).and_then(|guest| guest.read(EMULATED, MOST_META)) else {
        return Ok(meta);
    };
    let emulated: Emulated = serde_json::from_slice(&bytes)
        .map_err(|e| NoMeta::Foreign(format!("its {GUEST}/{EMULATED} cannot be read: {e}")))?;
    meta.machine = emulated.machine;
    Ok(meta)
}

/// Why bytes are not a meta.json of ours.
#[derive(Debug)]
pub enum NoMeta {
    /// They are none, or say what cannot be.
    Foreign(String),
    /// A later version wrote them.
    Newer {
        /// Which one.
        by: String,
        /// Its format.
        found: u32,
    },
}

/// Reads and checks the bytes of a meta.json.
///
/// # Errors
/// See [`NoMeta`].
pub fn meta_of(bytes: &[u8]) -> Result<Meta, NoMeta> {
    parsed(bytes).and_then(checked)
}

fn parsed(bytes: &[u8]) -> Result<Meta, NoMeta> {
    let value: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|e| NoMeta::Foreign(format!("its meta.json is no JSON ({e})")))?;
    let Some(format) = value.get("format").and_then(serde_json::Value::as_u64) else {
        return Err(NoMeta::Foreign("its meta.json names no format".into()));
    };
    if format > u64::from(FORMAT_VERSION) {
        let by = value.get("nearfar").and_then(|v| v.as_str()).unwrap_or("(unknown)").to_owned();
        return Err(NoMeta::Newer { by, found: u32::try_from(format).unwrap_or(u32::MAX) });
    }
    serde_json::from_value(value).map_err(|e| NoMeta::Foreign(format!("its meta.json is incomplete ({e})")))
}

fn checked(meta: Meta) -> Result<Meta, NoMeta> {
    meta.check().map_err(|why| NoMeta::Foreign(format!("in its meta.json, {why}")))?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_machine_of_a_recorder_that_was_killed_inside_is_the_emulated_one() {
        let old = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../nearfar/tests/recordings/format2-counted")
            .join(META);
        let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(old).unwrap()).unwrap();
        let emulated = serde_json::to_value(Machine::unknown()).unwrap();
        let machine = std::mem::replace(&mut meta["machine"], emulated);
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(META), meta.to_string()).unwrap();
        let read = || read_meta_in(&Dir::open(place.path()).unwrap());
        // Of no machine nothing can be said.
        assert!(matches!(read(), Err(OpenFailure::Foreign { .. })));
        let guest = place.path().join(GUEST);
        fs::create_dir(&guest).unwrap();
        fs::write(guest.join(EMULATED), serde_json::json!({ "machine": machine }).to_string()).unwrap();
        assert_eq!(serde_json::to_value(read().unwrap().machine).unwrap(), machine);
        fs::write(guest.join(EMULATED), "{}").unwrap();
        assert!(matches!(read(), Err(OpenFailure::Foreign { .. })));
    }
}
