//! Names the variable that an allocation goes to, and tells functions that only hand memory on.
//!
//! Two witnesses: the DWARF, which knows the variables declared on the call's line,
//! and the text of that line. Where both speak and agree, or the text is not at hand,
//! the DWARF is believed; where they differ, the text, because a declaration on the
//! line need not be what the call is assigned to.

use std::path::Path;

use gimli::constants as dw;

use super::lines::{Frame, Lines};
use super::source::{self, Language};
use super::{Module, dies, is_library_frame};

/// Where a variable's name was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSource {
    /// The only variable that the debug information declares on the call's line.
    Dwarf,
    /// The text of the statement.
    Source,
}

impl NameSource {
    /// `dwarf` or `source`, as recordings and reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            NameSource::Dwarf => "dwarf",
            NameSource::Source => "source",
        }
    }
}

/// What becomes of an allocation in one of the functions that a call is in: the innermost of those that were
/// inlined there, or one around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Position of the function among [`Module::frames`] of the call.
    pub depth: u16,
    /// The variable as the source writes it: `prev`, `this->data`, `s->field`; `a|b` when several allocations of
    /// one line cannot be told apart. None where no variable receives it or none is known.
    pub name: Option<String>,
    /// Where the name was found, or that the function hands it on.
    pub how: NameSource,
    /// Whether the function returns the memory: what it calls it says nothing of what it is for. None where its
    /// source is not to be had.
    pub handed_on: Option<bool>,
}

impl Module {
    /// The variables that the call at `vaddr` puts memory into, in each function of the program's own that it lies
    /// in, innermost first.
    ///
    /// `vaddr` is an address inside the call instruction (return address − 1). Code of C++'s own headers is left
    /// out, so an allocation inside an inlined `std::vector` is named after the vector. Functions without a name
    /// for it are left out unless they hand the memory to their caller (`return malloc(n)`): ask with the next
    /// return address up the stack. Several candidates that cannot be told apart are joined: `a|b`.
    ///
    /// The source file is read only if it is not newer than the binary.
    pub fn received_at_call(&self, vaddr: u64) -> Vec<Received> {
        received_at_call(self, vaddr)
    }
}

/// For each function of the program's own at the call, innermost first; those of which nothing is known are
/// left out.
fn received_at_call(module: &Module, vaddr: u64) -> Vec<Received> {
    let frames = module.frames(vaddr);
    let own =
        frames.iter().enumerate().filter(|(_, f)| !is_library_frame(f) && f.line > 0 && !f.file.is_empty());
    own.filter_map(|(depth, at)| received(module, vaddr, depth as u16, at)).collect()
}

fn received(module: &Module, vaddr: u64, depth: u16, at: &Frame) -> Option<Received> {
    let declared = module.lines().map_or_else(Vec::new, |lines| declared_on_line(lines, vaddr, at));
    let from_dwarf = unique(&declared, at.column);
    let language = Language::of_file(&at.file);
    let text = language.and_then(|_| module.source_text(Path::new(&at.file)));
    let (text, language) = (text.as_deref(), language.unwrap_or(Language::C));
    let from_source = text.and_then(|text| source::receiver(text, at.line, at.column, language));
    let (name, how) = match (from_dwarf, from_source) {
        (Some(dwarf), Some(text)) if text.split('|').any(|t| t == dwarf) => (Some(dwarf), NameSource::Dwarf),
        (_, Some(text)) => (Some(text), NameSource::Source),
        (Some(dwarf), None) => (Some(dwarf), NameSource::Dwarf),
        (None, None) => (None, NameSource::Source),
    };
    let handed_on = text.map(|text| source::hands_on(text, at.line, name.as_deref(), language));
    (name.is_some() || handed_on == Some(true)).then_some(Received { depth, name, how, handed_on })
}

struct Variable {
    name: String,
    column: u32,
}

/// The one variable that can be meant: the only one, or that whose declaration most
/// closely precedes the call's column.
fn unique(declared: &[Variable], column: u32) -> Option<String> {
    let first = declared.first()?;
    if declared.iter().all(|v| v.name == first.name) {
        return Some(first.name.clone());
    }
    let told_apart =
        declared.iter().all(|v| v.column > 0) && declared.windows(2).all(|w| w[0].column != w[1].column);
    if column == 0 || !told_apart {
        return None;
    }
    declared.iter().filter(|v| v.column <= column).max_by_key(|v| v.column).map(|v| v.name.clone())
}

/// Variables of the function at `vaddr`, and of its unit, that are declared on the
/// line of `at` and can hold memory. Sorted by column.
fn declared_on_line(lines: &Lines, vaddr: u64, at: &Frame) -> Vec<Variable> {
    let found = lines.with_unit(vaddr, |unit| {
        let mut found = Vec::new();
        let mut entries = unit.entries();
        // Depth of a function that does not hold the address; what is inside is skipped.
        let mut foreign: Option<isize> = None;
        while let Ok(Some(entry)) = entries.next_dfs() {
            if foreign.is_some_and(|depth| entry.depth() > depth) {
                continue;
            }
            foreign = None;
            match entry.tag() {
                dw::DW_TAG_subprogram => {
                    // Abstract instances of inlined functions have no code; their
                    // variables are reached from the inlined ones.
                    let mut ranges = unit.die_ranges(entry).ok()?;
                    let mut holds = false;
                    while let Ok(Some(range)) = ranges.next() {
                        holds |= (range.begin..range.end).contains(&vaddr);
                    }
                    // Fortran nests the outlined function in its parent's entry.
                    if !holds && !entry.has_attr(dw::DW_AT_main_subprogram) {
                        foreign = Some(entry.depth());
                    }
                }
                dw::DW_TAG_variable => {
                    let line = entry.attr_value(dw::DW_AT_decl_line).and_then(|v| v.udata_value());
                    if line.is_some_and(|l| l != u64::from(at.line)) {
                        continue;
                    }
                    let place = entry.offset();
                    let declared = dies::declared(lines, unit, place);
                    let is_here = declared.line == at.line && declared.file.as_deref() == Some(&at.file);
                    if let Some(name) = declared.name
                        && is_here
                        && !name.starts_with("._")
                        && dies::kind(lines, unit, place) == dies::Kind::Holder
                    {
                        found.push(Variable { name, column: declared.column });
                    }
                }
                _ => {}
            }
        }
        Some(found)
    });
    let mut found = found.unwrap_or_default();
    found.sort_by(|a, b| (a.column, &a.name).cmp(&(b.column, &b.name)));
    found.dedup_by(|a, b| a.name == b.name && a.column == b.column);
    found
}
