//! The recording: what was observed, in tables, with what was lost.
//!
//! A recording is one place where every producer meets (perf events, the agent,
//! imports, the simulator) and every reader starts. [`tables`] defines the
//! rows; [`mod@column`] holds them as columns in memory; [`journal`] is the
//! append-only form while a program runs; the crate `nearfar-parquet` has the form at rest.
#![forbid(unsafe_code)]

pub mod along;
pub mod column;
pub mod journal;
pub mod meta;
pub mod rank;
pub mod raw;
pub mod sound;
pub mod survey;
pub mod tables;

pub use along::Along;
pub use column::{Column, ColumnKind, ColumnSpec, Columns, TableError, Text};
pub use meta::{Meta, Source, SourceReport, is_whole};
pub use rank::Rank;
pub use survey::{SampleSurvey, Seen};
pub use tables::*;

/// Version of the recording's format. Readers refuse a newer one and report it.
pub const FORMAT_VERSION: u32 = 2;

/// "No such row" in columns that hold an index into another table.
pub const NONE: u32 = u32::MAX;
