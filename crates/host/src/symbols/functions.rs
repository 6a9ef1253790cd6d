//! Which function an address belongs to, and where that function begins and ends.
//!
//! Three layers, asked in this order, because each is right about what it says but
//! silent about the rest:
//!
//! 1. symbols with a size (`.symtab`, `.dynsym`, and the debug file's `.symtab`);
//! 2. the ranges of `.eh_frame` / `.debug_frame`, which survive stripping and bound
//!    hand-written assembly such as glibc's memset variants;
//! 3. symbols without a size (assembly without `.size`), each reaching to the next
//!    known start.

use std::ops::Range;

use object::elf;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags};

use super::image::Image;
use super::names;

/// Ranges of one layer, disjoint in effect: among overlapping ones the latest start wins.
#[derive(Default)]
struct Layer {
    /// Sorted by start.
    starts: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    range: Range<u64>,
    /// Largest `range.end` of this and all earlier entries: where a backward search
    /// for an enclosing range may stop.
    reach: u64,
    /// Symbol name as in the file; empty for unwind ranges.
    name: String,
    /// Lower is better among several names for one start.
    rank: u32,
}

impl Layer {
    fn new(mut entries: Vec<Entry>) -> Layer {
        entries.sort_by(|a, b| (a.range.start, a.rank, &a.name).cmp(&(b.range.start, b.rank, &b.name)));
        entries.dedup_by(|later, kept| {
            let same = later.range.start == kept.range.start;
            if same {
                kept.range.end = kept.range.end.max(later.range.end);
            }
            same
        });
        let mut reach = 0;
        for entry in &mut entries {
            reach = reach.max(entry.range.end);
            entry.reach = reach;
        }
        Layer { starts: entries }
    }

    fn find(&self, vaddr: u64) -> Option<&Entry> {
        let upto = self.starts.partition_point(|e| e.range.start <= vaddr);
        self.starts[..upto].iter().rev().take_while(|e| e.reach > vaddr).find(|e| e.range.contains(&vaddr))
    }

    fn next_start(&self, vaddr: u64) -> Option<u64> {
        let after = self.starts.partition_point(|e| e.range.start <= vaddr);
        self.starts.get(after).map(|e| e.range.start)
    }
}

/// The functions of a module, sorted once.
pub(super) struct Functions {
    sized: Layer,
    unwind: Layer,
    unsized_: Layer,
}

impl Functions {
    pub fn new(image: &Image, debug: Option<&Image>) -> Functions {
        let code = code_sections(image);
        let is_code = |vaddr: u64| {
            let i = code.partition_point(|c| c.range.start <= vaddr);
            i.checked_sub(1).map(|i| &code[i]).filter(|c| c.range.contains(&vaddr))
        };
        let (mut sized, mut open) = (Vec::new(), Vec::new());
        for image in [Some(image), debug].into_iter().flatten() {
            let elf = image.elf();
            for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
                let raw = symbol.elf_symbol();
                let kind = raw.st_type();
                let start = symbol.address();
                let Some(section) = is_code(start) else {
                    continue;
                };
                let is_function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
                let is_label = kind == elf::STT_NOTYPE && raw.st_bind() == elf::STB_GLOBAL;
                let Ok(name) = symbol.name() else { continue };
                // "$x" and "$d" are the ARM assembler's marks, not names.
                if symbol.is_undefined() || name.is_empty() || name.starts_with('$') {
                    continue;
                }
                let entry = Entry {
                    range: start..start.saturating_add(symbol.size()).min(section.range.end),
                    reach: 0,
                    name: name.to_owned(),
                    rank: rank(raw.st_bind(), name),
                };
                if is_function && symbol.size() > 0 {
                    sized.push(entry);
                } else if is_function || is_label {
                    open.push(entry);
                }
            }
        }
        let unwind = unwind_ranges(image, debug)
            .into_iter()
            // A procedure linkage table has one range for all its stubs: not a function.
            .filter(|range| is_code(range.start).is_some_and(|c| !c.is_linkage))
            .map(|range| Entry { range, reach: 0, name: String::new(), rank: 0 })
            .collect();
        let sized = Layer::new(sized);
        let unwind = Layer::new(unwind);
        let mut open_starts: Vec<u64> = open.iter().map(|e| e.range.start).collect();
        open_starts.sort_unstable();
        for entry in &mut open {
            let start = entry.range.start;
            let section_end = is_code(start).map_or(start, |c| c.range.end);
            let next_open = open_starts.get(open_starts.partition_point(|&s| s <= start)).copied();
            let next =
                [next_open, sized.next_start(start), unwind.next_start(start)].into_iter().flatten().min();
            entry.range.end = next.unwrap_or(section_end).min(section_end);
        }
        open.retain(|e| !e.range.is_empty());
        Functions { sized, unwind, unsized_: Layer::new(open) }
    }

    /// Bounds of the function around `vaddr`.
    pub fn range(&self, vaddr: u64) -> Option<Range<u64>> {
        [&self.sized, &self.unwind, &self.unsized_]
            .into_iter()
            .find_map(|layer| layer.find(vaddr))
            .map(|entry| entry.range.clone())
    }

    /// The mangled name of the function around `vaddr`.
    pub fn name(&self, vaddr: u64) -> Option<&str> {
        if let Some(entry) = self.sized.find(vaddr) {
            return Some(&entry.name);
        }
        let entry = self.unsized_.find(vaddr)?;
        // A label before an unnamed function must not lend it its name.
        match self.unwind.find(vaddr) {
            Some(bounds) if bounds.range.start > entry.range.start => None,
            _ => Some(&entry.name),
        }
    }
}

/// Prefers the name people use: `malloc` over `__libc_malloc`, exported over local.
fn rank(bind: u8, name: &str) -> u32 {
    let underscores = name.bytes().take_while(|&b| b == b'_').count() as u32;
    let mangled = names::is_mangled(name);
    let bind = match bind {
        elf::STB_GLOBAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    if mangled { bind } else { underscores.min(9) * 4 + bind }
}

struct CodeSection {
    range: Range<u64>,
    is_linkage: bool,
}

fn code_sections(image: &Image) -> Vec<CodeSection> {
    let mut sections: Vec<CodeSection> = image
        .elf()
        .sections()
        .filter(|s| {
            matches!(s.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0)
        })
        .filter_map(|s| {
            Some(CodeSection {
                range: s.address()..s.address().checked_add(s.size())?,
                is_linkage: s.name().is_ok_and(|n| n.starts_with(".plt")),
            })
        })
        .collect();
    // A file without section headers (sstrip, some packers) still has segments.
    if sections.is_empty() {
        sections = image
            .segments
            .iter()
            .filter(|s| s.executable)
            .filter_map(|s| {
                Some(CodeSection { range: s.vaddr..s.vaddr.checked_add(s.file_bytes)?, is_linkage: false })
            })
            .collect();
    }
    sections.sort_by_key(|s| s.range.start);
    sections
}

/// Ranges of all frame descriptions, from `.eh_frame` and `.debug_frame`.
fn unwind_ranges(image: &Image, debug: Option<&Image>) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let bases = base_addresses(image);
    if let Some(bytes) = image.section(".eh_frame") {
        let section = gimli::EhFrame::new(bytes, super::image::endian(image));
        collect_ranges(&section, &bases, &mut ranges);
    }
    let with_frames = [Some(image), debug].into_iter().flatten().find_map(|i| i.section(".debug_frame"));
    if let Some(bytes) = with_frames {
        let mut section = gimli::DebugFrame::new(bytes, super::image::endian(image));
        section.set_address_size(8);
        collect_ranges(&section, &bases, &mut ranges);
    }
    ranges
}

fn collect_ranges<R, S>(section: &S, bases: &gimli::BaseAddresses, ranges: &mut Vec<Range<u64>>)
where
    R: gimli::Reader<Offset = usize>,
    S: gimli::UnwindSection<R>,
    S::Offset: gimli::UnwindOffset<R::Offset>,
{
    let mut entries = section.entries(bases);
    let mut last_cie: Option<(S::Offset, gimli::CommonInformationEntry<R>)> = None;
    // A damaged entry ends the walk; what was read before it stays valid.
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        // Thousands of entries share one parent: parse it once.
        let fde = partial.parse(|section, bases, offset| {
            if let Some((at, cie)) = &last_cie
                && *at == offset
            {
                return Ok(cie.clone());
            }
            let cie = section.cie_from_offset(bases, offset)?;
            last_cie = Some((offset, cie.clone()));
            Ok(cie)
        });
        let Ok(fde) = fde else { continue };
        let start = fde.initial_address();
        if let Some(end) = start.checked_add(fde.len())
            && end > start
            && start != 0
        {
            ranges.push(start..end);
        }
    }
}

/// The range of the frame description around `vaddr`, by the sorted table in `.eh_frame_hdr`. One look instead of the
/// tens of thousands of symbols that [`Functions`] sorts. None where the file has no such table, or the
/// range is that of a procedure linkage table.
pub(super) fn unwind_range(image: &Image, vaddr: u64) -> Option<Range<u64>> {
    let endian = super::image::endian(image);
    let bases = base_addresses(image);
    let header = gimli::EhFrameHdr::new(image.section(".eh_frame_hdr")?, endian).parse(&bases, 8).ok()?;
    let frames = gimli::EhFrame::new(image.section(".eh_frame")?, endian);
    let find = gimli::UnwindSection::cie_from_offset;
    let fde = header.table()?.fde_for_address(&frames, &bases, vaddr, find).ok()?;
    let start = fde.initial_address();
    let range = start..start.checked_add(fde.len())?;
    // Where a gap has no description, the table gives the one before it.
    let linkage = || code_sections(image).iter().any(|c| c.is_linkage && c.range.contains(&start));
    (start != 0 && range.contains(&vaddr) && !linkage()).then_some(range)
}

/// The addresses that pointers inside `.eh_frame` may be relative to.
pub(super) fn base_addresses(image: &Image) -> gimli::BaseAddresses {
    let start = |name| image.section_range(name).map_or(0, |r| r.start);
    gimli::BaseAddresses::default()
        .set_eh_frame(start(".eh_frame"))
        .set_eh_frame_hdr(start(".eh_frame_hdr"))
        .set_text(start(".text"))
        .set_got(start(".got"))
}
