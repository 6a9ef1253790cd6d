//! The tables of a recording. docs/recording.md is written from these comments.
//!
//! Times are nanoseconds of the recorded machine's CLOCK_MONOTONIC; addresses are
//! virtual, of one address space (`process`). `u32::MAX` ([`crate::NONE`]) means
//! "no such row" in every column that points into another table.

mod code;
mod codes;
mod counted;
mod memory;
mod phases;
mod runs;
mod samples;

pub use code::*;
pub use codes::*;
pub use counted::*;
pub use memory::*;
pub use phases::*;
pub use runs::*;
pub use samples::*;
