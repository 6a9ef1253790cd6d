//! From a recording and a machine to objects, first touches, patterns and findings.

pub mod input;
pub mod value;

pub use input::{Input, Judge, SampleSource};
pub use value::*;
