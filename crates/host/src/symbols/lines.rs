//! Source positions of addresses, through `addr2line` on the module's DWARF.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use gimli::{EndianSlice, RunTimeEndian};

use super::image::Image;
use super::{debug_file, names};

/// How every DWARF section of this room is read.
pub(super) type Slice = EndianSlice<'static, RunTimeEndian>;

/// One source position of an address. An instruction that was inlined has several,
/// the innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The function's name as in the source: demangled, and `f [omp parallel]` for the
    /// body of an OpenMP construct in `f`. Empty when not known.
    pub function: String,
    /// The source file: the path in the debug information, joined with the directory
    /// of the compilation. Empty when not known.
    pub file: String,
    /// The line, counted from 1; 0 when not known.
    pub line: u32,
    /// The column, counted from 1; 0 when not known. For an outer frame that of the
    /// inlined call.
    pub column: u32,
}

/// The DWARF of one module. Units are parsed when an address of theirs is asked for.
pub(super) struct Lines {
    // Declared before the images it points into, so dropped before them.
    /// `addr2line` fills its caches through shared references, hence the lock.
    context: Mutex<addr2line::Context<Slice>>,
    pub dwarf: Arc<gimli::Dwarf<Slice>>,
    /// Where each unit of `.debug_info` begins, sorted.
    unit_starts: OnceLock<Vec<usize>>,
    _images: Vec<Arc<Image>>,
}

impl Lines {
    /// Reads the DWARF of the first of `images` that has any.
    pub fn new(images: &[Arc<Image>]) -> Option<Lines> {
        let image = images.iter().find(|i| i.section(".debug_info").is_some())?.clone();
        let mut keep = vec![image.clone()];
        let mut dwarf = load(&image);
        if let Some(supplement) = debug_file::find_supplementary(&image) {
            let supplement = Arc::new(supplement);
            dwarf.set_sup(load(&supplement));
            keep.push(supplement);
        }
        // Units of one link mostly share their abbreviations; parsing each once is
        // what keeps large binaries quick.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let dwarf = Arc::new(dwarf);
        let context = addr2line::Context::from_arc_dwarf(dwarf.clone()).ok()?;
        Some(Lines { context: Mutex::new(context), dwarf, unit_starts: OnceLock::new(), _images: keep })
    }

    /// Positions of `vaddr`; empty when the DWARF does not cover it.
    pub fn frames(&self, vaddr: u64) -> Vec<Frame> {
        self.ask(|context| {
            let mut frames = Vec::new();
            // Split DWARF (.dwo) is not loaded: its skeleton still gives file and line.
            let mut found = context.find_frames(vaddr).skip_all_loads().ok()?;
            while let Ok(Some(frame)) = found.next() {
                frames.push(own(&frame));
            }
            Some(frames)
        })
        .unwrap_or_default()
    }

    /// Code of a source line, with what was inlined there: of each row of the line table whose file ends with
    /// `file`, in whole parts of its path; touching ranges are one.
    pub fn code_of_line(&self, file: &str, line: u32) -> Vec<Range<u64>> {
        let of_file = |path: &str| {
            path.strip_suffix(file).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        self.ask(|context| {
            let unit = |address| {
                let unit = context.find_dwarf_and_unit(address).skip_all_loads()?;
                unit.header.debug_info_offset().map(|o| o.0)
            };
            let mut ranges: Vec<Range<u64>> = Vec::new();
            let mut units = HashSet::new();
            for (address, bytes, location) in context.find_location_range(0, u64::MAX).ok()? {
                if location.file.is_some_and(of_file) {
                    units.insert(unit(address));
                    if location.line == Some(line) {
                        ranges.push(address..address + bytes);
                    }
                }
            }
            // What was inlined has lines of its own, often of other files; its callers are looked up in the
            // units that have code of this file only, as that takes longer.
            let called_there = |address| {
                let mut frames = context.find_frames(address).skip_all_loads().ok()?;
                while let Ok(Some(frame)) = frames.next() {
                    let location = frame.location?;
                    if location.line == Some(line) && location.file.is_some_and(of_file) {
                        return Some(());
                    }
                }
                None
            };
            for (address, bytes, location) in context.find_location_range(0, u64::MAX).ok()? {
                let own = location.line == Some(line) && location.file.is_some_and(of_file);
                if !own && units.contains(&unit(address)) && called_there(address).is_some() {
                    ranges.push(address..address + bytes);
                }
            }
            ranges.sort_unstable_by_key(|r| r.start);
            ranges.dedup_by(|next, before| {
                let touch = next.start <= before.end;
                if touch {
                    before.end = before.end.max(next.end);
                }
                touch
            });
            Some(ranges)
        })
        .unwrap_or_default()
    }

    /// Asks addr2line. The crates below trust damaged DWARF in places, where their
    /// arithmetic panics if overflow checks are on; such a file must cost its own lines
    /// only, not the report.
    fn ask<T>(&self, question: impl FnOnce(&addr2line::Context<Slice>) -> Option<T>) -> Option<T> {
        // A panic leaves the caches either filled or empty, never half: they are set
        // once, after their value is complete. So the lock's poison means nothing.
        let context = self.context.lock().unwrap_or_else(|e| e.into_inner());
        crate::caught::or_none(|| question(&context))?
    }

    /// Parses the unit that holds an offset of `.debug_info`.
    pub fn unit_at(&self, at: gimli::DebugInfoOffset) -> Option<gimli::Unit<Slice>> {
        let starts = self.unit_starts.get_or_init(|| {
            let mut starts = Vec::new();
            let mut headers = self.dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                starts.extend(header.debug_info_offset().map(|o| o.0));
            }
            starts.sort_unstable();
            starts
        });
        let after = starts.partition_point(|&s| s <= at.0);
        let start = gimli::DebugInfoOffset(*starts.get(after.checked_sub(1)?)?);
        let header = self.dwarf.debug_info.header_from_offset(start).ok()?;
        self.dwarf.unit(header).ok()
    }

    /// Runs `read` on the unit that holds `vaddr`.
    pub fn with_unit<T>(
        &self,
        vaddr: u64,
        read: impl FnOnce(gimli::UnitRef<'_, Slice>) -> Option<T>,
    ) -> Option<T> {
        self.ask(|context| {
            let unit = context.find_dwarf_and_unit(vaddr).skip_all_loads()?;
            read(unit)
        })
    }
}

fn own(frame: &addr2line::Frame<'_, Slice>) -> Frame {
    let function = frame.function.as_ref().and_then(|f| f.raw_name().ok());
    let location = frame.location.as_ref();
    Frame {
        function: function.map_or_else(String::new, |raw| names::readable(&raw)),
        file: location.and_then(|l| l.file).unwrap_or_default().to_owned(),
        line: location.and_then(|l| l.line).unwrap_or(0),
        column: location.and_then(|l| l.column).unwrap_or(0),
    }
}

fn load(image: &Arc<Image>) -> gimli::Dwarf<Slice> {
    let endian = super::image::endian(image);
    let section = |id: gimli::SectionId| -> Result<Slice, std::convert::Infallible> {
        let bytes = image.section(id.name()).unwrap_or_default();
        // SAFETY: `Lines` keeps the image alive for as long as any reader made here
        // exists (`_images` is dropped last), and never hands one out: its methods
        // return owned values, and `with_unit` lends the unit only to its callback.
        let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Ok(EndianSlice::new(bytes, endian))
    };
    let Ok(dwarf) = gimli::Dwarf::load(section);
    dwarf
}

/// The file's path of entry `index` in a unit's line table, joined with its
/// directories in the same way as [`Frame::file`].
pub(super) fn file_path(unit: gimli::UnitRef<'_, Slice>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let text = |value| Some(unit.attr_string(value).ok()?.to_string_lossy().into_owned());
    let mut path = unit.comp_dir.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    // Before DWARF 5 directory 0 is the compilation directory itself.
    if (file.directory_index() != 0 || header.version() >= 5)
        && let Some(dir) = file.directory(header)
    {
        push(&mut path, &text(dir)?);
    }
    push(&mut path, &text(file.path_name())?);
    Some(path)
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        part.clone_into(path);
    } else {
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(part);
    }
}
