//! What a NUMA machine is: nodes, cpus, caches, distances, measured figures.
//!
//! A [`Machine`] is a value. It comes from the host's sysfs (the binary's
//! `discover`), from a machine file ([`mod@file`]) or from a shape such as `2x22`
//! ([`shape`]). Which node a thread runs on when a recording is judged as if on
//! another machine is decided in one place, [`binding`].

#![forbid(unsafe_code)]

pub mod assumed;
pub mod binding;
mod check;
pub mod cpulist;
pub mod figures;
pub mod file;
pub mod launch;
pub mod layout;
pub mod needs;
mod node;
pub mod placement_file;
pub mod query;
mod raw;
pub mod scale;
pub mod select;
pub mod shape;
pub mod topology;
mod value;
mod write;

pub use figures::LINE_BYTES;
pub use node::{NodeId, NodeKind, NumaNode};
pub use value::{CacheLevel, DistanceClass, Machine};
