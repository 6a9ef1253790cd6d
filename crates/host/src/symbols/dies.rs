//! Reading single DWARF entries: what is declared where.

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAt, Unit, UnitOffset, UnitRef, UnitSectionOffset,
    constants as dw,
};

use super::lines::{Lines, Slice, file_path};

/// How far references between entries are followed: deeper is a damaged file's loop.
const MAX_DEPTH: u32 = 12;

/// What an entry declares, gathered along its `specification` and `abstract_origin`.
#[derive(Debug, Clone, Default)]
pub(super) struct Declared {
    pub name: Option<String>,
    pub linkage_name: Option<String>,
    pub file: Option<String>,
    pub line: u32,
    pub column: u32,
}

/// Gathers what the entry at `at` declares.
pub(super) fn declared(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset) -> Declared {
    let mut result = Declared::default();
    gather(lines, unit, at, MAX_DEPTH, &mut result);
    result
}

fn gather(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset, depth: u32, into: &mut Declared) {
    let Ok(entry) = unit.entry(at) else { return };
    let text = |name: DwAt| {
        let value = unit.attr_string(entry.attr_value(name)?).ok()?;
        Some(value.to_string_lossy().into_owned())
    };
    let number = |name: DwAt| entry.attr_value(name).and_then(|v| v.udata_value());
    into.name = into.name.take().or_else(|| text(dw::DW_AT_name));
    into.linkage_name = into.linkage_name.take().or_else(|| text(dw::DW_AT_linkage_name));
    if into.line == 0 {
        into.line = number(dw::DW_AT_decl_line).unwrap_or(0) as u32;
        into.column = number(dw::DW_AT_decl_column).unwrap_or(0) as u32;
    }
    if into.file.is_none() {
        into.file = match entry.attr_value(dw::DW_AT_decl_file) {
            Some(AttributeValue::FileIndex(index)) => file_path(unit, index),
            Some(other) => other.udata_value().and_then(|index| file_path(unit, index)),
            None => None,
        };
    }
    let origin =
        entry.attr_value(dw::DW_AT_specification).or_else(|| entry.attr_value(dw::DW_AT_abstract_origin));
    if let Some(origin) = origin
        && depth > 0
    {
        follow(lines, unit, &origin, |unit, at| {
            gather(lines, unit, at, depth - 1, into);
        });
    }
}

/// Runs `then` on the entry that a reference names, in this unit or (after link-time
/// optimisation) in another.
pub(super) fn follow<T>(
    lines: &Lines,
    unit: UnitRef<'_, Slice>,
    reference: &AttributeValue<Slice>,
    then: impl FnOnce(UnitRef<'_, Slice>, UnitOffset) -> T,
) -> Option<T> {
    match *reference {
        AttributeValue::UnitRef(at) => Some(then(unit, at)),
        AttributeValue::DebugInfoRef(at) => {
            let other: Unit<Slice> = lines.unit_at(at)?;
            let within = UnitSectionOffset(at.0).to_unit_offset(&other.header)?;
            Some(then(UnitRef::new(&lines.dwarf, &other), within))
        }
        _ => None,
    }
}

/// What kind of type a variable has, as far as naming allocations needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Can hold allocated memory: pointer, class, structure, array of those.
    Holder,
    /// Numbers, references to something else, and what could not be read.
    Other,
}

/// The kind of the variable at `at`.
pub(super) fn kind(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset) -> Kind {
    kind_within(lines, unit, at, MAX_DEPTH)
}

fn kind_within(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset, depth: u32) -> Kind {
    let Ok(entry) = unit.entry(at) else {
        return Kind::Other;
    };
    match entry.tag() {
        dw::DW_TAG_pointer_type | dw::DW_TAG_class_type | dw::DW_TAG_structure_type => return Kind::Holder,
        // An array of Fortran may be allocatable. In other languages an array is where it is declared, and counts as its elements do.
        dw::DW_TAG_array_type if is_fortran(unit) => return Kind::Holder,
        dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type | dw::DW_TAG_reference_type => {
            return Kind::Other;
        }
        _ => {}
    }
    let next = entry
        .attr_value(dw::DW_AT_type)
        .or_else(|| entry.attr_value(dw::DW_AT_specification))
        .or_else(|| entry.attr_value(dw::DW_AT_abstract_origin));
    match next {
        Some(next) if depth > 0 => {
            follow(lines, unit, &next, |unit, at| kind_within(lines, unit, at, depth - 1))
                .unwrap_or(Kind::Other)
        }
        _ => Kind::Other,
    }
}

/// Bytes that a variable of the type at `at` takes, when the DWARF reports it.
pub(super) fn byte_size(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset) -> Option<u64> {
    size_within(lines, unit, at, MAX_DEPTH)
}

fn size_within(lines: &Lines, unit: UnitRef<'_, Slice>, at: UnitOffset, depth: u32) -> Option<u64> {
    let entry = unit.entry(at).ok()?;
    if let Some(size) = entry.attr_value(dw::DW_AT_byte_size) {
        return size.udata_value();
    }
    if matches!(entry.tag(), dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type) {
        return Some(8);
    }
    let next = entry
        .attr_value(dw::DW_AT_type)
        .or_else(|| entry.attr_value(dw::DW_AT_specification))
        .or_else(|| entry.attr_value(dw::DW_AT_abstract_origin))?;
    let depth = depth.checked_sub(1)?;
    let element = follow(lines, unit, &next, |unit, at| size_within(lines, unit, at, depth))??;
    if entry.tag() == dw::DW_TAG_array_type {
        elements(unit, at)?.checked_mul(element)
    } else {
        Some(element)
    }
}

/// The number of elements of an array type: the product over its dimensions.
fn elements(unit: UnitRef<'_, Slice>, at: UnitOffset) -> Option<u64> {
    let mut tree = unit.entries_tree(Some(at)).ok()?;
    let mut children = tree.root().ok()?.children();
    let mut product = 1u64;
    // Fortran counts from 1 and leaves that bound out.
    let first = i64::from(is_fortran(unit));
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        if entry.tag() != dw::DW_TAG_subrange_type {
            continue;
        }
        let count = match signed(entry, dw::DW_AT_count) {
            Some(count) => count,
            None => {
                let lower = signed(entry, dw::DW_AT_lower_bound).unwrap_or(first);
                signed(entry, dw::DW_AT_upper_bound)?.checked_sub(lower)?.checked_add(1)?
            }
        };
        product = product.checked_mul(u64::try_from(count).ok()?)?;
    }
    Some(product)
}

fn signed(entry: &DebuggingInformationEntry<Slice>, name: DwAt) -> Option<i64> {
    let value = entry.attr_value(name)?;
    value.sdata_value().or_else(|| i64::try_from(value.udata_value()?).ok())
}

fn is_fortran(unit: UnitRef<'_, Slice>) -> bool {
    matches!(
        language(unit),
        Some(
            dw::DW_LANG_Fortran77
                | dw::DW_LANG_Fortran90
                | dw::DW_LANG_Fortran95
                | dw::DW_LANG_Fortran03
                | dw::DW_LANG_Fortran08,
        )
    )
}

fn language(unit: UnitRef<'_, Slice>) -> Option<gimli::DwLang> {
    let root = unit.entry(unit.header.root_offset()).ok()?;
    match root.attr_value(dw::DW_AT_language)? {
        AttributeValue::Language(language) => Some(language),
        _ => None,
    }
}
