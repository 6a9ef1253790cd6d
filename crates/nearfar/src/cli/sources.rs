//! Lines of the program's source for a page: only where the user asks for them, because a page is made to be passed on.
//!
//! The names of the files come from the recording. Only regular files with the name of a source file are read, and of
//! them only lines around those that the report names.

use nearfar_analyze::Report;
use nearfar_report::html::{Source, SourceLine};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Files, their bytes, the lines kept of each, and the letters of a line, at most. // chosen
const FILES: usize = 40;
const BYTES: u64 = 4 << 20;
const LINES: usize = 600;
const LETTERS: usize = 240;
/// Lines kept before and after one that the report names. // chosen
const AROUND: u32 = 8;
/// Endings of the names of source files.
const ENDINGS: [&str; 24] = [
    "c", "cc", "cpp", "cxx", "c++", "cu", "h", "hh", "hpp", "hxx", "inl", "ipp", "tcc", "f", "for", "f77",
    "f90", "f95", "f03", "f08", "rs", "go", "d", "zig",
];

/// The lines around those that a report names, and what is missing, in words. `recorded`: when the recording ended.
pub(super) fn gather(report: &Report, recorded: Option<SystemTime>) -> (Vec<Source>, Vec<String>) {
    let (mut sources, mut missing) = (Vec::new(), Vec::new());
    let named = named(report);
    for (file, lines) in named.iter().take(FILES) {
        match read(Path::new(file), lines, recorded) {
            Ok((changed, lines)) => sources.push(Source { file: (*file).to_owned(), changed, lines }),
            Err(why) => missing.push(format!("{file}: {why}")),
        }
    }
    if named.len() > FILES {
        missing.push(format!("{} files more: a page has {FILES}", named.len() - FILES));
    }
    (sources, missing)
}

/// Lines by file.
fn named(report: &Report) -> BTreeMap<&str, BTreeSet<u32>> {
    let functions = report.functions.iter().flat_map(|f| &f.lines);
    let objects = report.objects.iter().take(100);
    let uses = functions.chain(objects.clone().flat_map(|o| &o.accessed_at)).filter_map(|u| u.at.as_deref());
    let touches = objects.clone().flat_map(|o| &o.first_touch).filter_map(|t| t.at.as_deref());
    let causes = report.findings.iter().filter_map(|f| f.cause.at.as_deref());
    let allocated = objects.filter_map(|o| o.allocated_at.as_deref());
    let mut named: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for at in uses.chain(touches).chain(causes).chain(allocated) {
        if let Some((file, line)) = at.rsplit_once(':')
            && let Ok(line @ 1..) = line.parse()
        {
            named.entry(file).or_default().insert(line);
        }
    }
    named
}

fn read(
    file: &Path,
    named: &BTreeSet<u32>,
    recorded: Option<SystemTime>,
) -> Result<(Option<bool>, Vec<SourceLine>), String> {
    let ending = file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    if !ENDINGS.contains(&ending.as_str()) {
        return Err("not the name of a source file".to_owned());
    }
    // A FIFO would wait for its writer.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file);
    let opened = opened.map_err(|e| e.to_string())?;
    let about = opened.metadata().map_err(|e| e.to_string())?;
    if !about.is_file() || about.len() > BYTES {
        return Err("not a regular file, or too large".to_owned());
    }
    let mut bytes = Vec::new();
    opened.take(BYTES).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let wanted =
        |line: u32| named.range(line.saturating_sub(AROUND)..=line.saturating_add(AROUND)).next().is_some();
    let lines = (1u32..).zip(text.lines()).filter(|(line, _)| wanted(*line));
    let lines = lines.map(|(line, text)| SourceLine { line, text: text.chars().take(LETTERS).collect() });
    let changed = about.modified().ok().zip(recorded).map(|(file, recorded)| file > recorded);
    Ok((changed, lines.take(LINES).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_with_the_name_of_a_source_are_read() {
        let own = std::env::temp_dir().join(format!("nearfar-sources-{}", std::process::id()));
        std::fs::create_dir_all(own.join("folder.c")).unwrap();
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        std::fs::write(own.join("a.cpp"), &text).unwrap();
        std::fs::write(own.join("id_rsa"), &text).unwrap();
        let fifo = std::ffi::CString::new(own.join("fifo.c").to_str().unwrap()).unwrap();
        // SAFETY: a valid string that ends with 0.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let at = BTreeSet::from([50]);
        let (_, lines) = read(&own.join("a.cpp"), &at, None).unwrap();
        let numbers: Vec<u32> = lines.iter().map(|l| l.line).collect();
        assert_eq!(numbers, (42..=58).collect::<Vec<_>>());
        assert_eq!(lines[8].text, "line 50");
        for name in ["id_rsa", "folder.c", "fifo.c", "missing.c"] {
            assert!(read(&own.join(name), &at, None).is_err(), "{name}");
        }
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert_eq!(read(&own.join("a.cpp"), &at, Some(later)).unwrap().0, Some(false));
        assert_eq!(read(&own.join("a.cpp"), &at, Some(SystemTime::UNIX_EPOCH)).unwrap().0, Some(true));
        std::fs::remove_dir_all(&own).unwrap();
    }
}
