//! The formats of the kernel's perf events and of the `perf` tool, as bytes and values.
//!
//! [`data_source`] says what `PERF_SAMPLE_DATA_SRC` means, with the traps that processors set;
//! [`sample`] reads a sample's bytes; [`file`](mod@file) reads perf.data, written to a file or to a pipe;
//! [`write`](mod@write) writes one; [`script`] reads what `perf script` prints. The recorder and the importer read samples by the same code.
#![forbid(unsafe_code)]

pub mod attr;
pub mod data_source;
pub mod features;
pub mod file;
pub mod records;
pub mod sample;
pub mod script;
pub mod write;

pub use attr::Attr;
pub use data_source::{DataSource, Vendor, served};
