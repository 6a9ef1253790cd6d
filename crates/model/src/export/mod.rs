//! A report in the formats of other tools. Pure: from values to named files.

pub mod caliper;
pub mod csv;
pub mod flamegraph;
pub mod perf;
pub mod perf_script;
pub mod perfetto;
pub mod pprof;
pub mod samples;
pub mod tau;

/// A file of an export: where it is in the directory that was asked for, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFile {
    /// Path below the directory, parts separated by `/`.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}
