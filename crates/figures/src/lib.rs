//! What every part of nearfar needs to print a value: shares as percent, numbers, sizes, and text that is not ours, made harmless.
#![forbid(unsafe_code)]

pub mod columns;
pub mod count;
pub mod escape;
pub mod json;
pub mod percent;
pub mod shell;
pub mod sizes;
