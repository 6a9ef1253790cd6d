//! The static variables of a module: global arrays, function-local statics, Fortran's
//! COMMON blocks and module variables.

use std::collections::BTreeMap;

use gimli::{AttributeValue, Operation, UnitRef, constants as dw};
use object::elf;
use object::{Object, ObjectSymbol};

use super::lines::{Lines, Slice};
use super::{Module, dies, is_runtime, names};

/// A variable with one fixed place in the module's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticVariable {
    /// The source's name, demangled; `common /name/` for a Fortran COMMON block.
    pub name: String,
    /// Address in the file's own numbering.
    pub vaddr: u64,
    /// Its size.
    pub bytes: u64,
    /// File of its declaration; empty when not known.
    pub file: String,
    /// Line of its declaration; 0 when not known.
    pub line: u32,
}

impl Module {
    /// The static variables of at least `min_bytes`: symbols, and what only the DWARF
    /// knows. Thread-local variables have no one address and are left out. Sorted by
    /// address.
    pub fn statics(&self, min_bytes: u64) -> Vec<StaticVariable> {
        statics(self, min_bytes)
    }

    /// All of them, looked for once: the ranks of a launch map the same files.
    pub fn every_static(&self) -> &[StaticVariable] {
        self.statics.get_or_init(|| statics(self, 1))
    }
}

fn statics(module: &Module, min_bytes: u64) -> Vec<StaticVariable> {
    let mut found = from_symbols(module, min_bytes.max(1));
    // Runtimes, such as the C library, keep the names of their symbols: reading libc's debug information took a third of
    // a second in an unoptimised build, and no user places a variable of it.
    if !is_runtime(&module.path().to_string_lossy())
        && let Some(lines) = module.lines()
    {
        add_dwarf(lines, min_bytes.max(1), &mut found);
    }
    found.into_values().map(|f| f.variable).collect()
}

struct Found {
    variable: StaticVariable,
    /// The symbol's name says more than the DWARF's (namespaces, modules).
    qualified: bool,
    /// Lower is better among several symbols for one address.
    rank: (bool, usize),
}

fn from_symbols(module: &Module, min_bytes: u64) -> BTreeMap<u64, Found> {
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let fortran = needs_gfortran(module);
    for image in [Some(&module.image), module.debug()].into_iter().flatten() {
        let elf = image.elf();
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            let raw = symbol.elf_symbol();
            let bytes = symbol.size();
            if raw.st_type() != elf::STT_OBJECT || bytes < min_bytes || symbol.is_undefined() {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let underscores = name.bytes().take_while(|&b| b == b'_').count();
            let rank = (raw.st_bind() == elf::STB_LOCAL, underscores);
            let vaddr = symbol.address();
            if vaddr.checked_add(bytes).is_none() {
                continue;
            }
            if let Some(known) = found.get(&vaddr)
                && (known.variable.bytes, std::cmp::Reverse(known.rank)) >= (bytes, std::cmp::Reverse(rank))
            {
                continue;
            }
            let shown = match name.strip_suffix('_') {
                _ if name == "__BLNK__" => "common //".to_owned(),
                // Without DWARF a trailing underscore is gfortran's only trace.
                Some(block) if fortran && !block.is_empty() && !block.contains('.') => {
                    format!("common /{block}/")
                }
                _ => names::readable_static(name),
            };
            let qualified = names::is_mangled(name) || name.contains("_MOD_");
            let variable = StaticVariable { name: shown, vaddr, bytes, file: String::new(), line: 0 };
            found.insert(vaddr, Found { variable, qualified, rank });
        }
    }
    found
}

fn needs_gfortran(module: &Module) -> bool {
    module.needed_libraries().iter().any(|n| n.starts_with("libgfortran"))
}

/// Adds declarations' places to what the symbols gave, and variables without a symbol.
fn add_dwarf(lines: &Lines, min_bytes: u64, found: &mut BTreeMap<u64, Found>) {
    let mut headers = lines.dwarf.units();
    // A damaged unit is skipped; the others stay readable.
    while let Ok(Some(header)) = headers.next() {
        if let Ok(unit) = lines.dwarf.unit(header) {
            let unit = UnitRef::new(&lines.dwarf, &unit);
            scan_unit(lines, unit, min_bytes, found);
        }
    }
}

/// A COMMON block whose members are being read.
struct Common {
    depth: isize,
    at: gimli::UnitOffset,
    start: u64,
    end: u64,
}

fn scan_unit(lines: &Lines, unit: UnitRef<'_, Slice>, min_bytes: u64, found: &mut BTreeMap<u64, Found>) {
    let mut entries = unit.entries();
    let mut common: Option<Common> = None;
    while let Ok(Some(entry)) = entries.next_dfs() {
        let depth = entry.depth();
        if common.as_ref().is_some_and(|c| depth <= c.depth)
            && let Some(done) = common.take()
        {
            finish_common(lines, unit, &done, min_bytes, found);
        }
        match entry.tag() {
            dw::DW_TAG_common_block => {
                common = Some(Common { depth, at: entry.offset(), start: u64::MAX, end: 0 });
            }
            dw::DW_TAG_variable => {
                let Some(vaddr) = fixed_address(unit, entry) else {
                    continue;
                };
                let at = entry.offset();
                let known = found.contains_key(&vaddr);
                // Sizes are computed only where no symbol tells them.
                let size = || dies::byte_size(lines, unit, at).unwrap_or(0);
                if let Some(common) = &mut common {
                    common.start = common.start.min(vaddr);
                    common.end = common.end.max(vaddr.saturating_add(size()));
                } else if known || size() >= min_bytes && vaddr != 0 {
                    let bytes = if known { 0 } else { size() };
                    add_variable(lines, unit, at, vaddr, bytes, found);
                }
            }
            _ => {}
        }
    }
    if let Some(done) = common {
        finish_common(lines, unit, &done, min_bytes, found);
    }
}

fn add_variable(
    lines: &Lines,
    unit: UnitRef<'_, Slice>,
    at: gimli::UnitOffset,
    vaddr: u64,
    bytes: u64,
    found: &mut BTreeMap<u64, Found>,
) {
    let declared = dies::declared(lines, unit, at);
    let name = declared.linkage_name.as_deref().map(names::readable_static).or(declared.name);
    let entry = found.entry(vaddr).or_insert_with(|| Found {
        variable: StaticVariable { name: String::new(), vaddr, bytes, file: String::new(), line: 0 },
        qualified: false,
        rank: (false, 0),
    });
    let variable = &mut entry.variable;
    if let Some(name) = name
        && (!entry.qualified || variable.name.is_empty())
    {
        variable.name = name;
    }
    // The first declaration with a place wins: headers repeat the others.
    if variable.line == 0 && declared.line != 0 {
        variable.line = declared.line;
        variable.file = declared.file.unwrap_or_default();
    }
}

fn finish_common(
    lines: &Lines,
    unit: UnitRef<'_, Slice>,
    common: &Common,
    min_bytes: u64,
    found: &mut BTreeMap<u64, Found>,
) {
    let bytes = common.end.saturating_sub(common.start);
    if !found.contains_key(&common.start) && bytes < min_bytes {
        return;
    }
    let block = dies::declared(lines, unit, common.at);
    let name = match block.name.as_deref() {
        None | Some("__BLNK__") => String::new(),
        Some(name) => name.to_owned(),
    };
    let entry = found.entry(common.start).or_insert_with(|| Found {
        variable: StaticVariable {
            name: String::new(),
            vaddr: common.start,
            bytes,
            file: String::new(),
            line: 0,
        },
        qualified: true,
        rank: (false, 0),
    });
    entry.qualified = true;
    entry.variable.name = format!("common /{name}/");
    if entry.variable.line == 0 {
        entry.variable.line = block.line;
        entry.variable.file = block.file.unwrap_or_default();
    }
}

/// The address of a variable whose location is one constant address (not
/// thread-local, not computed).
fn fixed_address(unit: UnitRef<'_, Slice>, entry: &gimli::DebuggingInformationEntry<Slice>) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = entry.attr_value(dw::DW_AT_location)? else {
        return None;
    };
    let mut operations = expression.operations(unit.encoding());
    let mut address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => unit.address(index).ok()?,
        _ => return None,
    };
    // gfortran writes a COMMON member as the block's address plus an offset.
    if let Some(next) = operations.next().ok()? {
        let Operation::PlusConstant { value } = next else {
            return None;
        };
        address = address.checked_add(value)?;
    }
    operations.next().ok()?.is_none().then_some(address)
}
