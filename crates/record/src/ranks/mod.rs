//! Several ranks of one launch (`mpirun`, `srun`), each recorded by a recorder of its own, as one run.
//!
//! ```text
//! RUN/launch.json                     which launch it is, so that no other is mixed with it
//! RUN/host=H/host.json                the host's topology, by the one rank that made the directory
//! RUN/host=H/counting.N               which rank counts what is the host's
//! RUN/host=H/rank=R/                  the recording of a rank, as of any program
//! RUN/host=H/rank=R/summary.json      what the report of the run needs of it
//! ```
//!
//! Recorders never talk to each other: [`launch`] reads the environment, [`join`] makes directories, [`elect`] chooses who counts the host, `cli::ranks` leaves
//! a rank's summary, [`read`] collects what all of them left. `nearfar_compare::ranks` merges.

pub mod elect;
pub mod join;
pub mod launch;
pub mod read;

pub use crate::store::LAUNCH;
pub use read::newest;

/// The host's file.
const HOST: &str = "host.json";
/// A rank's file.
pub const SUMMARY: &str = "summary.json";
