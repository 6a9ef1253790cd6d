//! What an address of a program means: its function, its source line, its variable.
//!
//! A [`Module`] is one ELF file, asked by the addresses written in it (`vaddr`); the
//! collector turns a process's addresses into those with [`Module::bias_of_mapping`].
//! An [`Unwinder`] turns registers and a copy of the stack into return addresses.
//! What runs on behalf of its caller (libc, OpenMP's runtime) is distinguished from the
//! program itself by [`is_runtime`], [`is_allocator_function`] and [`waits`].
//!
//! Everything is parsed when first asked for: opening reads the headers, the first
//! function sorts the symbols, the first source line indexes the DWARF units, and a
//! unit is parsed when an address of its own comes up.
//!
//! One mechanism reads DWARF: `gimli`, which `addr2line` (lines and inlining) and
//! `framehop` (unwinding) stand on too. blazesym would read the same sections a second
//! time and has no API for variables or unwinding.

mod debug_file;
mod dies;
mod functions;
pub mod generated;
mod image;
mod lines;
mod names;
mod receiver;
mod runtime;
mod source;
mod statics;
mod unwind;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use anyhow::Result;
use object::Object;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader as _};

pub use lines::Frame;
pub use names::readable;
pub use receiver::{NameSource, Received};
pub use runtime::{
    AGENT_MEMORY, Waits, is_agent, is_allocator_function, is_library_frame, is_runtime, may_wait_by_name,
    waits,
};
pub use statics::StaticVariable;
pub use unwind::{Regs, Unwinder};

use functions::Functions;
use image::Image;
use lines::Lines;

/// One ELF file: an executable, a shared library or the kernel's vdso image.
///
/// Can be shared between threads. Every address taken or returned is one written in
/// the file (`vaddr`), not one of a running process.
pub struct Module {
    image: Arc<Image>,
    /// The separate debug file, looked for when first needed.
    debug: OnceLock<Option<Arc<Image>>>,
    functions: OnceLock<Functions>,
    lines: OnceLock<Option<Lines>>,
    /// What [`Module::every_static`] found.
    statics: OnceLock<Vec<StaticVariable>>,
    /// What [`Module::code_range`] found: first byte and end. It is asked for every sample.
    code_ranges: Mutex<BTreeMap<u64, u64>>,
    /// Source files read so far; None for those that cannot be used.
    sources: Mutex<HashMap<PathBuf, Option<Arc<str>>>>,
}

impl Module {
    /// Opens an ELF file and reads its headers.
    ///
    /// Fails on what is not a readable, regular 64-bit ELF file.
    pub fn open(path: &Path) -> Result<Module> {
        Ok(Module {
            image: Arc::new(Image::open(path)?),
            debug: OnceLock::new(),
            functions: OnceLock::new(),
            lines: OnceLock::new(),
            statics: OnceLock::new(),
            code_ranges: Mutex::default(),
            sources: Mutex::default(),
        })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.image.path
    }

    /// The separate debug file in use, if one was needed and found.
    pub fn debug_file(&self) -> Option<PathBuf> {
        self.debug().map(|image| image.path.clone())
    }

    /// The build id as lower-case hexadecimal digits.
    pub fn build_id(&self) -> Option<String> {
        self.image.build_id()
    }

    /// Whether its code is that of x86 processors in 64 bits.
    pub fn is_x86_64(&self) -> bool {
        let elf = self.image.elf();
        elf.elf_header().e_machine(elf.endian()) == elf::EM_X86_64
    }

    /// The address at a file offset, through the program headers.
    ///
    /// For any byte of a mapping of this file: `map.offset + (address - map.start)`.
    /// An executable segment wins where page rounding makes two overlap.
    pub fn vaddr_of_file_offset(&self, offset: u64) -> Option<u64> {
        let segments = || self.image.segments.iter();
        let within =
            |s: &&image::Segment| offset.checked_sub(s.file_offset).is_some_and(|o| o < s.file_bytes);
        let segment = segments().find(|s| s.executable && within(s)).or_else(|| segments().find(within))?;
        Some(segment.vaddr.wrapping_add(offset - segment.file_offset))
    }

    /// What to subtract from a process's address to get a `vaddr`, given the start and
    /// file offset of one of the module's **executable** mappings.
    ///
    /// The kernel rounds a mapping's offset down to a page, so it may lie before its
    /// segment. Data mappings are not enough: two of them can start on the same page
    /// of the file. The value wraps for a module mapped below its own addresses.
    pub fn bias_of_mapping(&self, start: u64, file_offset: u64) -> Option<u64> {
        let rounded = |s: &&image::Segment| {
            s.executable
                && match file_offset.checked_sub(s.file_offset) {
                    Some(within) => within < s.file_bytes,
                    None => s.file_offset - file_offset < s.align.max(4096),
                }
        };
        let segment = self.image.segments.iter().find(rounded)?;
        let vaddr = segment.vaddr.wrapping_add(file_offset).wrapping_sub(segment.file_offset);
        Some(start.wrapping_sub(vaddr))
    }

    /// Whether this is an executable that no dynamic linker loads: a preloaded
    /// library cannot enter it.
    pub fn is_static_executable(&self) -> bool {
        !self.image.has_interpreter && (self.image.is_fixed() || self.is_pie())
    }

    /// Whether the kernel raises privileges on executing the file (set-user-id,
    /// set-group-id or file capabilities). Such programs ignore `LD_PRELOAD` and refuse
    /// to be measured by an ordinary user.
    pub fn is_setuid(&self) -> bool {
        let special = self.image.mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        special || has_capabilities(&self.image.path)
    }

    /// Whether the file was linked position-independent as an executable.
    fn is_pie(&self) -> bool {
        self.dynamic(elf::DT_FLAGS_1).any(|flags| flags & u64::from(elf::DF_1_PIE) != 0)
    }

    /// File names of the libraries that the module was linked against.
    fn needed_libraries(&self) -> Vec<&str> {
        let strings = self.image.section(".dynstr").unwrap_or_default();
        self.dynamic(elf::DT_NEEDED)
            .filter_map(|at| {
                let rest = strings.get(usize::try_from(at).ok()?..)?;
                std::str::from_utf8(rest.split(|&b| b == 0).next()?).ok()
            })
            .collect()
    }

    /// Values of the dynamic section's entries with this tag.
    fn dynamic(&self, tag: i64) -> impl Iterator<Item = u64> {
        let elf = self.image.elf();
        let endian = elf.endian();
        let entries = elf
            .elf_section_table()
            .dynamic(endian, elf.data())
            .ok()
            .flatten()
            .map_or(&[][..], |(entries, _)| entries);
        entries.iter().filter(move |e| e.d_tag(endian) == tag).map(move |e| e.d_val(endian))
    }

    /// Bounds of the function around `vaddr`: its first byte is where an instruction
    /// begins, so that disassembly can start there. None in procedure linkage tables
    /// and where nothing bounds the code.
    pub fn function_range(&self, vaddr: u64) -> Option<Range<u64>> {
        self.functions().range(vaddr)
    }

    /// Bounds around `vaddr` from whose first byte disassembly can start, for questions while a program runs: those
    /// of the unwind tables where they know, which costs one look; else those of [`Module::function_range`].
    pub fn code_range(&self, vaddr: u64) -> Option<Range<u64>> {
        let mut known = self.code_ranges.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((&start, &end)) = known.range(..=vaddr).next_back()
            && vaddr < end
        {
            return Some(start..end);
        }
        let range = functions::unwind_range(&self.image, vaddr).or_else(|| self.functions().range(vaddr))?;
        known.insert(range.start, range.end);
        Some(range)
    }

    /// Its machine code (`.text`), and at which address it begins.
    pub fn text(&self) -> Option<(u64, &[u8])> {
        Some((self.image.section_range(".text")?.start, self.image.section(".text")?))
    }

    /// The file's bytes at a range of addresses. None when part of it is not in the file.
    pub fn code(&self, range: Range<u64>) -> Option<&[u8]> {
        self.image.bytes_at(&range)
    }

    /// The function that the code at `vaddr` was compiled into, by its symbol; None without one. Asks no DWARF
    /// where there are symbols: it is for questions while the program runs.
    pub fn function(&self, vaddr: u64) -> Option<String> {
        let symbol = self.functions().name(vaddr).map(names::readable);
        symbol
            .or_else(|| self.frames(vaddr).pop().map(|frame| frame.function))
            .filter(|name| !name.is_empty())
    }

    /// Source positions of `vaddr`, the innermost inlined function first.
    ///
    /// Without debug information, and in libraries that act for their caller whose debug information is a separate file: one
    /// frame with the symbol's name, an empty file and line 0. Empty when not even a symbol is known. For a return address pass
    /// `address - 1`, which is in the call.
    pub fn frames(&self, vaddr: u64) -> Vec<Frame> {
        // The last address of all is not code, and the crates below add 1 to it.
        if vaddr == u64::MAX {
            return Vec::new();
        }
        let mut frames = self.lines().map_or_else(Vec::new, |l| l.frames(vaddr));
        let symbol = || self.functions().name(vaddr).map(names::readable);
        match frames.last_mut() {
            // Assembly has lines but no functions.
            Some(outermost) if outermost.function.is_empty() => {
                outermost.function = symbol().unwrap_or_default();
            }
            Some(_) => {}
            None => frames.extend(symbol().map(|function| Frame {
                function,
                file: String::new(),
                line: 0,
                column: 0,
            })),
        }
        frames
    }

    /// Addresses of the code of a source line; `file` is the end of its path, in whole parts. Empty without
    /// debug information, or if the line has no code.
    pub fn code_of_line(&self, file: &str, line: u32) -> Vec<Range<u64>> {
        self.lines().map_or_else(Vec::new, |l| l.code_of_line(file, line))
    }

    fn functions(&self) -> &Functions {
        self.functions.get_or_init(|| Functions::new(&self.image, self.debug().map(|i| &**i)))
    }

    fn lines(&self) -> Option<&Lines> {
        self.lines
            .get_or_init(|| {
                let mut images = vec![self.image.clone()];
                // Of what acts for its caller the function's name is enough. To unpack and index the C library's debug
                // information took half of the processor time of recording a program that does nothing (0.19 s with it, 0.09 without).
                if !is_runtime(&self.path().to_string_lossy()) {
                    images.extend(self.debug().cloned());
                }
                Lines::new(&images)
            })
            .as_ref()
    }

    fn source_text(&self, path: &Path) -> Option<Arc<str>> {
        let mut sources = self.sources.lock().unwrap_or_else(|e| e.into_inner());
        sources
            .entry(path.to_path_buf())
            .or_insert_with(|| image::read_source(&self.image, path).map(Arc::from))
            .clone()
    }

    /// The separate debug file, for a module that lacks DWARF or a symbol table.
    fn debug(&self) -> Option<&Arc<Image>> {
        self.debug
            .get_or_init(|| {
                let elf = self.image.elf();
                let complete = self.image.section(".debug_info").is_some() && elf.symbol_table().is_some();
                if complete {
                    return None;
                }
                debug_file::find(&self.image).map(Arc::new)
            })
            .as_ref()
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Module").field(&self.image.path).finish()
    }
}

fn has_capabilities(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: both names are terminated strings that outlive the call; with a size of
    // 0 the kernel writes nothing and returns the attribute's size.
    let size =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}
