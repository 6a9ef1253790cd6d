//! One ELF file in memory: its bytes, its headers, its sections.
//!
//! An [`Image`] is either the module itself or the file that carries its debug
//! information; everything else in this room reads through it.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail, ensure};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection};

/// What `object` gives for a 64-bit ELF file of either byte order.
pub(super) type Elf<'a> = ElfFile64<'a, Endianness>;

/// One `PT_LOAD` program header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub file_offset: u64,
    pub file_bytes: u64,
    pub vaddr: u64,
    pub align: u64,
    pub executable: bool,
}

/// A mapped ELF file with its headers parsed.
///
/// `elf` and the decompressed sections point into memory that this struct owns
/// and never moves; they are given out only with the lifetime of `&self`.
pub(super) struct Image {
    // Declared (and so dropped) before the memory it points into.
    elf: Elf<'static>,
    /// Sections that were compressed in the file, by name. Boxed slices are never
    /// removed or replaced, so their addresses hold as long as the image does.
    unpacked: Mutex<HashMap<String, Option<Box<[u8]>>>>,
    pub path: PathBuf,
    pub modified: Option<SystemTime>,
    pub mode: u32,
    pub segments: Vec<Segment>,
    pub has_interpreter: bool,
    _bytes: memmap2::Mmap,
}

impl Image {
    pub fn open(path: &Path) -> Result<Image> {
        // The path is a recording's word: a FIFO would be waited for.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let meta =
            file.metadata().with_context(|| format!("cannot read the attributes of {}", path.display()))?;
        // A device or a fifo would block or grow for ever.
        ensure!(meta.is_file(), "{} is not a regular file", path.display());
        ensure!(meta.len() > 0, "{} is empty", path.display());
        // SAFETY: the mapping is private and read-only. What mmap cannot promise is
        // that no process truncates the file while it is mapped (the access would raise
        // SIGBUS); linkers and package managers write a new file and rename it,
        // which leaves the mapped one whole, and every debugger relies on that too.
        let bytes =
            unsafe { memmap2::Mmap::map(&file) }.with_context(|| format!("cannot map {}", path.display()))?;
        // SAFETY: the mapping's address does not change when `bytes` moves into the
        // struct, it lives until the struct is dropped, and `elf`, the only holder of
        // this reference, is private and dropped first.
        let data: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        if data.len() >= 5 && data[..4] == elf::ELFMAG && data[4] == elf::ELFCLASS32 {
            bail!("{} is a 32-bit program; only 64-bit ELF is read", path.display());
        }
        let elf = Elf::parse(data)
            .with_context(|| format!("{} is not a readable 64-bit ELF file", path.display()))?;
        let endian = elf.endian();
        let mut segments = Vec::new();
        let mut has_interpreter = false;
        for header in elf.elf_program_headers() {
            match header.p_type(endian) {
                elf::PT_LOAD => segments.push(Segment {
                    file_offset: header.p_offset(endian),
                    file_bytes: header.p_filesz(endian),
                    vaddr: header.p_vaddr(endian),
                    align: header.p_align(endian),
                    executable: header.p_flags(endian) & elf::PF_X != 0,
                }),
                elf::PT_INTERP => has_interpreter = true,
                _ => {}
            }
        }
        use std::os::unix::fs::PermissionsExt as _;
        Ok(Image {
            elf,
            unpacked: Mutex::default(),
            path: path.to_path_buf(),
            modified: meta.modified().ok(),
            mode: meta.permissions().mode(),
            segments,
            has_interpreter,
            _bytes: bytes,
        })
    }

    /// The parsed file.
    pub fn elf(&self) -> &Elf<'_> {
        &self.elf
    }

    /// Whether the file is fixed at its address (`ET_EXEC`) rather than relocatable.
    pub fn is_fixed(&self) -> bool {
        self.elf.elf_header().e_type(self.elf.endian()) == elf::ET_EXEC
    }

    /// The build id as lower-case hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        let id = self.elf.build_id().ok()??;
        // An empty or one-byte note cannot name a debug file.
        (id.len() >= 2).then(|| id.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// Address range of a section with bytes to read, None for a missing or empty one.
    pub fn section_range(&self, name: &str) -> Option<Range<u64>> {
        let section = self.elf.section_by_name(name)?;
        let start = section.address();
        (section.size() > 0).then_some(start..start.checked_add(section.size())?)
    }

    /// The bytes of a section, decompressed when the file has them compressed.
    ///
    /// None when the section is missing, empty, NOBITS (as the code sections of a
    /// separate debug file are) or damaged.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        let section = self.elf.section_by_name(name)?;
        let packed = section.compressed_data().ok()?;
        if packed.format == object::CompressionFormat::None {
            return (!packed.data.is_empty()).then_some(packed.data);
        }
        let mut unpacked = self.unpacked.lock().unwrap_or_else(|e| e.into_inner());
        let entry = unpacked.entry(name.to_owned()).or_insert_with(|| {
            // A damaged header may claim any size; deflate and zstd do not exceed
            // about 1000:1, so anything above is a lie and not worth the memory.
            let limit = (packed.data.len() as u64).saturating_mul(2000);
            if packed.uncompressed_size > limit {
                return None;
            }
            Some(packed.decompress().ok()?.into_owned().into_boxed_slice())
        });
        let bytes = entry.as_deref()?;
        // SAFETY: the box is owned by `self.unpacked`, which never removes or replaces
        // an entry, so the bytes stay put for as long as `self` does.
        Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }

    /// File bytes behind a range of addresses, when one segment holds all of it.
    pub fn bytes_at(&self, range: &Range<u64>) -> Option<&[u8]> {
        let wanted = range.end.checked_sub(range.start)?;
        let segment = self.segments.iter().find(|s| {
            range
                .start
                .checked_sub(s.vaddr)
                .and_then(|within| within.checked_add(wanted))
                .is_some_and(|end| end <= s.file_bytes)
        })?;
        let start = segment.file_offset.checked_add(range.start - segment.vaddr)?;
        let end = start.checked_add(wanted)?;
        self.elf.data().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

/// A section's bytes together with the file that keeps them alive.
#[derive(Default)]
pub(super) struct OwnedSection {
    bytes: &'static [u8],
    _owner: Option<Arc<Image>>,
}

impl std::ops::Deref for OwnedSection {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl Image {
    /// As [`Image::section`], for holders that outlive a borrow.
    pub fn section_owned(self: &Arc<Image>, name: &str) -> Option<OwnedSection> {
        let bytes = self.section(name)?;
        // SAFETY: the bytes live as long as the image, which `_owner` keeps; they are
        // reachable only through `deref`, with the lifetime of the OwnedSection.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        Some(OwnedSection { bytes, _owner: Some(self.clone()) })
    }
}

/// The byte order of a file, in gimli's words.
pub(super) fn endian(image: &Image) -> gimli::RunTimeEndian {
    if image.elf().is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big }
}

/// Larger than any source file written by people.
const MOST_SOURCE_BYTES: u64 = 16 << 20;

/// Reads a source file if it can still be what the binary was made from.
pub(super) fn read_source(image: &Image, path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let newer = meta.modified().ok()? > image.modified?;
    if newer {
        return None;
    }
    let bytes = crate::input::read(path, MOST_SOURCE_BYTES).ok()?;
    // Old sources carry Latin-1 in their comments; columns count bytes either way.
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            error.into_bytes().into_iter().map(|b| if b.is_ascii() { b as char } else { ' ' }).collect()
        }
    })
}
