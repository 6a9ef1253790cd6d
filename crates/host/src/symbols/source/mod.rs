//! Reads from a source line which variable receives an allocation.
//!
//! Pure: text in, name out. It is not a parser of the languages but a reader of one
//! statement, of which it is known that it allocates; that knowledge is what lets
//! `a = b;` between vectors count. Where several names fit, a column decides; else
//! they are joined (`a|b`); where none fits the answer is None, never a guess.

mod c;
mod elements;
mod expressions;
mod fortran;
mod helper;
#[cfg(test)]
mod tests;
mod text;

use text::{Window, decide};

/// The languages whose statements are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Cpp,
    /// Fortran; `fixed` for the form with the comment sign in column 1.
    Fortran {
        fixed: bool,
    },
}

impl Language {
    /// By the file's extension; None for languages not read.
    pub fn of_file(path: &str) -> Option<Language> {
        let extension = path.rsplit('/').next()?.rsplit_once('.')?.1;
        Some(match extension {
            "c" => Language::C,
            "C" | "cc" | "cp" | "cpp" | "cxx" | "c++" | "CPP" | "h" | "hh" | "hpp" | "hxx" | "h++" | "H"
            | "inl" | "ipp" | "tcc" | "cu" | "cuh" => Language::Cpp,
            "f" | "F" | "for" | "FOR" | "ftn" | "f77" | "F77" => Language::Fortran { fixed: true },
            "f90" | "F90" | "f95" | "F95" | "f03" | "F03" | "f08" | "F08" | "f18" | "F18" => {
                Language::Fortran { fixed: false }
            }
            _ => return None,
        })
    }
}

/// The variable that receives what line `line` (from 1) of `text` allocates.
///
/// `column` (from 1, 0 for unknown) tells several allocations on the line apart.
pub(super) fn receiver(text: &str, line: u32, column: u32, language: Language) -> Option<String> {
    let window = Window::new(text, line)?;
    let candidates = match language {
        Language::C | Language::Cpp => c::candidates(&window, column, language == Language::Cpp),
        Language::Fortran { fixed } => fortran::candidates(&window, fixed),
    };
    decide(candidates, window.position(column))
}

/// Whether the function around the line hands the memory on to its caller, by the `name` that receives it there.
/// Only functions in C and C++ are looked at: Fortran's seldom return what they allocate.
pub(super) fn hands_on(text: &str, line: u32, name: Option<&str>, language: Language) -> bool {
    matches!(language, Language::C | Language::Cpp) && helper::hands_on(text, line, name)
}
